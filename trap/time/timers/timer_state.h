// When a timer expires, and how often.
#ifndef PHANTORA_TRAP_TIME_TIMERS_TIMER_STATE_H_
#define PHANTORA_TRAP_TIME_TIMERS_TIMER_STATE_H_

#include <time.h>

#include <cstdint>

#include "clock/virtual_time.h"

namespace phantora {

// A process may not have more timers than its signals could be queued for.
inline constexpr size_t kMostTimers = 4096;

// Of a timer of any kind. Times of 53 days and more are never.
struct TimerState {
  int clock = CLOCK_MONOTONIC;
  VirtualTime deadline = VirtualTime::Infinity();  // disarmed
  VirtualSpan interval;                            // 0: it expires once

  // As timer_settime(2) has it, in the terms of its clock; CLOCK_REALTIME runs `realtime_offset` ns
  // before simulated time. The setting is valid.
  void Arm(const itimerspec& setting, bool absolute, VirtualTime now, int64_t realtime_offset);
  // As timer_gettime(2) tells.
  itimerspec Left(VirtualTime now) const;
  // The same of one that nobody is told of, so that it is not set anew when it has expired.
  itimerspec LeftUntold(VirtualTime now) const;
  // It has expired by `now`: sets it for the next time and returns how often that was. What repeats
  // faster than anybody could notice expires several times at once.
  int64_t Expire(VirtualTime now);

  bool repeats() const { return interval > VirtualSpan(); }
};

bool IsZero(const timespec& time);

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TIMERS_TIMER_STATE_H_
