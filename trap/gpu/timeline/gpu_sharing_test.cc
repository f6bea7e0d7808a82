// What the channels of a process make of the engines that they share, as exact timelines.
#include <gtest/gtest.h>

#include "trap/gpu/timeline/gpu_timelines_harness.h"

namespace phantora {
namespace {

class GpuSharingTest : public GpuTimelinesTest {
 protected:
  // Lets in what was submitted, all at time 0, and runs it.
  void Run() {
    timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
    RunAll();
  }
};

TEST_F(GpuSharingTest, KernelsThatFitTogetherOverlap) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess), three(*this, 3, kProcess);
  one.Kernel(10, kHalf).Submit();
  two.Kernel(7, kHalf / 2).Submit();
  three.Kernel(12, kHalf / 2).Submit();
  Run();
  EXPECT_EQ(timeline_.text, "ch2k 0-7 ch1k 0-10 ch3k 0-12 ");
}

TEST_F(GpuSharingTest, KernelsThatFillTheGpuQueue) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess), three(*this, 3, kProcess);
  one.Kernel(10, kFull).Submit();
  two.Kernel(10, 100 * kFull).Submit();
  three.Kernel(5, 1).Submit();
  Run();
  EXPECT_EQ(timeline_.text, "ch1k 0-10 ch2k 10-20 ch3k 20-25 ");
}

TEST_F(GpuSharingTest, AKernelTakesWhatIsLeft) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  one.Kernel(10, kHalf).Submit();
  two.Kernel(10, kFull).Submit();
  Run();
  // Half as fast until 10, by when it has done half of its work.
  EXPECT_EQ(timeline_.text, "ch1k 0-10 ch2k 0-15 ");
}

TEST_F(GpuSharingTest, KernelsOfAChannelAreInOrder) {
  Submitter one(*this, 1, kProcess);
  one.Kernel(10, 1).Kernel(5, 1).Submit();
  Run();
  EXPECT_EQ(timeline_.text, "ch1k 0-10 ch1k 10-15 ");
}

TEST_F(GpuSharingTest, GpusAndProcessesDoNotShare) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess, 0, 1), three(*this, 3, kOther);
  one.Kernel(10, kFull).Submit();
  two.Kernel(10, kFull).Submit();
  three.Kernel(10, kFull).Submit();
  timelines_.Submit(kOther, At(0), At(0), VirtualSpan());
  Run();
  RunAll(kOther);
  EXPECT_EQ(timeline_.text, "ch1k 0-10 ch2k 0-10 ch3k 0-10 ");
}

// What waits for SMs does not wait for a semaphore that another process may have written.
TEST_F(GpuSharingTest, AReleaseOfAnotherProcessDoesNotMoveTheQueue) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess), other(*this, 3, kOther);
  one.Kernel(10, kFull).Submit();
  two.Kernel(10, kFull).Submit();
  other.Copy(100).Semaphore(abi::host::kRelease, 0x100, 1).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  timelines_.Submit(kOther, At(0), At(0), VirtualSpan());
  RunAll(kOther);
  RunAll();
  EXPECT_EQ(timeline_.text, "ch3 0-100 ch1k 0-10 ch2k 10-20 ");
}

TEST_F(GpuSharingTest, CopiesOverlapKernels) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess);
  one.Kernel(10, kFull).Submit();
  two.Copy(12).Submit();
  Run();
  EXPECT_EQ(timeline_.text, "ch1k 0-10 ch2 0-12 ");
}

TEST_F(GpuSharingTest, CopiesQueueForTheirEngine) {
  Submitter one(*this, 1, kProcess, 9), two(*this, 2, kProcess, 9), three(*this, 3, kProcess, 10);
  one.Copy(10).Copy(1).Submit();
  two.Copy(5).Submit();
  three.Copy(7).Submit();
  Run();
  EXPECT_EQ(timeline_.text, "ch3 0-7 ch1 0-10 ch2 10-15 ch1 15-16 ");
}

TEST_F(GpuSharingTest, AnUrgentKernelOvertakes) {
  Submitter one(*this, 1, kProcess), two(*this, 2, kProcess), urgent(*this, 3, kProcess);
  one.Kernel(10, kFull).Submit();
  two.Kernel(10, kFull).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  urgent.Kernel(3, kFull, 8).Submit();
  timelines_.Submit(kProcess, At(0), At(8), VirtualSpan());  // enters at 4
  RunAll();
  EXPECT_EQ(timeline_.text, "ch3k 4-7 ch1k 0-13 ch2k 13-23 ");
}

TEST_F(GpuSharingTest, AFailureAndARemovalMakeRoom) {
  Submitter failing(*this, 1, kProcess), removed(*this, 2, kProcess), last(*this, 3, kProcess);
  failing.Kernel(10, kFull).Submit();
  removed.Kernel(10, kFull).Submit();
  last.Kernel(10, kFull).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  timelines_.Submit(kProcess, At(0), At(4), VirtualSpan());
  failing.channel()->Fail(kMmuFault, {}, services_);
  timelines_.Submit(kProcess, At(4), At(6), VirtualSpan());
  timelines_.Remove(removed.channel().get());
  removed.Destroy();
  RunAll();
  EXPECT_EQ(timeline_.text, "ch3k 6-16 ");
}

