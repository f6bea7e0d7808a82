#include "tools/run/host_files.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace phantora {
namespace {

// Data-centre servers with eight GPUs have two processors.
constexpr int kSockets = 2;

std::string Contents(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The machine's own names stay known.
std::string Hosts(const Job& job) {
  std::string text = Contents("/etc/hosts");
  if (!text.empty() && text.back() != '\n') text += '\n';
  for (size_t host = 0; host < job.hosts.size(); ++host) {
    absl::StrAppend(&text, job.addresses[host], " ", job.hosts[host], "\n");
  }
  return text;
}

std::string MemInfo(uint64_t kib) {
  // A host's memory is nearly free when its job begins.
  const uint64_t free = kib - kib / 16;
  std::string text;
  for (absl::string_view line : absl::StrSplit(Contents("/proc/meminfo"), '\n')) {
    const absl::string_view key = line.substr(0, line.find(':'));
    const auto set = [&](uint64_t value) {
      absl::StrAppendFormat(&text, "%-15s %8d kB\n", absl::StrCat(key, ":"), value);
    };
    if (line.empty()) continue;
    if (key == "MemTotal") {
      set(kib);
    } else if (key == "MemFree" || key == "MemAvailable") {
      set(free);
    } else if (absl::StartsWith(key, "Swap")) {
      set(0);
    } else {
      absl::StrAppend(&text, line, "\n");
    }
  }
  return text;
}

// The machine's first processor, as often as the host has cores.
std::string CpuInfo(int cores) {
  const std::string all = Contents("/proc/cpuinfo");
  const std::string first = all.substr(0, all.find("\n\n"));
  const int per_socket = std::max(cores / kSockets, 1);
  std::string text;
  for (int core = 0; core < cores; ++core) {
    for (absl::string_view line : absl::StrSplit(first, '\n')) {
      const absl::string_view key =
          absl::StripTrailingAsciiWhitespace(line.substr(0, line.find(':')));
      int value;
      if (key == "processor" || key == "apicid" || key == "initial apicid") {
        value = core;
      } else if (key == "physical id") {
        value = core / per_socket;
      } else if (key == "core id") {
        value = core % per_socket;
      } else if (key == "siblings" || key == "cpu cores") {
        value = per_socket;
      } else {
        absl::StrAppend(&text, line, "\n");
        continue;
      }
      const size_t colon = line.find(':');
      absl::StrAppend(&text, line.substr(0, colon + 1), " ", value, "\n");
    }
    text += '\n';
  }
  return text;
}

}  // namespace

void AddHostFiles(const Job& job, int host, SyntheticFiles* files) {
  const Cluster::Host& shape = job.cluster.host;
  const std::string name = absl::StrCat(job.hosts[static_cast<size_t>(host)], "\n");
  files->AddText("/etc/hostname", name);
  files->AddText("/proc/sys/kernel/hostname", name);
  files->AddText("/etc/hosts", Hosts(job));
  files->AddText("/proc/meminfo", MemInfo(static_cast<uint64_t>(shape.memory_gib) << 20));
  files->AddText("/proc/cpuinfo", CpuInfo(shape.cores));
  const std::string range = shape.cores == 1 ? "0\n" : absl::StrFormat("0-%d\n", shape.cores - 1);
  for (const char* set : {"online", "possible", "present"}) {
    files->AddText(absl::StrCat("/sys/devices/system/cpu/", set), range);
  }
}

}  // namespace phantora
