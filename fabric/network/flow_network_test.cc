#include "fabric/network/flow_network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace phantora {
namespace {

constexpr double kGb = 1e9;  // bytes/s
constexpr double kFree = std::numeric_limits<double>::infinity();

VirtualTime At(double microseconds) {
  return VirtualTime() + VirtualSpan::Picoseconds(std::llround(microseconds * 1e6));
}

// Bytes/s that a flow moves from `at_us` on, as what it has left tells.
double RateOf(FlowNetwork& network, FlowId flow, double at_us = 0) {
  return (network.LeftOf(flow, At(at_us)) - network.LeftOf(flow, At(at_us + 50))) / 50e-6;
}

class FlowNetworkTest : public testing::Test {
 protected:
  FlowId Start(double at_us, const std::vector<LinkId>& links, double bytes, double most = kFree) {
    std::vector<LinkUse> uses;
    for (const LinkId link : links) uses.push_back({link, 1});
    return network_.Start(At(at_us), uses, bytes, most);
  }
  // Runs to the end; microseconds at which each flow was over, by number.
  std::vector<double> Run() {
    std::vector<double> ends;
    while (network_.NextEnd() != VirtualTime::Infinity()) {
      const VirtualTime now = network_.NextEnd();
      for (const FlowId flow : network_.Ended(now)) {
        if (ends.size() < flow) ends.resize(flow, -1);
        ends[flow - 1] = static_cast<double>(now.picoseconds()) / 1e6;
      }
    }
    return ends;
  }
  FlowNetwork network_;
};

TEST_F(FlowNetworkTest, AloneItHasTheLink) {
  const LinkId link = network_.AddLink(50 * kGb);
  Start(3, {link}, 1e6);
  EXPECT_EQ(network_.NextEnd(), At(23));
}

TEST_F(FlowNetworkTest, TwoShareALinkUntilOneIsOver) {
  const LinkId link = network_.AddLink(10 * kGb);
  Start(0, {link}, 100e3);
  Start(0, {link}, 50e3);
  EXPECT_EQ(Run(), (std::vector<double>{15, 10}));
}

TEST_F(FlowNetworkTest, WhatOneCannotUseGoesToTheOthers) {
  // The textbook's example: one flow over both links, one over each; the second link is wider.
  const LinkId narrow = network_.AddLink(1 * kGb), wide = network_.AddLink(2 * kGb);
  const FlowId both = Start(0, {narrow, wide}, 1e6), first = Start(0, {narrow}, 1e6),
               second = Start(0, {wide}, 1e6);
  EXPECT_NEAR(RateOf(network_, both), 0.5 * kGb, 1);
  EXPECT_NEAR(RateOf(network_, first), 0.5 * kGb, 1);
  EXPECT_NEAR(RateOf(network_, second), 1.5 * kGb, 1);
}

TEST_F(FlowNetworkTest, ABoundOfItsOwn) {
  const LinkId link = network_.AddLink(10 * kGb);
  const FlowId slow = Start(0, {link}, 1e6, 1 * kGb), fast = Start(0, {link}, 1e6);
  EXPECT_NEAR(RateOf(network_, slow), 1 * kGb, 1);
  EXPECT_NEAR(RateOf(network_, fast), 9 * kGb, 1);
}

TEST_F(FlowNetworkTest, WeightsAreBytesPerByte) {
  const LinkId link = network_.AddLink(9 * kGb);
  const std::vector<LinkUse> twice = {{link, 2}}, once = {{link, 0.5}, {link, 0.5}};
  const FlowId heavy = network_.Start(At(0), twice, 1e6, kFree),
               light = network_.Start(At(0), once, 1e6, kFree);
  EXPECT_NEAR(RateOf(network_, heavy), 3 * kGb, 1);
  EXPECT_NEAR(RateOf(network_, light), 3 * kGb, 1);
}

TEST_F(FlowNetworkTest, Incast) {
  // 127 to one: as long as all of it takes over the last link.
  std::vector<LinkId> up;
  const LinkId down = network_.AddLink(12.5 * kGb);
  for (int i = 0; i < 127; ++i) {
    up.push_back(network_.AddLink(12.5 * kGb));
    Start(0, {up.back(), down}, 2e6);
  }
  for (const double end : Run()) EXPECT_NEAR(end, 127 * 160, 1e-3);
}

TEST_F(FlowNetworkTest, APermutationOverOneSpineCollides) {
  // 16 hosts in four leaves with four spines: whoever takes the same spine shares its link.
  std::vector<LinkId> host_up, host_down, leaf_up, leaf_down;
  for (int i = 0; i < 16; ++i) host_up.push_back(network_.AddLink(12.5 * kGb));
  for (int i = 0; i < 16; ++i) host_down.push_back(network_.AddLink(12.5 * kGb));
  for (int i = 0; i < 16; ++i) leaf_up.push_back(network_.AddLink(12.5 * kGb));
  for (int i = 0; i < 16; ++i) leaf_down.push_back(network_.AddLink(12.5 * kGb));
  for (int host = 0; host < 16; ++host) {
    const int to = (host + 4) % 16, spine = host % 2;  // two of the four spines
    Start(0,
          {host_up[host], leaf_up[host / 4 * 4 + spine], leaf_down[to / 4 * 4 + spine],
           host_down[to]},
          2e6);
  }
  for (const double end : Run()) EXPECT_NEAR(end, 320, 1e-3);
}

TEST_F(FlowNetworkTest, ARingIsAsFastAsItsSlowestHop) {
  std::vector<LinkUse> uses;
  for (int i = 0; i < 8; ++i) uses.push_back({network_.AddLink((i == 5 ? 20 : 40) * kGb), 1});
  network_.Start(At(0), uses, 1e6, kFree);
  EXPECT_EQ(Run(), std::vector<double>{50});
}

TEST_F(FlowNetworkTest, LinksDegradeFailAndComeBack) {
  const LinkId link = network_.AddLink(10 * kGb);
  const FlowId flow = Start(0, {link}, 100e3);
  network_.SetCapacity(link, 5 * kGb, At(5));
  EXPECT_EQ(network_.NextEnd(), At(15));
  network_.SetCapacity(link, 0, At(10));
  EXPECT_EQ(network_.NextEnd(), VirtualTime::Infinity());
  EXPECT_EQ(RateOf(network_, flow, 10), 0);
  network_.SetCapacity(link, 25 * kGb, At(20));
  EXPECT_EQ(network_.NextEnd(), At(21));
  EXPECT_NEAR(network_.CarriedBy(link, At(21)), 100e3, 1);
}

TEST_F(FlowNetworkTest, ACancelledFlowGivesItsShareBack) {
  const LinkId link = network_.AddLink(10 * kGb);
  const FlowId first = Start(0, {link}, 100e3);
  Start(0, {link}, 100e3);
  network_.Cancel(first, At(10));
  network_.Cancel(first, At(10));
  EXPECT_EQ(network_.NextEnd(), At(15));
}

TEST_F(FlowNetworkTest, NothingToDoIsDoneAtOnce) {
  EXPECT_EQ(Start(7, {}, 5, kFree), 1);
  const LinkId link = network_.AddLink(1);
  Start(7, {link}, 0);
  Start(7, {link + 100}, std::nan(""));
  EXPECT_EQ(network_.NextEnd(), At(7));
  EXPECT_EQ(network_.Ended(At(7)).size(), 3);
  EXPECT_EQ(network_.flows(), 0);
}

// Max-min fairness: nobody can get more but from someone who has no more than he has.
TEST_F(FlowNetworkTest, SharesAreFairWhateverTheNetwork) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    FlowNetwork network;
    const int link_count = 1 + static_cast<int>(random() % 12);
    std::vector<double> capacity, used(link_count), largest(link_count);
    for (int i = 0; i < link_count; ++i) {
      capacity.push_back((1 + random() % 100) * 1e8);
      network.AddLink(capacity.back());
    }
    struct Made {
      FlowId id;
      std::vector<LinkUse> uses;
      double most;
    };
    std::vector<Made> flows;
    for (int i = 0; i < 1 + static_cast<int>(random() % 15); ++i) {
      Made made;
      for (int link = 0; link < link_count; ++link) {
        if (random() % 3 == 0) {
          made.uses.push_back({static_cast<LinkId>(link), 1.0 + random() % 3});
        }
      }
      if (made.uses.empty()) made.uses.push_back({0, 1});
      made.most = random() % 4 == 0 ? (1 + random() % 50) * 1e8 : kFree;
      made.id = network.Start(VirtualTime(), made.uses, 1e9, made.most);
      flows.push_back(made);
    }
    for (const Made& flow : flows) {
      for (const LinkUse& use : flow.uses) {
        used[use.link] += RateOf(network, flow.id) * use.weight;
        largest[use.link] = std::max(largest[use.link], RateOf(network, flow.id));
      }
    }
    for (int i = 0; i < link_count; ++i) EXPECT_LE(used[i], capacity[i] * (1 + 1e-9));
    for (const Made& flow : flows) {
      const double rate = RateOf(network, flow.id);
      bool held_back = rate >= flow.most * (1 - 1e-9);
      for (const LinkUse& use : flow.uses) {
        held_back |= used[use.link] >= capacity[use.link] * (1 - 1e-9) &&
                     rate >= largest[use.link] * (1 - 1e-9);
      }
      EXPECT_TRUE(held_back) << "round " << round << " flow " << flow.id;
    }
  }
}

