#include "trap/time/thread_clocks.h"

#include "gtest/gtest.h"

namespace phantora {
namespace {

constexpr pid_t kMain = 10, kHelper = 11;

VirtualTime At(int64_t ns) { return VirtualTime::FromNanoseconds(ns); }

TEST(ThreadClocksTest, AThreadBeginsWhenItWasMade) {
  ThreadClocks clocks(At(5));
  EXPECT_EQ(clocks.Of(kMain), At(5));
  clocks.Begins(kMain);
  EXPECT_EQ(clocks.Of(kMain), At(5));
  clocks.Goes(kMain, At(20));
  clocks.Makes(At(20));
  // Its maker is quicker.
  clocks.Makes(At(30));
  clocks.Begins(kHelper);
  EXPECT_EQ(clocks.Of(kHelper), At(20));
  clocks.Begins(kHelper + 1);
  EXPECT_EQ(clocks.Of(kHelper + 1), At(30));
  clocks.Begins(kMain);
  EXPECT_EQ(clocks.Of(kMain), At(20));
}

TEST(ThreadClocksTest, ThreadsThatCouldNotBeMadeAreForgotten) {
  ThreadClocks clocks;
  for (int i = 1; i <= 9; ++i) clocks.Makes(At(i));
  clocks.Begins(kHelper);
  EXPECT_EQ(clocks.Of(kHelper), At(8));
}

TEST(ThreadClocksTest, TheEarliestOfThoseThatRun) {
  ThreadClocks clocks;
  EXPECT_EQ(clocks.Earliest(), std::nullopt);
  clocks.Goes(kMain, At(20));
  clocks.Goes(kHelper, At(7));
  EXPECT_EQ(clocks.Earliest(), At(7));
  clocks.Stands(kHelper, At(8));
  EXPECT_EQ(clocks.Earliest(), At(20));
  EXPECT_EQ(clocks.Of(kHelper), At(8));
  clocks.FoundAsleep();
  EXPECT_EQ(clocks.Earliest(), std::nullopt);
  EXPECT_EQ(clocks.Of(kMain), At(20));
}

TEST(ThreadClocksTest, NobodyGoesBack) {
  ThreadClocks clocks;
  clocks.Goes(kMain, At(20));
  clocks.Stands(kHelper, At(30));
  clocks.Raise(kMain, At(10));
  EXPECT_EQ(clocks.Of(kMain), At(20));
  clocks.RaiseRunning(At(40));
  EXPECT_EQ(clocks.Of(kMain), At(40));
  EXPECT_EQ(clocks.Of(kHelper), At(30));
}

TEST(ThreadClocksTest, ANumberMayBeUsedAnew) {
  ThreadClocks clocks;
  clocks.Goes(kHelper, At(30));
  clocks.Ends(kHelper);
  EXPECT_EQ(clocks.Earliest(), std::nullopt);
  clocks.Makes(At(50));
  clocks.Begins(kHelper);
  EXPECT_EQ(clocks.Of(kHelper), At(50));
}

}  // namespace
}  // namespace phantora
