#include "fabric/network/network_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fabric/network/network_shapes.h"

namespace phantora {
namespace {

using testing::HasSubstr;
using Kind = NetworkEvent::Kind;

constexpr double kFree = 0;
constexpr VirtualSpan kMs = VirtualSpan::Microseconds(1000), kHop = VirtualSpan::Nanoseconds(500);
constexpr double kGigabyte = 1e9;  // bytes/s: a byte takes a nanosecond

// Four hosts with an interface each, two at a leaf, and two spines.
class NetworkEventsTest : public testing::Test {
 protected:
  NetworkEventsTest() {
    nics_ = *BuildLeafSpine(graph_, 4, 1, 2, 2, 2, {kGigabyte, kGigabyte, kHop, kHop});
  }
  static NetworkEvent Link(Kind kind, int64_t ms, std::string what, double share = 1) {
    return {.kind = kind,
            .at = kMs * ms,
            .where = "my.yaml:7",
            .what = std::move(what),
            .share = share,
            .from = "",
            .to = "",
            .until = VirtualSpan()};
  }
  static NetworkEvent Traffic(int64_t ms, std::string from, std::string to, double bytes_per_s,
                              int64_t until_ms) {
    return {.kind = Kind::kTraffic,
            .at = kMs * ms,
            .where = "my.yaml:9",
            .what = "",
            .from = std::move(from),
            .to = std::move(to),
            .bytes_per_s = bytes_per_s,
            .until = kMs * until_ms};
  }
  std::string Error(const std::vector<NetworkEvent>& events) {
    NetworkEvents made({.graph = &graph_, .network = &network_, .reroute = kMs});
    return std::string(made.Add(events).message());
  }
  // Until everything that happens by then has.
  int Run(int64_t ms) {
    int rerouted = 0;
    while (events_.Next() <= VirtualTime() + kMs * ms) rerouted += events_.Apply() ? 1 : 0;
    return rerouted;
  }
  std::vector<LinkUse> Way(size_t from, size_t to) {
    return graph_.RouteBetween(nics_[from][0], nics_[to][0], Multipath::kSpray).uses;
  }

