#include "trap/linux/scratch_directory.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

std::string PrefixOf(pid_t process) { return absl::StrCat("phantora-", process, "-"); }

}  // namespace

std::string MakeScratchDirectory() {
  std::error_code error;
  const auto place = std::filesystem::temp_directory_path(error);
  std::string name = absl::StrCat(place.native(), "/", PrefixOf(getpid()), "XXXXXX");
  return error || mkdtemp(name.data()) == nullptr ? std::string() : name;
}

void RemoveScratchDirectoriesOf(pid_t process) {
  std::error_code error;
  const auto place = std::filesystem::temp_directory_path(error);
  if (error) return;
  std::vector<std::filesystem::path> left;
  std::filesystem::directory_iterator entries(place, error);
  // Entries come and go meanwhile: incremented so that errors end it, and throw nothing.
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (absl::StartsWith(entries->path().filename().native(), PrefixOf(process))) {
      left.push_back(entries->path());
    }
  }
  // Those of somebody else, whose process had the same number, stay: they are not ours to remove.
  for (const auto& path : left) std::filesystem::remove_all(path, error);
}

}  // namespace phantora
