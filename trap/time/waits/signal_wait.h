// rt_sigtimedwait.
#ifndef PHANTORA_TRAP_TIME_WAITS_SIGNAL_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_SIGNAL_WAIT_H_

#include <cstdint>

#include "trap/time/waits/timed_wait.h"

namespace phantora {

class SignalWait : public TimedWait {
 public:
  SignalWait(const CallArguments& call, const Present& present, Memory memory);

  const char* name() const override { return "sigtimedwait"; }
  bool AwaitsSignal(uint64_t pending) const override { return (wanted_ & pending) != 0; }
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;

 private:
  uint64_t wanted_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_SIGNAL_WAIT_H_
