// The deadlines of many timers of many processes.
#ifndef PHANTORA_TRAP_TIME_TIMERS_TIMER_QUEUE_H_
#define PHANTORA_TRAP_TIME_TIMERS_TIMER_QUEUE_H_

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"

namespace phantora {

// Names a timer. Of several that expire at one time, the lowest is the first.
struct TimerKey {
  enum class Kind { kInterval, kPosix, kDescriptor };
  Kind kind = Kind::kInterval;
  pid_t process = 0;   // 0 for descriptors, which may wander
  int64_t number = 0;  // of a POSIX timer its id, of a descriptor its mark
  auto operator<=>(const TimerKey&) const = default;
};

// Everything costs the logarithm of the number of timers, but for what it returns.
class TimerQueue {
 public:
  struct Due {
    VirtualTime time = VirtualTime::Infinity();
    pid_t process = 0;
    bool operator==(const Due&) const = default;
  };

  // The timer, new or not, is now the process's, and expires at `deadline`; with Infinity it only
  // counts.
  void Set(const TimerKey& key, pid_t process, VirtualTime deadline);
  void Remove(const TimerKey& key);

  // When a timer expires next, and whose; Infinity for none.
  Due Earliest() const;
  // Those of the process that have expired by `now`, in the order of their deadlines.
  std::vector<TimerKey> DueOf(pid_t process, VirtualTime now) const;
  // Who has timers that run, in order.
  std::vector<pid_t> Processes() const;
  size_t CountOf(pid_t process) const;

 private:
  using Deadline = std::pair<VirtualTime, TimerKey>;
  struct Entry {
    pid_t process;
    VirtualTime deadline;
  };

  std::map<TimerKey, Entry> entries_;
  std::set<Deadline> deadlines_;
  std::map<pid_t, std::set<Deadline>> running_;  // by process; none is empty
  std::map<pid_t, size_t> counts_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TIMERS_TIMER_QUEUE_H_
