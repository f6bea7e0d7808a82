// semtimedop.
#ifndef PHANTORA_TRAP_TIME_WAITS_SEMAPHORE_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_SEMAPHORE_WAIT_H_

#include <sys/sem.h>

#include <vector>

#include "trap/time/waits/timed_wait.h"

namespace phantora {

// System V semaphores are named system-wide, so their values can be looked at from here.
class SemaphoreWait : public TimedWait {
 public:
  SemaphoreWait(const CallArguments& call, const Present& present, Memory memory);

  const char* name() const override { return "semtimedop"; }
  bool is_polled() const override { return true; }
  // Would the operations go through, or fail, at once?
  bool Changed() const override;
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;

 private:
  std::vector<sembuf> operations_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_SEMAPHORE_WAIT_H_
