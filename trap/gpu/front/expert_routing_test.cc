#include "trap/gpu/front/expert_routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "uvm_model/device_memory.h"

namespace phantora {
namespace {

constexpr uint64_t kLogits = 0x7f1000000000, kBytes = 4 << 20;
constexpr uint32_t kTokens = 4096, kExperts = 16;
constexpr char kFloats[] =
    "_ZN4vllm3moe17topkGatingSoftmaxILi4ELi16ELi4ELi16ELi32EifEEvPKT5_PKbPfiPT4_Piiiib";

class ExpertRoutingTest : public testing::Test {
 protected:
  ExpertRoutingTest() : pages_(std::make_shared<PageStore>(uint64_t{64} << 20)) {
    memory_.Map(kLogits, kBytes, std::make_shared<DeviceMemory>(pages_, kBytes), 0);
    parameters_.resize(61);
    std::memcpy(&parameters_[0], &kLogits, 8);
    std::memcpy(&parameters_[24], &kTokens, 4);
  }
  static RoutingWeights Read(const std::string& text) {
    auto weights = ReadRoutingWeights(text);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.value_or(RoutingWeights());
  }
  bool Prepare(ExpertRouting& routing, const std::string& symbol = kFloats) {
    return routing.Prepare(1, symbol, parameters_, kTokens, memory_);
  }
  std::vector<float> Logits() {
    std::vector<float> logits(uint64_t{kTokens} * kExperts);
    EXPECT_FALSE(memory_.Read(kLogits, logits.data(), logits.size() * 4));
    return logits;
  }
  // How often each expert is among the `most` first.
  std::vector<double> Shares(int most) {
    std::vector<double> shares(kExperts);
    const std::vector<float> logits = Logits();
    for (uint32_t token = 0; token < kTokens; ++token) {
      const float* const row = &logits[token * kExperts];
      for (uint32_t expert = 0; expert < kExperts; ++expert) {
        const auto larger =
            std::count_if(row, row + kExperts, [&](float x) { return x > row[expert]; });
        if (larger < most) shares[expert] += 1.0 / kTokens / most;
      }
    }
    return shares;
  }

