// One kernel, as the machine code of two architectures, and what launches it.
#ifndef PHANTORA_TEST_RAW_CLIENT_KERNEL_H_
#define PHANTORA_TEST_RAW_CLIENT_KERNEL_H_

#include <cstdint>

#include "test/raw_client/gpu.h"

namespace raw {

// out[i] = value + i, for i = blockIdx.x * blockDim.x + threadIdx.x (kernel.ptx). Pushes the
// launch.
void LaunchStore(Gpu& gpu, Channel& compute, uint64_t out, uint32_t value, uint32_t blocks,
                 uint32_t threads);

}  // namespace raw

#endif  // PHANTORA_TEST_RAW_CLIENT_KERNEL_H_
