#include "trap/time/waits/clock_wait.h"

namespace phantora {

ClockWait::ClockWait(const CallArguments& call, VirtualTime deadline) : TimedWait(call, nullptr) {
  set_deadline(deadline);
}

void ClockWait::TimeOut(NotifyListener& listener, VirtualTime /*now*/) const {
  listener.ReplyValue(id(), 0);
}

}  // namespace phantora
