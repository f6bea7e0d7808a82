#include "trap/time/timers/timer_state.h"

#include <algorithm>
#include <limits>

#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

constexpr VirtualSpan kShortestPeriod = VirtualSpan::Microseconds(10);

timespec FromSpan(VirtualSpan span) {
  const int64_t ns = span.nanoseconds();
  return {.tv_sec = ns / kNanosecondsPerSecond, .tv_nsec = ns % kNanosecondsPerSecond};
}

// Saturates at 53 days.
VirtualSpan ToSpan(const timespec& time) {
  const VirtualTime instant = InstantOf(CLOCK_MONOTONIC, time, 0);
  return instant == VirtualTime::Infinity()
             ? VirtualSpan::Picoseconds(std::numeric_limits<int64_t>::max() / 2)
             : VirtualSpan::Picoseconds(instant.picoseconds());
}

// How often a timer expires in the time from `deadline` to `now`.
int64_t Expirations(VirtualTime deadline, VirtualSpan interval, VirtualTime now) {
  return (now - deadline).picoseconds() / interval.picoseconds() + 1;
}

// Saturates at half of what picoseconds can say, 53 days, so that nothing that is added
// overflows.
VirtualTime Later(VirtualTime time, VirtualSpan span, int64_t times) {
  const __int128 sum = static_cast<__int128>(span.picoseconds()) * times + time.picoseconds();
  return sum >= std::numeric_limits<int64_t>::max() / 2
             ? VirtualTime::Infinity()
             : time + VirtualSpan::Picoseconds(static_cast<int64_t>(sum) - time.picoseconds());
}

}  // namespace

bool IsZero(const timespec& time) { return time.tv_sec == 0 && time.tv_nsec == 0; }

void TimerState::Arm(const itimerspec& setting, bool absolute, VirtualTime now,
                     int64_t realtime_offset) {
  interval = ToSpan(setting.it_interval);
  if (IsZero(setting.it_value)) {
    deadline = VirtualTime::Infinity();
  } else if (absolute) {
    deadline = InstantOf(clock, setting.it_value, realtime_offset);
  } else {
    deadline = Later(now, ToSpan(setting.it_value), 1);
  }
}

itimerspec TimerState::Left(VirtualTime now) const {
  itimerspec left{.it_interval = FromSpan(interval), .it_value = {}};
  if (deadline == VirtualTime::Infinity()) return left;
  // One that is about to expire is not disarmed.
  left.it_value = FromSpan(std::max(deadline - now, VirtualSpan::Nanoseconds(1)));
  return left;
}

itimerspec TimerState::LeftUntold(VirtualTime now) const {
  if (deadline > now) return Left(now);
  TimerState next = *this;
  next.deadline = repeats() ? Later(deadline, interval, Expirations(deadline, interval, now))
                            : VirtualTime::Infinity();
  return next.Left(now);
}

int64_t TimerState::Expire(VirtualTime now) {
  if (!repeats()) {
    deadline = VirtualTime::Infinity();
    return 1;
  }
  const bool is_fast = interval < kShortestPeriod;
  const int64_t expirations =
      Expirations(deadline, interval, is_fast ? now + kShortestPeriod : now);
  deadline = Later(deadline, interval, expirations);
  return expirations;
}

}  // namespace phantora
