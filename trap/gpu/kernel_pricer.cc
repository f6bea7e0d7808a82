#include "trap/gpu/kernel_pricer.h"

#include <algorithm>
#include <string>

#include "trap/gpu/known_kernel.h"
#include "trap/gpu/qmd.h"

namespace phantora {
namespace {

// An empty kernel takes about 2 us from start to end on A100 and H100, a copy 1.5.
constexpr VirtualSpan kSmallestKernel = VirtualSpan::Nanoseconds(2000);
constexpr VirtualSpan kCopyLatency = VirtualSpan::Nanoseconds(1500);
constexpr double kBytesPerThread = 16;

// Of a hostile launch, at most an hour.
VirtualSpan Seconds(double seconds) {
  return VirtualSpan::Picoseconds(static_cast<int64_t>(std::clamp(seconds, 0.0, 3600.0) * 1e12));
}

LaunchShape ShapeOf(const KernelLaunch& launch) {
  const Qmd& qmd = *launch.qmd;
  return {.grid = {qmd.grid.x, qmd.grid.y, qmd.grid.z},
          .block = {qmd.block.x, qmd.block.y, qmd.block.z},
          .parameters = launch.parameters};
}

}  // namespace

KernelPricer::KernelPricer(const GpuProfile& profile, Unknowns* unknowns)
    : sms_(static_cast<int>(profile.sms())),
      // Double data rate; MHz and bits to bytes per second.
      memory_bytes_per_s_(2e6 * profile.memory.clock_mhz * profile.memory.bus_width_bits / 8.0),
      // A pinned copy reaches 55 GB/s of PCIe 5.0's 64, and 25 of 4.0's 32.
      pcie_bytes_per_s_(profile.pci.generation >= 5 ? 55e9 : 25e9),
      unknowns_(unknowns) {
  if (auto rates = FindGpuRates(profile.name); rates.ok()) rates_ = *std::move(rates);
}

Price KernelPricer::Placeholder(const KernelLaunch& launch) const {
  const double threads = static_cast<double>(ShapeOf(launch).threads());
  return {kSmallestKernel + Seconds(threads * kBytesPerThread / memory_bytes_per_s_)};
}

Price KernelPricer::Kernel(const KernelLaunch& launch) {
  if (rates_ && launch.moved_bytes) {
    KernelWork copy;
    copy.bytes = *launch.moved_bytes;
    return {Seconds(SecondsOf(copy, WorkFamily::kOther, *rates_, sms_)), PriceSource::kModelled, 0,
            copy.bytes};
  }
  if (!rates_ || launch.kernel == nullptr || launch.kernel->symbol.empty()) {
    return Placeholder(launch);
  }
  const WorkRule& rule = launch.kernel->rule;
  const KernelWork work = rule.Of(ShapeOf(launch));
  if (!work.checked) {
    unknowns_->Count("launch that contradicts its rule", launch.kernel->fingerprint,
                     launch.kernel->title);
    return Placeholder(launch);
  }
  const bool known = rule.family() != WorkFamily::kUnknown;
  return {Seconds(SecondsOf(work, rule.family(), *rates_, sms_)),
          known ? PriceSource::kModelled : PriceSource::kPlaceholder, known ? work.flops : 0,
          known ? work.bytes : 0};
}

Price KernelPricer::Copy(uint64_t bytes, bool over_pcie) {
  const double rate = over_pcie ? pcie_bytes_per_s_ : memory_bytes_per_s_ / 2;  // read, write
  return {kCopyLatency + Seconds(static_cast<double>(bytes) / rate), PriceSource::kModelled};
}

}  // namespace phantora
