// at::cuda::spin_kernel: torch.cuda._sleep, with which programs and PyTorch's own tests keep a GPU
// busy for some clocks (aten/src/ATen/cuda/Sleep.cu).
#include <algorithm>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

constexpr double kMostClocks = 1e15;

class Spin : public WorkForm {
 public:
  // Its parameter: clocks, i64. Each thread reads its multiprocessor's clock until so many are
  // over.
  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.clocks = std::clamp(static_cast<double>(launch.At<int64_t>(0)), 0.0, kMostClocks);
    return work;
  }
};

}  // namespace

FoundForm FindSpin(const KernelFacts& kernel) {
  // at::cuda::(anonymous namespace)::spin_kernel(long): nothing else of that name is so short.
  if (!Has(kernel.symbol, "2at4cuda") || !Has(kernel.symbol, "11spin_kernelEl")) return {};
  if (kernel.parameters.size() > 1 || kernel.parameter_bytes != sizeof(int64_t)) return {};
  return {WorkFamily::kOther, std::make_shared<Spin>(), true};
}

}  // namespace phantora
