// Who belongs to the run, as far as calls can name a process: others of the same user are not for
// ranks to change.
#ifndef PHANTORA_TRAP_LINUX_RUN_MEMBERS_H_
#define PHANTORA_TRAP_LINUX_RUN_MEMBERS_H_

#include <sys/types.h>

#include <string>

#include "trap/linux/proc.h"
#include "trap/linux/process_source.h"

namespace phantora {

class RunMembers {
 public:
  // `top` is who all processes of the run descend from, and is none of them.
  RunMembers(ProcessSource* processes, pid_t top, const Proc* proc = &Proc::Host())
      : processes_(processes), top_(top), proc_(proc) {}

  // Is the thread or process, as `caller` counts it, one of others? 0, one that does not exist, and
  // whoever a process in a name space of its own may name are not.
  bool IsOfOthers(pid_t caller, pid_t number) const;
  // Is the file in the directory of such a process in /proc? `path` is absolute, and no part of it
  // a link.
  bool IsFileOfOthers(pid_t caller, const std::string& path) const;

 private:
  ProcessSource* const processes_;
  const pid_t top_;
  const Proc* const proc_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_RUN_MEMBERS_H_
