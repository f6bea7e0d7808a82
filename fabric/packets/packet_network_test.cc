#include "fabric/packets/packet_network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace phantora {
namespace {

constexpr double kGb = 1e9;  // bytes/s
constexpr VirtualSpan kHop = VirtualSpan::Nanoseconds(500);
constexpr double kBuffer = 200e3;

VirtualTime At(double microseconds) {
  return VirtualTime() + VirtualSpan::Picoseconds(std::llround(microseconds * 1e6));
}

// Packets of 1,000 bytes without headers: round numbers.
PacketOptions Plain() {
  PacketOptions options;
  options.mtu_bytes = 1000;
  options.header_bytes = 0;
  return options;
}

// Microseconds at which each flow was over, by number; -1: never.
std::vector<double> RunToTheEnd(PacketNetwork& network, size_t flows) {
  std::vector<double> ends(flows, -1);
  for (VirtualTime now; (now = network.NextEnd()) != VirtualTime::Infinity();) {
    for (const FlowId flow : network.Ended(now)) {
      ends[flow - 1] = static_cast<double>(now.picoseconds()) / 1e6;
    }
  }
  return ends;
}

TEST(PacketNetworkTest, APacketIsStoredAndForwarded) {
  PacketNetwork network(Plain());
  const LinkId first = network.AddLink(1 * kGb, kHop, kBuffer),
               second = network.AddLink(2 * kGb, kHop, kBuffer);
  ASSERT_TRUE(network.Start(At(3), {{{first, second}}}, 1000).ok());
  EXPECT_EQ(network.NextEnd(), At(3 + 1 + 0.5 + 0.5 + 0.5));
}

TEST(PacketNetworkTest, PacketsFollowEachOther) {
  PacketNetwork network(Plain());
  const LinkId first = network.AddLink(1 * kGb, kHop, kBuffer),
               second = network.AddLink(1 * kGb, kHop, kBuffer);
  ASSERT_TRUE(network.Start(At(0), {{{first, second}}}, 99500).ok());
  // The last one is half a packet, and waits for the one before it at the second link.
  EXPECT_EQ(network.NextEnd(), At(99 + 0.5 + 1 + 0.5 + 0.5));
  EXPECT_EQ(network.counts().packets, 100);
  EXPECT_EQ(network.CarriedBy(second), 99500);
}

TEST(PacketNetworkTest, HeadersTakeTheirShare) {
  PacketOptions options = Plain();
  options.header_bytes = 250;
  PacketNetwork network(options);
  const LinkId link = network.AddLink(1 * kGb, VirtualSpan(), kBuffer);
  ASSERT_TRUE(network.Start(At(0), {{{link}}}, 80000).ok());
  EXPECT_EQ(network.NextEnd(), At(100));
}

TEST(PacketNetworkTest, ANicServesItsFlowsInTurn) {
  PacketNetwork network(Plain());
  const LinkId nic = network.AddLink(1 * kGb, VirtualSpan(), kBuffer);
  for (const double bytes : {10e3, 20e3, 30e3}) {
    ASSERT_TRUE(network.Start(At(0), {{{nic}}}, bytes).ok());
  }
  EXPECT_EQ(RunToTheEnd(network, 3), (std::vector<double>{28, 49, 60}));
}

TEST(PacketNetworkTest, FullBuffersPauseWhoSendsAndLoseNothing) {
  PacketNetwork network(Plain());
  const LinkId slow = network.AddLink(1 * kGb, kHop, kBuffer);
  std::vector<LinkId> up;
  for (int i = 0; i < 4; ++i) {
    up.push_back(network.AddLink(10 * kGb, kHop, 30e3));
    ASSERT_TRUE(network.Start(At(0), {{{up.back(), slow}}}, 500e3).ok());
  }
  for (const double end : RunToTheEnd(network, 4)) EXPECT_NEAR(end, 2000, 50);
  EXPECT_EQ(network.counts().lost, 0);
  EXPECT_GT(network.counts().pauses, 100);
  EXPECT_LE(network.LongestQueue(slow), 4 * 30e3);
}

TEST(PacketNetworkTest, WithoutPausesPacketsAreLostAndSentAgain) {
  PacketOptions options = Plain();
  options.pause = false;
  PacketNetwork network(options);
  const LinkId fast = network.AddLink(10 * kGb, kHop, 30e3),
               slow = network.AddLink(1 * kGb, kHop, kBuffer);
  ASSERT_TRUE(network.Start(At(0), {{{fast, slow}}}, 500e3).ok());
  const double end = RunToTheEnd(network, 1)[0];
  EXPECT_GE(end, 500);
  EXPECT_GT(network.counts().lost, 0);
  EXPECT_EQ(network.counts().packets, 500);
}

TEST(PacketNetworkTest, PausesSpreadUpstream) {
  PacketNetwork network(Plain());
  const LinkId first = network.AddLink(10 * kGb, kHop, 30e3),
               second = network.AddLink(10 * kGb, kHop, 30e3),
               slow = network.AddLink(1 * kGb, kHop, 30e3);
  ASSERT_TRUE(network.Start(At(0), {{{first, second, slow}}}, 500e3).ok());
  EXPECT_NEAR(RunToTheEnd(network, 1)[0], 500, 5);
  EXPECT_EQ(network.counts().lost, 0);
  EXPECT_LE(network.LongestQueue(second), 30e3);
  EXPECT_GT(network.LongestQueue(second), 10e3);
}

TEST(PacketNetworkTest, SprayedPacketsTakeAllPaths) {
  for (const auto spread : {PacketOptions::Spread::kInTurn, PacketOptions::Spread::kRandom}) {
    PacketOptions options = Plain();
    options.spread = spread;
    PacketNetwork network(options);
    const LinkId nic = network.AddLink(2 * kGb, kHop, kBuffer),
                 one = network.AddLink(1 * kGb, kHop, kBuffer),
                 other = network.AddLink(1 * kGb, kHop, kBuffer);
    ASSERT_TRUE(network.Start(At(0), {{{nic, one}, {nic, other}}}, 1e6).ok());
    EXPECT_NEAR(RunToTheEnd(network, 1)[0], 500, 30);
    EXPECT_NEAR(network.CarriedBy(one), 500e3, 50e3);
    EXPECT_EQ(network.CarriedBy(one) + network.CarriedBy(other), 1e6);
  }
}

TEST(PacketNetworkTest, MessagesPerSecondBoundSmallOnes) {
  PacketOptions options = Plain();
  options.messages_per_s = 100e3;
  PacketNetwork network(options);
  const LinkId nic = network.AddLink(1 * kGb, VirtualSpan(), kBuffer);
  // Two flows of 50 messages each share the NIC's one per 10 us.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(network.Start(At(0), {{{nic}}}, 50e3, 1000).ok());
  const auto ends = RunToTheEnd(network, 2);
  EXPECT_NEAR(std::max(ends[0], ends[1]), 99 * 10 + 1, 1e-6);
  // Large ones are bound by the link.
  ASSERT_TRUE(network.Start(At(2000), {{{nic}}}, 1e6, 100e3).ok());
  EXPECT_EQ(network.NextEnd(), At(3000));
}

TEST(PacketNetworkTest, MarksSlowSendersSoThatQueuesStayShort) {
  const auto longest = [](bool controlled) {
    PacketOptions options = Plain();
    options.marking = RedMarking::Paper(5 * kGb);
    if (controlled) options.congestion_control = DcqcnOptions::Paper(5 * kGb);
    PacketNetwork network(options);
    const LinkId down = network.AddLink(5 * kGb, kHop, 10e6);
    for (int i = 0; i < 2; ++i) {
      const LinkId up = network.AddLink(5 * kGb, kHop, 10e6);
      EXPECT_TRUE(network.Start(At(0), {{{up, down}}}, 5e6).ok());
    }
    for (const double end : RunToTheEnd(network, 2)) EXPECT_GT(end, 1000);
    EXPECT_EQ(network.counts().pauses, 0);
    EXPECT_GT(network.counts().marked, 0);
    return network.LongestQueue(down);
  };
  EXPECT_GT(longest(false), 4e6);
  EXPECT_LT(longest(true), 1e6);
}

TEST(PacketNetworkTest, MarksRiseFromKminToKmax) {
  const RedMarking marking = {100, 300, 0.2};
  EXPECT_EQ(marking.Probability(100), 0);
  EXPECT_DOUBLE_EQ(marking.Probability(200), 0.1);
  EXPECT_DOUBLE_EQ(marking.Probability(300), 0.2);
  EXPECT_EQ(marking.Probability(301), 1);
}

TEST(PacketNetworkTest, TheSameCallsGiveTheSameTimes) {
  const auto run = [](uint64_t seed) {
    PacketOptions options = Plain();
    options.marking = RedMarking::Paper(5 * kGb);
    options.congestion_control = DcqcnOptions::Paper(5 * kGb);
    options.seed = seed;
    PacketNetwork network(options);
    const LinkId down = network.AddLink(5 * kGb, kHop, kBuffer);
    for (int i = 0; i < 4; ++i) {
      const LinkId up = network.AddLink(5 * kGb, kHop, kBuffer);
      EXPECT_TRUE(network.Start(At(0), {{{up, down}}}, 3e6).ok());
    }
    return RunToTheEnd(network, 4);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(PacketNetworkTest, NothingToDoIsDoneAtOnceAndWhatCannotMoveNeverEnds) {
  PacketOptions options = Plain();
  options.congestion_control = DcqcnOptions();
  PacketNetwork network(options);
  const LinkId up = network.AddLink(1 * kGb, kHop, kBuffer),
               down = network.AddLink(0, kHop, kBuffer);
  ASSERT_TRUE(network.Start(At(7), {}, 5).ok());
  ASSERT_TRUE(network.Start(At(7), {{{up}}}, 0).ok());
  EXPECT_EQ(network.Ended(At(7)).size(), 2);
  ASSERT_TRUE(network.Start(At(7), {{{up, down}}}, 1e6).ok());
  EXPECT_EQ(network.NextEnd(), VirtualTime::Infinity());
}

TEST(PacketNetworkTest, WhatDoesNotFitIsRefused) {
  PacketNetwork network(Plain());
  const LinkId one = network.AddLink(1 * kGb, kHop, kBuffer),
               other = network.AddLink(1 * kGb, kHop, kBuffer);
  EXPECT_FALSE(network.Start(At(0), {{{one, other + 1}}}, 1).ok());
  const std::vector<std::vector<LinkId>> apart = {{one}, {other}};
  EXPECT_FALSE(network.Start(At(0), apart, 1).ok());
  EXPECT_FALSE(network.Start(At(0), {{{one}}}, HUGE_VAL).ok());
  ASSERT_TRUE(network.Start(At(0), {{{one}}}, 1e3).ok());
  network.NextEnd();
  EXPECT_FALSE(network.Start(At(0), {{{one}}}, 1).ok());
}

}  // namespace
}  // namespace phantora
