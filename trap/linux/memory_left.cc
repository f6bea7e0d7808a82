#include "trap/linux/memory_left.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace phantora {
namespace {

// Names of one version's files.
struct GroupFiles {
  const char *limit, *used, *inactive;
};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file"};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                  "total_inactive_file"};

// "max" and files that are not there are no number.
std::optional<uint64_t> Number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value;
  if (!(file >> value)) return std::nullopt;
  return value;
}

uint64_t Statistic(const std::string& path, const char* wanted) {
  std::ifstream file(path);
  uint64_t value;
  for (std::string name; file >> name >> value;) {
    if (name == wanted) return value;
  }
  return 0;
}

void Narrow(const std::string& group, const GroupFiles& files, MemoryLeft& left) {
  const auto limit = Number(group + files.limit), used = Number(group + files.used);
  // Version 1 says "no limit" with a number beyond any machine.
  if (!limit || !used || *limit >= left.total) return;
  const uint64_t droppable = std::min(*used, Statistic(group + "/memory.stat", files.inactive));
  const uint64_t kept = *used - droppable;
  const uint64_t available = *limit - std::min(*limit, kept);
  if (available >= left.available) return;
  left = {*limit, available, true};
}

// The group and all that it is in; the last is the mount, which in a container may be the group.
void NarrowAll(const std::string& mount, std::string path, const GroupFiles& files,
               MemoryLeft& left) {
  for (; path.size() > 1; path.resize(path.rfind('/'))) Narrow(mount + path, files, left);
  Narrow(mount, files, left);
}

}  // namespace

MemoryLeft ReadMemoryLeft(const MemoryFiles& files) {
  MemoryLeft left;
  std::ifstream meminfo(files.meminfo);
  for (std::string name, rest; left.available == 0 && meminfo >> name && getline(meminfo, rest);) {
    const uint64_t bytes = strtoull(rest.c_str(), nullptr, 10) << 10;
    if (name == "MemTotal:") left.total = bytes;
    if (name == "MemAvailable:") left.available = bytes;
  }
  std::ifstream groups(files.groups);
  for (std::string line; getline(groups, line);) {
    // number:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (path.find("/..") != std::string::npos) continue;  // outside of what is mounted here
    if (controllers.empty()) {
      NarrowAll(files.mount, path, kVersion2, left);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      NarrowAll(files.mount + "/memory", path, kVersion1, left);
    }
  }
  return left;
}

}  // namespace phantora
