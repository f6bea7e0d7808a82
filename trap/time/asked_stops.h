// Who asks the kernel to stop a process later, when no call tells of it any more.
#ifndef PHANTORA_TRAP_TIME_ASKED_STOPS_H_
#define PHANTORA_TRAP_TIME_ASKED_STOPS_H_

#include <sys/types.h>

#include <optional>

#include "trap/linux/trapped_call.h"

namespace phantora {

// SIGSTOP, or one of a terminal's.
bool IsStopSignal(int signal);

// A stop signal may be that of a timer (timer_create), of a message (mq_notify), of a descriptor
// (fcntl, F_SETSIG), of a parent's end (prctl, PR_SET_PDEATHSIG) or of a child's (clone, clone3).
// The process that it would stop; 0 if it may be any; nullopt: the call asks for nothing like it.
std::optional<pid_t> AskedToStop(const TrappedCall& call);

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_ASKED_STOPS_H_
