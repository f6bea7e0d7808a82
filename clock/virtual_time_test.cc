#include "clock/virtual_time.h"

#include <gtest/gtest.h>
#include <time.h>

#include <cstdint>
#include <limits>

#include "clock/time_source.h"

namespace phantora {
namespace {

TEST(VirtualTimeTest, SpansAndInstantsKeepTheirUnits) {
  const VirtualTime start = VirtualTime::FromNanoseconds(5);
  const VirtualTime end = start + VirtualSpan::Microseconds(2) + VirtualSpan::Picoseconds(999);
  EXPECT_EQ((end - start).picoseconds(), 2'000'999);
  EXPECT_EQ((end - start).nanoseconds(), 2'000);
  EXPECT_EQ(end.nanoseconds(), 2'005);
  EXPECT_LT(start, end);
  EXPECT_LT(end, VirtualTime::Infinity());
  EXPECT_EQ(VirtualSpan::Nanoseconds(3) * 4, VirtualSpan::Nanoseconds(12));
}

constexpr int64_t kSecond = 1'000'000'000, kDay = 86'400 * kSecond;  // ns
constexpr VirtualTime kFirst =
    VirtualTime() + VirtualSpan::Picoseconds(std::numeric_limits<int64_t>::min());

TEST(VirtualTimeTest, WhatDoesNotFitIsInfiniteAndNothingWraps) {
  const VirtualSpan longest = VirtualSpan::Picoseconds(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(VirtualTime::FromNanoseconds(200 * kDay), VirtualTime::Infinity());
  EXPECT_EQ(VirtualTime::FromNanoseconds(-200 * kDay), kFirst);
  EXPECT_EQ(VirtualSpan::Nanoseconds(200 * kDay), longest);
  EXPECT_EQ(VirtualSpan::Microseconds(200 * kDay / 1000), longest);
  EXPECT_LT(VirtualSpan::Microseconds(-200 * kDay / 1000), VirtualSpan());
  EXPECT_EQ(VirtualTime::Infinity() + VirtualSpan::Nanoseconds(1), VirtualTime::Infinity());
  EXPECT_EQ(kFirst - VirtualSpan::Nanoseconds(1), kFirst);
  EXPECT_EQ(VirtualTime::Infinity() - kFirst, longest);
  EXPECT_EQ(longest + longest, longest);
  EXPECT_LT((VirtualSpan() - longest) - longest, VirtualSpan() - VirtualSpan::Nanoseconds(kDay));
  EXPECT_EQ(longest * 2, longest);
  EXPECT_EQ(longest * -2, VirtualSpan() - longest - VirtualSpan::Picoseconds(1));
  EXPECT_EQ(VirtualSpan::Nanoseconds(-kDay) * -1'000, longest);
  // What fits is exact.
  EXPECT_EQ(
      (VirtualTime::FromNanoseconds(100 * kDay) + VirtualSpan::Nanoseconds(kDay)).nanoseconds(),
      101 * kDay);
}

int64_t uptime = 0;
int64_t Uptime() { return uptime; }

TEST(TimeSourceTest, AHostMayHaveBeenUpForYears) {
  for (const int64_t days : {0, 106, 107, 200, 365 * 20}) {
    const int64_t epoch = uptime = days * kDay + 7;
    RealTimeSource clock(Uptime, epoch);
    VirtualTime last = clock.Now();
    EXPECT_EQ(last, VirtualTime()) << days;
    for (const int64_t passed : {int64_t{1}, kSecond, kDay, 90 * kDay}) {
      uptime = epoch + passed;
      EXPECT_EQ(clock.Now().nanoseconds(), passed) << days;
      EXPECT_EQ((clock.Now() - last).nanoseconds(), passed - last.nanoseconds()) << days;
      last = clock.Now();
      EXPECT_EQ(clock.ShownNanoseconds(), uptime) << "what programs read themselves, at " << days;
    }
    uptime = epoch + 300 * kDay;  // a run of so long
    EXPECT_EQ(clock.Now(), VirtualTime::Infinity());
    EXPECT_EQ(clock.ShownNanoseconds(), uptime);
  }
}

TEST(TimeSourceTest, AllOfTheHostTellTheSame) {
  RealTimeSource first, second;
  const VirtualTime before = first.Now();
  const VirtualTime between = second.Now();
  const VirtualTime after = first.Now();
  EXPECT_LE(before, between);
  EXPECT_LE(between, after);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  EXPECT_LE(now.tv_sec * kSecond + now.tv_nsec, first.ShownNanoseconds());
}

TEST(TimeSourceTest, ManualTimeMovesOnlyWhenTold) {
  ManualTimeSource clock;
  const VirtualTime before = clock.Now();
  EXPECT_EQ(clock.Now(), before);
  clock.Advance(VirtualSpan::Nanoseconds(7));
  EXPECT_EQ(clock.Now() - before, VirtualSpan::Nanoseconds(7));
}

}  // namespace
}  // namespace phantora
