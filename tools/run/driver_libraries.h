// Finds NVIDIA's user-mode driver libraries.
#ifndef PHANTORA_TOOLS_RUN_DRIVER_LIBRARIES_H_
#define PHANTORA_TOOLS_RUN_DRIVER_LIBRARIES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trap/rm/driver_version.h"

namespace phantora {

struct DriverLibraries {
  DriverVersion version;
  std::string libcuda;  // the file
  std::string library_directory;
  std::string program_directory;  // with nvidia-smi; may be empty
  bool installed;                 // the system's own
};

// `wanted` is "auto" (the installed driver if one of its branch was ever run
// here, else of what tools/setup.sh has put into the cache 550.163.01, or the
// newest), a version, or a directory that holds libcuda.so.1. Errors say what was looked at.
absl::StatusOr<DriverLibraries> FindDriverLibraries(const std::string& wanted, bool force_abi);

// $PHANTORA_CACHE, or ~/.cache/phantora.
std::string CacheDirectory();

// The versions in the cache, newest first.
std::vector<std::string> CachedDriverVersions();

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_DRIVER_LIBRARIES_H_
