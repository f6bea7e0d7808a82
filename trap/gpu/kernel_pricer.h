// What GPU work costs in simulated time.
#ifndef PHANTORA_TRAP_GPU_KERNEL_PRICER_H_
#define PHANTORA_TRAP_GPU_KERNEL_PRICER_H_

#include <optional>

#include "profiles/gpu_profile.h"
#include "profiles/work_price.h"
#include "trap/gpu/gpu_services.h"
#include "trap/unknowns.h"

namespace phantora {

// A kernel with a rule (profiles/kernel_work.h) is priced by the work that it does on a GPU of
// these rates. Everything else has a placeholder: the loads and stores in its code, or 16
// bytes if nothing is known of it, times the number of threads.
class KernelPricer : public WorkPricer {
 public:
  // For a GPU without rates, everything is a placeholder.
  KernelPricer(const GpuProfile& profile, Unknowns* unknowns);

  Price Kernel(const KernelLaunch& launch) override;
  Price Copy(uint64_t bytes, bool over_pcie) override;
  const char* Source() const override {
    return rates_ ? "a roofline of what each kernel does" : "launch dims, a placeholder";
  }

 private:
  Price Placeholder(const KernelLaunch& launch) const;

  const int sms_;
  const double memory_bytes_per_s_, pcie_bytes_per_s_;
  std::optional<GpuRates> rates_;
  Unknowns* const unknowns_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNEL_PRICER_H_
