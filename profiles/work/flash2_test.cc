// What launches of FlashAttention 2 say, as PyTorch 2.6 made them (456 bytes), and later builds.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "profiles/work/work_rule.h"

namespace phantora {
namespace {

using Bytes = std::vector<uint8_t>;

std::string Symbol(bool split, bool causal, bool local) {
  const auto flag = [](bool set) { return std::string(set ? "Lb1E" : "Lb0E"); };
  return std::string("_ZN13pytorch_flash") +
         (split ? "24flash_fwd_splitkv_kernel" : "16flash_fwd_kernel") +
         "INS_23Flash_fwd_kernel_traitsILi128ELi128ELi64ELi4ELb0ELb0EN7cutlass10bfloat16_tENS_"
         "19Flash_"
         "kernel_traitsILi128ELi128ELi64ELi4ES3_EEEE" +
         (split ? "" : flag(false)) + flag(causal) + flag(local) +
         "Lb0ELb0ELb1ELb0EEEvNS_16Flash_fwd_paramsE";
}

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

class Flash2Test : public testing::Test {
 protected:
  template <typename T>
  void Set(size_t at, T value) {
    std::memcpy(parameters_.data() + at, &value, sizeof value);
  }
  void Sizes(int batch, int heads, int kv_heads, int queries, int keys, int width = 128) {
    Set(0x60, heads), Set(0x64, kv_heads), Set(0xb0, batch);
    Set(0xb4, queries), Set(0xb8, keys), Set(0xc0, width);
  }
  KernelWork Of(const std::string& symbol, uint32_t x = 8, uint32_t y = 2, uint32_t z = 32) {
    const auto size = static_cast<uint16_t>(parameters_.size());
    const std::vector<CubinKernel::Parameter> parameters = {{0, size}};
    const WorkRule rule(symbol, parameters, {});
    EXPECT_EQ(rule.family(), WorkFamily::kAttention);
    return rule.Of(
        {.grid = {x, y, z}, .block = {128, 1, 1}, .parameters = parameters_, .memory = &memory_});
  }
  using Shape = std::array<double, 5>;

