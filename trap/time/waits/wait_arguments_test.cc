#include "trap/time/waits/wait_arguments.h"

#include <gtest/gtest.h>

#include <limits>

namespace phantora {
namespace {

constexpr int64_t kDay = 86'400;  // seconds
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr VirtualTime kNow = VirtualTime::FromNanoseconds(10'000 * kNanosecondsPerSecond);

TEST(WaitArgumentsTest, TimesAreValidAsInTheKernel) {
  EXPECT_TRUE(IsValid({0, 0}));
  EXPECT_TRUE(IsValid({kMost, 999'999'999}));
  EXPECT_FALSE(IsValid({0, 1'000'000'000}));
  EXPECT_FALSE(IsValid({0, -1}));
  EXPECT_FALSE(IsValid({-1, 0}));
}

TEST(WaitArgumentsTest, OnlyClocksThatAreSetAreOffset) {
  const int64_t offset = 5 * kNanosecondsPerSecond;
  for (const int clock : {CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_REALTIME_ALARM, CLOCK_TAI}) {
    EXPECT_TRUE(IsRealtime(clock));
    EXPECT_EQ(InstantOf(clock, {7, 1}, offset).nanoseconds(), 2 * kNanosecondsPerSecond + 1);
  }
  for (const int clock : {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
                          CLOCK_BOOTTIME_ALARM, CLOCK_MONOTONIC_COARSE}) {
    EXPECT_FALSE(IsRealtime(clock));
    EXPECT_EQ(InstantOf(clock, {7, 1}, offset).nanoseconds(), 7 * kNanosecondsPerSecond + 1);
  }
}

TEST(WaitArgumentsTest, InstantsDoNotWrap) {
  EXPECT_EQ(InstantOf(CLOCK_MONOTONIC, {kMost, 999'999'999}, 0), VirtualTime::Infinity());
  EXPECT_EQ(InstantOf(CLOCK_MONOTONIC, {200 * kDay, 0}, 0), VirtualTime::Infinity());
  EXPECT_EQ(InstantOf(CLOCK_MONOTONIC, {20 * 365 * kDay, 0}, 0), VirtualTime::Infinity());
  EXPECT_LT(InstantOf(CLOCK_MONOTONIC, {53 * kDay, 0}, 0), VirtualTime::Infinity());
  // Before the beginning is at once.
  EXPECT_EQ(InstantOf(CLOCK_REALTIME, {1, 0}, kMost), VirtualTime());
  // A real time of today, 56 years after 1970.
  const int64_t today = 56 * 365 * kDay;
  const int64_t offset = today * kNanosecondsPerSecond;
  EXPECT_EQ(InstantOf(CLOCK_REALTIME, {today + 3, 0}, offset).nanoseconds(),
            3 * kNanosecondsPerSecond);
  EXPECT_EQ(InstantOf(CLOCK_REALTIME, {kMost, 0}, std::numeric_limits<int64_t>::min()),
            VirtualTime::Infinity());
}

TEST(WaitArgumentsTest, SpansAreAddedToThePresentAndDoNotWrap) {
  EXPECT_EQ((After(kNow, timespec{1, 5}) - kNow).nanoseconds(), kNanosecondsPerSecond + 5);
  EXPECT_EQ(After(kNow, timespec{kMost, 999'999'999}), VirtualTime::Infinity());
  EXPECT_EQ((After(kNow, timeval{1, 5}) - kNow).nanoseconds(), kNanosecondsPerSecond + 5'000);
  // The kernel takes more microseconds than a second has here.
  EXPECT_EQ((After(kNow, timeval{1, 2'000'000}) - kNow).nanoseconds(), 3 * kNanosecondsPerSecond);
  EXPECT_EQ(After(kNow, timeval{kMost, kMost}), VirtualTime::Infinity());
  EXPECT_EQ(AfterMilliseconds(kNow, 0), kNow);
  EXPECT_EQ((AfterMilliseconds(kNow, std::numeric_limits<int>::max()) - kNow).nanoseconds(),
            int64_t{std::numeric_limits<int>::max()} * 1'000'000);
}

TEST(WaitArgumentsTest, NothingIsLeftOfWhatIsOverOrHasNoEnd) {
  const timespec left = Remaining(After(kNow, timespec{2, 3}), kNow);
  EXPECT_EQ(left.tv_sec, 2);
  EXPECT_EQ(left.tv_nsec, 3);
  for (const VirtualTime deadline : {kNow, VirtualTime(), VirtualTime::Infinity()}) {
    EXPECT_EQ(Remaining(deadline, kNow).tv_sec, 0);
    EXPECT_EQ(Remaining(deadline, kNow).tv_nsec, 0);
  }
}

}  // namespace
}  // namespace phantora
