#include "trap/linux/seccomp_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "trap/linux/kernel_features.h"
#include "trap/log.h"

// Newer than Debian 12's kernel headers (Linux 6.6, include/uapi/linux/seccomp.h).
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

namespace phantora {

absl::StatusOr<std::unique_ptr<SeccompListener>> SeccompListener::Create(UniqueFd listener) {
  seccomp_notif_sizes sizes{};
  if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the kernel has no seccomp user notification (Linux ", kLeastKernel.text(),
                     " or newer is needed): ", std::strerror(errno)));
  }
  if (sizes.seccomp_notif > sizeof(seccomp_notif) ||
      sizes.seccomp_notif_resp > sizeof(seccomp_notif_resp)) {
    return absl::UnimplementedError(absl::StrCat("this kernel's seccomp notification has ",
                                                 sizes.seccomp_notif, " bytes, this build knows ",
                                                 sizeof(seccomp_notif)));
  }
  std::unique_ptr<SeccompListener> result(new SeccompListener(std::move(listener)));
  result->synchronous_wake_up_ =
      ioctl(result->fd(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) == 0;
  return result;
}

bool SeccompListener::HasCall() const {
  pollfd calls{fd(), POLLIN, 0};
  return poll(&calls, 1, 0) > 0;
}

bool SeccompListener::HasCallOr(int descriptor) const {
  pollfd ready[] = {{fd(), POLLIN, 0}, {descriptor, POLLIN, 0}};
  return poll(ready, 2, 0) > 0;
}

std::optional<seccomp_notif> SeccompListener::Receive() {
  seccomp_notif notification;
  std::memset(&notification, 0, sizeof notification);
  if (ioctl(fd(), SECCOMP_IOCTL_NOTIF_RECV, &notification) != 0) return std::nullopt;
  return notification;
}

bool SeccompListener::Send(const seccomp_notif_resp& response) {
  seccomp_notif_resp sent = response;
  if (ioctl(fd(), SECCOMP_IOCTL_NOTIF_SEND, &sent) == 0) return true;
  if (errno == ENOENT) return false;
  // Answered twice, or in a way that the kernel does not know: a defect of ours.
  LogWarning(absl::StrCat("a system call could not be answered: ", std::strerror(errno)));
  return false;
}

absl::Status SeccompListener::ReplyDescriptor(uint64_t id, int file, bool close_on_exec) {
  seccomp_notif_addfd request{};
  request.id = id;
  request.flags = SECCOMP_ADDFD_FLAG_SEND;
  request.srcfd = file;
  request.newfd_flags = close_on_exec ? O_CLOEXEC : 0;
  if (ioctl(fd(), SECCOMP_IOCTL_NOTIF_ADDFD, &request) >= 0) return absl::OkStatus();
  if (errno == ENOENT) return absl::NotFoundError("the caller has died");
  return absl::ResourceExhaustedError(std::strerror(errno));
}

absl::Status SeccompListener::Replace(uint64_t id, int target, int file) {
  seccomp_notif_addfd request{};
  request.id = id;
  request.flags = SECCOMP_ADDFD_FLAG_SETFD;
  request.srcfd = file;
  request.newfd = target;
  request.newfd_flags = O_CLOEXEC;
  if (ioctl(fd(), SECCOMP_IOCTL_NOTIF_ADDFD, &request) >= 0) return absl::OkStatus();
  if (errno == ENOENT) return absl::NotFoundError("the caller has died");
  return absl::InvalidArgumentError(std::strerror(errno));
}

absl::StatusOr<int> SeccompListener::AddDescriptor(uint64_t id, int file) {
  seccomp_notif_addfd request{};
  request.id = id;
  request.srcfd = file;
  request.newfd_flags = O_CLOEXEC;
  const int added = ioctl(fd(), SECCOMP_IOCTL_NOTIF_ADDFD, &request);
  if (added >= 0) return added;
  if (errno == ENOENT) return absl::NotFoundError("the caller has died");
  return absl::UnavailableError(std::strerror(errno));
}

bool SeccompListener::StillPending(uint64_t id) {
  return ioctl(fd(), SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

}  // namespace phantora
