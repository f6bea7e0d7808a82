#include "tools/executor/transport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace phantora::executor {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status WaitFor(int socket, int16_t events, Clock::time_point deadline, bool forever) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wanted = {.fd = socket, .events = events, .revents = 0};
    const int ready = poll(&wanted, 1, forever ? -1 : static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError("the process that has the GPU does not answer");
    if (errno != EINTR) return absl::UnavailableError(absl::StrCat("poll: ", strerror(errno)));
  }
}

}  // namespace

absl::Status SendAll(int socket, const void* head, size_t head_bytes, const void* rest,
                     size_t rest_bytes, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  iovec pieces[2] = {{const_cast<void*>(head), head_bytes}, {const_cast<void*>(rest), rest_bytes}};
  while (pieces[0].iov_len + pieces[1].iov_len > 0) {
    const int from = pieces[0].iov_len > 0 ? 0 : 1;
    msghdr message = {};
    message.msg_iov = pieces + from;
    message.msg_iovlen = static_cast<size_t>(2 - from);
    ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      if (auto status = WaitFor(socket, POLLOUT, deadline, false); !status.ok()) return status;
      continue;
    }
    if (sent <= 0) return absl::UnavailableError("the process that has the GPU has ended");
    for (iovec& piece : pieces) {
      const size_t step = std::min(piece.iov_len, static_cast<size_t>(sent));
      piece.iov_base = static_cast<char*>(piece.iov_base) + step;
      piece.iov_len -= step;
      sent -= static_cast<ssize_t>(step);
    }
  }
  return absl::OkStatus();
}

namespace {

constexpr size_t kMostDescriptors = 2;

// Of a message's control data.
size_t TakeDescriptors(msghdr& message, UniqueFd* to, size_t most) {
  size_t count = 0;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t here = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; ++i) {
      int descriptor;
      memcpy(&descriptor, CMSG_DATA(head) + i * sizeof(int), sizeof descriptor);
      UniqueFd owned(descriptor);
      if (count < most) to[count++] = std::move(owned);
    }
  }
  return count;
}

}  // namespace

absl::Status ReceiveAll(int socket, void* to, size_t bytes, std::chrono::milliseconds timeout,
                        UniqueFd* descriptor) {
  const auto deadline = Clock::now() + timeout;
  for (size_t got = 0; got < bytes;) {
    iovec place = {static_cast<char*>(to) + got, bytes - got};
    alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    if (descriptor != nullptr) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
    }
    const ssize_t some =
        recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (timeout.count() < 0 ? 0 : MSG_DONTWAIT));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0 && errno == EAGAIN) {
      if (auto status = WaitFor(socket, POLLIN, deadline, timeout.count() < 0); !status.ok()) {
        return status;
      }
      continue;
    }
    if (some <= 0) return absl::UnavailableError("the process that has the GPU has ended");
    if (descriptor != nullptr) TakeDescriptors(message, descriptor, 1);
    got += static_cast<size_t>(some);
  }
  return absl::OkStatus();
}

absl::Status SendDescriptors(int socket, absl::string_view bytes, absl::Span<const int> descriptors,
                             std::chrono::milliseconds timeout) {
  iovec text = {const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  const size_t size = std::min(descriptors.size(), kMostDescriptors) * sizeof(int);
  msghdr message = {};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (size > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(head), descriptors.data(), size);
  }
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
    if (sent >= 0) return absl::UnavailableError("sendmsg: only a part could be sent");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return absl::UnavailableError(absl::StrCat("sendmsg: ", strerror(errno)));
    if (auto status = WaitFor(socket, POLLOUT, deadline, false); !status.ok()) return status;
  }
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> ReceiveDescriptors(
    int socket, std::chrono::milliseconds timeout) {
  if (auto status = WaitFor(socket, POLLIN, Clock::now() + timeout, false); !status.ok()) {
    return status;
  }
  char line[1024];
  iovec text = {line, sizeof line};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) return absl::UnavailableError("the process that has the GPU has ended");
  UniqueFd descriptors[kMostDescriptors];
  if (TakeDescriptors(message, descriptors, kMostDescriptors) == kMostDescriptors) {
    return std::pair(std::move(descriptors[0]), std::move(descriptors[1]));
  }
  std::string said(line, static_cast<size_t>(got));
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return absl::UnavailableError(said);
}

}  // namespace phantora::executor
