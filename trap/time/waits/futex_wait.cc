#include "trap/time/waits/futex_wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <utility>
#include <vector>

#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

// linux/futex.h FUTEX_WAITV_MAX, and struct futex_waitv.
constexpr uint64_t kMostFutexes = 128;
struct FutexWaiter {
  uint64_t value, address;
  uint32_t flags, reserved;
};
constexpr uint32_t kPrivate = 128;  // FUTEX2_PRIVATE, newer than Debian 12's headers

}  // namespace

FutexWait::FutexWait(const CallArguments& call, const Present& present, Memory memory)
    : TimedWait(call, std::move(memory)) {
  call.number() == SYS_futex ? ParseOne(present) : ParseMany(present);
  if (waits() && Changed()) Invalid(EAGAIN);
}

void FutexWait::ParseOne(const Present& present) {
  const int operation = static_cast<int>(argument(1));
  const int command = operation & FUTEX_CMD_MASK;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) {
    return LeaveToKernel("a futex with priority inheritance");
  }
  if (argument(3) != 0) {
    const auto time = ReadTimeout(argument(3));
    if (!time) return;
    // With a bit set, the timeout is absolute (futex(2)).
    const int clock = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    set_deadline(command == FUTEX_WAIT_BITSET ? InstantOf(clock, *time, present.realtime_offset)
                                              : After(present.now, *time));
  } else {
    SetUntimed();
  }
  const bool has_bits = command == FUTEX_WAIT_BITSET;
  const auto bits = has_bits ? static_cast<uint32_t>(argument(5)) : ~uint32_t{0};
  // Where it has no bits, or lies between words, the kernel says so.
  if (bits == 0 || argument(0) % sizeof(uint32_t) != 0) return Invalid(EINVAL);
  if (present.sees_wakes) bits_ = bits;
  words_.emplace_back(RemoteAddress{argument(0)}, static_cast<uint32_t>(argument(2)));
  private_ = (operation & FUTEX_PRIVATE_FLAG) != 0;
}

void FutexWait::ParseMany(const Present& present) {
  const uint64_t count = static_cast<uint32_t>(argument(1));
  const int clock = static_cast<int>(argument(4));
  if (count == 0 || count > kMostFutexes || argument(2) != 0 ||
      (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)) {
    return Invalid(EINVAL);
  }
  std::vector<FutexWaiter> waiters(count);
  if (!memory().Read(RemoteAddress{argument(0)}, waiters.data(), count * sizeof(FutexWaiter))) {
    return Invalid(EFAULT);
  }
  const auto time = ReadTimeout(argument(3));
  if (!time) return;
  set_deadline(InstantOf(clock, *time, present.realtime_offset));
  private_ = true;
  if (present.sees_wakes) bits_ = ~uint32_t{0};
  for (const FutexWaiter& waiter : waiters) {
    private_ &= (waiter.flags & kPrivate) != 0;
    words_.emplace_back(RemoteAddress{waiter.address}, static_cast<uint32_t>(waiter.value));
  }
}

std::optional<uint64_t> FutexWait::ChangedWord() const {
  for (size_t i = 0; i < words_.size(); ++i) {
    const auto word = memory().ReadObject<uint32_t>(words_[i].first);
    if (!word || *word != words_[i].second) return i;
  }
  return std::nullopt;
}

void FutexWait::TimeOut(NotifyListener& listener, VirtualTime /*now*/) const {
  listener.ReplyError(id(), ETIMEDOUT);
}

void FutexWait::Ready(NotifyListener& listener, VirtualTime /*now*/) const {
  const bool many = arguments().number() == SYS_futex_waitv;
  listener.ReplyValue(id(), many ? static_cast<int64_t>(ChangedWord().value_or(0)) : 0);
}

}  // namespace phantora
