// select and pselect6.
#ifndef PHANTORA_TRAP_TIME_WAITS_SELECT_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_SELECT_WAIT_H_

#include "trap/time/waits/watched_wait.h"

namespace phantora {

class SelectWait : public WatchedWait {
 public:
  SelectWait(const CallArguments& call, const Present& present, Memory memory);

  const char* name() const override { return "select"; }
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;

 private:
  void ReadTimeval(VirtualTime now);
  void ReadSets();
  void WriteRemaining(VirtualTime now, bool interrupted) const override;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_SELECT_WAIT_H_
