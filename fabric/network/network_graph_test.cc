#include "fabric/network/network_graph.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <vector>

#include "fabric/network/network_shapes.h"

namespace phantora {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();
constexpr VirtualSpan kHop = VirtualSpan::Nanoseconds(500);
// 100G everywhere.
constexpr LinkSpeeds kSpeeds = {12.5e9, 12.5e9, kHop, kHop};

class NetworkGraphTest : public testing::Test {
 protected:
  // Sends `bytes` from each host's first interface to the one `shift` hosts on; microseconds
  // until the last has them.
  double Permute(const std::vector<std::vector<NodeId>>& hosts, size_t shift, double bytes,
                 Multipath multipath, int paths = 1) {
    for (size_t host = 0; host < hosts.size(); ++host) {
      graph_.BeginChoices();
      const Route route = graph_.RouteBetween(
          hosts[host][0], hosts[(host + shift) % hosts.size()][0], multipath, host, paths);
      EXPECT_TRUE(route.exists);
      network_.Start(VirtualTime(), route.uses, bytes, kFree);
    }
    VirtualTime last;
    while (network_.NextEnd() != VirtualTime::Infinity()) {
      last = network_.NextEnd();
      network_.Ended(last);
    }
    return static_cast<double>(last.picoseconds()) / 1e6;
  }

  // Different ways that flows take, by their hashes.
  size_t WaysTaken(NodeId from, NodeId to) {
    std::set<std::vector<LinkId>> ways;
    for (uint64_t hash = 0; hash < 1000; ++hash) {
      std::vector<LinkId> links;
      for (const LinkUse& use : graph_.RouteBetween(from, to, Multipath::kEcmp, hash).uses) {
        links.push_back(use.link);
      }
      ways.insert(links);
    }
    return ways.size();
  }

