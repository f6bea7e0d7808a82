#include "trap/time/waits/transfer_wait.h"

#include <errno.h>
#include <sys/epoll.h>

namespace phantora {

TransferWait::TransferWait(const CallArguments& call, const TransferCall& transfer,
                           VirtualTime deadline)
    : WatchedWait(call, nullptr), transfer_(transfer) {
  set_deadline(deadline);
  const bool sends = transfer.kind == TransferCall::Kind::kSend;
  AddWatch(transfer.descriptor, sends ? uint32_t{EPOLLOUT} : uint32_t{EPOLLIN});
}

void TransferWait::TimeOut(NotifyListener& listener, VirtualTime /*now*/) const {
  listener.ReplyError(id(), EAGAIN);
}

void TransferWait::Interrupt(NotifyListener& listener, VirtualTime /*now*/) const {
  // The kernel restarts it after the handler, or does not, as the handler was set.
  listener.ReplyContinue(id());
}

}  // namespace phantora