TEST_F(FlowNetworkTest, CongestionControlCostsThoseWhoMeet) {
  const LinkId one = network_.AddLink(50 * kGb), two = network_.AddLink(50 * kGb),
               down = network_.AddLink(50 * kGb);
  network_.Control(down);
  Start(0, {one, down}, 32e6);
  EXPECT_EQ(Run(), (std::vector<double>{640}));  // alone it is asked for what it has
  const VirtualTime begin = At(1000);
  Start(1000, {one, down}, 16e6);
  Start(1000, {two, down}, 16e6);
  EXPECT_LT(network_.NextEnd(), begin + VirtualSpan::Microseconds(640));  // a change of rates
  const auto ends = Run();
  EXPECT_EQ(ends[1], ends[2]);
  EXPECT_GT(ends[1] - 1000, 800);
  EXPECT_LT(ends[1] - 1000, 900);
  // It is over with them.
  Start(3000, {two, down}, 32e6);
  EXPECT_EQ(Run().back(), 3640);
}

TEST_F(FlowNetworkTest, WhoComesLaterMakesItWorseAnew) {
  const LinkId down = network_.AddLink(50 * kGb);
  network_.Control(down);
  std::vector<LinkId> up;
  for (int i = 0; i < 3; ++i) up.push_back(network_.AddLink(50 * kGb));
  const FlowId first = Start(0, {up[0], down}, 1e9);
  Start(0, {up[1], down}, 1e9);
  while (network_.NextEnd() < At(4000)) network_.Ended(network_.NextEnd());
  EXPECT_GT(2 * RateOf(network_, first, 4000), 0.9 * 50 * kGb);  // they have come back
  Start(4000, {up[2], down}, 1e9);
  while (network_.NextEnd() < At(4200)) network_.Ended(network_.NextEnd());
  EXPECT_LT(3 * RateOf(network_, first, 4200), 0.8 * 50 * kGb);
}

TEST_F(FlowNetworkTest, WhoSharesASenderAsksForNoMoreThanItHas) {
  const LinkId up = network_.AddLink(50 * kGb), down = network_.AddLink(50 * kGb);
  network_.Control(down);
  Start(0, {up, down}, 16e6);
  Start(0, {up, down}, 16e6);
  EXPECT_EQ(Run(), (std::vector<double>{640, 640}));
}

}  // namespace
}  // namespace phantora
