// How rules are made: one file per family says which kernels it knows and where their launches
// keep the sizes.
#ifndef PHANTORA_PROFILES_WORK_WORK_FORM_H_
#define PHANTORA_PROFILES_WORK_WORK_FORM_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/types/span.h"
#include "profiles/kernels/cubin.h"
#include "profiles/work/code_summary.h"
#include "profiles/work/kernel_work.h"

namespace phantora {

// What is known of a kernel before it is launched; all of it is untrusted.
struct KernelFacts {
  std::string_view symbol;  // as in the symbol table
  absl::Span<const CubinKernel::Parameter> parameters;
  const CodeSummary* code;
  uint32_t parameter_bytes = 0;

  // Where a parameter is, in bytes from the first; 0 if there is none of that number.
  uint32_t Offset(size_t ordinal) const {
    return ordinal < parameters.size() ? parameters[ordinal].offset : 0;
  }
};

// Made once per kernel; a launch is then a few loads and multiplications. What a launch says
// is untrusted too.
class WorkForm {
 public:
  virtual ~WorkForm() = default;
  virtual KernelWork Of(const LaunchShape& launch) const = 0;
};

struct FoundForm {
  WorkFamily family = WorkFamily::kUnknown;
  std::shared_ptr<const WorkForm> form;  // null: the kernel is of another family
  bool only_waits = false;               // it reads and writes no memory
};

FoundForm FindGemm(const KernelFacts& kernel);
FoundForm FindCutlass3(const KernelFacts& kernel);
FoundForm FindEfficientAttention(const KernelFacts& kernel);
FoundForm FindCudnnAttention(const KernelFacts& kernel);
FoundForm FindFlash2(const KernelFacts& kernel);
FoundForm FindFlash3(const KernelFacts& kernel);
FoundForm FindConvolution(const KernelFacts& kernel);
FoundForm FindElementwise(const KernelFacts& kernel);
FoundForm FindReduction(const KernelFacts& kernel);
FoundForm FindMultiTensor(const KernelFacts& kernel);
FoundForm FindExperts(const KernelFacts& kernel);
FoundForm FindPeers(const KernelFacts& kernel);
FoundForm FindSpin(const KernelFacts& kernel);
FoundForm FindConcatenation(const KernelFacts& kernel);
// Whose traffic is a sum of products of a few parameters.
FoundForm FindProducts(const KernelFacts& kernel);
// For any kernel: what its code does in a thread, times threads.
FoundForm FromCode(const KernelFacts& kernel);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_WORK_WORK_FORM_H_
