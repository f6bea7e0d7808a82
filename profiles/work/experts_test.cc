// What launches of vLLM 0.12.0's fused_moe_kernel say (Qwen3-30B-A3B, bf16, H100).
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "profiles/work/work_rule.h"

namespace phantora {
namespace {

using Shape = std::array<double, 5>;

class Memory : public LaunchMemory {
 public:
  std::map<uint64_t, std::vector<int32_t>> at;
  bool Read(uint64_t address, void* out, uint64_t bytes) const override {
    const auto found = at.find(address);
    if (found == at.end() || found->second.size() * 4 < bytes) return false;
    std::memcpy(out, found->second.data(), bytes);
    return true;
  }
};

class ExpertsTest : public testing::Test {
 protected:
  static constexpr uint64_t kSorted = 0x4000, kExperts = 0x5000, kFilled = 0x6000;

  // `pointers` of them, then sizes.
  KernelWork Of(size_t pointers, int32_t n, int32_t k, int32_t padded, int32_t valid,
                uint32_t blocks) {
    std::vector<CubinKernel::Parameter> parameters;
    std::vector<uint8_t> bytes;
    const auto add = [&](auto value) {
      parameters.push_back({static_cast<uint16_t>(bytes.size()), sizeof value});
      const auto* const from = reinterpret_cast<const uint8_t*>(&value);
      bytes.insert(bytes.end(), from, from + sizeof value);
    };
    for (size_t i = 0; i < pointers; ++i) {
      add(i + 1 == pointers   ? kFilled
          : i + 2 == pointers ? kExperts
          : i + 3 == pointers ? kSorted
                              : uint64_t{0x100 * i});
    }
    for (const int32_t size : {n, k, padded, valid, k, n * k}) add(size);
    const WorkRule rule("fused_moe_kernel", parameters, {});
    EXPECT_EQ(rule.family(), WorkFamily::kExperts);
    return rule.Of(
        {.grid = {blocks, 1, 1}, .block = {128, 1, 1}, .parameters = bytes, .memory = &memory_});
  }

  Memory memory_;
};

TEST_F(ExpertsTest, ReadsWhoseRowsBlocksHave) {
  // 16,384 tokens, eight of 128 experts each; tiles of 64 x 64.
  memory_.at[kFilled] = {2048 * 64};
  for (int i = 0; i < 2048; ++i) memory_.at[kExperts].push_back(i / 64);
  const KernelWork work = Of(7, 1536, 2048, 139136, 131072, 52176);
  EXPECT_TRUE(work.checked && !work.guessed);
  EXPECT_EQ(work.precision, MathPrecision::kBf16);
  EXPECT_EQ(work.shape, (Shape{1536, 131072, 2048, 32, 4096 - 32}));
  EXPECT_EQ(work.flops, 2.0 * 131072 * 1536 * 2048);
  EXPECT_EQ(work.tiles, 2048 * 24);
  EXPECT_EQ(Of(9, 1536, 2048, 139136, 131072, 52176).precision, MathPrecision::kFp8);
}

TEST_F(ExpertsTest, ExpertsOfOtherGpusAreNotMultiplied) {
  memory_.at[kFilled] = {4 * 16};
  memory_.at[kExperts] = {0, -1, -1, 5};
  const KernelWork work = Of(7, 1536, 2048, 64 * 16, 64, 64 * 48);
  EXPECT_TRUE(work.checked && !work.guessed);
  EXPECT_EQ(work.shape, (Shape{1536, 16, 2048, 2, 8})) << "half of both";
}

TEST_F(ExpertsTest, FewRowsAreCounted) {
  memory_.at[kFilled] = {4 * 16};
  memory_.at[kExperts] = {0, 0, 3, 5};
  memory_.at[kSorted] = std::vector<int32_t>(64, 64);  // 64: fills up
  for (int row = 0; row < 20; ++row) memory_.at[kSorted][static_cast<size_t>(row)] = row;
  memory_.at[kSorted][32] = 40, memory_.at[kSorted][48] = 41, memory_.at[kSorted][49] = 42;
  const KernelWork work = Of(7, 1536, 2048, 64 * 16, 64, 64 * 48);
  EXPECT_EQ(work.shape, (Shape{1536, 23, 2048, 3, 20}));
}

TEST_F(ExpertsTest, WhatNobodyMadeIsExpected) {
  const KernelWork none = Of(7, 2048, 768, 139136, 131072, 69568);
  EXPECT_TRUE(none.checked && none.guessed);
  EXPECT_EQ(none.shape, (Shape{2048, 131072, 768, 128, 1024}));
  memory_.at[kFilled] = {100};  // no whole number of tiles
  memory_.at[kExperts] = std::vector<int32_t>(4096);
  EXPECT_TRUE(Of(7, 2048, 768, 139136, 131072, 69568).guessed);
  memory_.at[kFilled] = {128};
  memory_.at[kExperts] = {0, 1 << 30};
  EXPECT_TRUE(Of(7, 2048, 768, 139136, 131072, 69568).guessed);
  // All zeros: no router has chosen.
  memory_.at[kFilled] = {2048 * 64};
  memory_.at[kExperts] = std::vector<int32_t>(2048);
  EXPECT_TRUE(Of(7, 2048, 768, 139136, 131072, 69568).guessed);
  // Eight rows of a single token: some eight experts.
  memory_.at.clear();
  EXPECT_EQ(Of(7, 1536, 2048, 8 * 16, 8, 8 * 24).shape, (Shape{1536, 8, 2048, 8, 1}));
}

TEST_F(ExpertsTest, AbsurdLaunches) {
  EXPECT_FALSE(Of(7, 0, 768, 139136, 131072, 69568).checked);
  EXPECT_FALSE(Of(7, 2048, -1, 139136, 131072, 69568).checked);
  EXPECT_FALSE(Of(7, 2048, 768, 139136, 131072, 7).checked);
  EXPECT_FALSE(Of(7, 2048, 768, 1, 131072, 69568).checked);
  const std::vector<CubinKernel::Parameter> few = {{0, 8}, {8, 8}};
  EXPECT_NE(WorkRule("fused_moe_kernel", few, {}).family(), WorkFamily::kExperts);
}

}  // namespace
}  // namespace phantora