  Bytes parameters_ = Bytes(456);
  Memory memory_;
};

TEST_F(Flash2Test, APrompt) {
  Sizes(2, 32, 8, 1024, 1024);
  const KernelWork work = Of(Symbol(false, true, false));
  EXPECT_TRUE(work.checked && work.flash2 && !work.guessed);
  EXPECT_EQ(work.shape, (Shape{2, 32, 1024, 1024, 128}));
  EXPECT_EQ(work.kv_heads, 8);
  EXPECT_EQ(work.flops, 4.0 * 2 * 32 * 128 * 1024 * 512.5);
  EXPECT_EQ(work.bytes, 2.0 * 2 * 128 * 1024 * (2 * 32 + 2 * 8));
  EXPECT_EQ(work.beside_bytes, 4.0 * 2 * 2048 * 8 * 128);
}

TEST_F(Flash2Test, WhoSeesEverythingHasNoMeasuredPrice) {
  Sizes(2, 32, 32, 1024, 512);
  const KernelWork work = Of(Symbol(false, false, false));
  EXPECT_EQ(work.kv_heads, 0);
  EXPECT_EQ(work.shape, (Shape{2, 32, 1024, 512, 128}));
}

TEST_F(Flash2Test, SequencesOfSeveralLengths) {
  Sizes(3, 32, 8, 699, 699);
  Set(0xe0, uint64_t{0x1000}), Set(0xe8, uint64_t{0x2000});
  memory_.at[0x1000] = {0, 300, 301, 1000};
  memory_.at[0x2000] = {0, 300, 900, 1599};
  const KernelWork work = Of(Symbol(false, true, false), 6, 3);
  EXPECT_FALSE(work.guessed);
  const double pairs = 300 * 150.5 + 699 * 350;
  EXPECT_EQ(work.flops, 4.0 * 32 * 128 * (pairs + 600));
  EXPECT_EQ(work.shape[0], 2);
  EXPECT_EQ(work.shape[2], 499.5);
  EXPECT_EQ(work.single_queries, 1);
  EXPECT_EQ(work.single_keys, 600);
}

TEST_F(Flash2Test, OneQueryOfHeadsThatShareKeys) {
  // mha_varlen_fwd makes four queries of eight heads of it.
  Sizes(3, 8, 8, 4, 699);
  Set(0xe8, uint64_t{0x2000});
  memory_.at[0x2000] = {0, 300, 301, 1000};
  const KernelWork work = Of(Symbol(true, false, false), 1, 6, 24);
  EXPECT_FALSE(work.guessed);
  EXPECT_EQ(work.shape, (Shape{3, 32, 1, 1000.0 / 3, 128}));
  EXPECT_EQ(work.kv_heads, 8);
  EXPECT_EQ(work.flops, 4.0 * 32 * 128 * 1000);
  // The cache, and six parts of each sequence.
  EXPECT_EQ(work.beside_bytes, 4.0 * 2 * 3 * 8 * 128 + 3.0 * 32 * 128 * (4 * 6 + 2));
}

TEST_F(Flash2Test, UsedKeysAndWindows) {
  Sizes(3, 32, 8, 1, 699);
  Set(0xe0, uint64_t{0x1000}), Set(0xe8, uint64_t{0x2000}), Set(0xf0, uint64_t{0x3000});
  Set(0x17c, 77);
  memory_.at[0x1000] = {0, 1, 2, 3};
  memory_.at[0x3000] = {100, 1, 500};
  KernelWork work = Of(Symbol(false, false, true), 1, 3);
  EXPECT_FALSE(work.guessed);
  EXPECT_EQ(work.window, 78);
  EXPECT_EQ(work.shape[3], 601.0 / 3);
  EXPECT_EQ(work.flops, 4.0 * 32 * 128 * (78 + 1 + 78));
  // Later builds have a pointer more.
  parameters_.resize(464);
  Set(0xf0, uint64_t{0}), Set(0xf8, uint64_t{0x3000}), Set(0x184, 49), Set(0x17c, 0);
  work = Of(Symbol(false, false, true), 1, 3);
  EXPECT_FALSE(work.guessed);
  EXPECT_EQ(work.window, 50);
  EXPECT_EQ(work.shape[3], 601.0 / 3);
}

TEST_F(Flash2Test, ACacheSaysLengths) {
  Sizes(2, 32, 32, 1, 4096);
  Set(0xe8, uint64_t{0x2000});
  memory_.at[0x2000] = {1000, 3000};
  const KernelWork work = Of(Symbol(true, false, false), 1, 2);
  EXPECT_FALSE(work.guessed);
  EXPECT_EQ(work.shape, (Shape{2, 32, 1, 2000, 128}));
}

TEST_F(Flash2Test, LengthsThatCannotBeAreNotBelieved) {
  Sizes(2, 32, 32, 100, 100);
  Set(0xe0, uint64_t{0x1000}), Set(0xe8, uint64_t{0x1000});
  for (const std::vector<int32_t>& starts : {std::vector<int32_t>{0, 150, 100},
                                             {0, 100, 300},
                                             {5, 100, 200},
                                             {0, -5, 200},
                                             {0, 0, 0},
                                             {}}) {
    memory_.at[0x1000] = starts;
    const KernelWork work = Of(Symbol(false, true, false));
    EXPECT_TRUE(work.checked && work.guessed);
    EXPECT_EQ(work.shape, (Shape{2, 32, 100, 100, 128}));
  }
  Sizes(1 << 20, 32, 32, 100, 100);
  EXPECT_FALSE(Of(Symbol(false, true, false)).checked);
  Sizes(2, 8, 32, 100, 100);
  EXPECT_FALSE(Of(Symbol(false, true, false)).checked);
  parameters_.resize(16);
  EXPECT_FALSE(Of(Symbol(false, true, false)).checked);
}

}  // namespace
}  // namespace phantora
