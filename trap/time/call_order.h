// Calls by which processes find out about each other, in the order of simulated time.
#ifndef PHANTORA_TRAP_TIME_CALL_ORDER_H_
#define PHANTORA_TRAP_TIME_CALL_ORDER_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "clock/virtual_time.h"

namespace phantora {

// Processes run side by side, and come to their calls in an order that is another one in every run.
// What one of them does alone nobody else sees. But a call that shows it what others have done, or
// shows them something, is served when nobody can do anything earlier any more: in the order of the
// callers' clocks, of equal ones in that of process ids (those of ranks follow from their order).
// Until then it stands here, unserved. So does the end of a call that is held (HeldCalls) until a
// descriptor is ready: its caller looks at what has come by his time.
class CallOrder {
 public:
  struct Place {
    VirtualTime at;
    pid_t process = 0;
    uint64_t call = 0;
    auto operator<=>(const Place&) const = default;
  };

  static constexpr uint64_t kRelease = 0;

  // `call` is not served yet.
  void Add(VirtualTime at, pid_t process, const seccomp_notif& call) {
    calls_.emplace(Place{at, process, call.id}, call);
  }
  // This one is held, and what it waits for is there.
  void AddEnd(VirtualTime at, pid_t process, uint64_t call) {
    calls_.emplace(Place{at, process, call}, std::nullopt);
  }
  bool empty() const { return calls_.empty(); }
  // Of a process that has some here, all calls that follow come after those.
  bool Has(pid_t process) const {
    return std::any_of(calls_.begin(), calls_.end(),
                       [=](const auto& call) { return call.first.process == process; });
  }
  // Has it one that comes before `at`?
  bool HasBefore(pid_t process, VirtualTime at) const {
    return std::any_of(calls_.begin(), calls_.lower_bound({.at = at}), [=](const auto& call) {
      return call.first.process == process && call.first.call != kRelease;
    });
  }
  // That of the first; of one that is there.
  const Place& earliest() const { return calls_.begin()->first; }
  // A thread of the process goes on: nobody else of the run, whose work its GPUs may wait for, can
  // change any more what it finds in their memory.
  void AddRelease(VirtualTime at, pid_t process) {
    calls_.emplace(Place{at, process, kRelease}, std::nullopt);
  }
  // nullopt: it is the end of earliest().call, or a release if that is kRelease.
  std::optional<seccomp_notif> Take() {
    const auto call = calls_.begin()->second;
    calls_.erase(calls_.begin());
    return call;
  }
  // Does the thread stand here in a call that is not served?
  bool HoldsThread(pid_t thread) const {
    return std::any_of(calls_.begin(), calls_.end(), [=](const auto& call) {
      return call.second && call.second->pid == static_cast<uint32_t>(thread);
    });
  }
  // A process that is gone, or begins anew, has made none.
  void Forget(pid_t process) {
    std::erase_if(calls_, [=](const auto& call) { return call.first.process == process; });
  }

 private:
  std::map<Place, std::optional<seccomp_notif>> calls_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_CALL_ORDER_H_
