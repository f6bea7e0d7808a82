#include "trap/time/waits/semaphore_wait.h"

#include <errno.h>
#include <sys/ipc.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace phantora {
namespace {

// The kernel's default limit of operations (SEMOPM).
constexpr uint64_t kMostSemaphores = 500;

}  // namespace

SemaphoreWait::SemaphoreWait(const CallArguments& call, const Present& present, Memory memory)
    : TimedWait(call, std::move(memory)) {
  Relative(present.now, argument(3));
  if (!waits()) return;
  operations_.resize(std::min<uint64_t>(static_cast<uint32_t>(argument(2)), kMostSemaphores));
  const bool read = this->memory().Read(RemoteAddress{argument(1)}, operations_.data(),
                                        operations_.size() * sizeof(sembuf));
  if (!read || Changed()) Continue();  // the kernel goes on, or says why not
}

bool SemaphoreWait::Changed() const {
  for (const sembuf& operation : operations_) {
    if ((operation.sem_flg & IPC_NOWAIT) != 0) return true;
    const int value = semctl(static_cast<int>(argument(0)), operation.sem_num, GETVAL);
    if (value < 0) return true;  // the kernel says why
    // Several operations on one semaphore may add up; then the kernel waits, not we.
    if (operation.sem_op == 0 ? value != 0 : value + operation.sem_op < 0) return false;
  }
  return true;
}

void SemaphoreWait::TimeOut(NotifyListener& listener, VirtualTime /*now*/) const {
  listener.ReplyError(id(), EAGAIN);
}

}  // namespace phantora
