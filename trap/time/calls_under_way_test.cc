#include "trap/time/calls_under_way.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

using Receivers = std::set<pid_t>;

TEST(CallsUnderWayTest, OneHasHadItsEffectWhenItsThreadIsHeardOfAgain) {
  CallsUnderWay calls;
  calls.Begin(11, 10, 20);
  EXPECT_FALSE(calls.empty());
  EXPECT_EQ(calls.TakeArrived(), Receivers());
  calls.Stopped(12);
  EXPECT_EQ(calls.TakeArrived(), Receivers());
  calls.Stopped(11);
  EXPECT_EQ(calls.TakeArrived(), Receivers{20});
  calls.Stopped(11);
  EXPECT_EQ(calls.TakeArrived(), Receivers()) << "looked for twice";
  EXPECT_TRUE(calls.empty());
}

TEST(CallsUnderWayTest, OrWhenItIsBlocked) {
  CallsUnderWay calls;
  calls.Begin(11, 10, 20);
  calls.Begin(31, 30, 40);
  calls.Blocked([](pid_t process) { return process == 30; });
  EXPECT_EQ(calls.TakeArrived(), Receivers{40});
  calls.Blocked([](pid_t) { return true; });
  EXPECT_EQ(calls.TakeArrived(), Receivers{20});
}

TEST(CallsUnderWayTest, AnybodyIsEverybody) {
  CallsUnderWay calls;
  calls.Arrive(5);
  calls.Arrive(CallsUnderWay::kAnybody);
  calls.Arrive(7);
  EXPECT_EQ(calls.TakeArrived(), Receivers{CallsUnderWay::kAnybody});
  calls.Arrive(7);
  calls.Arrive(5);
  EXPECT_EQ(calls.TakeArrived(), (Receivers{5, 7}));
}

}  // namespace
}  // namespace phantora
