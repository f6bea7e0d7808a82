#include "trap/time/wake_times.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

VirtualTime At(int64_t ns) { return VirtualTime() + VirtualSpan::Nanoseconds(ns); }

TEST(WakeTimesTest, WhoIsHeardOfWasWoken) {
  WakeTimes wakes;
  EXPECT_TRUE(wakes.empty());
  wakes.Woken({10}, 1, At(5));
  EXPECT_EQ(wakes.Heard(11), VirtualTime());
  EXPECT_EQ(wakes.Heard(10), At(5));
  EXPECT_EQ(wakes.Heard(10), VirtualTime()) << "once";
  EXPECT_TRUE(wakes.empty());
}

TEST(WakeTimesTest, OfSeveralAsManyAreWokenAsTheCallSays) {
  WakeTimes wakes;
  wakes.Woken({10, 11, 12}, 2, At(5));
  EXPECT_EQ(wakes.Heard(12), At(5));
  EXPECT_EQ(wakes.Heard(10), At(5));
  EXPECT_EQ(wakes.Heard(11), VirtualTime()) << "it waits still";
  EXPECT_TRUE(wakes.empty());
}

TEST(WakeTimesTest, EachWakeIsAnothersOfThoseThatWait) {
  WakeTimes wakes;
  wakes.Woken({10, 11}, 1, At(5));
  wakes.Woken({10, 11}, 1, At(7));
  EXPECT_EQ(wakes.Heard(11), At(5));
  EXPECT_EQ(wakes.Heard(10), At(7));
  EXPECT_TRUE(wakes.empty());
}

TEST(WakeTimesTest, WhoGoesOnByItselfWasNotWoken) {
  WakeTimes wakes;
  wakes.Woken({10}, 1, At(5));
  wakes.Forget(10);
  EXPECT_EQ(wakes.Heard(10), VirtualTime());
}

TEST(WakeTimesTest, NobodyOrNoneIsNothing) {
  WakeTimes wakes;
  wakes.Woken({}, 1, At(5));
  wakes.Woken({10}, 0, At(5));
  EXPECT_TRUE(wakes.empty());
}

TEST(WakeTimesTest, ThoseThatNeverGoOnAreForgottenInTheEnd) {
  WakeTimes wakes;
  for (int i = 0; i < 5000; ++i) wakes.Woken({i + 1}, 1, At(i + 1));
  EXPECT_EQ(wakes.Heard(1), VirtualTime());
  EXPECT_EQ(wakes.Heard(5000), At(5000));
}

}  // namespace
}  // namespace phantora
