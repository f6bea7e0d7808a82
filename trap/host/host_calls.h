// Serves the system calls that tell a process about the machine it runs on.
#ifndef PHANTORA_TRAP_HOST_HOST_CALLS_H_
#define PHANTORA_TRAP_HOST_HOST_CALLS_H_

#include "trap/host/virtual_host.h"
#include "trap/linux/trapped_call.h"

namespace phantora {

// uname, sysinfo, sched_getaffinity and sched_setaffinity of a process on `host`; false if the
// call is none of them. (Files that tell the same, /proc/meminfo for one, are the host's
// SyntheticFiles.)
//
// Processes may be told of more processors than there are. All of them share those that there
// are: an affinity is checked and then forgotten.
bool ServeHostCall(const TrappedCall& call, const VirtualHost& host);

}  // namespace phantora

#endif  // PHANTORA_TRAP_HOST_HOST_CALLS_H_
