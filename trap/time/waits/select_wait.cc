#include "trap/time/waits/select_wait.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "trap/time/waits/wait_arguments.h"

namespace phantora {

SelectWait::SelectWait(const CallArguments& call, const Present& present, Memory memory)
    : WatchedWait(call, std::move(memory)) {
  if (call.number() == SYS_pselect6) {
    // A pointer to a pointer to the mask, and its size.
    set_mask(ReadMask(this->memory().ReadObject<uint64_t>(RemoteAddress{argument(5)}).value_or(0)));
    RelativeIfAny(present.now, argument(4));
  } else {
    ReadTimeval(present.now);
  }
  if (waits()) ReadSets();
  ContinueIfOver(present.now);
}

void SelectWait::ReadTimeval(VirtualTime now) {
  if (argument(4) == 0) return SetUntimed();
  const auto time = memory().ReadObject<timeval>(RemoteAddress{argument(4)});
  if (!time) return Invalid(EFAULT);
  if (time->tv_sec < 0 || time->tv_usec < 0) return Invalid(EINVAL);
  set_deadline(After(now, *time));
}

void SelectWait::ReadSets() {
  const int count = static_cast<int>(argument(0));
  if (count < 0 || static_cast<uint64_t>(count) > kMostDescriptors) {
    return LeaveToKernel("more than 4096 descriptors");
  }
  constexpr uint32_t kEvents[3] = {EPOLLIN, EPOLLOUT, EPOLLPRI};
  std::vector<uint32_t> wanted(static_cast<size_t>(count));
  for (int set = 0; set < 3; ++set) {
    if (argument(1 + set) == 0) continue;
    std::vector<uint8_t> bits((static_cast<size_t>(count) + 7) / 8);
    if (!memory().Read(RemoteAddress{argument(1 + set)}, bits.data(), bits.size())) {
      return Invalid(EFAULT);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if ((bits[i / 8] >> (i % 8) & 1) != 0) wanted[i] |= kEvents[set];
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != 0) AddWatch(static_cast<int>(i), wanted[i]);
  }
}

void SelectWait::TimeOut(NotifyListener& listener, VirtualTime now) const {
  WriteRemaining(now, false);
  // The kernel writes whole words.
  const std::vector<uint8_t> zeros((static_cast<uint32_t>(argument(0)) + 63) / 64 * 8);
  for (int set = 1; set <= 3; ++set) {
    if (argument(set) == 0) continue;
    memory().Write(RemoteAddress{argument(set)}, zeros.data(), zeros.size());
  }
  listener.ReplyValue(id(), 0);
}

void SelectWait::WriteRemaining(VirtualTime now, bool /*interrupted*/) const {
  if (argument(4) == 0) return;
  // Where it cannot be written, the kernel would not complain either.
  const timespec remaining = Remaining(deadline(), now);
  const RemoteAddress at{argument(4)};
  if (arguments().number() == SYS_pselect6) {
    memory().WriteObject(at, remaining);
  } else {
    memory().WriteObject(at,
                         timeval{.tv_sec = remaining.tv_sec, .tv_usec = remaining.tv_nsec / 1000});
  }
}

}  // namespace phantora
