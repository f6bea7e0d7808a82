// What the channels of one GPU address space share.
#ifndef PHANTORA_TRAP_GPU_FRONT_GPU_CONTEXT_H_
#define PHANTORA_TRAP_GPU_FRONT_GPU_CONTEXT_H_

#include <cstdint>

#include "trap/gpu/front/qmd_scheduler.h"
#include "uvm_model/address_space.h"

namespace phantora {

// Where generic addresses of shared and local memory begin (SET_SHADER_SHARED_MEMORY_WINDOW and
// SET_SHADER_LOCAL_MEMORY_WINDOW). 0: not set.
struct MemoryWindows {
  uint64_t shared = 0, local = 0;
};

struct GpuContext {
  AddressSpace memory;
  // QMDs live in memory and may be scheduled by any channel of the space.
  QmdScheduler qmds;
  // libcuda sets that of local memory on one channel, when a kernel first needs some, and counts
  // on it on all: channels of a group share the context of the graphics engine.
  MemoryWindows windows;
  // The UVM file that it is registered with: one at a time.
  const void* uvm_file = nullptr;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_GPU_CONTEXT_H_
