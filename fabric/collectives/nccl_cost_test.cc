#include "fabric/collectives/nccl_cost.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phantora {
namespace {

using A = NcclAlgorithm;
using P = NcclProtocol;
using C = NcclCollective;

// DGX H100 and A100 machines, as NCCL's search sees them.
NcclTopology H100(int nodes) {
  NcclTopology topology = {.ranks = 8 * nodes, .nodes = nodes};
  const NcclGraph ring = nodes == 1 ? NcclGraph{12, 30, 30} : NcclGraph{8, 48, 48};
  const NcclGraph nvls = nodes == 1 ? NcclGraph{8, 40, 60} : NcclGraph{8, 40, 48};
  topology.graphs = {ring, ring, {}, {}, nvls, nvls, ring};
  topology.channels = nodes == 1 ? 24 : 16;
  return topology;
}

NcclTopology A100(int nodes, bool amd) {
  NcclTopology topology = H100(nodes);
  topology.generation = GpuGeneration::kAmpere;
  topology.amd_cpu = amd;
  const NcclGraph ring = nodes == 1 ? NcclGraph{12, 20, 20} : NcclGraph{8, 24, 24};
  topology.graphs = {ring, ring, {}, {}, {}, {}, ring};
  return topology;
}

struct Expected {
  const char* name;
  NcclTopology topology;
  C collective;
  A algorithm;
  P protocol;
  double latency_us, gb_per_s;
};

// Computed from the same published source independently of this implementation.
TEST(NcclCostTest, LatenciesAndBandwidths) {
  const std::vector<Expected> rows = {
      {"8 x H100", H100(1), C::kAllReduce, A::kTree, P::kLl, 15.2, 43.6},
      {"8 x H100", H100(1), C::kAllReduce, A::kTree, P::kLl128, 31.5, 128.8},
      {"8 x H100", H100(1), C::kAllReduce, A::kTree, P::kSimple, 64.4, 165.6},
      {"8 x H100", H100(1), C::kAllReduce, A::kRing, P::kLl, 15.0, 80.6},
      {"8 x H100", H100(1), C::kAllReduce, A::kRing, P::kLl128, 40.6, 189.3},
      {"8 x H100", H100(1), C::kAllReduce, A::kRing, P::kSimple, 56.0, 205.7},
      {"8 x H100", H100(1), C::kAllReduce, A::kNvls, P::kSimple, 25.0, 272.0},
      {"8 x H100", H100(1), C::kAllGather, A::kRing, P::kLl, 10.8, 161.1},
      {"8 x H100", H100(1), C::kAllGather, A::kRing, P::kSimple, 32.2, 411.4},
      {"8 x H100", H100(1), C::kAllGather, A::kNvls, P::kSimple, 25.0, 208.2},
      {"16 x H100", H100(2), C::kAllReduce, A::kTree, P::kLl, 25.2, 19.5},
      {"16 x H100", H100(2), C::kAllReduce, A::kTree, P::kLl128, 48.5, 146.8},
      {"16 x H100", H100(2), C::kAllReduce, A::kRing, P::kLl, 40.0, 20.8},
      {"16 x H100", H100(2), C::kAllReduce, A::kRing, P::kLl128, 75.2, 156.6},
      {"16 x H100", H100(2), C::kAllReduce, A::kRing, P::kSimple, 131.6, 204.8},
      {"16 x H100", H100(2), C::kAllReduce, A::kNvlsTree, P::kSimple, 66.8, 246.2},
      {"16 x H100", H100(2), C::kAllGather, A::kRing, P::kLl128, 44.6, 313.2},
      {"16 x H100", H100(2), C::kBroadcast, A::kRing, P::kLl, 9.3, 39.0},
      {"32 x H100", H100(4), C::kAllReduce, A::kTree, P::kLl128, 65.5, 116.0},
      {"32 x H100", H100(4), C::kAllReduce, A::kRing, P::kSimple, 282.8, 198.2},
      {"32 x H100", H100(4), C::kAllReduce, A::kNvlsTree, P::kSimple, 108.6, 187.9},
      {"64 x H100", H100(8), C::kAllReduce, A::kTree, P::kSimple, 148.4, 144.0},
      {"64 x H100", H100(8), C::kAllGather, A::kRing, P::kSimple, 296.8, 390.1},
      {"8 x A100", A100(1, false), C::kAllReduce, A::kTree, P::kLl, 15.2, 29.1},
      {"8 x A100", A100(1, false), C::kAllReduce, A::kRing, P::kLl, 15.0, 50.1},
      {"8 x A100", A100(1, false), C::kAllReduce, A::kRing, P::kSimple, 56.0, 137.1},
      {"16 x A100, AMD", A100(2, true), C::kAllReduce, A::kTree, P::kLl, 25.2, 11.2},
      {"16 x A100, AMD", A100(2, true), C::kAllReduce, A::kTree, P::kLl128, 48.5, 80.0},
      {"16 x A100, AMD", A100(2, true), C::kAllReduce, A::kRing, P::kLl, 68.0, 12.0},
      {"16 x A100, AMD", A100(2, true), C::kAllReduce, A::kRing, P::kSimple, 204.4, 102.4},
      {"16 x A100, AMD", A100(2, true), C::kAllGather, A::kRing, P::kLl128, 46.0, 170.7},
  };
  for (const Expected& row : rows) {
    const auto cost = CostOf(row.topology, row.collective, row.algorithm, row.protocol);
    const std::string what =
        std::string(row.name) + " " + Name(row.algorithm) + " " + Name(row.protocol);
    ASSERT_TRUE(cost) << what;
    EXPECT_NEAR(cost->latency_us, row.latency_us, 0.06) << what;
    EXPECT_NEAR(cost->gb_per_s, row.gb_per_s, 0.06) << what;
  }
}

struct Chosen {
  int64_t bytes;
  A algorithm;
  P protocol;
  double us;
};

void Check(const char* name, const NcclTopology& topology, C collective,
           const std::vector<Chosen>& rows) {
  for (const Chosen& row : rows) {
    const auto choice = Choose(topology, collective, row.bytes);
    ASSERT_TRUE(choice) << name;
    EXPECT_EQ(choice->algorithm, row.algorithm)
        << name << " " << row.bytes << ": " << Name(choice->algorithm);
    EXPECT_EQ(choice->protocol, row.protocol) << name << " " << row.bytes;
    EXPECT_NEAR(choice->estimate_us, row.us, 0.0005 * row.us + 0.06) << name << " " << row.bytes;
  }
}

TEST(NcclCostTest, WhatIsChosenBySize) {
  constexpr int64_t kKi = 1 << 10, kMi = 1 << 20, kGi = 1 << 30;
  Check("8 x H100", H100(1), C::kAllReduce,
        {{8, A::kRing, P::kLl, 15.0},
         {kMi, A::kRing, P::kLl, 28.0},
         {4 * kMi, A::kNvls, P::kSimple, 40.4},
         {8 * kGi, A::kNvls, P::kSimple, 31605.6}});
  Check("8 x H100", H100(1), C::kAllGather,
        {{64 * kKi, A::kRing, P::kLl, 11.2},
         {16 * kMi, A::kRing, P::kLl128, 71.6},
         {64 * kMi, A::kRing, P::kSimple, 195.3}});
  Check("16 x H100", H100(2), C::kAllReduce,
        {{8, A::kTree, P::kLl, 25.2},
         {kMi, A::kTree, P::kLl128, 60.4},
         {16 * kMi, A::kNvlsTree, P::kSimple, 134.9},
         {8 * kGi, A::kNvlsTree, P::kSimple, 34958.8}});
  Check("64 x H100", H100(8), C::kAllReduce,
        {{64 * kKi, A::kTree, P::kLl, 55.9},
         {4 * kMi, A::kTree, P::kLl128, 127.7},
         {64 * kMi, A::kNvlsTree, P::kSimple, 513.4},
         {8 * kGi, A::kRing, P::kSimple, 44859.5}});
  Check("8 x A100", A100(1, false), C::kAllReduce,
        {{kMi, A::kRing, P::kLl, 35.9},
         {16 * kMi, A::kRing, P::kLl128, 173.6},
         {kGi, A::kRing, P::kSimple, 7885.4}});
  Check("16 x A100, AMD", A100(2, true), C::kAllReduce,
        {{64 * kKi, A::kTree, P::kLl, 34.9},
         {4 * kMi, A::kTree, P::kLl128, 114.0},
         {16 * kMi, A::kRing, P::kLl128, 274.6},
         {8 * kGi, A::kRing, P::kSimple, 84172.2}});
}

TEST(NcclCostTest, TheEnvironmentDecides) {
  NcclAllowed allowed;
  allowed.algorithm = {};
  allowed.algorithm[static_cast<size_t>(A::kRing)] = true;
  const auto choice = Choose(H100(1), C::kAllReduce, 1 << 30, allowed);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->algorithm, A::kRing);
  allowed.algorithm = {};
  allowed.algorithm[static_cast<size_t>(A::kPat)] = true;
  EXPECT_FALSE(Choose(H100(1), C::kAllReduce, 1 << 30, allowed));
}

TEST(NcclCostTest, WhatDoesNotExistHasNoCost) {
  EXPECT_FALSE(CostOf(H100(1), C::kBroadcast, A::kTree, P::kLl));
  EXPECT_FALSE(CostOf(H100(1), C::kAllReduce, A::kNvlsTree, P::kSimple));  // one node
  EXPECT_FALSE(CostOf(H100(2), C::kAllReduce, A::kNvls, P::kSimple));      // without SHARP
  EXPECT_FALSE(CostOf(A100(1, false), C::kAllReduce, A::kNvls, P::kSimple));
  NcclTopology one = H100(1);
  one.ranks = 1;
  EXPECT_FALSE(CostOf(one, C::kAllReduce, A::kRing, P::kLl));
}

}  // namespace
}  // namespace phantora
