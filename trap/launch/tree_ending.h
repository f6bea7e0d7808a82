// How a run ends: by the command's exit, which what it started may outlive for a
// while, or at once.
#ifndef PHANTORA_TRAP_LAUNCH_TREE_ENDING_H_
#define PHANTORA_TRAP_LAUNCH_TREE_ENDING_H_

#include <sys/types.h>

#include <optional>

#include "trap/linux/children.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class TreeEnding {
 public:
  TreeEnding(pid_t command, Children* children);

  // Readable when TimeIsUp() is to be called; -1 if the kernel gave none.
  int timer() const { return timer_.get(); }

  // A child may have died: reaps the command, and orphans of its tree that were
  // handed to this process.
  void Reap();

  // The time that processes had to end by themselves is over: SIGTERM, later SIGKILL.
  void TimeIsUp();

  // Reaps the command, waiting for it; nothing runs under the filter any more.
  int AwaitCommand();

 private:
  void Ended(int status);
  void Arm();

  const pid_t command_;
  Children* const children_;
  const UniqueFd timer_;
  std::optional<int> wait_status_;
  int signals_sent_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_TREE_ENDING_H_
