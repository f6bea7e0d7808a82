#include "trap/time/spin_loops.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace phantora {
namespace {

constexpr pid_t kRank = 100, kThread = 101, kOther = 102;
constexpr int64_t kWork = SpinLoops::kLongestTurnNs + 1;

VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(1'000'000 + microseconds);
}

class SpinLoopsTest : public ::testing::Test {
 protected:
  SpinLoops::Turn Look(int64_t microseconds, int64_t used = 0, pid_t thread = kThread) {
    processor_time_ += used;
    return loops_.LooksInVain(
        kRank, thread, {.now = At(microseconds), .whole_wait = whole_wait_, .was_let = was_let_},
        [this] { return Used(); });
  }
  int64_t Used() {
    ++asked_;
    return processor_time_;
  }
  int64_t ReadClock(pid_t thread) {
    return loops_.ReadsClock(thread, [this] { return Used(); });
  }
  // Until the thread spins.
  void Spin(int64_t microseconds) {
    for (uint32_t i = 0; i < SpinLoops::kFreeLooks; ++i) ASSERT_FALSE(Look(microseconds).spins);
    const SpinLoops::Turn turn = Look(microseconds);
    ASSERT_TRUE(turn.spins);
    ASSERT_TRUE(turn.begins_to);
  }

  SpinLoops loops_;
  bool whole_wait_ = false, was_let_ = false;
  int64_t processor_time_ = 0;
  int asked_ = 0;
};

TEST_F(SpinLoopsTest, SeveralLooksInARowAreALoop) {
  EXPECT_FALSE(loops_.Spins(kThread));
  Spin(0);
  EXPECT_TRUE(loops_.Spins(kThread));
  EXPECT_FALSE(loops_.Spins(kOther));
  EXPECT_TRUE(Look(0).spins);
  EXPECT_FALSE(Look(0).begins_to) << "once";
  EXPECT_FALSE(Look(0, 0, kOther).spins) << "each thread has loops of its own";
}

TEST_F(SpinLoopsTest, WhoDoesSomethingElseBeginsAnew) {
  Spin(0);
  loops_.GoesOn(kThread);
  EXPECT_FALSE(loops_.Spins(kThread));
  Spin(0);
  loops_.ProcessDied(kRank + 1);
  EXPECT_TRUE(loops_.Spins(kThread));
  loops_.ProcessDied(kRank);
  EXPECT_FALSE(loops_.Spins(kThread));
}

TEST_F(SpinLoopsTest, WhoWorksBetweenLooksDoesNotSpin) {
  for (int i = 0; i < 100; ++i) {
    const SpinLoops::Turn turn = Look(i, kWork);
    EXPECT_FALSE(turn.spins);
    EXPECT_EQ(turn.spent, 0) << "work counts";
  }
}