  FlowNetwork network_;
  NetworkGraph graph_{&network_};
};

TEST_F(NetworkGraphTest, LeafAndSpine) {
  const auto hosts = *BuildLeafSpine(graph_, 8, 2, 4, 4, 4, kSpeeds);
  ASSERT_EQ(hosts.size(), 8);
  EXPECT_EQ(hosts[3].size(), 2);
  EXPECT_EQ(WaysTaken(hosts[0][0], hosts[1][0]), 1u);  // at one leaf
  EXPECT_EQ(WaysTaken(hosts[0][0], hosts[7][1]), 4u);
  const Route near = graph_.RouteBetween(hosts[0][0], hosts[1][0], Multipath::kEcmp);
  EXPECT_EQ(near.uses.size(), 2);
  EXPECT_EQ(near.latency, kHop * 2);
  const Route far = graph_.RouteBetween(hosts[0][0], hosts[7][0], Multipath::kEcmp, 5);
  EXPECT_EQ(far.uses.size(), 4);
  EXPECT_EQ(far.latency, kHop * 4);
  EXPECT_TRUE(graph_.RouteBetween(hosts[0][0], hosts[0][0], Multipath::kEcmp).uses.empty());
}

TEST_F(NetworkGraphTest, EqualHashesGoTheSameWayAndAllWaysAreTaken) {
  const auto hosts = *BuildLeafSpine(graph_, 8, 1, 4, 4, 4, kSpeeds);
  std::map<LinkId, int> taken;
  for (uint64_t hash = 0; hash < 400; ++hash) {
    const Route once = graph_.RouteBetween(hosts[0][0], hosts[7][0], Multipath::kEcmp, hash);
    const Route twice = graph_.RouteBetween(hosts[0][0], hosts[7][0], Multipath::kEcmp, hash);
    EXPECT_EQ(once.uses[1].link, twice.uses[1].link);
    ++taken[once.uses[1].link];
  }
  ASSERT_EQ(taken.size(), 4);
  for (const auto& [link, count] : taken) EXPECT_NEAR(count, 100, 40);
}

TEST_F(NetworkGraphTest, SprayingUsesAllWaysAlike) {
  const auto hosts = *BuildLeafSpine(graph_, 8, 1, 4, 4, 4, kSpeeds);
  const Route route = graph_.RouteBetween(hosts[0][0], hosts[7][0], Multipath::kSpray);
  EXPECT_EQ(route.uses.size(), 1 + 4 + 4 + 1);
  double first_hop = 0;
  for (const LinkUse& use : route.uses) {
    if (use.weight == 0.25) first_hop += use.weight;
  }
  EXPECT_EQ(first_hop, 2);
  EXPECT_EQ(route.latency, kHop * 4);
}

TEST_F(NetworkGraphTest, APermutationIsIdealWhenSprayedAndCollidesWhenHashed) {
  // 1,024 hosts in three tiers, as htsim's permutation test: 2 MB at 100G are 160 us.
  const auto hosts = *BuildClos(graph_, 1024, 1, 16, 8, 16, 8, kSpeeds);
  EXPECT_NEAR(Permute(hosts, 500, 2e6, Multipath::kSpray), 160, 1e-3);
  const double hashed = Permute(hosts, 500, 2e6, Multipath::kEcmp);
  EXPECT_GT(hashed, 2 * 160);
  EXPECT_LT(hashed, 1300);
}

TEST_F(NetworkGraphTest, FlowsThatChooseAvoidEachOther) {
  const auto hosts = *BuildLeafSpine(graph_, 16, 1, 4, 4, 4, kSpeeds);
  EXPECT_NEAR(Permute(hosts, 4, 2e6, Multipath::kAdaptive), 160, 1e-3);
  EXPECT_GT(Permute(hosts, 4, 2e6, Multipath::kEcmp), 2 * 160 - 1);
}

TEST_F(NetworkGraphTest, InThreeTiersTheySeeTwoHopsAhead) {
  const auto hosts = *BuildClos(graph_, 1024, 1, 16, 8, 16, 8, kSpeeds);
  EXPECT_LT(Permute(hosts, 500, 2e6, Multipath::kAdaptive), 2 * 160 + 1e-3);
}

TEST_F(NetworkGraphTest, WhatIsChosenTogetherIsSpreadToo) {
  const auto hosts = *BuildLeafSpine(graph_, 8, 1, 4, 4, 4, kSpeeds);
  const auto uplinks = [&] {
    std::map<LinkId, int> taken;
    for (int i = 0; i < 8; ++i) {
      ++taken[graph_.RouteBetween(hosts[0][0], hosts[7][0], Multipath::kAdaptive, 3).uses[1].link];
    }
    return taken;
  };
  const auto taken = uplinks();
  ASSERT_EQ(taken.size(), 4u);
  for (const auto& [link, count] : taken) EXPECT_EQ(count, 2);
  // Equal loads, equal hashes: the same way again.
  graph_.BeginChoices();
  EXPECT_EQ(uplinks(), taken);
  // One that is busy is left alone, one that is half busy less so.
  const LinkId busy = taken.begin()->first, half = std::next(taken.begin())->first;
  network_.Start(VirtualTime(), {{busy, 1}}, 1e9, kFree);
  network_.Start(VirtualTime(), {{half, 1}}, 1e9, 2.5e9);
  network_.NextEnd();
  graph_.BeginChoices();
  std::map<LinkId, int> again = uplinks();
  EXPECT_LT(again[busy], again[half]);
  EXPECT_LE(again[half], 2);
}

TEST_F(NetworkGraphTest, PartsOfAFlowAreHashedApart) {
  const auto hosts = *BuildLeafSpine(graph_, 8, 1, 4, 4, 4, kSpeeds);
  const Route one = graph_.RouteBetween(hosts[0][0], hosts[7][0], Multipath::kSplit, 9);
  EXPECT_EQ(one.uses.size(), 4u);
  EXPECT_EQ(one.uses[1].link,
            graph_.RouteBetween(hosts[0][0], hosts[7][0], Multipath::kEcmp, 9).uses[1].link);
  const Route route = graph_.RouteBetween(hosts[0][0], hosts[7][0], Multipath::kSplit, 9, 64);
  std::map<LinkId, double> shares;
  for (const LinkUse& use : route.uses) shares[use.link] += use.weight;
  EXPECT_EQ(shares.size(), 1u + 4 + 4 + 1);
  double sum = 0;
  for (const auto& [link, share] : shares) sum += share;
  EXPECT_NEAR(sum, 4, 1e-9);
  EXPECT_EQ(route.latency, kHop * 4);
  // The more parts, the less they collide.
  const double whole = Permute(hosts, 4, 2e6, Multipath::kSplit);
  const double parts = Permute(hosts, 4, 2e6, Multipath::kSplit, 32);
  EXPECT_LT(parts, 0.8 * whole);
  EXPECT_GT(parts, 160);
}

TEST_F(NetworkGraphTest, OnItsRailAHopAcrossRailsThree) {
  const auto hosts = *BuildRails(graph_, 64, 8, 32, 16, 16, kSpeeds);
  const auto hops = [&](int from, int rail, int to, int other) {
    return graph_.RouteBetween(hosts[from][rail], hosts[to][other], Multipath::kEcmp).uses.size();
  };
  EXPECT_EQ(hops(0, 3, 31, 3), 2);  // one leaf
  EXPECT_EQ(hops(0, 3, 31, 4), 4);  // over a spine
  EXPECT_EQ(hops(0, 3, 32, 3), 4);  // another group
}

TEST_F(NetworkGraphTest, OversubscriptionIsFelt) {
  // Sixteen hosts per leaf and four uplinks: four to one.
  const auto hosts = *BuildLeafSpine(graph_, 32, 1, 16, 4, 4, kSpeeds);
  EXPECT_NEAR(Permute(hosts, 16, 2e6, Multipath::kSpray), 4 * 160, 1e-3);
}

TEST_F(NetworkGraphTest, ADragonflyHasALinkBetweenAnyTwoGroups) {
  const auto hosts = *BuildDragonflyPlus(graph_, 64, 1, 4, 4, 4, kSpeeds);
  // NIC, leaf, spine, the other group's spine, leaf, NIC.
  EXPECT_EQ(graph_.RouteBetween(hosts[0][0], hosts[63][0], Multipath::kEcmp).uses.size(), 5);
  EXPECT_EQ(WaysTaken(hosts[0][0], hosts[63][0]), 4u);
}

TEST_F(NetworkGraphTest, ATorusGoesAroundTheEnds) {
  const auto hosts = *BuildTorus(graph_, {4, 4}, 1, kSpeeds);
  ASSERT_EQ(hosts.size(), 16);
  EXPECT_EQ(graph_.RouteBetween(hosts[0][0], hosts[3][0], Multipath::kEcmp).uses.size(), 3);
  EXPECT_EQ(graph_.RouteBetween(hosts[0][0], hosts[10][0], Multipath::kEcmp).uses.size(), 6);
}

TEST_F(NetworkGraphTest, ALinkThatIsDownIsGoneAround) {
  const NodeId a = graph_.AddNode("a"), b = graph_.AddNode("b"), c = graph_.AddNode("c");
  const LinkId direct = graph_.Connect(a, b, 1e9, kHop);
  graph_.Connect(a, c, 1e9, kHop);
  graph_.Connect(c, b, 1e9, kHop);
  EXPECT_EQ(graph_.RouteBetween(b, a, Multipath::kEcmp).uses.size(), 1);
  graph_.SetUp(direct, false);
  EXPECT_EQ(graph_.RouteBetween(b, a, Multipath::kEcmp).uses.size(), 2);
  graph_.SetUp(direct, true);
  EXPECT_EQ(graph_.RouteBetween(b, a, Multipath::kSpray).uses.size(), 1);
  EXPECT_EQ(graph_.NameOfLink(direct + 1), "b to a");
  EXPECT_FALSE(graph_.RouteBetween(a, graph_.AddNode("alone"), Multipath::kSpray).exists);
}

TEST_F(NetworkGraphTest, NumbersThatDoNotFitAreNamed) {
  EXPECT_NE(BuildRails(graph_, 4, 8, 0, 1, 1, kSpeeds).status().message().find("hosts per group"),
            absl::string_view::npos);
  EXPECT_FALSE(BuildTorus(graph_, {}, 1, kSpeeds).ok());
  EXPECT_FALSE(BuildTorus(graph_, {1 << 15, 1 << 15}, 1, kSpeeds).ok());
  EXPECT_FALSE(BuildClos(graph_, -3, 1, 1, 1, 1, 1, kSpeeds).ok());
}

}  // namespace
}  // namespace phantora
