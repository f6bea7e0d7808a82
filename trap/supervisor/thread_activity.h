// Whether anything in a process tree can still act by itself.
#ifndef PHANTORA_TRAP_SUPERVISOR_THREAD_ACTIVITY_H_
#define PHANTORA_TRAP_SUPERVISOR_THREAD_ACTIVITY_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace phantora {

// Bit 0 is signal 1.
constexpr uint64_t SignalBit(int signal) { return uint64_t{1} << (signal - 1); }

// Whose default action is a core dump (signal(7)).
inline constexpr uint64_t kDumpCore = SignalBit(SIGQUIT) | SignalBit(SIGILL) | SignalBit(SIGTRAP) |
                                      SignalBit(SIGABRT) | SignalBit(SIGBUS) | SignalBit(SIGFPE) |
                                      SignalBit(SIGSEGV) | SignalBit(SIGXCPU) | SignalBit(SIGXFSZ) |
                                      SignalBit(SIGSYS);

// Signals that have been sent to a thread or its process and are not handled yet.
struct ThreadSignals {
  uint64_t own = 0, shared = 0;  // pending
  uint64_t blocked = 0, caught = 0, ignored = 0;

  uint64_t pending() const { return own | shared; }
  // Has it a SIGKILL to die of, but has not been scheduled since?
  bool killed() const { return (pending() >> 8 & 1) != 0; }
  // What it has a handler for, or dies of with a core dump, and does not block (`mask` may
  // take the place of what it blocks). Held in a trapped call, it would not notice
  // (WAIT_KILLABLE_RECV); what kills without a core dump comes as a SIGKILL.
  uint64_t Due(uint64_t which, std::optional<uint64_t> mask) const {
    const uint64_t dumps = kDumpCore & ~caught & ~ignored;
    return which & (caught | dumps) & ~mask.value_or(blocked);
  }
};
ThreadSignals SignalsOf(pid_t thread);

// The name that the thread has given itself; empty if it is gone.
std::string ThreadName(pid_t thread);

// How long the thread has run, ns; 0 if it is gone.
int64_t RunTime(pid_t thread);

class ThreadActivity {
 public:
  // Is every thread of `processes` blocked in the kernel, but those that `held` names?
  // Then nothing happens before something from outside does.
  bool AllBlocked(const std::vector<pid_t>& processes, const std::function<bool(pid_t)>& held);

  // The thread that was found running last.
  pid_t running() const { return running_; }
  // It is on its way out: the processes are not the same any more soon.
  bool saw_dying() const { return saw_dying_; }

  // Whether a thread that seems asleep is looked at twice.
  enum class Look { kFleeting, kClose };

 private:
  // With the number of time slices that each has had.
  using Threads = std::vector<std::pair<pid_t, int64_t>>;
  // All threads of `processes` that are not held; nullopt if one is found running.
  std::optional<Threads> Blocked(const std::vector<pid_t>& processes,
                                 const std::function<bool(pid_t)>& held, Look look);

  pid_t running_ = 0, running_process_ = 0;
  bool saw_dying_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_SUPERVISOR_THREAD_ACTIVITY_H_
