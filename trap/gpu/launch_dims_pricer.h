// What GPU work costs as long as kernels have no names: a roofline of the crudest kind.
#ifndef PHANTORA_TRAP_GPU_LAUNCH_DIMS_PRICER_H_
#define PHANTORA_TRAP_GPU_LAUNCH_DIMS_PRICER_H_

#include <algorithm>
#include <cstdint>

#include "profiles/gpu_profile.h"
#include "trap/gpu/gpu_services.h"
#include "trap/gpu/qmd.h"

namespace phantora {

// Takes every thread of a launch to move 16 bytes through memory, and nothing to be
// limited by arithmetic. It knows neither what a kernel does nor how often it loops, so a
// matrix product comes out far too short. A placeholder, not a prediction.
class LaunchDimsPricer : public WorkPricer {
 public:
  explicit LaunchDimsPricer(const GpuProfile& profile)
      // Double data rate; MHz and bits to bytes per second.
      : memory_bytes_per_s_(2e6 * profile.memory.clock_mhz * profile.memory.bus_width_bits / 8.0),
        // A pinned copy reaches 55 GB/s of PCIe 5.0's 64, and 25 of 4.0's 32.
        pcie_bytes_per_s_(profile.pci.generation >= 5 ? 55e9 : 25e9) {}

  Price Kernel(const Qmd& launch) override {
    const double threads = static_cast<double>(launch.grid.x) * launch.grid.y * launch.grid.z *
                           launch.block.x * launch.block.y * launch.block.z;
    return {kSmallestKernel + Seconds(threads * 16.0 / memory_bytes_per_s_)};
  }
  const char* Source() const override { return "launch dims, a placeholder"; }
  // The rates are those of the hardware, so this is more than a placeholder.
  Price Copy(uint64_t bytes, bool over_pcie) override {
    const double rate = over_pcie ? pcie_bytes_per_s_ : memory_bytes_per_s_ / 2;  // read, write
    return {kCopyLatency + Seconds(static_cast<double>(bytes) / rate), PriceSource::kModelled};
  }

 private:
  // An empty kernel takes about 2 us from start to end on A100 and H100, a copy 1.5.
  static constexpr VirtualSpan kSmallestKernel = VirtualSpan::Nanoseconds(2000);
  static constexpr VirtualSpan kCopyLatency = VirtualSpan::Nanoseconds(1500);
  // Of a hostile launch, at most an hour.
  static VirtualSpan Seconds(double seconds) {
    return VirtualSpan::Picoseconds(static_cast<int64_t>(std::min(seconds, 3600.0) * 1e12));
  }

  const double memory_bytes_per_s_, pcie_bytes_per_s_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_LAUNCH_DIMS_PRICER_H_
