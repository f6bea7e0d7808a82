// The GPU of a communicator: the current one when it is made.
#ifndef PHANTORA_FABRIC_LIBRARY_GPU_H_
#define PHANTORA_FABRIC_LIBRARY_GPU_H_

#include <cstdint>

#include "fabric/library/cuda_driver.h"
#include "fabric/library/nccl_api.h"

namespace phantora::nccl {

struct Gpu {
  int device = 0;  // as CUDA numbers it
  CudaContext context = nullptr;
  int compute_major = 0;
  uint8_t uuid[16] = {};
  // The marker kernels, loaded in `context`.
  CudaFunction marker = nullptr;
  CudaFunction long_marker = nullptr;
};

// Makes a context current if there is none yet, as the CUDA runtime would. Cuda() is not null.
ncclResult_t EnsureContext();

// The GPU of the current context, with the kernels loaded.
ncclResult_t CurrentGpu(Gpu& gpu);

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_GPU_H_
