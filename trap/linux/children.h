// The one owner of wait(2): tells ends of children from stops of threads that are traced.
#ifndef PHANTORA_TRAP_LINUX_CHILDREN_H_
#define PHANTORA_TRAP_LINUX_CHILDREN_H_

#include <sys/types.h>

#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

namespace phantora {

struct WaitEvent {
  pid_t id;    // of a child, or of a thread that is traced
  int status;  // see wait(2)
};

// wait(2), behind an interface for tests.
class WaitCalls {
 public:
  virtual ~WaitCalls() = default;
  // What has happened to `id` (-1: to any child or traced thread) and was not told yet; nullopt:
  // nothing. With `block`, waits for it. NotFound: it is none of ours.
  virtual absl::StatusOr<std::optional<WaitEvent>> Wait(pid_t id, bool block) = 0;
};

class KernelWaitCalls : public WaitCalls {
 public:
  absl::StatusOr<std::optional<WaitEvent>> Wait(pid_t id, bool block) override;
};

// wait() for any child also takes the stops of traced threads, whatever options it is given
// (kernel/exit.c, wait_task_stopped), and wait() for a traced thread takes the end of a child. So
// both go through here, and what one is not asked for is kept for the other. Of one thread.
class Children {
 public:
  explicit Children(WaitCalls* calls) : calls_(calls) {}

  // Ends since the last call, of children and of orphans that became such.
  std::vector<WaitEvent> TakeEnds();
  // Waits for the end of a child; nullopt if it is none, or its end was taken.
  std::optional<int> AwaitEnd(pid_t child);

  enum class Stop { kStopped, kGone, kRuns };
  // Has the traced thread stopped? `status`: with what.
  Stop TakeStop(pid_t thread, int& status);

 private:
  void Keep(const WaitEvent& event);

  WaitCalls* const calls_;
  std::vector<WaitEvent> ends_;
  std::map<pid_t, int> stops_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_CHILDREN_H_
