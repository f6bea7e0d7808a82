// timerfd_settime and timerfd_gettime.
#ifndef PHANTORA_TRAP_TIME_TIMERS_DESCRIPTOR_TIMERS_H_
#define PHANTORA_TRAP_TIME_TIMERS_DESCRIPTOR_TIMERS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"
#include "trap/linux/trapped_call.h"
#include "trap/time/timers/timer_queue.h"
#include "trap/time/timers/timer_state.h"

namespace phantora {

// A timerfd stays the kernel's, so that it can be read and waited for; it is never armed, but told
// that it has expired (TFD_IOC_SET_TICKS, timerfd_create(2)). It carries a mark by which it is
// known, wherever it goes.
class DescriptorTimers {
 public:
  // All processes that live, with a pidfd each.
  using Living = std::function<std::vector<std::pair<pid_t, int>>()>;

  DescriptorTimers(int64_t realtime_offset, Living living, TimerQueue* queue)
      : realtime_offset_(realtime_offset), living_(std::move(living)), queue_(*queue) {}

  void Set(const TrappedCall& call, VirtualTime now);
  void Get(const TrappedCall& call, VirtualTime now);

  void Expire(const TimerKey& key, VirtualTime now);
  // `file`, perhaps a timerfd, is about to be read.
  void BeforeRead(int file);
  // A timerfd lives as long as anybody has it.
  void ProcessDied(pid_t process);

 private:
  struct Timer {
    TimerState state;
    // Where it was found last.
    pid_t process = 0;
    int pidfd = -1;
    int descriptor = -1;
    uint64_t unread = 0;  // expirations that nobody has read
  };
  using Timers = std::map<int64_t, Timer>;  // by mark

  itimerspec LeftOf(int64_t mark, VirtualTime now) const;
  // False if nobody has the descriptor any more.
  bool Tick(Timer& timer, int64_t mark, uint64_t ticks);
  // Finds the descriptor that carries `mark`, wherever it is now; looks at `budget` at most.
  bool FindDescriptor(Timer& timer, int64_t mark, int& budget);

  const int64_t realtime_offset_;
  const Living living_;
  TimerQueue& queue_;
  Timers timers_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TIMERS_DESCRIPTOR_TIMERS_H_