TEST_F(SpinLoopsTest, ProcessorTimeOfLooksIsTold) {
  EXPECT_EQ(Look(0, 7'000).spent, 0);
  EXPECT_EQ(Look(0, 7'000).spent, 0) << "from here on it is known";
  EXPECT_EQ(Look(0, 7'000).spent, 7'000);
  processor_time_ += 3'000;
  EXPECT_EQ(ReadClock(kThread), 3'000);
  EXPECT_EQ(Look(0, 4'000).spent, 4'000) << "since the clock was read";
  processor_time_ += kWork;
  EXPECT_EQ(ReadClock(kThread), 0) << "that was work";
  EXPECT_EQ(Look(0, 4'000).spent, 4'000) << "the loop goes on";
}

TEST_F(SpinLoopsTest, OneLongTurnDoesNotEndALoop) {
  Spin(0);
  for (int i = 0; i < 4; ++i) {
    const SpinLoops::Turn turn = Look(1'600, kWork);
    EXPECT_TRUE(turn.spins && !turn.begins_to);
    EXPECT_EQ(turn.spent, 0) << "it counts";
    EXPECT_EQ(turn.step, VirtualSpan::Microseconds(100)) << "of the whole loop";
    EXPECT_EQ(Look(1'600, 5'000).spent, 5'000);
    // By either half of a turn.
    processor_time_ += kWork;
    EXPECT_EQ(ReadClock(kThread), 0);
    EXPECT_TRUE(Look(1'600).spins);
    EXPECT_TRUE(Look(1'600).spins);
  }
  EXPECT_TRUE(Look(1'600, kWork).spins);
  EXPECT_FALSE(Look(1'600, kWork).spins) << "two are work";
  loops_.GoesOn(kThread);
  Spin(0);
  processor_time_ += kWork;
  ReadClock(kThread);
  EXPECT_TRUE(Look(0).spins);
  EXPECT_FALSE(Look(0, kWork).spins);
}

TEST_F(SpinLoopsTest, WhoDoesNotLoopIsNotAsked) {
  EXPECT_EQ(ReadClock(kThread), 0);
  Look(0);
  EXPECT_EQ(asked_, 0);
  Look(0);
  ReadClock(kThread);
  EXPECT_EQ(asked_, 2);
}

TEST_F(SpinLoopsTest, StepsGrowWithTheLoop) {
  Spin(0);
  EXPECT_EQ(Look(0).step, SpinLoops::kShortestStep);
  EXPECT_EQ(Look(8).step, SpinLoops::kShortestStep);
  EXPECT_EQ(Look(1'600).step, VirtualSpan::Microseconds(100));
  // A wait of 100 ms takes some hundred looks.
  int64_t now = 0;
  int looks = 0;
  for (; now < 100'000; ++looks) now += Look(now).step.picoseconds() / 1'000'000;
  EXPECT_LT(looks, 200);
  EXPECT_EQ(Look(100'000'000).step, SpinLoops::kLongestStep);
}

TEST_F(SpinLoopsTest, AfterSomebodyElsesStopStepsAreShortAgain) {
  Spin(0);
  loops_.SomebodyStopped(At(1'600));
  EXPECT_EQ(Look(1'600).step, SpinLoops::kShortestStep);
  EXPECT_EQ(Look(3'200).step, VirtualSpan::Microseconds(100));
  loops_.SomebodyStopped(At(2'000));
  loops_.SomebodyStopped(At(1'000));
  EXPECT_EQ(Look(3'600).step, VirtualSpan::Microseconds(100)) << "since the latest of them";
  loops_.SomebodyStopped(At(9'000));
  EXPECT_EQ(Look(3'600).step, SpinLoops::kShortestStep) << "one who is ahead";
}

TEST_F(SpinLoopsTest, StepsOfTheWholeWaitWhereThatIsAskedFor) {
  Spin(0);
  whole_wait_ = true;
  loops_.SomebodyStopped(At(1'500));
  EXPECT_EQ(Look(1'600).step, VirtualSpan::Microseconds(100));
  whole_wait_ = false;
  EXPECT_EQ(Look(1'660).step, VirtualSpan::Microseconds(10));
}

TEST_F(SpinLoopsTest, ATurnWithOtherClockReadsBelongsToAnotherWait) {
  const auto look = [this](int64_t microseconds, int reads) {
    for (int i = 0; i < reads; ++i) ReadClock(kThread);
    return Look(microseconds);
  };
  for (int i = 0; i < 4; ++i) look(0, 1);
  was_let_ = true;
  SpinLoops::Turn turn = look(1'600, 1);
  EXPECT_FALSE(turn.begins_to);
  EXPECT_EQ(turn.step, VirtualSpan::Microseconds(100));
  // It has found something, and waits for the next: until when, it finds out first.
  turn = look(1'700, 2);
  EXPECT_TRUE(turn.spins && turn.begins_to) << "it may have written";
  EXPECT_EQ(turn.step, SpinLoops::kShortestStep);
  turn = look(3'300, 1);
  EXPECT_FALSE(turn.begins_to) << "the usual turn";
  EXPECT_EQ(turn.step, VirtualSpan::Microseconds(100));
  // Nobody has done anything meanwhile.
  was_let_ = false;
  look(3'300, 1);
  turn = look(3'300, 3);
  EXPECT_FALSE(turn.begins_to);
  EXPECT_EQ(turn.step, VirtualSpan::Microseconds(100));
}

TEST_F(SpinLoopsTest, ALoopMayReadTheClockInEverySecondTurn) {
  was_let_ = true;
  for (int i = 0; i < 8; ++i) {
    if (i % 2 == 0) ReadClock(kThread);
    Look(0);
  }
  for (int i = 0; i < 4; ++i) {
    if (i % 2 == 0) ReadClock(kThread);
    EXPECT_FALSE(Look(0).begins_to);
  }
}

TEST_F(SpinLoopsTest, ThreadsWithoutEnd) {
  for (pid_t thread = 1; thread < 200'000; ++thread) Look(0, 0, thread);
  Spin(0);
}

}  // namespace
}  // namespace phantora
