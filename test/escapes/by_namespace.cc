// File systems and name spaces of a program's own.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

constexpr unsigned kMajor = 195;  // of NVIDIA's character devices

void Write(const char* file, const std::string& text) {
  const int descriptor = open(file, O_WRONLY);
  if (descriptor < 0) return;
  if (write(descriptor, text.data(), text.size()) < 0) return;
  close(descriptor);
}

// Root in name spaces of its own. False with errno where that is forbidden.
bool BecomeRoot(int also) {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWUSER | also) != 0) return user == 0 && unshare(also) == 0;
  Write("/proc/self/setgroups", "deny");
  Write("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
  Write("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
  return true;
}

Outcome Bind(unsigned long flags, const char* what, const char* then) {
  if (!BecomeRoot(CLONE_NEWNS)) return Error(errno);
  const std::string place = "bound-" + std::to_string(getpid());
  struct stat status;
  if (stat(what, &status) == 0 && S_ISDIR(status.st_mode)) {
    mkdir(place.c_str(), 0700);
  } else {
    close(open(place.c_str(), O_CREAT | O_RDWR, 0600));
  }
  if (mount(what, place.c_str(), nullptr, flags, nullptr) != 0) return Error(errno);
  return Opened(open((place + then).c_str(), O_RDONLY));
}

Outcome Mount(const char* type, const char* options, const char* then) {
  if (!BecomeRoot(CLONE_NEWNS)) return Error(errno);
  const std::string place = "mounted-" + std::to_string(getpid());
  mkdir(place.c_str(), 0700);
  if (mount("none", place.c_str(), type, 0, options) != 0) return Error(errno);
  return Opened(open((place + then).c_str(), O_RDONLY));
}

Outcome OpenTree() {
  if (!BecomeRoot(CLONE_NEWNS)) return Error(errno);
  const int tree = static_cast<int>(
      syscall(SYS_open_tree, AT_FDCWD, "/dev", 1 /* OPEN_TREE_CLONE */ | AT_RECURSIVE));
  if (tree < 0) return Error(errno);
  return Opened(openat(tree, kHidden + 5, O_RDONLY));
}

Outcome TreeWithoutCopy() {
  const int tree = static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, kHidden, 0));
  if (tree < 0) return Error(errno);
  return Opened(open(("/proc/self/fd/" + std::to_string(tree)).c_str(), O_RDONLY));
}

Outcome Unmounted() {
  // What hides a node, taken away.
  if (umount2(kHidden, MNT_DETACH) != 0 && umount2(kNode, MNT_DETACH) != 0) return Error(errno);
  return Opened(open(kHidden, O_RDONLY));
}

Outcome OthersNamespace(const char* kind) {
  return ForOthers([kind](pid_t other) -> long {
    const std::string path = "/proc/" + std::to_string(other) + "/ns/" + kind;
    const int space = open(path.c_str(), O_RDONLY);
    if (space < 0 || setns(space, 0) != 0) return -1;
    return Opened(open(kHidden, O_RDONLY)) == "reached" ? 0 : (errno = EEXIST, -1);
  });
}

Outcome ByProcessDescriptor() {
  return ForOthers([](pid_t other) -> long {
    const int process = static_cast<int>(syscall(SYS_pidfd_open, other, 0));
    return process < 0 ? -1 : setns(process, CLONE_NEWNS);
  });
}

Outcome Made(mode_t kind, unsigned major, unsigned minor) {
  const std::string name = "node-" + std::to_string(getpid()) + "-" + std::to_string(minor);
  if (mknod(name.c_str(), kind | 0600, makedev(major, minor)) != 0) return Error(errno);
  const int file = open(name.c_str(), O_RDWR);
  const Outcome outcome = Opened(file);
  unlink(name.c_str());
  return outcome;
}

Outcome MadeAsRoot() {
  if (!BecomeRoot(CLONE_NEWNS)) return Error(errno);
  return Made(S_IFCHR, kMajor, 0);
}

Outcome PivotRoot() {
  if (!BecomeRoot(CLONE_NEWNS)) return Error(errno);
  mkdir("new", 0700);
  mkdir("new/old", 0700);
  if (mount("new", "new", nullptr, MS_BIND, nullptr) != 0) return Error(errno);
  if (syscall(SYS_pivot_root, "new", "new/old") != 0) return Error(errno);
  return Opened(open("/old/dev/nvidia7", O_RDONLY));
}

}  // namespace

std::vector<Way> WaysByNamespace() {
  return {
      {"bind mount of a node", [] { return Bind(MS_BIND, kHidden, ""); }},
      {"bind mount of /dev", [] { return Bind(MS_BIND, "/dev", "/nvidia7"); }},
      {"bind mount of all", [] { return Bind(MS_BIND | MS_REC, "/", kHidden); }},
      {"moved mount", [] { return Bind(MS_MOVE, "/dev", "/nvidia7"); }},
      {"overlay of /dev", [] { return Mount("overlay", "lowerdir=/dev:/etc", "/nvidia7"); }},
      {"devtmpfs", [] { return Mount("devtmpfs", "", "/nvidia7"); }},
      {"proc of its own", [] { return Mount("proc", "", "/self/root/dev/nvidia7"); }},
      {"open_tree, copied", OpenTree},
      {"open_tree", TreeWithoutCopy},
      {"unmounted", Unmounted},
      {"mount name space of others", [] { return OthersNamespace("mnt"); }},
      {"user name space of others", [] { return OthersNamespace("user"); }},
      {"name space by a process's descriptor", ByProcessDescriptor},
      {"pivot_root", PivotRoot},
      {"node made anew", [] { return Made(S_IFCHR, kMajor, 0); }},
      {"control node made anew", [] { return Made(S_IFCHR, kMajor, 255); }},
      {"DRM node made anew", [] { return Made(S_IFCHR, 226, 128); }},
      {"disk made anew", [] { return Made(S_IFBLK, 8, 0); }},
      {"node made in a name space of its own", MadeAsRoot},
  };
}

}  // namespace phantora::escapes
