// Semaphore operations on GPU memory.
#ifndef PHANTORA_TRAP_GPU_FRONT_GPU_SEMAPHORE_H_
#define PHANTORA_TRAP_GPU_FRONT_GPU_SEMAPHORE_H_

#include <cstdint>

#include "trap/gpu/front/engine_object.h"

namespace phantora {

// Reductions, in the order in which the host and copy classes number them
// (clc56f.h SEMAPHORED_REDUCTION_*).
enum class Reduction { kMin, kMax, kXor, kAnd, kOr, kAdd, kInc, kDec };

// The compute class and QMDs number them differently (RED_ADD first).
Reduction FromComputeReduction(uint32_t op);

struct SemaphoreWrite {
  uint64_t address;
  uint64_t payload;
  bool payload_64bit;
  // Four-word structure: the time in ns goes to address + 8, before the payload.
  bool with_timestamp;
};

// Writes the timestamp first, so that a reader that sees the payload sees it.
Progress ReleaseSemaphore(ExecutionContext& context, const SemaphoreWrite& write);
Progress ReduceSemaphore(ExecutionContext& context, const SemaphoreWrite& write, Reduction op,
                         bool is_signed);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_GPU_SEMAPHORE_H_
