#include "tools/run/output_paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel follows (MAXSYMLINKS)

absl::Status Unwritable(const std::string& path, int error) {
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, ": ", strerror(error)));
}

// What a link that leads nowhere (yet) would make, as open(2) follows it; `path` if it is none.
fs::path Target(fs::path path) {
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links) {
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path.lexically_normal();
}

}  // namespace

int OutputPaths::ErrorIn(const fs::path& directory) const {
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) return made_.contains(directory) ? 0 : errno;
  if (!S_ISDIR(status.st_mode)) return ENOTDIR;
  return access(directory.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

absl::Status OutputPaths::File(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return Unwritable(path, EISDIR);
    return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : Unwritable(path, errno);
  }
  if (errno != ENOENT) return Unwritable(path, errno);
  if (path.back() == '/') return Unwritable(path, EISDIR);
  const fs::path file = Target(fs::absolute(path));
  const int error = made_.contains(file) ? EISDIR : ErrorIn(file.parent_path());
  return error == 0 ? absl::OkStatus() : Unwritable(path, error);
}

absl::Status OutputPaths::Directory(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const fs::path whole = (fs::absolute(path) / "").lexically_normal().parent_path();
  // To the nearest that is there.
  for (fs::path part = whole;; part = part.parent_path()) {
    std::error_code unused;
    const int error = ErrorIn(part);
    if (error == ENOENT && fs::is_symlink(part, unused)) return Unwritable(path, EEXIST);
    if (error == 0) break;
    if (error != ENOENT || part == part.root_path()) return Unwritable(path, error);
  }
  for (fs::path part = whole; !fs::exists(part) && made_.insert(part).second;) {
    part = part.parent_path();
  }
  return absl::OkStatus();
}

}  // namespace phantora