// A diamond: the head schedules two branches, whose join has a counter of two.
class GraphTest : public GpuSharingTest {
 protected:
  static constexpr uint64_t kHead = kData + 0x4000, kLeft = kHead + 0x400, kRight = kHead + 0x800,
                            kJoin = kHead + 0xc00;
  void Load(Submitter& channel, uint32_t blocks) {
    channel.Write(kHead, QmdBuilder(2, 1)
                             .RequiresPcas()
                             .Dependent(0, kLeft, Qmd::kSchedule)
                             .Dependent(1, kRight, Qmd::kSchedule));
    for (const auto& [qmd, microseconds] : {std::pair(kLeft, 10), {kRight, 4}}) {
      channel.Write(qmd, QmdBuilder(microseconds, blocks)
                             .RequiresPcas()
                             .Dependent(0, kJoin, Qmd::kDecrementDependence));
    }
    channel.Write(kJoin, QmdBuilder(1, 1).Counter(2));
    channel.Load(kHead).Load(kLeft).Load(kRight).Load(kJoin);
  }
};

TEST_F(GraphTest, BranchesOverlapWhereTheSameOneByOneDoesNot) {
  Submitter graph(*this, 1, kProcess);
  Load(graph, kHalf);
  graph.Schedule(kHead).Submit();
  Run();
  EXPECT_EQ(timeline_.text, "ch1k 0-2 ch1k 2-6 ch1k 2-12 ch1k 12-13 ");
  timeline_.text.clear();
  Submitter eager(*this, 2, kOther);
  eager.Kernel(2, 1).Kernel(10, kHalf).Kernel(4, kHalf).Kernel(1, 1).Submit();
  timelines_.Submit(kOther, At(0), At(0), VirtualSpan());
  RunAll(kOther);
  EXPECT_EQ(timeline_.text, "ch2k 0-2 ch2k 2-12 ch2k 12-16 ch2k 16-17 ");
}

TEST_F(GraphTest, BranchesThatFillTheGpuQueue) {
  Submitter graph(*this, 1, kProcess);
  Load(graph, kFull);
  graph.Schedule(kHead).Submit();
  Run();
  EXPECT_EQ(timeline_.text, "ch1k 0-2 ch1k 2-12 ch1k 12-16 ch1k 16-17 ");
}

TEST_F(GraphTest, ReplaysFollowEachOther) {
  Submitter graph(*this, 1, kProcess);
  Load(graph, kHalf);
  graph.Schedule(kHead).Schedule(kHead).Kernel(5, 1).Submit();
  Run();
  EXPECT_EQ(timeline_.text,
            "ch1k 0-2 ch1k 2-6 ch1k 2-12 ch1k 12-13 "
            "ch1k 13-15 ch1k 15-19 ch1k 15-25 ch1k 25-26 ch1k 26-31 ");
}

TEST_F(GraphTest, ACircleOfLaunchesDoesNotStopTime) {
  Submitter one(*this, 1, kProcess);
  one.Write(kHead, QmdBuilder(0, 1)
                       .RequiresPcas()
                       .Dependent(0, kLeft, Qmd::kSchedule)
                       .Dependent(1, kLeft, Qmd::kSchedule));
  one.Write(kLeft, QmdBuilder(0, 1).RequiresPcas().Dependent(0, kHead, Qmd::kSchedule));
  one.Load(kHead).Load(kLeft).Schedule(kHead).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  int calls = 0;
  while (timelines_.Advance(kProcess, At(100), false).time < At(100)) ASSERT_LT(++calls, 1000);
}

// And is not run through thousands of times before time passes.
TEST_F(GraphTest, ACircleOfLaunchesIsNotGoneThroughOftenInAShortTime) {
  Submitter one(*this, 1, kProcess);
  one.Write(kHead, QmdBuilder(0, 1).RequiresPcas().Dependent(0, kLeft, Qmd::kSchedule));
  one.Write(kLeft, QmdBuilder(0, 1).RequiresPcas().Dependent(0, kHead, Qmd::kSchedule));
  one.Load(kHead).Load(kLeft).Schedule(kHead).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  while (timelines_.Advance(kProcess, At(10000), false).time < At(10000)) {
  }
  // Four in a microsecond, after the first.
  EXPECT_LT(services_.counters.kernels, 60000u);
  EXPECT_EQ(one.channel()->failure(), 0u);
}

// More branches than run at a time, each scheduling two more, and so on.
TEST_F(GraphTest, AnAvalancheOfLaunchesIsBounded) {
  Submitter one(*this, 1, kProcess);
  for (uint64_t i = 0; i < 16; ++i) {
    one.Write(kHead + i * 0x400,
              QmdBuilder(1, 1)
                  .RequiresPcas()
                  .Dependent(0, kHead + (i * 2 + 1) % 16 * 0x400, Qmd::kSchedule)
                  .Dependent(1, kHead + (i * 2 + 2) % 16 * 0x400, Qmd::kSchedule));
    one.Load(kHead + i * 0x400);
  }
  one.Schedule(kHead).Submit();
  timelines_.Submit(kProcess, At(0), At(0), VirtualSpan());
  int calls = 0;
  while (timelines_.Advance(kProcess, At(20000), false).time < At(20000)) {
    ASSERT_LT(++calls, 10000);
  }
  EXPECT_EQ(one.channel()->failure(), kGrClassError);  // too many launches pending
}

}  // namespace
}  // namespace phantora
