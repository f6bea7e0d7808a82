// at::native::reduce_kernel: sums, means, norms and the like over any dimensions.
#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

class Reduction : public WorkForm {
 public:
  explicit Reduction(double element_bytes) : element_bytes_(element_bytes) {}

  KernelWork Of(const LaunchShape& launch) const override {
    // at::native::ReduceConfig lies somewhere in the parameters; it is known by its block's
    // dimensions, which are the launch's (block_width, block_height, num_threads).
    KernelWork work;
    for (uint32_t at = 4; at < 0x60; at += 4) {
      if (launch.At<uint32_t>(at + 0x2c) != launch.block[0] ||
          launch.At<uint32_t>(at + 0x30) != launch.block[1] ||
          launch.At<uint32_t>(at + 0x34) != launch.block[0] * launch.block[1]) {
        continue;
      }
      const double inputs = launch.At<int32_t>(at + 4), outputs = launch.At<int32_t>(at + 8);
      work.bytes = element_bytes_ * inputs * outputs;
      work.flops = inputs * outputs;
      work.checked = inputs >= 1 && outputs >= 1;
      return work;
    }
    work.checked = false;
    return work;
  }

 private:
  const double element_bytes_;
};

}  // namespace

FoundForm FindReduction(const KernelFacts& kernel) {
  if (!Has(kernel.symbol, "13reduce_kernelI")) return {};
  return {WorkFamily::kReduction,
          std::make_shared<Reduction>(ElementBytes(kernel.symbol, "ReduceOpI"))};
}

}  // namespace phantora
