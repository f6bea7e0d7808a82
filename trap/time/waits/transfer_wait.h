// A call that moves bytes through a descriptor, and would block.
#ifndef PHANTORA_TRAP_TIME_WAITS_TRANSFER_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_TRANSFER_WAIT_H_

#include <cstdint>

#include "trap/time/waits/watched_wait.h"

namespace phantora {

class TransferWait : public WatchedWait {
 public:
  TransferWait(const CallArguments& call, const TransferCall& transfer, VirtualTime deadline);

  const char* name() const override { return "call on a descriptor"; }
  const TransferCall* transfer() const override { return &transfer_; }
  int copy() const override { return all_copies().empty() ? -1 : all_copies()[0].get(); }
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;
  void Interrupt(NotifyListener& listener, VirtualTime now) const override;

 private:
  const TransferCall transfer_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_TRANSFER_WAIT_H_
