// What launches of FlashAttention 3 say, as vLLM 0.8.5 and 0.12.0 made them (2,176 bytes).
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "profiles/work/work_rule.h"

namespace phantora {
namespace {

using Bytes = std::vector<uint8_t>;
using Shape = std::array<double, 5>;

constexpr char kForward[] =
    "_ZN7cutlass13device_kernelIN5flash20enable_sm90_or_laterINS1_16FlashAttnFwdSm90INS1_"
    "25CollectiveMainloopFwdSm90ILi2EN4cute5tupleIJNS5_1CILi1EEES8_S8_EEENS6_IJNS7_ILi64EEENS7_"
    "ILi128EEESB_EEELi128ENS_10bfloat16_tEfNS_4arch4Sm90ELb1ELb0ELb0ELb1E";
constexpr char kCombine[] =
    "_ZN7cutlass13device_kernelIN5flash19FlashAttnFwdCombineIN4cute5tupleIJNS3_1CILi8EEENS5_"
    "ILi128EEEEEELi5ELi256ELi1ELb0ELb1ENS_10bfloat16_tEfNS_4arch4Sm90EEEEEvNT_6ParamsE";
constexpr uint32_t kOffset = 48;  // of the struct among parameters

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

class Flash3Test : public testing::Test {
 protected:
  template <typename T>
  void Set(size_t at, T value) {
    std::memcpy(parameters_.data() + kOffset + at, &value, sizeof value);
  }
  // Eight queries of 32 heads over 4, whose keys are in pages of 16; `shift`: of the newer build.
  void Decode(int shift, int splits) {
    Set(0x8, 8), Set(0xc, 128), Set(0x10, 32);
    Set(0x70 + shift, 16), Set(0x74 + shift, 128), Set(0x78 + shift, 4);
    Set(0xd4 + shift, 8), Set(0x170 + shift, 8192);
    Set<uint64_t>(0x198 + shift, 0x5000);
    Set(0x61c, 8191), Set(0x624, splits);
    Set<uint64_t>(0x630, 0x1000), Set<uint64_t>(0x650, 0x2000);
    memory_.at[0x1000] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    memory_.at[0x2000] = std::vector<int32_t>(8, 1024);
  }
  KernelWork Of(const std::string& symbol, uint32_t blocks) {
    const std::vector<CubinKernel::Parameter> parameters = {
        {kOffset, static_cast<uint16_t>(parameters_.size() - kOffset)}};
    const WorkRule rule(symbol, parameters, {});
    EXPECT_EQ(rule.family(), WorkFamily::kAttention);
    return rule.Of({.grid = {blocks, 1, 1},
                    .block = {256, 1, 1},
                    .parameters = parameters_,
                    .memory = &memory_});
  }

  Bytes parameters_ = Bytes(kOffset + 2176);
  Memory memory_;
};

TEST_F(Flash3Test, SingleTokensOfBothBuilds) {
  for (const int shift : {0, -8}) {
    parameters_ = Bytes(kOffset + 2176);
    Decode(shift, 1);
    const KernelWork work = Of(kForward, 132);
    EXPECT_TRUE(work.checked && !work.guessed) << shift;
    EXPECT_EQ(work.shape, (Shape{8, 32, 1, 1024, 128})) << shift;
    EXPECT_EQ(work.kv_heads, 4);
    EXPECT_EQ(work.beside_bytes, 4.0 * 2 * 8 * 4 * 128) << "into the cache";
  }
}

TEST_F(Flash3Test, KeysAreSplitInAsManyPartsAsFillTheGpu) {
  const double cache = 4.0 * 2 * 8 * 4 * 128, rows = 8.0 * 32 * 128;
  Decode(-8, 32);
  // 8 x 4 blocks; 132 SMs.
  EXPECT_EQ(Of(kForward, 132).beside_bytes, cache + rows * (4 * 5 + 2));
  memory_.at[0x2000] = std::vector<int32_t>(8, 100);
  EXPECT_EQ(Of(kForward, 132).beside_bytes, cache + rows * (4 * 2 + 2)) << "two blocks of keys";
  EXPECT_EQ(Of(kForward, 16).beside_bytes, cache) << "not at all";
}

TEST_F(Flash3Test, AStructThatIsNeitherIsNotBelieved) {
  Decode(-8, 1);
  Set(0x6c, 64);  // keys of another width than queries
  EXPECT_FALSE(Of(kForward, 132).checked);
  parameters_ = Bytes(kOffset + 2176);
  EXPECT_FALSE(Of(kForward, 132).checked);
}

TEST_F(Flash3Test, PartsAreAddedUp) {
  for (const uint32_t shift : {0, 8}) {
    parameters_ = Bytes(kOffset + 264);
    if (shift > 0) Set(0, 1);
    Set<uint64_t>(shift, 0x7fe3'0000'0000 + shift);
    Set(shift + 0x8, 16), Set(shift + 0xc, 128), Set(shift + 0x10, 4), Set(shift + 0x14, 32);
    EXPECT_EQ(Of(kCombine, 64).bytes, 16.0 * 128 * 32 * (4 * 4 + 2)) << shift;
    Set(shift + 0x10, 32);
    EXPECT_EQ(Of(kCombine, 64).bytes, 16.0 * 128 * 32 * (4 * 9 + 2)) << "9 x 16 fill the GPU";
  }
  parameters_ = Bytes(kOffset + 264);
  EXPECT_FALSE(Of(kCombine, 64).checked);
}

}  // namespace
}  // namespace phantora
