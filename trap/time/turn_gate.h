// Lets processes run a few at a time.
#ifndef PHANTORA_TRAP_TIME_TURN_GATE_H_
#define PHANTORA_TRAP_TIME_TURN_GATE_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "trap/linux/real_clock.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// Ranks that start together read the same files and take hundreds of MiB each, before there is a
// moment to share what they have in common; and later, all at a time, what one needs for a moment.
// So a process that starts, and any when memory is short, has turns: it runs until all its threads
// wait for something, and no more run at a time than there are processors. That takes no longer,
// and much less memory. Those behind stand in a call. It is scheduling only: no clock moves by
// it, as long as simulated time does not pass while somebody stands here.
class TurnGate {
 public:
  struct Options {
    size_t at_once;
    int epoll;  // gets timer()
    // Is memory short? By the serving thread, often.
    std::function<bool()> is_short = [] { return false; };
    const RealClock* clock = &RealClock::Host();
  };
  // One that has run for so long without waiting may wait for one that stands here, in a way that
  // cannot be seen: then there is a turn more. Real time, ns.
  static constexpr int64_t kLongestTurn = 20'000'000'000;
  // Between two looks whether those that run still do, ns of real time.
  static constexpr int64_t kLookEvery = 200'000;

  explicit TurnGate(Options options);

  // Does a call of the process have to wait for its turn? Then Next() will give it back.
  bool Holds(pid_t process, const seccomp_notif& call);
  // A call that may be served now. `rests` says whether all threads of a process wait.
  std::optional<seccomp_notif> Next(const std::function<bool(pid_t)>& rests);
  void ProcessDied(pid_t process);

  // Does the thread stand here?
  bool HoldsThread(pid_t thread) const;
  // Does anybody?
  bool holds_any() const { return !held_.empty(); }
  // Readable when it is time to ask Next() again.
  int timer() const { return timer_.get(); }
  void TakeTick() const;

 private:
  // May it run without a turn?
  bool IsFree(pid_t process) const { return !options_.is_short() && started_.contains(process); }
  bool HasTurn(pid_t process) const { return turns_.contains(process); }
  void GiveTurn(pid_t process);
  void Arm(bool on);

  const Options options_;
  const UniqueFd timer_;
  bool ticks_ = false;  // or the kernel is out of descriptors: then nobody has to wait
  bool armed_ = false;
  int64_t looked_ns_ = 0;
  absl::flat_hash_set<pid_t> started_;  // have had a turn, and live
  std::map<pid_t, int64_t> turns_;      // since when
  std::deque<std::pair<pid_t, seccomp_notif>> held_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TURN_GATE_H_
