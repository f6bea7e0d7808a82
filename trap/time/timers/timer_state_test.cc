#include "trap/time/timers/timer_state.h"

#include <gtest/gtest.h>

#include <limits>

#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr VirtualTime kNow = VirtualTime::FromNanoseconds(10'000 * kNanosecondsPerSecond);

VirtualTime Later(int64_t nanoseconds) { return kNow + VirtualSpan::Nanoseconds(nanoseconds); }

TimerState Armed(const timespec& value, const timespec& interval, bool absolute = false,
                 int clock = CLOCK_MONOTONIC, int64_t realtime_offset = 0) {
  TimerState timer;
  timer.clock = clock;
  timer.Arm({.it_interval = interval, .it_value = value}, absolute, kNow, realtime_offset);
  return timer;
}

TEST(TimerStateTest, ExpiresOnceWithoutAnInterval) {
  TimerState timer = Armed({1, 5}, {0, 0});
  EXPECT_EQ(timer.deadline, Later(kNanosecondsPerSecond + 5));
  EXPECT_FALSE(timer.repeats());
  EXPECT_EQ(timer.Left(Later(5)).it_value.tv_sec, 1);
  EXPECT_EQ(timer.Expire(timer.deadline), 1);
  EXPECT_EQ(timer.deadline, VirtualTime::Infinity());
  EXPECT_TRUE(IsZero(timer.Left(kNow).it_value));
}

TEST(TimerStateTest, RepeatsFromItsDeadlinesNotFromWhenItIsNoticed) {
  TimerState timer = Armed({0, 1'000'000}, {0, 2'000'000});
  EXPECT_EQ(timer.Expire(Later(1'000'000)), 1);
  EXPECT_EQ(timer.deadline, Later(3'000'000));
  EXPECT_EQ(timer.Expire(Later(8'500'000)), 3) << "at 3, 5 and 7 ms";
  EXPECT_EQ(timer.deadline, Later(9'000'000));
  EXPECT_EQ(timer.Left(Later(8'500'000)).it_value.tv_nsec, 500'000);
  EXPECT_EQ(timer.Left(kNow).it_interval.tv_nsec, 2'000'000);
}

TEST(TimerStateTest, VeryFastOnesExpireSeveralTimesAtOnce) {
  TimerState timer = Armed({0, 1}, {0, 1});
  EXPECT_EQ(timer.Expire(Later(1)), 10'001) << "as often as in the next 10 us";
  EXPECT_EQ(timer.deadline, Later(10'002));
}

TEST(TimerStateTest, AbsoluteOnesAreInTheTermsOfTheirClock) {
  const int64_t offset = 1'700'000'000 * kNanosecondsPerSecond;
  EXPECT_EQ(Armed({10'002, 0}, {}, true).deadline, Later(2 * kNanosecondsPerSecond));
  EXPECT_EQ(Armed({1'700'010'002, 0}, {}, true, CLOCK_REALTIME, offset).deadline,
            Later(2 * kNanosecondsPerSecond));
  // In the past: at once, and as often as it would have been.
  TimerState past = Armed({9'998, 0}, {1, 0}, true);
  EXPECT_LT(past.deadline, kNow);
  EXPECT_EQ(past.Left(kNow).it_value.tv_nsec, 1) << "it is about to expire, not disarmed";
  EXPECT_EQ(past.Expire(kNow), 3);
  EXPECT_EQ(past.deadline, Later(kNanosecondsPerSecond));
  EXPECT_EQ(Armed({1, 0}, {}, true, CLOCK_REALTIME, offset).deadline, VirtualTime());
}

TEST(TimerStateTest, AValueOfZeroDisarmsAndKeepsTheInterval) {
  const TimerState timer = Armed({0, 0}, {3, 0});
  EXPECT_EQ(timer.deadline, VirtualTime::Infinity());
  EXPECT_TRUE(IsZero(timer.Left(kNow).it_value));
  EXPECT_EQ(timer.Left(kNow).it_interval.tv_sec, 3);
  EXPECT_EQ(Armed({0, 0}, {3, 0}, true).deadline, VirtualTime::Infinity());
}

TEST(TimerStateTest, TheFarthestIsNeverAndNothingWraps) {
  for (const timespec& far : {timespec{kMost, 999'999'999}, {200 * 86'400, 0}}) {
    EXPECT_EQ(Armed(far, {0, 0}).deadline, VirtualTime::Infinity());
    EXPECT_EQ(Armed(far, {0, 0}, true).deadline, VirtualTime::Infinity());
    TimerState timer = Armed({0, 1}, far);
    EXPECT_GT(timer.interval, VirtualSpan());
    EXPECT_EQ(timer.Expire(Later(1)), 1);
    EXPECT_EQ(timer.deadline, VirtualTime::Infinity());
    EXPECT_GE(timer.Left(kNow).it_interval.tv_sec, 53 * 86'400);
  }
  // A short interval that has been missed for as long as there is.
  TimerState missed = Armed({0, 1}, {0, 1'000'000});
  EXPECT_GT(missed.Expire(VirtualTime() + VirtualSpan::Picoseconds(kMost / 2)), 0);
  EXPECT_GE(missed.deadline, VirtualTime() + VirtualSpan::Picoseconds(kMost / 2));
}

TEST(TimerStateTest, OneThatNobodyIsToldOfTellsItsNextTime) {
  const TimerState once = Armed({1, 0}, {0, 0});
  EXPECT_EQ(once.LeftUntold(kNow).it_value.tv_sec, 1);
  EXPECT_TRUE(IsZero(once.LeftUntold(Later(kNanosecondsPerSecond)).it_value));
  const TimerState again = Armed({1, 0}, {2, 0});
  EXPECT_EQ(again.LeftUntold(Later(kNanosecondsPerSecond)).it_value.tv_sec, 2);
  EXPECT_EQ(again.LeftUntold(Later(6 * kNanosecondsPerSecond)).it_value.tv_sec, 1);
  EXPECT_TRUE(IsZero(TimerState().LeftUntold(kNow).it_value));
}

}  // namespace
}  // namespace phantora
