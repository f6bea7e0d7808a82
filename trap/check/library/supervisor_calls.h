// What is told to the supervisor.
#ifndef PHANTORA_TRAP_CHECK_LIBRARY_SUPERVISOR_CALLS_H_
#define PHANTORA_TRAP_CHECK_LIBRARY_SUPERVISOR_CALLS_H_

#include <stdint.h>

#include "trap/check/library/wire.h"

namespace phantora::check {

// errno stays as it was. Without a supervisor nothing happens.
void TellAllocated(uint64_t address, uint64_t bytes, Kind kind);
void TellFreed(uint64_t address, Freeing what, int error = 0);
void TellRefused(const char* function, int error);

}  // namespace phantora::check

#endif  // PHANTORA_TRAP_CHECK_LIBRARY_SUPERVISOR_CALLS_H_
