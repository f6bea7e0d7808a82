#include "tools/run/output_paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

absl::Status Unwritable(const std::string& path, int error) {
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, ": ", strerror(error)));
}

// 0, or why nothing can be made in it (errno).
int ErrorOfDirectory(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return errno;
  if (!S_ISDIR(status.st_mode)) return ENOTDIR;
  return access(path.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

}  // namespace

absl::Status CheckFileToWrite(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return Unwritable(path, EISDIR);
    return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : Unwritable(path, errno);
  }
  if (errno != ENOENT) return Unwritable(path, errno);
  const int error = ErrorOfDirectory(std::filesystem::absolute(path).parent_path());
  return error == 0 ? absl::OkStatus() : Unwritable(path, error);
}

absl::Status CheckDirectoryToMake(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  // The nearest that is there.
  for (std::filesystem::path part = std::filesystem::absolute(path);; part = part.parent_path()) {
    const int error = ErrorOfDirectory(part);
    if (error == 0) return absl::OkStatus();
    if (error != ENOENT || part == part.root_path()) return Unwritable(path, error);
  }
}

}  // namespace phantora
