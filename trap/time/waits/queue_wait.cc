#include "trap/time/waits/queue_wait.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstdint>
#include <utility>

#include "trap/time/waits/wait_arguments.h"

namespace phantora {

QueueWait::QueueWait(const CallArguments& call, const Present& present, Memory memory)
    : WatchedWait(call, std::move(memory)) {
  const auto time = ReadTimeout(argument(4));
  if (!time) return;
  set_deadline(InstantOf(CLOCK_REALTIME, *time, present.realtime_offset));
  const bool sends = call.number() == SYS_mq_timedsend;
  AddWatch(static_cast<int>(argument(0)), sends ? uint32_t{EPOLLOUT} : uint32_t{EPOLLIN});
}

void QueueWait::TimeOut(NotifyListener& listener, VirtualTime /*now*/) const {
  listener.ReplyError(id(), ETIMEDOUT);
}

}  // namespace phantora
