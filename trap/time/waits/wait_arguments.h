// Times as system calls give and take them, in simulated time.
#ifndef PHANTORA_TRAP_TIME_WAITS_WAIT_ARGUMENTS_H_
#define PHANTORA_TRAP_TIME_WAITS_WAIT_ARGUMENTS_H_

#include <sys/time.h>
#include <time.h>

#include <cstdint>

#include "clock/virtual_time.h"

namespace phantora {

inline constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

// Is it a clock that is set, and so runs a fixed time before CLOCK_MONOTONIC?
bool IsRealtime(int clock);
// As the kernel wants it (include/linux/time64.h timespec64_valid).
bool IsValid(const timespec& time);

// A clockid_t and a time on it, as an instant. CLOCK_REALTIME runs `realtime_offset` nanoseconds
// before simulated time. What is 53 days or more is never: half of what picoseconds can say, so
// that what is added to it fits. What is before the beginning is the beginning.
VirtualTime InstantOf(int clock, const timespec& time, int64_t realtime_offset);
// So much later than `now`; the same limits.
VirtualTime After(VirtualTime now, const timespec& time);
VirtualTime After(VirtualTime now, const timeval& time);
VirtualTime AfterMilliseconds(VirtualTime now, int milliseconds);

// What is left of a wait until `deadline`: nothing of one that is over, or has no end.
timespec Remaining(VirtualTime deadline, VirtualTime now);

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_WAIT_ARGUMENTS_H_
