// Whether anything in a process tree can still act by itself.
#ifndef PHANTORA_TRAP_SUPERVISOR_THREAD_ACTIVITY_H_
#define PHANTORA_TRAP_SUPERVISOR_THREAD_ACTIVITY_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace phantora {

// Signals that have been sent to a thread or its process and are not handled yet; bit 0 is
// signal 1.
uint64_t PendingSignals(pid_t thread);

// Has a blocked thread a signal to handle? Such a thread, held in a trapped call, would
// not notice (WAIT_KILLABLE_RECV).
bool HasSignalToHandle(pid_t thread);

// Has a thread a SIGKILL to die of, but has not been scheduled since?
bool IsBeingKilled(pid_t thread);

class ThreadActivity {
 public:
  // Is every thread of `processes` blocked in the kernel, but those that `held` names?
  // Then nothing happens before something from outside does.
  bool AllBlocked(const std::vector<pid_t>& processes, const std::function<bool(pid_t)>& held);

  // The thread that was found running last.
  pid_t running() const { return running_; }

 private:
  // With the number of time slices that each has had.
  using Threads = std::vector<std::pair<pid_t, int64_t>>;
  // All threads of `processes` that are not held; nullopt if one is found running.
  std::optional<Threads> Blocked(const std::vector<pid_t>& processes,
                                 const std::function<bool(pid_t)>& held);

  pid_t running_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_SUPERVISOR_THREAD_ACTIVITY_H_
