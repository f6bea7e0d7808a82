#include "trap/files/synthetic_files.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace phantora {
namespace {

// Is `path` the entry `prefix`, below it, or (for "/dev/nvidia") named after it?
bool Under(std::string_view path, std::string_view prefix) {
  return path.substr(0, prefix.size()) == prefix;
}

// Devices and their files by a relative path, and libraries that are replaced.
bool MayBeOurs(std::string_view path) {
  const absl::string_view text(path.data(), path.size());
  return absl::StrContains(text, "nvidia") || absl::StrContains(text, "libnccl");
}

}  // namespace

void SyntheticFiles::AddText(std::string path, std::string content) {
  nodes_[std::move(path)] = Node{Node::kText, std::move(content), 0, 0, nullptr};
}

void SyntheticFiles::AddLink(std::string path, std::string target) {
  nodes_[std::move(path)] = Node{Node::kLink, std::move(target), 0, 0, nullptr};
}

void SyntheticFiles::AddDevice(std::string path, unsigned major, unsigned minor, Opener open) {
  nodes_[std::move(path)] = Node{Node::kDevice, "", major, minor, std::move(open)};
}

void SyntheticFiles::AddDirectory(std::string path) {
  nodes_[std::move(path)] = Node{Node::kDirectory, "", 0, 0, nullptr};
}

void SyntheticFiles::ReplaceLibrary(std::string name, std::string content) {
  libraries_[std::move(name)] = Node{Node::kText, std::move(content), 0, 0, nullptr};
}

void SyntheticFiles::Hide(std::string prefix) { hidden_.push_back(std::move(prefix)); }

SyntheticFiles::Lookup SyntheticFiles::Find(std::string_view path) const {
  if (auto it = nodes_.find(path); it != nodes_.end()) return {Verdict::kSynthetic, &it->second};
  // PCI addresses are matched without regard to case, as tools print both.
  if (Under(path, "/sys/bus/pci/devices/")) {
    std::string lower = absl::AsciiStrToLower(absl::string_view(path.data(), path.size()));
    if (auto it = nodes_.find(lower); it != nodes_.end()) {
      return {Verdict::kSynthetic, &it->second};
    }
  }
  for (const std::string& prefix : hidden_) {
    if (Under(path, prefix)) return {Verdict::kAbsent, nullptr};
  }
  const std::string_view file = path.substr(path.rfind('/') + 1);
  for (const auto& [name, node] : libraries_) {
    if (!Under(file, name)) continue;
    const std::string_view rest = file.substr(name.size());
    if (rest.empty() || rest[0] == '.') return {Verdict::kReplaced, &node};
  }
  return {Verdict::kHost, nullptr};
}

std::vector<std::pair<std::string, SyntheticFiles::Node::Type>> SyntheticFiles::Entries(
    std::string_view path) const {
  const std::string prefix = absl::StrCat(absl::string_view(path.data(), path.size()), "/");
  std::vector<std::pair<std::string, Node::Type>> entries;
  for (auto it = nodes_.lower_bound(prefix); it != nodes_.end() && Under(it->first, prefix); ++it) {
    std::string name = it->first.substr(prefix.size());
    if (!absl::StrContains(name, '/')) entries.emplace_back(std::move(name), it->second.type);
  }
  return entries;
}

bool SyntheticFiles::Interesting(std::string_view path) {
  if (path.empty()) return false;
  if (path[0] == '/') {
    // Not just a shortcut: "//dev/nvidia0" and "/tmp/../dev/nvidia0" are ours too.
    return Under(path, "/dev/") || Under(path, "/proc/") || Under(path, "/sys/") ||
           Under(path, "/etc/host") || MayBeOurs(path);
  }
  return MayBeOurs(path);
}

std::string SyntheticFiles::Normalise(std::string_view path) {
  std::vector<absl::string_view> kept;
  for (absl::string_view part :
       absl::StrSplit(absl::string_view(path.data(), path.size()), '/', absl::SkipEmpty())) {
    if (part == ".") continue;
    if (part == "..") {
      if (!kept.empty()) kept.pop_back();
    } else {
      kept.push_back(part);
    }
  }
  return "/" + absl::StrJoin(kept, "/");
}

}  // namespace phantora
