// Could a run write its files? For --dry-run, which makes and empties nothing.
#ifndef PHANTORA_TOOLS_RUN_OUTPUT_PATHS_H_
#define PHANTORA_TOOLS_RUN_OUTPUT_PATHS_H_

#include <filesystem>
#include <set>
#include <string>

#include "absl/status/status.h"

namespace phantora {

// To be asked in the order in which a run opens them: a file may lie in a directory that was made
// for another.
class OutputPaths {
 public:
  // A file, which is made if it is not there, but its directory is not. InvalidArgument says why
  // not.
  absl::Status File(const std::string& path);
  // A directory, which is made with all above it. InvalidArgument says why not.
  absl::Status Directory(const std::string& path);

 private:
  // 0, or why nothing can be made in the directory (errno).
  int ErrorIn(const std::filesystem::path& directory) const;

  std::set<std::filesystem::path> made_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_OUTPUT_PATHS_H_
