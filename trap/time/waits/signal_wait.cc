#include "trap/time/waits/signal_wait.h"

#include <errno.h>

#include <utility>

namespace phantora {

SignalWait::SignalWait(const CallArguments& call, const Present& present, Memory memory)
    : TimedWait(call, std::move(memory)) {
  // Before the timeout, as in kernel/signal.c SYSCALL_DEFINE4(rt_sigtimedwait).
  const auto wanted = this->memory().ReadObject<uint64_t>(RemoteAddress{argument(0)});
  if (!wanted) {
    Invalid(EFAULT);
    return;
  }
  wanted_ = *wanted;
  Relative(present.now, argument(2));
  ContinueIfOver(present.now);
}

void SignalWait::TimeOut(NotifyListener& listener, VirtualTime /*now*/) const {
  listener.ReplyError(id(), EAGAIN);
}

}  // namespace phantora
