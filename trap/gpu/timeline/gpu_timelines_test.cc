#include "trap/gpu/timeline/gpu_timelines.h"

#include <gtest/gtest.h>

#include "trap/gpu/timeline/gpu_timelines_harness.h"

namespace phantora {
namespace {

TEST_F(GpuTimelinesTest, AChannelIsInOrderAndChannelsOverlap) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  one.Copy(10).Copy(5).Submit();
  two.Copy(7).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  RunAll();
  EXPECT_EQ(timeline_.text, "ch2 0-7 ch1 0-10 ch1 10-15 ");
}

TEST_F(GpuTimelinesTest, NothingIsSeenBeforeItsTime) {
  Submitter one(*this, 1, kProcess);
  one.Copy(10).Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  auto submitted = timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  EXPECT_EQ(submitted.count, 1);
  EXPECT_FALSE(submitted.seen);
  EXPECT_EQ(timelines_.NextEvent(kProcess), At(10));
  EXPECT_FALSE(timelines_.Submit(kProcess, At(0), At(9), VirtualSpan()).seen);
  EXPECT_TRUE(timelines_.Submit(kProcess, At(9), At(10), VirtualSpan()).seen);
  EXPECT_EQ(timelines_.NextEvent(kProcess), VirtualTime::Infinity());
}

TEST_F(GpuTimelinesTest, TellsWhenAQueueIsFull) {
  Submitter one(*this, 1, kProcess);
  for (uint32_t i = 0; i < kEntries - 5; ++i) one.Copy(10).Submit();
  EXPECT_FALSE(timelines_.QueuesOf(kProcess).full);
  one.Copy(10).Submit();
  EXPECT_TRUE(timelines_.QueuesOf(kProcess).full);
  EXPECT_EQ(timelines_.QueuesOf(kProcess).hidden, kEntries - 4);
  timelines_.Submit(kProcess, At(0), At(9), VirtualSpan());
  EXPECT_TRUE(timelines_.QueuesOf(kProcess).full);
  EXPECT_EQ(timelines_.QueuesOf(kProcess).hidden, 0);
  timelines_.Advance(kProcess, At(20), false);
  EXPECT_FALSE(timelines_.QueuesOf(kProcess).full);
}

TEST_F(GpuTimelinesTest, AWaitEndsWithTheFirstRelease) {
  Submitter one(*this, 1, kProcess);
  one.Copy(10).Semaphore(abi::host::kRelease, 0x100, 1).Copy(20);
  one.Semaphore(abi::host::kRelease, 0x100, 2).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  auto progress = timelines_.Advance(kProcess, VirtualTime::Infinity(), true);
  EXPECT_TRUE(progress.released);
  EXPECT_EQ(progress.time, At(10));
  progress = timelines_.Advance(kProcess, VirtualTime::Infinity(), true);
  EXPECT_EQ(progress.time, At(30));
}

TEST_F(GpuTimelinesTest, ASemaphoreOrdersChannels) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  two.Semaphore(abi::host::kAcquire, 0x100, 1).Copy(5).Submit();
  one.Copy(10).Semaphore(abi::host::kRelease, 0x100, 1).Copy(10).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1 0-10 ch2 10-15 ch1 10-20 ");
}

TEST_F(GpuTimelinesTest, ASemaphoreOrdersProcesses) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kOther);
  two.Semaphore(abi::host::kAcquire, 0x100, 1).Copy(5).Submit();
  one.Copy(10).Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  timelines_.Submit(kOther, At(0), At(0), VirtualSpan());
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  EXPECT_EQ(timelines_.NextEvent(kOther), VirtualTime::Infinity());
  RunAll(kProcess);
  EXPECT_NE(timelines_.NextEvent(kOther), VirtualTime::Infinity());
  RunAll(kOther);
  EXPECT_EQ(timeline_.text, "ch1 0-10 ch2 10-15 ");
}

TEST_F(GpuTimelinesTest, AStoreOfTheHostIsNoticed) {
  Submitter one(*this, 1, kProcess);
  one.Semaphore(abi::host::kAcquire, 0x100, 1).Copy(5).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  EXPECT_EQ(timelines_.NextEvent(kProcess), VirtualTime::Infinity());
  const uint32_t value = 1;
  EXPECT_FALSE(context_->memory.Write(kData + 0x100, &value, 4));
  timelines_.Submit(kProcess, At(0), At(3), VirtualSpan());
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1 3-8 ");
}

TEST_F(GpuTimelinesTest, SubmissionsAreSpreadOverTheTimeThatTheProcessRan) {
  Submitter one(*this, 1, kProcess);
  for (int i = 0; i < 3; ++i) one.Copy(1).Submit();
  const auto submitted = timelines_.Submit(kProcess, At(0), At(40), VirtualSpan());
  EXPECT_EQ(submitted.count, 3);
  EXPECT_EQ(submitted.now, At(40));
  EXPECT_EQ(timeline_.text, "ch1 10-11 ch1 20-21 ch1 30-31 ");
}

TEST_F(GpuTimelinesTest, SubmissionsCostTheProcessTime) {
  Submitter one(*this, 1, kProcess);
  for (int i = 0; i < 3; ++i) one.Copy(5).Submit();
  const auto submitted = timelines_.Submit(kProcess, At(0), At(0), VirtualSpan::Microseconds(2));
  EXPECT_EQ(submitted.now, At(6));
  RunAll();
  EXPECT_EQ(timeline_.text, "ch1 2-7 ch1 7-12 ch1 12-17 ");
}

TEST_F(GpuTimelinesTest, AFailureIsSeenOnceAndLeavesTheOthersAlone) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  one.Copy(5, 0x7000000).Submit();  // not mapped
  two.Copy(5).Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  RunAll();
  timelines_.Submit(kProcess, At(20), At(30), VirtualSpan());
  EXPECT_EQ(sink_.errors, 1);
  EXPECT_EQ(timelines_.NextEvent(kProcess), VirtualTime::Infinity());
  uint32_t value = 0;
  EXPECT_FALSE(context_->memory.Read(kData + 0x100, &value, 4));
  EXPECT_EQ(value, 1u);
}

}  // namespace
}  // namespace phantora
