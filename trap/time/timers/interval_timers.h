// alarm, setitimer and getitimer of real time.
#ifndef PHANTORA_TRAP_TIME_TIMERS_INTERVAL_TIMERS_H_
#define PHANTORA_TRAP_TIME_TIMERS_INTERVAL_TIMERS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>

#include "clock/virtual_time.h"
#include "trap/linux/trapped_call.h"
#include "trap/time/timers/timer_queue.h"
#include "trap/time/timers/timer_state.h"

namespace phantora {

// One for each process, which sends it SIGALRM.
class IntervalTimers {
 public:
  explicit IntervalTimers(TimerQueue* queue) : queue_(*queue) {}

  void Set(const TrappedCall& call, VirtualTime now);
  void Get(const TrappedCall& call, VirtualTime now);
  void SetAlarm(const TrappedCall& call, VirtualTime now);

  void Expire(const TimerKey& key, VirtualTime now);
  void ProcessDied(pid_t process);

 private:
  struct Timer {
    TimerState state;
    int pidfd = -1;  // of the process; lives as long as it
  };

  itimerspec LeftOf(pid_t process, VirtualTime now) const;
  void Arm(const Tracee& tracee, const itimerspec& setting, VirtualTime now);

  TimerQueue& queue_;
  std::map<pid_t, Timer> timers_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TIMERS_INTERVAL_TIMERS_H_
