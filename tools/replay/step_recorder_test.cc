#include "tools/replay/step_recorder.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

constexpr pid_t kProcess = 7;
constexpr uint32_t kCompute = 100, kNccl = 101;
constexpr uint64_t kSemaphore = 0x1000;

VirtualTime At(int64_t us) { return VirtualTime() + VirtualSpan::Microseconds(us); }

class StepRecorderTest : public testing::Test {
 protected:
  StepRecorder Make(size_t most_nodes = StepRecord::kMostNodes) {
    return StepRecorder({.start = At(1000),
                         .wanted = [](pid_t process) { return process >= kProcess; },
                         .describe =
                             [](uint64_t) {
                               StepRecorder::Options::Described described;
                               described.communicator.number = 3;
                               described.communicator.places = {{0, 0}};
                               described.collectives = {{nccl::Operation::kAllReduce, 64}};
                               return described;
                             },
                         .most_nodes = most_nodes});
  }
  StepRecorder recorder_ = Make();

  // A kernel that begins at `begin` and lasts 10 us.
  uint64_t Kernel(uint32_t channel, int64_t begin, uint64_t shared = 0) {
    recorder_.Fetched(kProcess, channel, At(begin - 1));
    const uint64_t number =
        recorder_.Kernel({kProcess, 0, channel, 0}, "kernel\n",
                         {.span = VirtualSpan::Microseconds(10)}, shared, At(begin));
    recorder_.Ended(number, At(begin + 10));
    return number;
  }
  void Release(uint32_t channel, uint64_t value, int64_t at) {
    recorder_.Released(kProcess, channel, kSemaphore, value, At(at));
  }
  void Acquire(uint32_t channel, uint64_t least) {
    recorder_.Acquired(kProcess, channel, kSemaphore,
                       [least](uint64_t value) { return value >= least; });
  }
};

using After = std::vector<uint32_t>;

TEST_F(StepRecorderTest, WorkComesAfterItsChannelsLast) {
  Kernel(kCompute, 1100);
  Kernel(kCompute, 1110);
  Kernel(kNccl, 1105, 1);
  const StepRecord record = recorder_.Take();
  ASSERT_EQ(record.nodes.size(), 3u);
  EXPECT_EQ(record.nodes[0].after, After{});
  EXPECT_EQ(record.nodes[1].after, After{0});
  EXPECT_EQ(record.nodes[2].after, After{});
  EXPECT_EQ(record.nodes[0].submitted, At(99));
  EXPECT_EQ(record.nodes[0].end, At(110));
  EXPECT_EQ(record.nodes[0].operation, StepRecord::kNoOperation);
  EXPECT_EQ(record.names, std::vector<std::string>{"kernel"});
  EXPECT_EQ(record.nodes[1].name, 0);
  EXPECT_EQ(record.nodes[2].operation, 0);
  ASSERT_EQ(record.operations.size(), 1u);
  EXPECT_EQ(record.communicators[record.operations[0].communicator].number, 3);
}

TEST_F(StepRecorderTest, AndAfterWhatASemaphoreWasWrittenAfter) {
  Kernel(kCompute, 1100);
  Release(kCompute, 1, 1110);
  Kernel(kCompute, 1110);
  Release(kCompute, 2, 1120);  // later, but nobody waits for it
  Acquire(kNccl, 1);
  Kernel(kNccl, 1121, 1);
  Acquire(kCompute, 2);  // its own
  Kernel(kCompute, 1130);
  const StepRecord record = recorder_.Take();
  EXPECT_EQ(record.nodes[2].after, After{0});
  EXPECT_EQ(record.nodes[3].after, After{1});
  EXPECT_EQ(record.lost_releases, 0u);
}

TEST_F(StepRecorderTest, WhatIsWaitedForIsPassedOnWithoutWork) {
  Kernel(kCompute, 1100);
  Release(kCompute, 1, 1110);
  Acquire(kNccl, 1);
  recorder_.Fetched(kProcess, kNccl, At(1150));
  Release(kNccl, 2, 1150);
  Acquire(102, 2);
  Kernel(102, 1120);
  const StepRecord record = recorder_.Take();
  EXPECT_EQ(record.nodes[1].after, After{0});
  EXPECT_EQ(record.nodes[1].submitted, At(150));  // the host passed it on later
}

TEST_F(StepRecorderTest, HostWaitsForWhatWasReleasedMeanwhile) {
  Kernel(kCompute, 1100);
  Release(kCompute, 1, 1110);
  recorder_.Waited(kProcess, At(1105), At(1110));
  recorder_.Waited(kProcess, At(1111), At(1112));  // nothing was
  const StepRecord record = recorder_.Take();
  ASSERT_EQ(record.waits.size(), 1u);
  EXPECT_EQ(record.waits[0].since, At(105));
  EXPECT_EQ(record.waits[0].until, At(110));
  EXPECT_EQ(record.waits[0].after, After{0});
}

TEST_F(StepRecorderTest, UnknownWritersAreCounted) {
  Acquire(kCompute, 0);
  EXPECT_EQ(recorder_.Take().lost_releases, 1u);
}

TEST_F(StepRecorderTest, OnlyOneProcessIsRecorded) {
  Kernel(kCompute, 1100);
  EXPECT_EQ(recorder_.Kernel({kProcess + 1, 0, 1, 0}, "", {}, 0, At(1100)), 0u);
  EXPECT_EQ(recorder_.Kernel({kProcess - 1, 0, 1, 0}, "", {}, 0, At(1100)), 0u);
  EXPECT_EQ(recorder_.Take().nodes.size(), 1u);
}

TEST_F(StepRecorderTest, AnotherIfItEndsWithoutNccl) {
  Kernel(kCompute, 1100);
  recorder_.ProcessDied(kProcess);
  EXPECT_NE(recorder_.Kernel({kProcess + 1, 0, 1, 0}, "", {}, 5, At(1100)), 0u);
  recorder_.ProcessDied(kProcess + 1);
  EXPECT_EQ(recorder_.Kernel({kProcess + 2, 0, 1, 0}, "", {}, 5, At(1100)), 0u);
  EXPECT_EQ(recorder_.Take().nodes.size(), 1u);
}

TEST_F(StepRecorderTest, StopsWhenItIsFull) {
  StepRecorder recorder = Make(2);
  for (int i = 0; i < 5; ++i) recorder.Kernel({kProcess, 0, kCompute, 0}, "", {}, 0, At(1100 + i));
  const StepRecord record = recorder.Take();
  EXPECT_EQ(record.nodes.size(), 2u);
  EXPECT_TRUE(record.truncated);
}

}  // namespace
}  // namespace phantora
