// alarm, setitimer and getitimer of real time.
#ifndef PHANTORA_TRAP_TIME_TIMERS_INTERVAL_TIMERS_H_
#define PHANTORA_TRAP_TIME_TIMERS_INTERVAL_TIMERS_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <map>

#include "clock/virtual_time.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/tracees.h"
#include "trap/time/timers/timer_queue.h"
#include "trap/time/timers/timer_state.h"

namespace phantora {

// One for each process, which sends it SIGALRM.
class IntervalTimers {
 public:
  explicit IntervalTimers(TimerQueue* queue) : queue_(*queue) {}

  void Set(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
           NotifyListener& listener);
  void Get(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
           NotifyListener& listener);
  void SetAlarm(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
                NotifyListener& listener);

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
