// Could a run write this? For --dry-run, which makes and empties nothing.
#ifndef PHANTORA_TOOLS_RUN_OUTPUT_PATHS_H_
#define PHANTORA_TOOLS_RUN_OUTPUT_PATHS_H_

#include <string>

#include "absl/status/status.h"

namespace phantora {

// A file, which is made if it is not there, but its directory is not. InvalidArgument says why not.
absl::Status CheckFileToWrite(const std::string& path);

// A directory, which is made with all above it. InvalidArgument says why not.
absl::Status CheckDirectoryToMake(const std::string& path);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_OUTPUT_PATHS_H_
