#include "trap/launch/hidden_files.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace phantora {
namespace {

// Where what is laid over others lies for a moment: a directory that is always there.
constexpr char kPlace[] = "/proc";
constexpr char kFile[] = "/proc/file", kDirectory[] = "/proc/directory";

int MakeCovers() {
  if (mount("none", kPlace, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700") != 0) {
    return errno;
  }
  const int file = open(kFile, O_CREAT | O_WRONLY | O_CLOEXEC, 0);
  if (file < 0 || mkdir(kDirectory, 0) != 0) return errno;
  close(file);
  return 0;
}

int Cover(const char* path) {
  struct stat status;
  if (lstat(path, &status) != 0) return errno == ENOENT ? 0 : errno;
  const char* cover = S_ISDIR(status.st_mode) ? kDirectory : kFile;
  if (mount(cover, path, nullptr, MS_BIND, nullptr) != 0) return errno;
  constexpr unsigned long kFlags =
      MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
  return mount(nullptr, path, nullptr, kFlags, nullptr) != 0 ? errno : 0;
}

}  // namespace

int HideFiles(const std::vector<std::string>& paths) {
  if (paths.empty()) return 0;
  if (unshare(CLONE_NEWNS) != 0) return errno;
  // What happens here stays here.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return errno;
  int error = MakeCovers();
  for (const std::string& path : paths) {
    if (error == 0) error = Cover(path.c_str());
  }
  if (umount2(kPlace, MNT_DETACH) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace phantora
