// epoll_wait and its kin.
#ifndef PHANTORA_TRAP_TIME_WAITS_EPOLL_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_EPOLL_WAIT_H_

#include "trap/time/waits/watched_wait.h"

namespace phantora {

class EpollWait : public WatchedWait {
 public:
  EpollWait(const CallArguments& call, const Present& present, Memory memory);

  const char* name() const override { return "epoll_wait"; }
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_EPOLL_WAIT_H_
