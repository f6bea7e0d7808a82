// What is known of a kernel beyond its launch.
#ifndef PHANTORA_TRAP_GPU_KERNELS_KNOWN_KERNEL_H_
#define PHANTORA_TRAP_GPU_KERNELS_KNOWN_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiles/kernels/cubin.h"
#include "profiles/work/work_rule.h"
#include "trap/gpu/kernels/kernel_image.h"
#include "trap/gpu/small/small_kernel.h"

namespace phantora {

struct KnownKernel {
  std::string symbol;  // mangled; empty if nobody knows it
  std::string title;   // see KernelTitle(); "kernel 1a2b3c4d" if nobody knows it
  uint64_t fingerprint = 0;
  uint32_t code_bytes = 0;
  std::vector<CubinKernel::Parameter> parameters;
  WorkRule rule;
  std::shared_ptr<const SmallKernel> small;  // what it does, if there is a rule for that
  uint32_t parameter_bytes = 0;              // all of them
  std::shared_ptr<const KernelImage> image;  // if images are kept, see KernelLibrary
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNELS_KNOWN_KERNEL_H_
