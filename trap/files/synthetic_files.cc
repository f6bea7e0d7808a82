#include "trap/files/synthetic_files.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace phantora {
namespace {

// As the kernel's, of links in one path (MAXSYMLINKS).
constexpr int kMostLinks = 40;

// Is `path` the entry `prefix`, below it, or (for "/dev/nvidia") named after it?
bool Under(std::string_view path, std::string_view prefix) {
  return path.substr(0, prefix.size()) == prefix;
}

// Devices and their files by a relative path, and libraries that are replaced or added.
bool MayBeOurs(std::string_view path) {
  const absl::string_view text(path.data(), path.size());
  return absl::StrContains(text, "nvidia") || absl::StrContains(text, "libnccl") ||
         absl::StrContains(text, "libphantora");
}

}  // namespace

void SyntheticFiles::Add(std::string path, Node node) {
  node.inode = ++last_inode_;
  nodes_[std::move(path)] = std::move(node);
}

void SyntheticFiles::AddText(std::string path, std::string content) {
  Add(std::move(path), Node{Node::kText, std::move(content)});
}

void SyntheticFiles::AddLink(std::string path, std::string target) {
  Add(std::move(path), Node{Node::kLink, std::move(target)});
}

void SyntheticFiles::AddDevice(std::string path, unsigned major, unsigned minor, Opener open) {
  Add(std::move(path), Node{Node::kDevice, "", major, minor, std::move(open)});
}

void SyntheticFiles::AddDirectory(std::string path) {
  Add(std::move(path), Node{Node::kDirectory});
}

void SyntheticFiles::ReplaceLibrary(std::string name, std::string content) {
  Node& node = libraries_[std::move(name)] = Node{Node::kText, std::move(content)};
  node.inode = ++last_inode_;
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

std::optional<std::string> SyntheticFiles::Follow(std::string_view path, bool last) const {
  std::string followed(path);
  for (int links = 0; links < kMostLinks; ++links) {
    bool found = false;
    // What lies below a link may have been added there as well: then it is that.
    if (!last && nodes_.contains(followed)) return followed;
    for (size_t end = followed.find('/', 1); !found; end = followed.find('/', end + 1)) {
      const bool whole = end == std::string::npos;
      if (whole && !last) break;
      const auto it = nodes_.find(followed.substr(0, end));
      if (it != nodes_.end() && it->second.type == Node::kLink &&
          (whole || !nodes_.contains(followed))) {
        const std::string& target = it->second.text;
        const std::string start = target[0] == '/' ? "" : it->first.substr(0, it->first.rfind('/'));
        followed = Normalise(absl::StrCat(start, "/", target, whole ? "" : followed.substr(end)));
        found = true;
      }
      if (whole) break;
    }
    if (!found) return followed;
  }
  return std::nullopt;
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
  const absl::string_view view(path.data(), path.size());
  if (path[0] == '/') {
    // Not just a shortcut: "//dev/nvidia0" and "/tmp/../dev/nvidia0" are ours too.
    return Under(path, "/dev/") || Under(path, "/proc/") || Under(path, "/sys/") ||
           Under(path, "/etc/host") || absl::StrContains(view, "/..") || MayBeOurs(path);
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
