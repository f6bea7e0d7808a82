// How many blocks of a kernel an SM holds, and so how much of a GPU a kernel can use.
#ifndef PHANTORA_TRAP_GPU_PRICING_OCCUPANCY_H_
#define PHANTORA_TRAP_GPU_PRICING_OCCUPANCY_H_

#include <cstdint>

#include "profiles/gpu/gpu_profile.h"
#include "trap/gpu/front/qmd.h"

namespace phantora {

// What differs among the GPUs known here; the rest is the same for compute capabilities
// 8.0 and 9.0.
struct SmLimits {
  uint32_t sms = 1;
  uint32_t shared_bytes = 164 << 10;  // of an SM
};

SmLimits SmLimitsOf(const GpuProfile& profile);

// Blocks of `launch` that one SM holds at a time: 1 to 32. From the CUDA C++ Programming
// Guide's technical specifications per compute capability (threads, blocks, registers,
// shared memory) and the allocation granularities of the CUDA Occupancy Calculator
// (cuda_occupancy.h). The whole of the shared memory counts as available, as when the
// driver picks the carve-out; 1 for launches that no SM could hold.
uint32_t ResidentBlocks(const SmLimits& limits, const Qmd& launch);

// The part of the GPU that `launch` can use at most, in units of EngineShare::kWhole, at
// least 1. A launch of more blocks than fit at once counts as using the whole GPU to its
// end: that its last wave leaves room is not modelled.
uint32_t DemandOf(const SmLimits& limits, const Qmd& launch);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRICING_OCCUPANCY_H_
