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
  static constexpr int kRanks = 4;

  static StepRecorder::Options Options(size_t most_nodes = StepRecord::kMostNodes) {
    return {.start = At(1000),
            .describe =
                [](uint64_t shared) {
                  // The shared work's number says by which rank.
                  StepTables::Described described;
                  described.communicator.number = 3;
                  for (int gpu = 0; gpu < kRanks; ++gpu) {
                    described.communicator.places.push_back({0, gpu});
                  }
                  described.rank = static_cast<int>(shared) - 1;
                  nccl::Entry entry{};
                  entry.operation = nccl::Operation::kSend;
                  entry.count = 64;
                  entry.peer = (described.rank + 1) % kRanks;
                  described.entries = {entry};
                  return described;
                },
            .most_nodes = most_nodes};
  }
  static StepRecord Take(StepRecorder& recorder) {
    return recorder.Take([](pid_t process) { return int64_t{process} * 100; });
  }
  // What the only rank did.
  StepRecord::Role TakeOne() {
    StepRecord record = Take(recorder_);
    EXPECT_EQ(record.ranks.size(), 1u);
    names_ = record.names;
    return record.roles.empty() ? StepRecord::Role() : record.roles[0];
  }
  std::vector<std::string> names_;
  StepRecorder recorder_{Options()};

  // A kernel that begins at `begin` and lasts 10 us.
  uint64_t Kernel(uint32_t channel, int64_t begin, uint64_t shared = 0, pid_t process = kProcess) {
    recorder_.Fetched(process, channel, At(begin - 1));
    const uint64_t number =
        recorder_.Kernel({process, 0, channel, 0}, "kernel\n",
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
  const StepRecord::Role record = TakeOne();
  ASSERT_EQ(record.nodes.size(), 3u);
  EXPECT_EQ(record.nodes[0].after, After{});
  EXPECT_EQ(record.nodes[1].after, After{0});
  EXPECT_EQ(record.nodes[2].after, After{});
  EXPECT_EQ(record.nodes[0].submitted, At(99));
  EXPECT_EQ(record.nodes[0].end, At(110));
  EXPECT_EQ(record.nodes[0].operation, StepRecord::kNoOperation);
  EXPECT_EQ(names_, std::vector<std::string>{"kernel"});
  EXPECT_EQ(record.nodes[1].name, 0);
  EXPECT_EQ(record.nodes[2].operation, 0);
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
  const StepRecord::Role record = TakeOne();
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
  Kernel(102, 1120, 1);
  const StepRecord::Role record = TakeOne();
  EXPECT_EQ(record.nodes[1].after, After{0});
  EXPECT_EQ(record.nodes[1].submitted, At(150));  // the host passed it on later
}

TEST_F(StepRecorderTest, HostWaitsForWhatWasReleasedMeanwhile) {
  Kernel(kCompute, 1100, 1);
  Release(kCompute, 1, 1110);
  recorder_.Waited(kProcess, At(1105), At(1110));
  recorder_.Waited(kProcess, At(1111), At(1112));  // nothing was
  const StepRecord::Role record = TakeOne();
  ASSERT_EQ(record.waits.size(), 1u);
  EXPECT_EQ(record.waits[0].since, At(105));
  EXPECT_EQ(record.waits[0].until, At(110));
  EXPECT_EQ(record.waits[0].after, After{0});
}

TEST_F(StepRecorderTest, UnknownWritersAreCounted) {
  Acquire(kCompute, 0);
  Kernel(kCompute, 1100, 1);
  EXPECT_EQ(TakeOne().lost_releases, 1u);
}

TEST_F(StepRecorderTest, WhoDoesTheSameHasOneRole) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t process = kProcess + rank;
    // At other times, and one has a kernel more.
    if (rank == 2) Kernel(kCompute, 1090, 0, process);
    Kernel(kCompute, 1100 + rank, 0, process);
    Kernel(kNccl, 1200 + rank, static_cast<uint64_t>(rank) + 1, process);
  }
  const StepRecord record = Take(recorder_);
  ASSERT_EQ(record.ranks.size(), 4u);
  EXPECT_EQ(record.roles.size(), 2u);
  for (int rank = 0; rank < kRanks; ++rank) {
    const StepRecord::Rank& of = record.ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(of.place, (GpuPlace{0, rank}));
    EXPECT_EQ(of.role, rank == 2 ? 1u : 0u);
    EXPECT_EQ(of.memory, (kProcess + rank) * 100);
    EXPECT_EQ(of.communicators, (std::vector<StepRecord::Member>{{0, rank}}));
  }
  ASSERT_EQ(record.operations.size(), 1u) << "to the next rank";
  EXPECT_EQ(record.operations[0].entries[0].peer, 1);
  EXPECT_EQ(record.communicators[0].number, 3);
  EXPECT_EQ(record.roles[0].nodes[0].end, At(110)) << "of the first";
}

TEST_F(StepRecorderTest, WhoHasNoNcclIsNoRank) {
  Kernel(kCompute, 1100, 0, kProcess + 1);
  Kernel(kCompute, 1100);
  recorder_.ProcessDied(kProcess);
  Kernel(kCompute, 1100, 5, kProcess);  // another with its number
  EXPECT_EQ(TakeOne().nodes.size(), 1u);
}

TEST_F(StepRecorderTest, OfAGpuTheFirst) {
  Kernel(kCompute, 1100, 2);
  recorder_.ProcessDied(kProcess);
  Kernel(kCompute, 1100, 2, kProcess + 1);
  Kernel(kCompute, 1110, 2, kProcess + 1);
  EXPECT_EQ(TakeOne().nodes.size(), 1u);
}

TEST_F(StepRecorderTest, StopsWhenItIsFull) {
  StepRecorder recorder(Options(3));
  recorder.Kernel({kProcess + 1, 0, kCompute, 0}, "", {}, 0, At(1100));
  recorder.ProcessDied(kProcess + 1);  // its node is free again
  for (int i = 0; i < 5; ++i) recorder.Kernel({kProcess, 0, kCompute, 0}, "", {}, 1, At(1100 + i));
  const StepRecord record = Take(recorder);
  ASSERT_EQ(record.roles.size(), 1u);
  EXPECT_EQ(record.roles[0].nodes.size(), 3u);
  EXPECT_TRUE(record.roles[0].truncated);
}

}  // namespace
}  // namespace phantora
