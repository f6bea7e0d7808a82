#include "fabric/network/link_usage.h"

#include <gtest/gtest.h>

#include <numeric>

#include "fabric/network/flow_network.h"

namespace phantora {
namespace {

VirtualTime At(int64_t us) { return VirtualTime() + VirtualSpan::Microseconds(us); }
double Sum(absl::Span<const float> bins) { return std::accumulate(bins.begin(), bins.end(), 0.0); }

TEST(LinkUsageTest, BytesFallIntoBins) {
  LinkUsage usage;
  usage.Begin(At(100));
  usage.Begin(At(7));  // only the first counts
  EXPECT_TRUE(usage.Of(3).empty());
  usage.Add(3, At(101), At(103), 200);
  EXPECT_EQ(usage.start(), At(100));
  EXPECT_EQ(usage.end(), At(103));
  EXPECT_EQ(usage.width(), VirtualSpan::Microseconds(1));
  ASSERT_EQ(usage.Of(3).size(), 3u);
  EXPECT_EQ(usage.Of(3)[0], 0);
  EXPECT_EQ(usage.Of(3)[1], 100);
  EXPECT_EQ(usage.Of(3)[2], 100);
  EXPECT_TRUE(usage.Of(2).empty());
}

TEST(LinkUsageTest, BinsAreBounded) {
  LinkUsage usage;
  usage.Begin(At(0));
  usage.Add(0, At(0), At(1), 10);
  for (int i = 0; i < 1000; ++i) usage.Add(1, At(1000 * i), At(1000 * i + 500), 500);
  EXPECT_LE(usage.Of(1).size(), LinkUsage::kMostBins);
  EXPECT_GT(usage.Of(1).size(), LinkUsage::kMostBins / 3);
  EXPECT_NEAR(Sum(usage.Of(1)), 500e3, 1);
  EXPECT_EQ(Sum(usage.Of(0)), 10);
  EXPECT_EQ(usage.Of(0).size(), 1u);
}

TEST(LinkUsageTest, NonsenseIsIgnored) {
  LinkUsage usage;
  usage.Begin(At(5));
  usage.Add(0, At(7), At(7), 10);
  usage.Add(0, At(8), At(7), 10);
  usage.Add(0, At(1), At(7), 10);
  usage.Add(0, At(6), At(7), 0);
  EXPECT_TRUE(usage.Of(0).empty());
}

TEST(LinkUsageTest, AFlowNetworkTellsIt) {
  FlowNetwork network;
  LinkUsage usage;
  network.Watch(&usage);
  const LinkId one = network.AddLink(1e6), two = network.AddLink(4e6), idle = network.AddLink(1);
  network.Start(At(10), {{one, 1}, {two, 2}}, 30, 0);
  network.Start(At(20), {{one, 1}}, 1000, 0);
  while (network.NextEnd() <= At(60)) network.Ended(network.NextEnd());
  network.CatchUp(At(60));
  EXPECT_EQ(usage.start(), At(10));
  EXPECT_NEAR(Sum(usage.Of(one)), network.CarriedBy(one, At(60)), 1e-3);
  EXPECT_NEAR(Sum(usage.Of(one)), 50, 1e-3);
  EXPECT_NEAR(Sum(usage.Of(two)), 60, 1e-3);
  EXPECT_NEAR(usage.Of(two)[5], 2, 1e-5);   // alone
  EXPECT_NEAR(usage.Of(two)[15], 1, 1e-5);  // shared
  EXPECT_TRUE(usage.Of(idle).empty());
  network.CatchUp(At(60));
  EXPECT_NEAR(Sum(usage.Of(one)), 50, 1e-3);
}

}  // namespace
}  // namespace phantora
