// timer_create and its kin.
#ifndef PHANTORA_TRAP_TIME_TIMERS_POSIX_TIMERS_H_
#define PHANTORA_TRAP_TIME_TIMERS_POSIX_TIMERS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <utility>

#include "clock/virtual_time.h"
#include "trap/linux/trapped_call.h"
#include "trap/time/timers/timer_queue.h"
#include "trap/time/timers/timer_state.h"

namespace phantora {

// Kept here alone, and their signals sent from here. Timers of processor time stay the kernel's,
// whose ids are others.
class PosixTimers {
 public:
  // CLOCK_REALTIME runs `realtime_offset` ns before simulated time.
  PosixTimers(int64_t realtime_offset, TimerQueue* queue)
      : realtime_offset_(realtime_offset), queue_(*queue) {}

  void Create(const TrappedCall& call);
  // timer_settime, timer_gettime, timer_getoverrun, timer_delete; the kernel's if not one of these.
  void Serve(const TrappedCall& call, VirtualTime now);

  void Expire(const TimerKey& key, VirtualTime now);
  // exec deletes them, and so does the end.
  void Forget(pid_t process);

 private:
  struct Timer {
    TimerState state;
    pid_t process = 0;
    int pidfd = -1;  // of the process; lives as long as it
    // As the process knows it, and how it is notified (sigevent(7)).
    int id = 0;
    int notify = 0, signal = 0;
    pid_t thread = 0;
    uint64_t value = 0;
    int overruns = 0;  // of the signal that was sent last

    itimerspec Left(VirtualTime now) const;
  };

  // EINVAL, EFAULT or 0.
  static int ReadEvent(const TrappedCall& call, Timer& timer);
  void SetTime(Timer& timer, const TrappedCall& call, VirtualTime now);
  void Enqueue(const Timer& timer);
  static void Signal(Timer& timer, int64_t expirations);

  const int64_t realtime_offset_;
  TimerQueue& queue_;
  std::map<std::pair<pid_t, int>, Timer> timers_;
  int last_id_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TIMERS_POSIX_TIMERS_H_
