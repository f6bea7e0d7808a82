// Keeps processes that are none of the run's from calls that change a process by its number.
// Neither Landlock nor the rules of ptrace forbid one of the same user to take another's limits or
// processors.
#ifndef PHANTORA_TRAP_HOST_PROCESS_CALLS_H_
#define PHANTORA_TRAP_HOST_PROCESS_CALLS_H_

#include "trap/linux/run_members.h"
#include "trap/linux/trapped_call.h"

namespace phantora {

// prlimit64, setpriority, ioprio_set and sched_set*: EPERM if the call names one of others, or all
// processes of a group or a user. False, and the call not answered, if it is any other.
bool RefusesChange(const TrappedCall& call, const RunMembers& members);

}  // namespace phantora

#endif  // PHANTORA_TRAP_HOST_PROCESS_CALLS_H_
