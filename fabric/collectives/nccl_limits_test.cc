#include "fabric/collectives/nccl_limits.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

bool May(const NcclLimits& limits, NcclCollective collective, NcclAlgorithm algorithm) {
  return limits.allowed[static_cast<size_t>(collective)].algorithm[static_cast<size_t>(algorithm)];
}
bool May(const NcclLimits& limits, NcclCollective collective, NcclProtocol protocol) {
  return limits.allowed[static_cast<size_t>(collective)].protocol[static_cast<size_t>(protocol)];
}

TEST(NcclLimitsTest, NothingIsAll) {
  const auto limits = ParseNcclLimits("", " ");
  ASSERT_TRUE(limits.ok());
  EXPECT_TRUE(May(*limits, NcclCollective::kAllReduce, NcclAlgorithm::kNvls));
  EXPECT_TRUE(May(*limits, NcclCollective::kReduce, NcclProtocol::kLl128));
}

TEST(NcclLimitsTest, Lists) {
  const auto limits = ParseNcclLimits("ring, TREE", "^LL128");
  ASSERT_TRUE(limits.ok());
  EXPECT_TRUE(May(*limits, NcclCollective::kAllReduce, NcclAlgorithm::kRing));
  EXPECT_TRUE(May(*limits, NcclCollective::kAllReduce, NcclAlgorithm::kTree));
  EXPECT_FALSE(May(*limits, NcclCollective::kAllReduce, NcclAlgorithm::kNvlsTree));
  EXPECT_FALSE(May(*limits, NcclCollective::kAllGather, NcclAlgorithm::kPat));
  EXPECT_TRUE(May(*limits, NcclCollective::kAllReduce, NcclProtocol::kLl));
  EXPECT_FALSE(May(*limits, NcclCollective::kAllReduce, NcclProtocol::kLl128));
}

TEST(NcclLimitsTest, ByCollective) {
  const auto limits = ParseNcclLimits("ring;allreduce:tree,collnet;AllGather:^pat", "");
  ASSERT_TRUE(limits.ok());
  EXPECT_TRUE(May(*limits, NcclCollective::kAllReduce, NcclAlgorithm::kCollNetChain));
  EXPECT_FALSE(May(*limits, NcclCollective::kAllReduce, NcclAlgorithm::kRing));
  EXPECT_TRUE(May(*limits, NcclCollective::kAllGather, NcclAlgorithm::kNvls));
  EXPECT_FALSE(May(*limits, NcclCollective::kAllGather, NcclAlgorithm::kPat));
  EXPECT_TRUE(May(*limits, NcclCollective::kBroadcast, NcclAlgorithm::kRing));
  EXPECT_FALSE(May(*limits, NcclCollective::kBroadcast, NcclAlgorithm::kTree));
}

TEST(NcclLimitsTest, WhatIsNotKnown) {
  EXPECT_EQ(ParseNcclLimits("rings", "").status().message(),
            "NCCL_ALGO has \"rings\", which NCCL does not know");
  EXPECT_FALSE(ParseNcclLimits("", "simple,").ok());
  EXPECT_FALSE(ParseNcclLimits("alltoall:ring", "").ok());
}

}  // namespace
}  // namespace phantora
