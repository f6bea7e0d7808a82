#include "trap/time/waits/wait_arguments.h"

#include <limits>

namespace phantora {
namespace {

VirtualTime Saturated(__int128 nanoseconds) {
  constexpr __int128 kMost = std::numeric_limits<int64_t>::max() / 2000;
  if (nanoseconds >= kMost) return VirtualTime::Infinity();
  return VirtualTime::FromNanoseconds(nanoseconds < 0 ? 0 : static_cast<int64_t>(nanoseconds));
}

__int128 Nanoseconds(const timespec& time) {
  return static_cast<__int128>(time.tv_sec) * kNanosecondsPerSecond + time.tv_nsec;
}

}  // namespace

bool IsRealtime(int clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
         clock == CLOCK_REALTIME_ALARM || clock == CLOCK_TAI;
}

bool IsValid(const timespec& time) {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < kNanosecondsPerSecond;
}

VirtualTime InstantOf(int clock, const timespec& time, int64_t realtime_offset) {
  return Saturated(Nanoseconds(time) - (IsRealtime(clock) ? realtime_offset : 0));
}

VirtualTime After(VirtualTime now, const timespec& time) {
  return Saturated(Nanoseconds(time) + now.nanoseconds());
}

VirtualTime After(VirtualTime now, const timeval& time) {
  return Saturated(static_cast<__int128>(now.nanoseconds()) +
                   static_cast<__int128>(time.tv_sec) * kNanosecondsPerSecond +
                   static_cast<__int128>(time.tv_usec) * 1000);
}

VirtualTime AfterMilliseconds(VirtualTime now, int milliseconds) {
  return Saturated(static_cast<__int128>(now.nanoseconds()) +
                   static_cast<__int128>(milliseconds) * 1'000'000);
}

timespec Remaining(VirtualTime deadline, VirtualTime now) {
  if (deadline == VirtualTime::Infinity() || deadline <= now) return {};
  const int64_t left = (deadline - now).nanoseconds();
  return {.tv_sec = left / kNanosecondsPerSecond, .tv_nsec = left % kNanosecondsPerSecond};
}

}  // namespace phantora
