#include "trap/files/directory_listings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trap/linux/scratch_directory.h"

namespace phantora {

using Node = SyntheticFiles::Node;

DirectoryListings::~DirectoryListings() {
  std::error_code ignored;
  if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
}

bool DirectoryListings::Fill(const std::string& path, const std::string& directory) {
  std::set<std::string> names;
  const auto add = [&](const std::string& name, Node::Type type) {
    if (!names.insert(name).second) return true;
    const std::string entry = absl::StrCat(directory, "/", name);
    switch (type) {
      case Node::kDirectory:
        return mkdir(entry.c_str(), 0700) == 0;
      case Node::kLink:
        return symlink(absl::StrCat(path, "/", name).c_str(), entry.c_str()) == 0;
      case Node::kText:
      case Node::kDevice:
        return UniqueFd(open(entry.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0400)).valid();
    }
    return false;
  };
  for (const auto& [name, type] : files_->Entries(path)) {
    if (!add(name, type)) return false;
  }
  std::error_code error;
  std::filesystem::directory_iterator host_entries(path, error);
  // Entries come and go meanwhile: incremented so that errors end it, and throw nothing.
  for (; !error && host_entries != std::filesystem::directory_iterator();
       host_entries.increment(error)) {
    const auto& host = *host_entries;
    const auto verdict = files_->Find(host.path().native()).verdict;
    if (verdict == SyntheticFiles::Verdict::kAbsent ||
        verdict == SyntheticFiles::Verdict::kSynthetic) {
      continue;
    }
    if (!add(host.path().filename(), Node::kLink)) return false;
  }
  return true;  // a directory that the host does not have is no error
}

std::optional<std::string> DirectoryListings::BehindListing(const std::string& path) const {
  if (root_.empty() || !absl::StartsWith(path, root_ + "/")) return std::nullopt;
  for (const auto& [listed, directory] : listings_) {
    if (path == directory) return listed;
    if (absl::StartsWith(path, directory + "/")) return listed + path.substr(directory.size());
  }
  return std::nullopt;
}

UniqueFd DirectoryListings::Open(const std::string& path) {
  auto it = listings_.find(path);
  if (it == listings_.end()) {
    if (root_.empty()) {
      root_ = MakeScratchDirectory();
      if (root_.empty()) return UniqueFd();
    }
    const std::string directory = absl::StrCat(root_, "/", listings_.size());
    if (mkdir(directory.c_str(), 0700) != 0 || !Fill(path, directory)) return UniqueFd();
    it = listings_.emplace(path, directory).first;
  }
  return UniqueFd(open(it->second.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace phantora
