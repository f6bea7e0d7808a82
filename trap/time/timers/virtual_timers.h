// Timers in simulated time: alarm, setitimer, timer_create and timerfd.
#ifndef PHANTORA_TRAP_TIME_TIMERS_VIRTUAL_TIMERS_H_
#define PHANTORA_TRAP_TIME_TIMERS_VIRTUAL_TIMERS_H_

#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"
#include "trap/linux/trapped_call.h"
#include "trap/time/timers/descriptor_timers.h"
#include "trap/time/timers/interval_timers.h"
#include "trap/time/timers/posix_timers.h"
#include "trap/time/timers/timer_queue.h"

namespace phantora {

// All three kinds, in one queue. Timers of processor time stay the kernel's.
class VirtualTimers {
 public:
  using Living = DescriptorTimers::Living;
  using Due = TimerQueue::Due;

  // CLOCK_REALTIME runs `realtime_offset` ns before simulated time.
  VirtualTimers(int64_t realtime_offset, Living living)
      : interval_(&queue_),
        posix_(realtime_offset, &queue_),
        descriptors_(realtime_offset, std::move(living), &queue_) {}
  VirtualTimers(const VirtualTimers&) = delete;
  VirtualTimers& operator=(const VirtualTimers&) = delete;

  // Is it a system call about timers?
  static bool Serves(int call);
  // `now`: the caller's time.
  void Serve(const TrappedCall& call, VirtualTime now);

  // When a timer expires next, and whose; Infinity for none.
  Due Earliest() const { return queue_.Earliest(); }
  // Lets the timers of `process` expire that are due at its time `now`; false if none is.
  bool ExpireDue(pid_t process, VirtualTime now);
  // Whose timers they are that run.
  std::vector<pid_t> Processes() const { return queue_.Processes(); }

  // `file`, perhaps a timerfd, is about to be read.
  void BeforeRead(int file) { descriptors_.BeforeRead(file); }

  // exec deletes POSIX timers.
  void NewProgram(pid_t process) { posix_.Forget(process); }
  void ProcessDied(pid_t process);

 private:
  TimerQueue queue_;
  IntervalTimers interval_;
  PosixTimers posix_;
  DescriptorTimers descriptors_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TIMERS_VIRTUAL_TIMERS_H_
