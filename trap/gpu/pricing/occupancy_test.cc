#include "trap/gpu/pricing/occupancy.h"

#include <gtest/gtest.h>

#include <limits>

#include "trap/gpu/timeline/engine_share.h"

namespace phantora {
namespace {

constexpr SmLimits kA100{.sms = 108, .shared_bytes = 164 << 10};
constexpr SmLimits kH100{.sms = 132, .shared_bytes = 228 << 10};
constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();

Qmd Launch(uint32_t threads, uint32_t registers, uint32_t shared_bytes, uint32_t blocks = 1) {
  Qmd qmd;
  qmd.grid = {blocks, 1, 1};
  qmd.block = {threads, 1, 1};
  qmd.registers = registers;
  qmd.shared_bytes = shared_bytes;
  return qmd;
}

TEST(OccupancyTest, ProfilesSayHowManySmsThereAre) {
  const auto a100 = FindGpuProfile("a100-sxm4-80gb"), h100 = FindGpuProfile("h100-sxm5-80gb");
  ASSERT_TRUE(a100.ok() && h100.ok());
  EXPECT_EQ(SmLimitsOf(*a100).sms, 108u);
  EXPECT_EQ(SmLimitsOf(*a100).shared_bytes, 164u << 10);
  EXPECT_EQ(SmLimitsOf(*h100).sms, 132u);
  EXPECT_EQ(SmLimitsOf(*h100).shared_bytes, 228u << 10);
}

// What cudaOccupancyMaxActiveBlocksPerMultiprocessor answers for such kernels.
TEST(OccupancyTest, TheScarcestResourceDecides) {
  EXPECT_EQ(ResidentBlocks(kA100, Launch(32, 16, 1024)), 32u);               // blocks
  EXPECT_EQ(ResidentBlocks(kA100, Launch(1024, 32, 1024)), 2u);              // threads
  EXPECT_EQ(ResidentBlocks(kA100, Launch(256, 32, 1024)), 8u);               // threads
  EXPECT_EQ(ResidentBlocks(kA100, Launch(256, 64, 1024)), 4u);               // registers
  EXPECT_EQ(ResidentBlocks(kA100, Launch(256, 255, 1024)), 1u);              // registers
  EXPECT_EQ(ResidentBlocks(kA100, Launch(128, 33, 1024)), 12u);              // granularity: 40
  EXPECT_EQ(ResidentBlocks(kA100, Launch(128, 16, (48 << 10) + 1024)), 3u);  // shared memory
  EXPECT_EQ(ResidentBlocks(kH100, Launch(128, 16, (48 << 10) + 1024)), 4u);
  EXPECT_EQ(ResidentBlocks(kH100, Launch(128, 16, 228 << 10)), 1u);
}

TEST(OccupancyTest, TheDemandIsThePartOfTheGpu) {
  constexpr uint32_t kWhole = EngineShare::kWhole;
  EXPECT_EQ(DemandOf(kH100, Launch(1024, 16, 1024, 132)), kWhole / 2);
  EXPECT_EQ(DemandOf(kH100, Launch(1024, 16, 1024, 264)), kWhole);
  EXPECT_EQ(DemandOf(kH100, Launch(1024, 16, 1024, 1000000)), kWhole);
  EXPECT_EQ(DemandOf(kH100, Launch(1024, 16, 1024, 88)), kWhole / 3);  // three fit
}

TEST(OccupancyTest, NonsenseIsHarmless) {
  for (uint32_t value : {0u, 1u, 0x7fffffffu, kMax}) {
    Qmd qmd = Launch(value, value, value, value);
    qmd.block = {value, value, value};
    qmd.grid = {value, value, value};
    for (const SmLimits& limits : {kA100, SmLimits{0, 0}, SmLimits{kMax, kMax}}) {
      EXPECT_GE(ResidentBlocks(limits, qmd), 1u);
      EXPECT_LE(ResidentBlocks(limits, qmd), 32u);
      EXPECT_GE(DemandOf(limits, qmd), 1u);
      EXPECT_LE(DemandOf(limits, qmd), EngineShare::kWhole);
    }
  }
}

}  // namespace
}  // namespace phantora
