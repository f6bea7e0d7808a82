#include "trap/files/path_calls.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "trap/linux/process_tree.h"

namespace phantora {
namespace {

using Node = SyntheticFiles::Node;

// Linux's PATH_MAX.
constexpr size_t kLongestPath = 4096;

mode_t ModeOf(const Node& node) {
  switch (node.type) {
    case Node::kText:
      return S_IFREG | 0444;
    case Node::kDevice:
      return S_IFCHR | 0666;
    case Node::kDirectory:
      return S_IFDIR | 0555;
    case Node::kLink:
      return S_IFLNK | 0777;
  }
  return 0;
}

// Any number will do as long as it differs between nodes.
uint64_t InodeOf(const Node& node) { return reinterpret_cast<uintptr_t>(&node) >> 4; }

// The directory that a relative path starts from; empty if it cannot be told.
std::string StartDirectory(pid_t process, int directory) {
  char link[64], target[kLongestPath];
  if (directory == AT_FDCWD) {
    snprintf(link, sizeof link, "/proc/%d/cwd", process);
  } else {
    snprintf(link, sizeof link, "/proc/%d/fd/%d", process, directory);
  }
  const ssize_t length = readlink(link, target, sizeof target);
  return length > 0 ? std::string(target, length) : std::string();
}

// Where the arguments of each path call are. `path` and the others are argument
// indices, -1 for none.
struct CallShape {
  int directory, path, flags;
};

std::optional<CallShape> ShapeOf(int call) {
  switch (call) {
    case SYS_open:
      return CallShape{-1, 0, 1};
    case SYS_openat:
    case SYS_openat2:
      return CallShape{0, 1, 2};
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
    case SYS_readlink:
      return CallShape{-1, 0, -1};
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_readlinkat:
      return CallShape{0, 1, -1};
    default:
      return std::nullopt;
  }
}

// Is this an open of a file that the host has? Other calls are told about that one.
bool Replaces(int call, const std::string& path) {
  const bool opens = call == SYS_open || call == SYS_openat || call == SYS_openat2;
  return opens && access(path.c_str(), R_OK) == 0;
}

}  // namespace

struct PathCalls::Request {
  const seccomp_notif& notification;
  const Tracee& tracee;
  NotifyListener& listener;
  const std::string& path;
  const Node& node;
  const SyntheticFiles* files;

