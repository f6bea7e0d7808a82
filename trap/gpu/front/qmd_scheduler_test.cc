#include "trap/gpu/front/qmd_scheduler.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

constexpr uint64_t kNode = 0x1000;

TEST(QmdSchedulerTest, AnOrdinaryLaunchRunsAtOnceAndIsForgotten) {
  QmdScheduler scheduler;
  EXPECT_TRUE(scheduler.Load(kNode, false, 0));
  EXPECT_EQ(scheduler.size(), 0u);
}

TEST(QmdSchedulerTest, AGraphNodeRunsAtEveryScheduleAfterOneHandOver) {
  QmdScheduler scheduler;
  EXPECT_FALSE(scheduler.Load(kNode, true, 0));
  for (int replay = 0; replay < 100; ++replay) {
    EXPECT_TRUE(scheduler.Schedule(kNode, true, 0)) << replay;
  }
}

TEST(QmdSchedulerTest, AJoinRunsAtTheLastDecrementOfEveryReplay) {
  QmdScheduler scheduler;
  EXPECT_FALSE(scheduler.Load(kNode, true, 3));
  for (int replay = 0; replay < 3; ++replay) {
    EXPECT_FALSE(scheduler.DecrementDependence(kNode));
    EXPECT_FALSE(scheduler.DecrementDependence(kNode));
    EXPECT_TRUE(scheduler.DecrementDependence(kNode));
  }
}

TEST(QmdSchedulerTest, PredecessorsMayBeQuickerThanTheHandOver) {
  QmdScheduler scheduler;
  EXPECT_FALSE(scheduler.Schedule(kNode, true, 0));
  EXPECT_TRUE(scheduler.Load(kNode, true, 0));
  EXPECT_FALSE(scheduler.DecrementUnknown(kNode + 1, false, 3));
  EXPECT_FALSE(scheduler.DecrementDependence(kNode + 1));
  EXPECT_TRUE(scheduler.Load(kNode + 1, false, 2));
}

TEST(QmdSchedulerTest, AQmdThatIsOnlyInMemoryRunsAtItsLastDecrement) {
  QmdScheduler scheduler;
  EXPECT_FALSE(scheduler.Knows(kNode));
  EXPECT_FALSE(scheduler.DecrementUnknown(kNode, false, 2));
  EXPECT_TRUE(scheduler.Knows(kNode));
  EXPECT_TRUE(scheduler.DecrementDependence(kNode));
}

TEST(QmdSchedulerTest, ProgrammaticLaunchesReuseACounterThatWasUsedUp) {
  QmdScheduler scheduler;
  EXPECT_FALSE(scheduler.Load(kNode, false, 2));
  for (int lap = 0; lap < 3; ++lap) {
    EXPECT_FALSE(scheduler.DecrementDependence(kNode));
    EXPECT_TRUE(scheduler.DecrementDependence(kNode));
  }
  // An ordinary launch follows: nobody decrements it again. Then it is handed over.
  EXPECT_FALSE(scheduler.DecrementDependence(kNode));
  EXPECT_FALSE(scheduler.Load(kNode, false, 2));
  EXPECT_FALSE(scheduler.DecrementDependence(kNode));
  EXPECT_TRUE(scheduler.DecrementDependence(kNode));
}

TEST(QmdSchedulerTest, HandingOverAgainForgetsAnUnfinishedRun) {
  QmdScheduler scheduler;
  EXPECT_FALSE(scheduler.Load(kNode, true, 2));
  EXPECT_FALSE(scheduler.DecrementDependence(kNode));
  EXPECT_FALSE(scheduler.Load(kNode, true, 2));
  EXPECT_FALSE(scheduler.DecrementDependence(kNode));
  EXPECT_TRUE(scheduler.DecrementDependence(kNode));
}

}  // namespace
}  // namespace phantora