  std::shared_ptr<PageStore> pages_;
  AddressSpace memory_;
  std::vector<uint8_t> parameters_;
};

TEST_F(ExpertRoutingTest, BalancedExpertsAreAlike) {
  ExpertRouting routing(Read("balanced"));
  ASSERT_TRUE(Prepare(routing));
  for (const double share : Shares(2)) EXPECT_NEAR(share, 1.0 / kExperts, 0.01);
  EXPECT_EQ(routing.prepared(), 1u);
}

TEST_F(ExpertRoutingTest, ZipfHasHotExperts) {
  ExpertRouting routing(Read("zipf:1.2"));
  ASSERT_TRUE(Prepare(routing));
  std::vector<double> shares = Shares(1);
  std::sort(shares.rbegin(), shares.rend());
  double sum = 0;
  for (int rank = 1; rank <= 16; ++rank) sum += std::pow(rank, -1.2);
  EXPECT_NEAR(shares[0], 1 / sum, 0.02);
  EXPECT_NEAR(shares[1], std::pow(2, -1.2) / sum, 0.02);
  EXPECT_NEAR(shares[15], std::pow(16, -1.2) / sum, 0.01);
}

TEST_F(ExpertRoutingTest, EachLayerHasItsRecordedWeights) {
  const std::string path = testing::TempDir() + "/weights";
  std::ofstream(path)
      << "# two layers\n3 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,7\n";
  ExpertRouting routing(Read(path));
  ASSERT_TRUE(Prepare(routing));
  EXPECT_NEAR(Shares(1)[0], 0.75, 0.02);
  EXPECT_NEAR(Shares(1)[1], 0.25, 0.02);
  ASSERT_TRUE(Prepare(routing));
  EXPECT_EQ(Shares(1)[15], 1);
  ASSERT_TRUE(Prepare(routing));
  EXPECT_NEAR(Shares(1)[0], 0.75, 0.02);
  // Of another model.
  std::ofstream(path) << "1 2 3\n";
  ExpertRouting other(Read(path));
  EXPECT_FALSE(Prepare(other));
}

TEST_F(ExpertRoutingTest, TheSameInEveryRunAndProcessAndAnotherInEveryLaunch) {
  ExpertRouting routing(Read("balanced")), again(Read("balanced"));
  Prepare(routing);
  const std::vector<float> first = Logits();
  Prepare(routing);
  EXPECT_NE(Logits(), first);
  again.Prepare(7, kFloats, parameters_, kTokens, memory_);
  EXPECT_EQ(Logits(), first);
}

TEST_F(ExpertRoutingTest, LogitsOfTwoBytes) {
  ExpertRouting floats(Read("zipf")), bfloats(Read("zipf")), halves(Read("zipf"));
  Prepare(floats);
  const std::vector<float> expected = Logits();
  std::vector<uint16_t> bits(expected.size());
  Prepare(bfloats, "_ZN4vllm3moe17topkGatingSoftmaxILi8ELi16ELi4ELi16ELi32Ei13__nv_bfloat16EEvPK");
  ASSERT_FALSE(memory_.Read(kLogits, bits.data(), bits.size() * 2));
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(bits[i], std::bit_cast<uint32_t>(expected[i]) >> 16) << i;
  }
  Prepare(halves, "_ZN4vllm3moe17topkGatingSoftmaxILi8ELi16ELi4ELi16ELi32Ei6__halfEEvPK");
  ASSERT_FALSE(memory_.Read(kLogits, bits.data(), bits.size() * 2));
  for (size_t i = 0; i < 100; ++i) {
    const uint32_t half = bits[i];
    const double value =
        std::ldexp(1 + (half & 0x3ff) / 1024.0, static_cast<int>(half >> 10 & 31) - 15);
    EXPECT_NEAR((half & 0x8000) != 0 ? -value : value, expected[i],
                0.002 * std::abs(expected[i]) + 1e-4);
  }
}

TEST_F(ExpertRoutingTest, MoeSoftmaxHasARowInEachBlock) {
  ExpertRouting routing(Read("balanced"));
  std::memcpy(&parameters_[24], &kExperts, 4);
  ASSERT_TRUE(Prepare(routing, "_ZN4vllm3moe10moeSoftmaxILi256EfEEvPKT0_PKbPfi"));
  for (const double share : Shares(1)) EXPECT_NEAR(share, 1.0 / kExperts, 0.02);
}

TEST_F(ExpertRoutingTest, HostileLaunches) {
  ExpertRouting routing(Read("balanced"));
  EXPECT_FALSE(Prepare(routing, "_Z6vectorPf"));
  EXPECT_FALSE(Prepare(routing, "topkGatingSoftmaxI"));
  EXPECT_FALSE(Prepare(routing, "topkGatingSoftmaxILi"));
  EXPECT_FALSE(Prepare(routing, "topkGatingSoftmaxILi4ELi99999999ELi4EEEv"));
  for (const int32_t rows : {0, -1, 1 << 30}) {
    std::memcpy(&parameters_[24], &rows, 4);
    EXPECT_FALSE(Prepare(routing)) << rows;
  }
  const int32_t beyond = 1 << 20;  // the logits' end
  std::memcpy(&parameters_[24], &beyond, 4);
  EXPECT_FALSE(Prepare(routing));
  parameters_.resize(10);
  EXPECT_FALSE(Prepare(routing));
}

TEST(RoutingWeightsTest, WhatIsWrongIsSaid) {
  const std::string path = testing::TempDir() + "/wrong";
  const auto error = [&](const std::string& text) {
    return std::string(ReadRoutingWeights(text).status().message());
  };
  const auto of_file = [&](const std::string& text) {
    std::ofstream(path) << text;
    return error(path);
  };
  EXPECT_NE(error("zipf:x").find("no zipf:EXPONENT"), std::string::npos);
  EXPECT_NE(error("zipf:-1").find("no zipf:EXPONENT"), std::string::npos);
  EXPECT_NE(error("/no/such").find("neither balanced nor zipf nor a file"), std::string::npos);
  EXPECT_NE(of_file("1 2\n1 two\n").find("line 2: not a number"), std::string::npos);
  EXPECT_NE(of_file("1 -2\n").find("line 1: not a number"), std::string::npos);
  EXPECT_NE(of_file("0 0\n").find("line 1: no expert"), std::string::npos);
  EXPECT_NE(of_file("# nothing\n").find("has no lines"), std::string::npos);
}

}  // namespace
}  // namespace phantora
