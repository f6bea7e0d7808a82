// Calls by which processes of the run wake each other, and which the kernel serves: signals sent,
// futexes woken. Whom they concern, and from when on.
#ifndef PHANTORA_TRAP_TIME_CALLS_UNDER_WAY_H_
#define PHANTORA_TRAP_TIME_CALLS_UNDER_WAY_H_

#include <sys/types.h>

#include <functional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace phantora {

// The call is let go first, and has had its effect when it returns: no later than when its thread
// is heard of again, or found blocked.
class CallsUnderWay {
 public:
  // As a receiver: it is not known who.
  static constexpr pid_t kAnybody = 0;

  // `thread` of `process` goes on into such a call.
  void Begin(pid_t thread, pid_t process, pid_t receiver) { begun_[thread] = {process, receiver}; }
  // It has made another call.
  void Stopped(pid_t thread);
  // Those whose process is `blocked`, or has died.
  void Blocked(const std::function<bool(pid_t process)>& blocked);
  // An effect of no call that was seen.
  void Arrive(pid_t receiver) { arrived_.insert(receiver); }

  // Nothing has begun whose effect has not been taken?
  bool empty() const { return begun_.empty() && arrived_.empty(); }
  // Whom effects may concern that have not been looked for, in order; kAnybody alone if that may be
  // anybody.
  std::set<pid_t> TakeArrived();

 private:
  struct Call {
    pid_t process, receiver;
  };
  absl::flat_hash_map<pid_t, Call> begun_;
  std::set<pid_t> arrived_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_CALLS_UNDER_WAY_H_