  FlowNetwork network_;
  NetworkGraph graph_{&network_};
  NetworkEvents events_{{.graph = &graph_, .network = &network_, .reroute = kMs}};
  std::vector<std::vector<NodeId>> nics_;
};

TEST_F(NetworkEventsTest, NothingHappensByItself) {
  EXPECT_EQ(events_.Next(), VirtualTime::Infinity());
  EXPECT_TRUE(events_.Add({}).ok());
  EXPECT_EQ(events_.Next(), VirtualTime::Infinity());
  EXPECT_FALSE(events_.IsDown(0));
}

TEST_F(NetworkEventsTest, ALinkFailsAtOnceAndIsGoneAroundLater) {
  ASSERT_TRUE(
      events_
          .Add({Link(Kind::kDown, 3, "Spine 1 to LEAF 0"), Link(Kind::kUp, 9, "leaf 0 to spine 1")})
          .ok());
  events_.SetStart(VirtualTime());
  const LinkId link = graph_.FindLinks("leaf 0 to spine 1")->front();
  EXPECT_EQ(Run(3), 0);
  EXPECT_EQ(events_.ahead(), 1u);
  EXPECT_TRUE(events_.IsDown(link));
  EXPECT_TRUE(events_.IsDown(link + 1));
  EXPECT_FALSE(events_.IsDown(link + 2));
  EXPECT_EQ(network_.CapacityOf(link), 0);
  EXPECT_EQ(network_.CapacityOf(link + 1), 0);
  EXPECT_EQ(Way(0, 2).size(), 6u);  // switches do not know yet
  EXPECT_EQ(events_.Next(), VirtualTime() + kMs * 4);
  EXPECT_EQ(Run(4), 1);
  EXPECT_EQ(Way(0, 2).size(), 4u);
  EXPECT_EQ(Run(9), 0);
  EXPECT_EQ(network_.CapacityOf(link + 1), kGigabyte);
  EXPECT_EQ(Way(0, 2).size(), 4u);
  EXPECT_EQ(Run(10), 1);
  EXPECT_EQ(Way(0, 2).size(), 6u);
  EXPECT_EQ(events_.happened(),
            (std::vector<std::string>{"Spine 1 to LEAF 0 failed at 3 ms (my.yaml:7)",
                                      "leaf 0 to spine 1 came back at 9 ms (my.yaml:7)"}));
  EXPECT_EQ(events_.ahead(), 0u);
}

TEST_F(NetworkEventsTest, AShortFailureIsNotMissed) {
  NetworkEvent up = Link(Kind::kUp, 3, "spine 0");
  up.at = kMs * 3 + VirtualSpan::Microseconds(500);
  ASSERT_TRUE(events_.Add({Link(Kind::kDown, 3, "spine 0"), up}).ok());
  EXPECT_EQ(Run(100), 0);
}

// A link is down as long as one of its ends is, or it itself.
TEST_F(NetworkEventsTest, AllLinksOfASwitchFail) {
  ASSERT_TRUE(events_
                  .Add({Link(Kind::kDown, 1, "leaf 0 to spine 1"), Link(Kind::kDown, 2, "spine 1"),
                        Link(Kind::kUp, 5, "leaf 0 to spine 1"), Link(Kind::kUp, 8, "spine 1")})
                  .ok());
  const LinkId one = graph_.FindLinks("leaf 0 to spine 1")->front();
  const LinkId other = graph_.FindLinks("leaf 1 to spine 1")->front();
  Run(3);
  EXPECT_TRUE(events_.IsDown(one) && events_.IsDown(other));
  Run(6);
  EXPECT_TRUE(events_.IsDown(one) && events_.IsDown(other));
  Run(8);
  EXPECT_FALSE(events_.IsDown(one) || events_.IsDown(other));
}

TEST_F(NetworkEventsTest, WhyThereIsNoWay) {
  ASSERT_TRUE(events_
                  .Add({Link(Kind::kDown, 1, "host 1 nic 0"), Link(Kind::kDown, 2, "spine 1"),
                        Link(Kind::kDown, 12, "spine 0")})
                  .ok());
  Run(5);
  EXPECT_EQ(graph_.WhyNoWay(nics_[0][0], nics_[2][0]), "");
  EXPECT_EQ(graph_.WhyNoWay(nics_[1][0], nics_[2][0]),
            "host 1 NIC 0 to leaf 0 failed at 1 ms (my.yaml:7)");
  EXPECT_EQ(graph_.WhyNoWay(nics_[2][0], nics_[1][0]),
            "host 1 NIC 0 to leaf 0 failed at 1 ms (my.yaml:7)");
  Run(20);
  // Spines are cut off at both ends.
  EXPECT_EQ(graph_.WhyNoWay(nics_[0][0], nics_[2][0]),
            "leaf 0 to spine 0 failed at 12 ms (my.yaml:7), leaf 0 to spine 1 failed at 2 ms "
            "(my.yaml:7), host 1 NIC 0 to leaf 0 failed at 1 ms (my.yaml:7)");
}

TEST_F(NetworkEventsTest, ADegradedLink) {
  ASSERT_TRUE(events_
                  .Add({Link(Kind::kCapacity, 1, "host 0 nic 0", 0.25),
                        Link(Kind::kDown, 2, "host 0 nic 0 to leaf 0"),
                        Link(Kind::kUp, 3, "host 0 nic 0 to leaf 0"),
                        Link(Kind::kCapacity, 4, "host 0 nic 0", 1)})
                  .ok());
  const LinkId link = graph_.FindLinks("host 0 NIC 0")->front();
  Run(1);
  EXPECT_EQ(network_.CapacityOf(link), kGigabyte / 4);
  EXPECT_EQ(network_.CapacityOf(link + 1), kGigabyte / 4);
  Run(2);
  EXPECT_EQ(network_.CapacityOf(link), 0);
  Run(3);
  EXPECT_EQ(network_.CapacityOf(link), kGigabyte / 4);
  Run(4);
  EXPECT_EQ(network_.CapacityOf(link), kGigabyte);
}

TEST_F(NetworkEventsTest, TrafficOfOthersTakesItsPart) {
  ASSERT_TRUE(events_.Add({Traffic(1, "host 0 nic 0", "host 1 nic 0", 0.25e9, 9)}).ok());
  const FlowId flow = network_.Start(VirtualTime(), Way(0, 1), 1e12, kFree);
  const auto rate_at = [&](int64_t ms) {
    const VirtualTime now = VirtualTime() + kMs * ms;
    return (network_.LeftOf(flow, now) - network_.LeftOf(flow, now + kMs)) * 1e3;
  };
  EXPECT_NEAR(rate_at(0), 1e9, 1e3);
  Run(5);
  EXPECT_NEAR(rate_at(5), 0.75e9, 1e3);
  EXPECT_GT(network_.NextEnd(), VirtualTime() + kMs * 9);
  Run(9);
  EXPECT_NEAR(rate_at(9), 1e9, 1e3);
  const LinkId link = graph_.FindLinks("host 0 nic 0")->front();
  EXPECT_NEAR(network_.CarriedBy(link, VirtualTime() + kMs * 10), 10e6, 1);
}

TEST_F(NetworkEventsTest, TrafficOfOthersGoesAroundWhatFails) {
  ASSERT_TRUE(events_
                  .Add({Traffic(0, "host 0 nic 0", "host 2 nic 0", 0.5e9, 100),
                        Link(Kind::kDown, 10, "spine 0"), Link(Kind::kDown, 20, "spine 1"),
                        Link(Kind::kUp, 30, "spine 1")})
                  .ok());
  const LinkId link = graph_.FindLinks("host 0 nic 0")->front();
  const auto carried = [&](int64_t ms) {
    return network_.CarriedBy(link, VirtualTime() + kMs * ms);
  };
  Run(20);
  // By one of the spines; if it was the first, a millisecond is lost.
  EXPECT_NEAR(carried(20), 10e6, 0.6e6);
  const double before = carried(20);
  Run(31);
  EXPECT_NEAR(carried(31), before, 0.1e6);
  Run(50);
  EXPECT_NEAR(carried(50), before + 0.5e6 * 19, 0.6e6);
}

TEST_F(NetworkEventsTest, NamesThatDoNotExist) {
  EXPECT_THAT(Error({Link(Kind::kDown, 1, "spine 3")}),
              HasSubstr("my.yaml:7: the network has nothing called \"spine 3\"; near are \"spine "
                        "0\", \"spine 1\""));
  EXPECT_THAT(Error({Link(Kind::kCapacity, 1, "leaf 0 to spine 7", 0.5)}),
              HasSubstr("\"leaf 0 to spine 0\""));
  EXPECT_THAT(Error({Traffic(0, "host 0 nic 0", "host 9 nic 0", 1, 2)}),
              HasSubstr("my.yaml:9: the network has nothing called \"host 9 nic 0\"; near are "
                        "\"host 0 NIC 0\""));
  EXPECT_THAT(Error({Traffic(0, "spine 0", "spine 0", 1, 2)}), HasSubstr("my.yaml:9"));
}

TEST_F(NetworkEventsTest, WhatCannotHappen) {
  EXPECT_THAT(Error({Link(Kind::kUp, 1, "spine 1")}), HasSubstr("has not failed at that time"));
  EXPECT_THAT(Error({Link(Kind::kDown, 1, "spine 1"), Link(Kind::kDown, 2, "spine 1")}),
              HasSubstr("has failed already"));
  // In any order of the file.
  EXPECT_EQ(Error({Link(Kind::kUp, 5, "spine 1"), Link(Kind::kDown, 1, "spine 1")}), "");
}

}  // namespace
}  // namespace phantora
