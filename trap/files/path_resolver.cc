#include "trap/files/path_resolver.h"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "trap/files/synthetic_files.h"

namespace phantora {
namespace {

// Linux's PATH_MAX.
constexpr size_t kLongestPath = 4096;
// As the kernel's, of links in one path (MAXSYMLINKS).
constexpr int kMostLinks = 40;

// The process that an entry of /proc names: "self", "thread-self" or a number.
std::optional<pid_t> NamedProcess(pid_t self, absl::string_view name) {
  if (name == "self" || name == "thread-self") return self;
  int process = 0;
  if (!absl::SimpleAtoi(name, &process) || process <= 0) return std::nullopt;
  return process;
}

}  // namespace

std::string ProcessLinks::Read(pid_t process, const std::string& name) const {
  char target[kLongestPath];
  const std::string link = absl::StrCat("/proc/", process, "/", name);
  const ssize_t length = readlink(link.c_str(), target, sizeof target);
  // A pipe's or a socket's is no path.
  if (length <= 0 || target[0] != '/') return std::string();
  return std::string(target, static_cast<size_t>(length));
}

bool PathResolver::MayMatter(std::string_view path) {
  if (path.empty()) return false;
  return path[0] != '/' || SyntheticFiles::Interesting(path);
}

std::string PathResolver::Absolute(pid_t process, int directory, std::string_view path) const {
  std::string absolute(path);
  if (path.empty() || path[0] != '/') {
    const std::string start = links_->Read(
        process, directory == AT_FDCWD ? std::string("cwd") : absl::StrCat("fd/", directory));
    if (start.empty()) return std::string();
    absolute = absl::StrCat(start, "/", absolute);
  }
  absolute = SyntheticFiles::Normalise(absolute);
  for (int links = 0; links < kMostLinks; ++links) {
    const auto behind = BehindLink(process, absolute);
    if (!behind) return absolute;
    absolute = SyntheticFiles::Normalise(*behind);
  }
  return std::string();
}

std::optional<std::string> PathResolver::BehindLink(pid_t process, const std::string& path) const {
  if (!absl::StartsWith(path, "/proc/")) return std::nullopt;
  std::vector<absl::string_view> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
  const auto owner = parts.size() < 3 ? std::nullopt : NamedProcess(process, parts[1]);
  if (!owner) return std::nullopt;
  // /proc/PID/task/TID is as /proc/PID here.
  size_t at = parts[2] == "task" && parts.size() > 4 ? 4 : 2;
  std::string name(parts[at]);
  if (name == "fd") {
    if (++at >= parts.size()) return std::nullopt;
    absl::StrAppend(&name, "/", parts[at]);
  } else if (name != "root" && name != "cwd") {
    return std::nullopt;
  }
  // The link itself is asked about, not what is behind it.
  if (at + 1 == parts.size() && name != "root" && name != "cwd") return std::nullopt;
  const std::string target = name == "root" ? "/" : links_->Read(*owner, name);
  if (target.empty()) return std::nullopt;
  return absl::StrCat(
      target, "/", absl::StrJoin(parts.begin() + static_cast<ptrdiff_t>(at) + 1, parts.end(), "/"));
}

}  // namespace phantora
