#include "trap/time/waits/timed_wait.h"

#include <errno.h>

#include <utility>

#include "trap/time/waits/wait_arguments.h"

namespace phantora {

TimedWait::TimedWait(const CallArguments& call, Memory memory)
    : arguments_(call),
      memory_(memory != nullptr ? std::move(memory)
                                : std::make_shared<RemoteMemory>(call.thread())) {}

std::optional<uint64_t> TimedWait::ReadMask(uint64_t address) const {
  if (address == 0) return std::nullopt;
  return memory().ReadObject<uint64_t>(RemoteAddress{address});
}

std::optional<timespec> TimedWait::ReadTimeout(uint64_t address) {
  const auto time = memory().ReadObject<timespec>(RemoteAddress{address});
  if (!time) {
    Invalid(EFAULT);
  } else if (!IsValid(*time)) {
    Invalid(EINVAL);
  } else {
    return time;
  }
  return std::nullopt;
}

void TimedWait::Relative(VirtualTime now, uint64_t address) {
  if (const auto time = ReadTimeout(address)) deadline_ = After(now, *time);
}

void TimedWait::RelativeIfAny(VirtualTime now, uint64_t address) {
  address != 0 ? Relative(now, address) : SetUntimed();
}

void TimedWait::RelativeMilliseconds(VirtualTime now, uint64_t argument) {
  const int milliseconds = static_cast<int>(argument);
  if (milliseconds < 0) return SetUntimed();
  deadline_ = AfterMilliseconds(now, milliseconds);
}

void TimedWait::ContinueIfOver(VirtualTime now) {
  if (!waits() || deadline_ > now) return;
  is_look_ = true;
  Continue();
}

int TimedWait::WatchDescriptors(int /*pidfd*/, size_t /*most*/) { return -1; }

const TimedWait::Words& TimedWait::words() const {
  static const Words* const none = new Words;
  return *none;
}

void TimedWait::Ready(NotifyListener& listener, VirtualTime now) const {
  WriteRemaining(now, false);
  listener.ReplyContinue(id());  // it finds what it waits for
}

void TimedWait::Interrupt(NotifyListener& listener, VirtualTime now) const {
  if (mask_ || untimed_) {
    // The kernel runs the handler with the signal unblocked, and knows whether the call goes on
    // after that (SA_RESTART in sigaction(2)). With a timeout none does.
    listener.ReplyContinue(id());
    return;
  }
  WriteRemaining(now, true);
  listener.ReplyError(id(), EINTR);
}

}  // namespace phantora
