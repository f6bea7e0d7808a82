// What the supervisor gives up once the ranks run.
#ifndef PHANTORA_TRAP_LAUNCH_OWN_RIGHTS_H_
#define PHANTORA_TRAP_LAUNCH_OWN_RIGHTS_H_

#include "absl/status/status.h"

namespace phantora {

// Who reads bytes of ranks has no more rights than that takes. Of root's, what it takes to read,
// stop and end ranks of any user stays (CAP_SYS_PTRACE, CAP_KILL), to look at their files and to
// raise their limits for them; who has no CAP_SYS_PTRACE keeps them all, or it could no longer read
// the ranks' memory. Of system calls, those go that start programs, change mounts, name
// spaces, users, modes and owners of files, and the machine: they answer EPERM.
//
// For good: calls of all threads of this process, capabilities of the calling thread and those that
// it makes later. Processes that have been started before keep their rights. Sets no_new_privs.
// Errors: the kernel allows no filter; capabilities are given up all the same.
absl::Status GiveUpRights();

}  // namespace phantora

#endif  // PHANTORA_TRAP_LAUNCH_OWN_RIGHTS_H_
