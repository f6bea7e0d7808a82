// nanosleep and clock_nanosleep.
#ifndef PHANTORA_TRAP_TIME_WAITS_SLEEP_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_SLEEP_WAIT_H_

#include "trap/time/waits/timed_wait.h"

namespace phantora {

class SleepWait : public TimedWait {
 public:
  SleepWait(const CallArguments& call, const Present& present, Memory memory);

  const char* name() const override { return "sleep"; }
  bool is_sleep() const override { return true; }
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;

 private:
  void ParseOfClock(const Present& present);
  void WriteRemaining(VirtualTime now, bool interrupted) const override;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_SLEEP_WAIT_H_
