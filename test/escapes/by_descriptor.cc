// Descriptors of others, and descriptors that become more than they were.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

Outcome ByPathOnly(const char* node, int flags) {
  const int only = open(node, O_PATH);
  if (only < 0) return Error(errno);
  return Opened(open(("/proc/self/fd/" + std::to_string(only)).c_str(), flags));
}

Outcome FolderByPathOnly() {
  const int folder = open("/dev", O_PATH | O_DIRECTORY);
  if (folder < 0) return Error(errno);
  const int only = openat(folder, kHidden + 5, O_PATH);
  if (only < 0) return Error(errno);
  return Opened(open(("/dev/fd/" + std::to_string(only)).c_str(), O_RDONLY));
}

Outcome EmptyPath() {
  const int only = open(kHidden, O_PATH);
  if (only < 0) return Error(errno);
  const std::string link = "empty-" + std::to_string(getpid());
  if (linkat(only, "", AT_FDCWD, link.c_str(), AT_EMPTY_PATH) != 0) return Error(errno);
  return Opened(open(link.c_str(), O_RDONLY));
}

// A child that sends what it could only look at.
Outcome Sent() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return Error(errno);
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (fork() == 0) {
    const int only = open(kHidden, O_PATH);
    if (only < 0) _exit(0);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof only);
    std::memcpy(CMSG_DATA(header), &only, sizeof only);
    sendmsg(pair[1], &message, 0);
    _exit(0);
  }
  close(pair[1]);
  if (recvmsg(pair[0], &message, 0) <= 0) return "nothing sent";
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return "nothing sent";
  int received;
  std::memcpy(&received, CMSG_DATA(header), sizeof received);
  return Opened(open(("/proc/self/fd/" + std::to_string(received)).c_str(), O_RDONLY));
}

Outcome TakenFromOthers() {
  return ForOthers([](pid_t other) -> long {
    const int process = static_cast<int>(syscall(SYS_pidfd_open, other, 0));
    if (process < 0) return -1;
    for (int descriptor = 0; descriptor < 32; ++descriptor) {
      if (syscall(SYS_pidfd_getfd, process, descriptor, 0) >= 0) return 0;
    }
    return -1;
  });
}

Outcome LookedUpAtOthers(const char* folder) {
  return ForOthers([folder](pid_t other) -> long {
    const std::string directory = "/proc/" + std::to_string(other) + "/" + folder + "/";
    for (int descriptor = 0; descriptor < 32; ++descriptor) {
      if (open((directory + std::to_string(descriptor)).c_str(), O_RDONLY) >= 0) return 0;
    }
    return -1;
  });
}

Outcome MemoryReopened() {
  // The emulated node's descriptor, opened anew: it must not lead anywhere else.
  const int node = open(kNode, O_RDWR);
  if (node < 0) return Error(errno);
  const std::string name = "/proc/self/fd/" + std::to_string(node);
  return Opened(open(name.c_str(), O_RDWR));
}

Outcome UnnamedFile() {
  const int file = open("/dev", O_TMPFILE | O_RDWR, 0600);
  if (file < 0) return Error(errno);
  const std::string name = "/proc/self/fd/" + std::to_string(file);
  if (linkat(AT_FDCWD, name.c_str(), AT_FDCWD, "/dev/nvidia8", AT_SYMLINK_FOLLOW) != 0) {
    return Error(errno);
  }
  return "accepted";
}

Outcome Handle() {
  char space[sizeof(file_handle) + 128];
  auto* handle = reinterpret_cast<file_handle*>(space);
  handle->handle_bytes = 128;
  int mount;
  if (name_to_handle_at(AT_FDCWD, kHidden, handle, &mount, 0) != 0) return Error(errno);
  const int folder = open("/dev", O_RDONLY | O_DIRECTORY);
  return Opened(open_by_handle_at(folder, handle, O_RDONLY));
}

// Of a folder's handle, from which names lead on.
Outcome FolderHandle() {
  char space[sizeof(file_handle) + 128];
  auto* handle = reinterpret_cast<file_handle*>(space);
  handle->handle_bytes = 128;
  int mount;
  if (name_to_handle_at(AT_FDCWD, "/dev", handle, &mount, 0) != 0) return Error(errno);
  const int any = open("/dev", O_RDONLY | O_DIRECTORY);
  const int folder = open_by_handle_at(any, handle, O_PATH);
  if (folder < 0) return Error(errno);
  return Opened(openat(folder, kHidden + 5, O_RDONLY));
}

}  // namespace

std::vector<Way> WaysByDescriptor() {
  return {
      {"O_PATH, opened anew", [] { return ByPathOnly(kHidden, O_RDONLY); }},
      {"O_PATH, opened anew to write", [] { return ByPathOnly(kHidden, O_RDWR); }},
      {"O_PATH of an emulated node", [] { return ByPathOnly(kNode, O_RDWR); }},
      {"O_PATH below O_PATH", FolderByPathOnly},
      {"link of an O_PATH descriptor", EmptyPath},
      {"O_PATH in a message", Sent},
      {"descriptors of others", TakenFromOthers},
      {"/proc/OTHER/fd", [] { return LookedUpAtOthers("fd"); }},
      {"/proc/OTHER/map_files", [] { return LookedUpAtOthers("map_files"); }},
      {"an emulated node, opened anew", MemoryReopened},
      {"a file without a name in /dev", UnnamedFile},
      {"handle of a node", Handle},
      {"handle of /dev", FolderHandle},
  };
}

}  // namespace phantora::escapes
