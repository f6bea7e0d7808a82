// What a few kernels of PyTorch do to memory. Kernels are not executed here, but programs decide
// by some of their results: object collectives compute the sizes of their messages on the GPU,
// loops end when a sum of flags says so. Those are small, and cheap to carry out by rule.
#ifndef PHANTORA_TRAP_GPU_SMALL_SMALL_KERNEL_H_
#define PHANTORA_TRAP_GPU_SMALL_SMALL_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "profiles/kernels/cubin.h"
#include "profiles/work/kernel_work.h"
#include "trap/gpu/front/transfer.h"
#include "uvm_model/address_space.h"

namespace phantora {

// Elements that one launch reads or writes at most, and bytes of one that only copies or fills:
// larger ones do not take place.
inline constexpr int64_t kMostSmallElements = 4096;
inline constexpr uint64_t kMostSmallBytes = 1 << 20;

class SmallKernel {
 public:
  virtual ~SmallKernel() = default;

  // Does to memory what the launch does, or leaves it to `transfers`. False: too large, or not
  // what the rule expects, or memory that is not mapped; nothing has been done then. All of the
  // launch is untrusted.
  virtual bool CarryOut(const LaunchShape& launch, AddressSpace& memory,
                        TransferQueue& transfers) const = 0;
};

using KernelParameters = absl::Span<const CubinKernel::Parameter>;

// Of a kernel's mangled name and parameters; nullptr if there is no rule. Rules are for PyTorch 2.3
// to 2.8: fills, comparisons, sums, products, conversions, bit operations, reductions and
// concatenations of booleans, integers, float and double (ATen/native/cuda).
std::shared_ptr<const SmallKernel> FindSmallKernel(std::string_view symbol,
                                                   KernelParameters parameters);

// By kind; FindSmallKernel asks them all.
std::shared_ptr<const SmallKernel> FindSmallElementwise(std::string_view symbol,
                                                        KernelParameters parameters);
std::shared_ptr<const SmallKernel> FindSmallReduction(std::string_view symbol,
                                                      KernelParameters parameters);
std::shared_ptr<const SmallKernel> FindSmallConcatenation(std::string_view symbol,
                                                          KernelParameters parameters);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_SMALL_SMALL_KERNEL_H_
