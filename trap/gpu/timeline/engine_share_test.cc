#include "trap/gpu/timeline/engine_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

namespace phantora {
namespace {

constexpr uint32_t kWhole = EngineShare::kWhole, kHalf = kWhole / 2;
constexpr uint32_t kNormal = 63, kUrgent = 8;

VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(microseconds);
}

class EngineShareTest : public testing::Test {
 protected:
  std::unique_ptr<EngineWork> Start(int64_t microseconds, uint32_t demand,
                                    uint32_t level = kNormal) {
    return std::make_unique<EngineWork>(
        &share_, clock_->Now(),
        EngineWork::Need{VirtualSpan::Microseconds(microseconds), demand, level});
  }
  void GoTo(int64_t microseconds) { clock_->AdvanceTo(At(microseconds)); }

  std::shared_ptr<ManualTimeSource> clock_ = std::make_shared<ManualTimeSource>();
  EngineShare share_{clock_};
};

TEST_F(EngineShareTest, AloneItLastsItsSpanToThePicosecond) {
  const VirtualSpan odd = VirtualSpan::Picoseconds(1234567891234567);
  EngineWork work(&share_, clock_->Now(), {odd, 12345, 0});
  EXPECT_EQ(work.began(), At(0));
  EXPECT_EQ(work.ends(), VirtualTime() + odd);
  // Others that fit beside it change nothing.
  GoTo(1);
  auto other = Start(3, kHalf);
  EXPECT_EQ(work.ends(), VirtualTime() + odd);
  EXPECT_EQ(other->ends(), At(4));
}

TEST_F(EngineShareTest, TheyShareTheBandwidthOfTheMemory) {
  const VirtualSpan span = VirtualSpan::Microseconds(12);
  // Both fit beside each other; one wants all of the memory, the other half of it.
  EngineWork all(&share_, clock_->Now(), {span, kHalf, kNormal, kWhole});
  EngineWork half(&share_, clock_->Now(), {span, kHalf, kNormal, kHalf});
  // Half too much is wanted; one depends on memory alone, the other by half. Rounded up.
  const VirtualSpan rounding = VirtualSpan::Picoseconds(1);
  EXPECT_EQ(all.ends(), At(18) + rounding);
  EXPECT_EQ(half.ends(), At(15) + rounding);
  GoTo(9);
  // No SM is left for it, and it wants none of the memory: nothing changes.
  EngineWork none(&share_, clock_->Now(), {span, kHalf, kNormal, 0});
  EXPECT_EQ(none.began(), VirtualTime::Infinity());
  EXPECT_LE(all.ends(), At(18) + rounding + rounding);
}

TEST_F(EngineShareTest, WhoCannotStartWaits) {
  auto first = Start(10, kWhole), second = Start(10, kWhole);
  EXPECT_EQ(first->ends(), At(10));
  EXPECT_EQ(second->began(), VirtualTime::Infinity());
  EXPECT_EQ(second->ends(), VirtualTime::Infinity());
  GoTo(10);
  first.reset();
  EXPECT_EQ(second->began(), At(10));
  EXPECT_EQ(second->ends(), At(20));
}

TEST_F(EngineShareTest, TheNextGetsWhatIsLeft) {
  auto half = Start(10, kHalf), whole = Start(10, kWhole);
  EXPECT_EQ(half->ends(), At(10));
  EXPECT_EQ(whole->ends(), At(20));  // at half speed
  GoTo(10);
  half.reset();
  EXPECT_EQ(whole->began(), At(0));
  EXPECT_EQ(whole->ends(), At(15));
}

TEST_F(EngineShareTest, UrgentWorkTakesFromTheRunning) {
  auto normal = Start(10, kWhole), waiting = Start(1, kWhole);
  GoTo(4);
  auto urgent = Start(5, kWhole, kUrgent);
  EXPECT_EQ(urgent->ends(), At(9));
  EXPECT_EQ(normal->ends(), VirtualTime::Infinity());
  GoTo(9);
  urgent.reset();
  EXPECT_EQ(normal->ends(), At(15));
  EXPECT_EQ(waiting->began(), VirtualTime::Infinity());
}

TEST_F(EngineShareTest, WhatIsOverStaysOverWhateverComes) {
  auto one = Start(5, kHalf), two = Start(5, kHalf);
  GoTo(5);
  one.reset();
  auto urgent = Start(5, kWhole, kUrgent);
  EXPECT_EQ(two->ends(), At(5));
  EXPECT_EQ(urgent->ends(), At(10));
}

TEST_F(EngineShareTest, WorkThatIsGivenUpMakesRoom) {
  auto given_up = Start(10, kWhole), next = Start(10, kWhole);
  GoTo(3);
  given_up.reset();
  EXPECT_EQ(next->ends(), At(13));
}

TEST_F(EngineShareTest, WorkWithoutASpanNeverWaits) {
  auto busy = Start(10, kWhole), nothing = Start(0, kWhole), negative = Start(-5, kWhole);
  EXPECT_EQ(nothing->ends(), At(0));
  EXPECT_EQ(negative->ends(), At(0));
  EXPECT_EQ(busy->ends(), At(10));
}

TEST_F(EngineShareTest, WithoutAShareItLastsItsSpan) {
  EngineWork one(nullptr, At(3), {VirtualSpan::Microseconds(4)});
  EXPECT_EQ(one.began(), At(3));
  EXPECT_EQ(one.ends(), At(7));
}

TEST_F(EngineShareTest, ExtremesDoNotOverflow) {
  GoTo(1000);
  const VirtualSpan endless = VirtualSpan::Picoseconds(std::numeric_limits<int64_t>::max());
  EngineWork one(nullptr, clock_->Now(), {endless});
  EXPECT_EQ(one.ends(), VirtualTime::Infinity());
  auto most = Start(1, kWhole - 1);
  EngineWork two(&share_, clock_->Now(), {endless, kWhole, kNormal});
  EXPECT_EQ(two.ends(), VirtualTime::Infinity());
  EngineWork three(&share_, clock_->Now(), {VirtualSpan::Microseconds(1), 0, kUrgent});
  EXPECT_EQ(three.ends(), At(1001));
}

TEST_F(EngineShareTest, OnlySoManyRunAtATime) {
  std::vector<std::unique_ptr<EngineWork>> all;
  for (size_t i = 0; i <= EngineShare::kMostAtOnce; ++i) all.push_back(Start(10, 1));
  EXPECT_EQ(all[EngineShare::kMostAtOnce - 1]->ends(), At(10));
  EXPECT_EQ(all.back()->ends(), VirtualTime::Infinity());
  GoTo(10);
  for (size_t i = 0; i < EngineShare::kMostAtOnce; ++i) all[i].reset();
  EXPECT_EQ(all.back()->ends(), At(20));
}

// Whatever comes and goes, the engine is never used beyond its capacity, and no work is
// over before it could be.
TEST_F(EngineShareTest, NoWorkIsDoneTwice) {
  uint64_t random = 1;
  const auto below = [&random](uint64_t bound) {
    random = random * 6364136223846793005 + 1442695040888963407;
    return static_cast<int64_t>((random >> 33) % bound);
  };
  std::vector<std::unique_ptr<EngineWork>> all;
  double demanded = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto demand = static_cast<uint32_t>(1 + below(kWhole));
    const int64_t span = 1 + below(20);
    demanded += static_cast<double>(span) * demand / kWhole;
    all.push_back(Start(span, demand, static_cast<uint32_t>(below(3))));
    if (below(2) == 0) continue;
    VirtualTime next = VirtualTime::Infinity();
    for (const auto& work : all) next = std::min(next, work->ends());
    clock_->AdvanceTo(next);
    std::erase_if(all, [this](const auto& work) { return work->ends() <= clock_->Now(); });
  }
  while (!all.empty()) {
    VirtualTime next = VirtualTime::Infinity();
    for (const auto& work : all) next = std::min(next, work->ends());
    ASSERT_NE(next, VirtualTime::Infinity());
    clock_->AdvanceTo(next);
    std::erase_if(all, [this](const auto& work) { return work->ends() <= clock_->Now(); });
  }
  const auto took = static_cast<double>((clock_->Now() - At(0)).picoseconds()) / 1e6;
  EXPECT_GE(took, demanded * 0.999999);
}

}  // namespace
}  // namespace phantora
