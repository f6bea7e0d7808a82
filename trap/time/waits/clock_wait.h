// A clock read in a loop that has to let others go first.
#ifndef PHANTORA_TRAP_TIME_WAITS_CLOCK_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_CLOCK_WAIT_H_

#include "trap/time/waits/timed_wait.h"

namespace phantora {

class ClockWait : public TimedWait {
 public:
  ClockWait(const CallArguments& call, VirtualTime deadline);

  const char* name() const override { return "clock read"; }
  bool is_clock() const override { return true; }
  // Whoever holds it writes the clock.
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_CLOCK_WAIT_H_
