#include "trap/time/waits/epoll_wait.h"

#include <sys/epoll.h>
#include <sys/syscall.h>

#include <utility>

namespace phantora {

EpollWait::EpollWait(const CallArguments& call, const Present& present, Memory memory)
    : WatchedWait(call, std::move(memory)) {
  if (call.number() != SYS_epoll_wait) set_mask(ReadMask(argument(4)));
  if (call.number() == SYS_epoll_pwait2) {
    RelativeIfAny(present.now, argument(3));
  } else {
    RelativeMilliseconds(present.now, argument(3));
  }
  // A set of epoll is readable when something in it is ready.
  AddWatch(static_cast<int>(argument(0)), EPOLLIN);
  ContinueIfOver(present.now);
}

void EpollWait::TimeOut(NotifyListener& listener, VirtualTime /*now*/) const {
  listener.ReplyValue(id(), 0);
}

}  // namespace phantora
