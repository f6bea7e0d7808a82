// When threads are woken that wait in the kernel, in a call that is not held.
#ifndef PHANTORA_TRAP_TIME_WAKE_TIMES_H_
#define PHANTORA_TRAP_TIME_WAKE_TIMES_H_

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <vector>

#include "clock/virtual_time.h"

namespace phantora {

// Who goes on because of what somebody else did cannot be earlier than that. Which of several
// threads is woken the kernel does not tell: it is those that are heard of again.
class WakeTimes {
 public:
  // `now`: `count` of `threads` are woken, or all if they are fewer, and were there already.
  void Woken(std::vector<pid_t> threads, uint64_t count, VirtualTime now);
  // The thread has made another call: when it was woken; VirtualTime() if by nobody.
  VirtualTime Heard(pid_t thread);
  // It goes on for another reason.
  void Forget(pid_t thread) { Heard(thread); }
  bool empty() const { return wakes_.empty(); }

 private:
  struct Wake {
    std::vector<pid_t> threads;
    uint64_t count;
    VirtualTime time;
  };
  // Oldest first, at most kMostWakes: somebody may wake those that never go on.
  std::list<Wake> wakes_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAKE_TIMES_H_
