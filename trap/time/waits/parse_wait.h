// From a system call to the wait that it is.
#ifndef PHANTORA_TRAP_TIME_WAITS_PARSE_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_PARSE_WAIT_H_

#include <linux/seccomp.h>

#include <memory>

#include "trap/time/waits/timed_wait.h"

namespace phantora {

// The calls that wait with a timeout among their arguments.
bool IsWait(int call);

// Reads the arguments; verdict() tells what to do then. nullptr if it is no such call. `memory`: of
// the caller; nullptr for the real one.
std::unique_ptr<TimedWait> ParseWait(const CallArguments& call, const TimedWait::Present& present,
                                     TimedWait::Memory memory = nullptr);

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_PARSE_WAIT_H_
