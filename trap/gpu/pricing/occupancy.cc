#include "trap/gpu/pricing/occupancy.h"

#include <algorithm>

#include "trap/gpu/timeline/engine_share.h"

namespace phantora {
namespace {

constexpr uint64_t kThreadsPerWarp = 32;
constexpr uint64_t kWarpsPerSm = 64;  // 2048 threads
constexpr uint64_t kBlocksPerSm = 32;
// An SM has four partitions of 16 Ki registers; a warp's registers lie in one of them and
// are allocated 256 at a time.
constexpr uint64_t kPartitions = 4;
constexpr uint64_t kRegistersPerPartition = 16 << 10;
constexpr uint64_t kRegisterUnit = 256;
constexpr uint64_t kSharedUnit = 128;
// Of every block. A QMD's shared_bytes has it in it, as libcuda writes it.
constexpr uint64_t kReservedSharedBytes = 1 << 10;

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// x * y * z, at most `most`, without overflow; most < 2^32.
uint64_t CountUpTo(const Qmd::Dims& dims, uint64_t most) {
  uint64_t count = std::min<uint64_t>(dims.x, most);
  count = std::min(count * dims.y, most);
  return std::min(count * dims.z, most);
}

}  // namespace

SmLimits SmLimitsOf(const GpuProfile& profile) {
  return {.sms = profile.sms(),
          .shared_bytes = (profile.architecture == GpuProfile::Architecture::kHopper ? 228u : 164u)
                          << 10};
}

uint32_t ResidentBlocks(const SmLimits& limits, const Qmd& launch) {
  const uint64_t threads =
      std::max<uint64_t>(CountUpTo(launch.block, kThreadsPerWarp * kWarpsPerSm + 1), 1);
  const uint64_t warps = RoundUp(threads, kThreadsPerWarp) / kThreadsPerWarp;
  uint64_t blocks = std::min(kBlocksPerSm, kWarpsPerSm / warps);
  if (launch.registers > 0) {
    const uint64_t of_a_warp = RoundUp(uint64_t{launch.registers} * kThreadsPerWarp, kRegisterUnit);
    blocks = std::min(blocks, kRegistersPerPartition / of_a_warp * kPartitions / warps);
  }
  const uint64_t shared = std::max(RoundUp(launch.shared_bytes, kSharedUnit), kReservedSharedBytes);
  blocks = std::min(blocks, limits.shared_bytes / shared);
  return static_cast<uint32_t>(std::max<uint64_t>(blocks, 1));
}

uint32_t DemandOf(const SmLimits& limits, const Qmd& launch) {
  const uint64_t room =
      std::max<uint64_t>(uint64_t{limits.sms} * ResidentBlocks(limits, launch), 1);
  const uint64_t blocks = CountUpTo(launch.grid, std::min<uint64_t>(room, UINT32_MAX));
  // Rounded down, so that launches that fit together do so here.
  return static_cast<uint32_t>(std::max<uint64_t>(blocks * EngineShare::kWhole / room, 1));
}

}  // namespace phantora