  uint64_t argument(int index) const { return notification.data.args[index]; }
  int call() const { return notification.data.nr; }
  void Error(int error) const { listener.ReplyError(notification.id, error); }
  void Value(int64_t value) const { listener.ReplyValue(notification.id, value); }
};

bool PathCalls::ContinuesUnseen(const seccomp_notif& notification) {
  const auto shape = ShapeOf(notification.data.nr);
  if (!shape) return false;
  const RemoteMemory memory(static_cast<pid_t>(notification.pid));
  const auto path =
      memory.ReadString(RemoteAddress{notification.data.args[shape->path]}, kLongestPath);
  return !path || !SyntheticFiles::Interesting(*path);
}

bool PathCalls::Serve(const seccomp_notif& notification, const Tracee& tracee,
                      const SyntheticFiles* files, NotifyListener& listener) {
  const auto shape = ShapeOf(notification.data.nr);
  if (!shape) return false;
  auto path =
      tracee.memory.ReadString(RemoteAddress{notification.data.args[shape->path]}, kLongestPath);
  if (!path || !SyntheticFiles::Interesting(*path)) {
    listener.ReplyContinue(notification.id);
    return true;
  }
  if ((*path)[0] != '/') {
    const int directory =
        shape->directory < 0 ? AT_FDCWD : static_cast<int>(notification.data.args[0]);
    *path = absl::StrCat(StartDirectory(tracee.process, directory), "/", *path);
  }
  *path = SyntheticFiles::Normalise(*path);
  const auto found = files->Find(*path);
  const bool host = found.verdict == SyntheticFiles::Verdict::kHost ||
                    (found.verdict == SyntheticFiles::Verdict::kReplaced &&
                     !Replaces(notification.data.nr, *path));
  if (host) {
    listener.ReplyContinue(notification.id);
    return true;
  }
  if (found.verdict == SyntheticFiles::Verdict::kAbsent) {
    log_->Line(tracee.process, absl::StrCat("path ", *path, ": ENOENT"));
    listener.ReplyError(notification.id, ENOENT);
    return true;
  }
  const Request request{notification, tracee, listener, *path, *found.node, files};
  switch (notification.data.nr) {
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
      Open(request);
      break;
    case SYS_stat:
    case SYS_lstat:
    case SYS_newfstatat:
      Stat(request);
      break;
    case SYS_statx:
      Statx(request);
      break;
    case SYS_access:
    case SYS_faccessat:
    case SYS_faccessat2:
      Access(request);
      break;
    case SYS_readlink:
    case SYS_readlinkat:
      ReadLink(request);
      break;
  }
  return true;
}

void PathCalls::Open(const Request& request) {
  uint64_t flags = request.argument(request.call() == SYS_open ? 1 : 2);
  if (request.call() == SYS_openat2) {
    auto how = request.tracee.memory.ReadObject<open_how>(RemoteAddress{flags});
    if (!how) return request.Error(EFAULT);
    flags = how->flags;
  }
  const Node& node = request.node;
  if ((flags & O_DIRECTORY) != 0 && node.type != Node::kDirectory) return request.Error(ENOTDIR);
  UniqueFd file;
  switch (node.type) {
    case Node::kText: {
      if ((flags & O_ACCMODE) != O_RDONLY) return request.Error(EACCES);
      UniqueFd& text = texts_[&node];
      if (!text.valid()) {
        // The name is what /proc/PID/maps shows.
        const std::string name = request.path.substr(request.path.rfind('/') + 1);
        text = UniqueFd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
        // Sealed: through /proc/self/fd a rank could open it for writing.
        if (pwrite(text.get(), node.text.data(), node.text.size(), 0) !=
                static_cast<ssize_t>(node.text.size()) ||
            fcntl(text.get(), F_ADD_SEALS,
                  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
          text.reset();
          return request.Error(ENOMEM);
        }
      }
      // Opened anew, so that every reader has its own offset and none can write.
      file =
          UniqueFd(open(absl::StrCat("/proc/self/fd/", text.get()).c_str(), O_RDONLY | O_CLOEXEC));
      break;
    }
    case Node::kDevice: {
      auto device = node.open(request.tracee.process);
      if (device == nullptr) return request.Error(ENODEV);
      auto opened = open_files_->Add(std::move(device), request.tracee.process);
      if (opened.ok()) file = *std::move(opened);
      MakeNice(request.tracee.process, rank_nice_);
      break;
    }
    case Node::kDirectory:
      if ((flags & O_ACCMODE) != O_RDONLY) return request.Error(EISDIR);
      file = listings_.try_emplace(request.files, request.files).first->second.Open(request.path);
      break;
    case Node::kLink:
      return request.Error(ELOOP);
  }
  if (!file.valid()) return request.Error(ENFILE);
  log_->Line(request.tracee.process, absl::StrCat("open ", request.path));
  const bool close_on_exec = (flags & O_CLOEXEC) != 0;
  const auto status =
      request.listener.ReplyDescriptor(request.notification.id, file.get(), close_on_exec);
  if (absl::IsResourceExhausted(status)) request.Error(EMFILE);
}

void PathCalls::Stat(const Request& request) {
  struct stat result;
  std::memset(&result, 0, sizeof result);
  result.st_dev = makedev(0, 5);
  result.st_ino = InodeOf(request.node);
  result.st_mode = ModeOf(request.node);
  result.st_nlink = 1;
  result.st_rdev = makedev(request.node.major, request.node.minor);
  result.st_blksize = 4096;
  const int buffer = request.call() == SYS_newfstatat ? 2 : 1;
  if (!request.tracee.memory.WriteObject(RemoteAddress{request.argument(buffer)}, result)) {
    return request.Error(EFAULT);
  }
  request.Value(0);
}

void PathCalls::Statx(const Request& request) {
  struct statx result;
  std::memset(&result, 0, sizeof result);
  result.stx_mask = STATX_BASIC_STATS;
  result.stx_blksize = 4096;
  result.stx_nlink = 1;
  result.stx_mode = ModeOf(request.node);
  result.stx_ino = InodeOf(request.node);
  result.stx_rdev_major = request.node.major;
  result.stx_rdev_minor = request.node.minor;
  result.stx_dev_minor = 5;
  if (!request.tracee.memory.WriteObject(RemoteAddress{request.argument(4)}, result)) {
    return request.Error(EFAULT);
  }
  request.Value(0);
}

void PathCalls::Access(const Request& request) {
  const uint64_t wanted = request.argument(request.call() == SYS_access ? 1 : 2);
  const mode_t mode = ModeOf(request.node);
  if ((wanted & W_OK) != 0 && (mode & 0222) == 0) return request.Error(EACCES);
  if ((wanted & X_OK) != 0 && (mode & 0111) == 0) return request.Error(EACCES);
  request.Value(0);
}

void PathCalls::ReadLink(const Request& request) {
  if (request.node.type != Node::kLink) return request.Error(EINVAL);
  const int buffer = request.call() == SYS_readlink ? 1 : 2;
  const uint64_t length =
      std::min<uint64_t>(request.node.text.size(), request.argument(buffer + 1));
  if (!request.tracee.memory.Write(RemoteAddress{request.argument(buffer)},
                                   request.node.text.data(), length)) {
    return request.Error(EFAULT);
  }
  request.Value(static_cast<int64_t>(length));
}

}  // namespace phantora
