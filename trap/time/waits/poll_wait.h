// poll and ppoll.
#ifndef PHANTORA_TRAP_TIME_WAITS_POLL_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_POLL_WAIT_H_

#include <poll.h>

#include <vector>

#include "trap/time/waits/watched_wait.h"

namespace phantora {

class PollWait : public WatchedWait {
 public:
  PollWait(const CallArguments& call, const Present& present, Memory memory);

  const char* name() const override { return "poll"; }
  bool CollectReady() override;
  std::vector<int> found_readable() const override;
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;
  void Ready(NotifyListener& listener, VirtualTime now) const override;

 private:
  void ReadEntries();
  // `revents` of each entry; false if it cannot be written. The rest of them is left as it is.
  bool WriteResults(const std::vector<short>& revents) const;
  // With what CollectReady() found; false if it cannot be written.
  bool AnswerReady(NotifyListener& listener) const;
  void WriteRemaining(VirtualTime now, bool interrupted) const override;

  std::vector<pollfd> entries_;  // as they were
  std::vector<short> ready_;     // what is ready, by watch
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_POLL_WAIT_H_
