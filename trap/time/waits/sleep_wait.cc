#include "trap/time/waits/sleep_wait.h"

#include <sys/syscall.h>
#include <time.h>

#include <utility>

#include "trap/time/waits/wait_arguments.h"

namespace phantora {

SleepWait::SleepWait(const CallArguments& call, const Present& present, Memory memory)
    : TimedWait(call, std::move(memory)) {
  if (call.number() == SYS_nanosleep) {
    Relative(present.now, argument(0));
  } else {
    ParseOfClock(present);
  }
}

void SleepWait::ParseOfClock(const Present& present) {
  const int clock = static_cast<int>(argument(0));
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME &&
      clock != CLOCK_TAI && clock != CLOCK_REALTIME_ALARM && clock != CLOCK_BOOTTIME_ALARM) {
    return Continue();  // processor time, which stays the kernel's, or an error
  }
  const auto time = ReadTimeout(argument(2));
  if (!time) return;
  const bool absolute = (argument(1) & TIMER_ABSTIME) != 0;
  set_deadline(absolute ? InstantOf(clock, *time, present.realtime_offset)
                        : After(present.now, *time));
}

void SleepWait::WriteRemaining(VirtualTime now, bool interrupted) const {
  if (!interrupted) return;
  const bool of_clock = arguments().number() == SYS_clock_nanosleep;
  if (of_clock && (argument(1) & TIMER_ABSTIME) != 0) return;
  // Where it cannot be written, nobody is told.
  memory().WriteObject(RemoteAddress{argument(of_clock ? 3 : 1)}, Remaining(deadline(), now));
}

void SleepWait::TimeOut(NotifyListener& listener, VirtualTime /*now*/) const {
  listener.ReplyValue(id(), 0);
}

}  // namespace phantora
