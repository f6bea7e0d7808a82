// mq_timedsend and mq_timedreceive.
#ifndef PHANTORA_TRAP_TIME_WAITS_QUEUE_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_QUEUE_WAIT_H_

#include "trap/time/waits/watched_wait.h"

namespace phantora {

class QueueWait : public WatchedWait {
 public:
  QueueWait(const CallArguments& call, const Present& present, Memory memory);

  const char* name() const override { return "message queue"; }
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_QUEUE_WAIT_H_
