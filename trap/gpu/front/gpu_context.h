// What the channels of one GPU address space share.
#ifndef PHANTORA_TRAP_GPU_FRONT_GPU_CONTEXT_H_
#define PHANTORA_TRAP_GPU_FRONT_GPU_CONTEXT_H_

#include "trap/gpu/front/qmd_scheduler.h"
#include "uvm_model/address_space.h"

namespace phantora {

struct GpuContext {
  AddressSpace memory;
  // QMDs live in memory and may be scheduled by any channel of the space.
  QmdScheduler qmds;
  // The UVM file that it is registered with: one at a time.
  const void* uvm_file = nullptr;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_GPU_CONTEXT_H_
