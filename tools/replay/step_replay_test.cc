#include "tools/replay/step_replay.h"

#include <gtest/gtest.h>

#include "tools/replay/run_for_test.h"

namespace phantora {
namespace {

using Operation = nccl::Operation;

constexpr int kSteps = 4;
constexpr uint64_t kMiB = 1 << 20;

VirtualSpan Us(int64_t us) { return VirtualSpan::Microseconds(us); }
VirtualTime At(int64_t us) { return VirtualTime() + Us(us); }
double Microseconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) * 1e-6; }

ReplayedStep RunStep(const StepRecord& record, const RankAxes& axes, const std::string& cluster,
                     int dp, const ReplayOptions& options = {}) {
  std::vector<StepPeriod> periods;
  for (const auto& role : record.roles) {
    const auto period = FindSteps(role);
    EXPECT_TRUE(period.ok()) << period.status();
    periods.push_back(*period);
  }
  const auto ranks = ScaledRanks::Create(record, axes, {{"dp", dp}});
  EXPECT_TRUE(ranks.ok()) << ranks.status();
  auto step = Replay(record, periods, *ranks, *FindCluster(cluster), options);
  EXPECT_TRUE(step.ok()) << step.status();
  return *std::move(step);
}

// Steps of replicas on one DGX H100: a kernel of 100 us, an all-reduce of its result, a kernel of
// 1 ms that does without it, and one of 100 us that does not.
class StepReplayTest : public testing::Test {
 protected:
  StepReplayTest() : run_(8) {
    run_.Communicators(1, 8);
    run_.AllReduce(0, 16 * kMiB);
    for (int step = 0; step < kSteps; ++step) {
      const auto last = static_cast<uint32_t>(nodes().size());
      run_.Add(0, 0, 100, step == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{last - 1});
      run_.Add(0, 1, 0, {last}, 0);
      run_.Add(0, 0, 1000, {last});
      run_.Add(0, 0, 100, {last + 1, last + 2});
    }
  }
  std::vector<StepRecord::Node>& nodes() { return run_.record.roles[0].nodes; }
  void SetBytes(uint64_t bytes) { run_.record.operations[0].entries[0].count = bytes / 4; }
  ReplayedStep Run(int hosts, const ReplayOptions& options = {}) {
    return RunStep(run_.record, RankAxes({{"dp", 8}}), "dgx-h100:" + std::to_string(hosts),
                   8 * hosts, options);
  }
  RunForTest run_;
};

TEST_F(StepReplayTest, CommunicationBesideComputationIsHidden) {
  const ReplayedStep step = Run(1);
  EXPECT_EQ(step.gpus, 8);
  EXPECT_EQ(step.replayed, 8);
  ASSERT_EQ(step.roles.size(), 1u);
  EXPECT_EQ(step.roles[0].ranks, 8);
  EXPECT_EQ(step.roles[0].time, Us(1200));
  EXPECT_GT(step.roles[0].communication, Us(200));
  EXPECT_LT(step.roles[0].communication, Us(1000));
  EXPECT_EQ(step.roles[0].exposed, VirtualSpan());
}

TEST_F(StepReplayTest, WhatLastsLongerIsExposed) {
  SetBytes(1024 * kMiB);  // 4.0 ms on eight H100
  const ReplayedStep::Role step = Run(1).roles[0];
  EXPECT_NEAR(Microseconds(step.communication), 4017, 100);
  EXPECT_EQ(step.time, step.communication + Us(200));
  EXPECT_EQ(step.exposed, step.communication - Us(1000));
}

TEST_F(StepReplayTest, MoreHostsCommunicateLonger) {
  SetBytes(1024 * kMiB);
  const ReplayedStep one = Run(1), four = Run(4), many = Run(16);
  EXPECT_EQ(four.gpus, 32);
  EXPECT_GT(four.roles[0].time, one.roles[0].time);
  EXPECT_GT(many.roles[0].time, four.roles[0].time);
}

TEST_F(StepReplayTest, CollectivesOfAGroupFollowEachOther) {
  const VirtualSpan one = Run(1).roles[0].communication;
  auto& entries = run_.record.operations[0].entries;
  entries.push_back(entries[0]);
  EXPECT_NEAR(Microseconds(Run(1).roles[0].communication), 2 * Microseconds(one), 1);
}

TEST_F(StepReplayTest, KernelsLackTheSmsOfNccl) {
  for (auto& node : nodes()) node.demand = EngineShare::kWhole;
  const ReplayedStep step = Run(1);
  // NCCL comes first here: its node is the earlier one.
  EXPECT_GT(step.roles[0].time, Us(1200));
  EXPECT_LT(step.roles[0].time, Us(1300));
}

TEST_F(StepReplayTest, TheHostSubmitsLateAndWaits) {
  // It submits a step 50 us after the last kernel of the one before is over.
  for (int step = 0; step < kSteps; ++step) {
    for (uint32_t i = 0; i < 4; ++i) {
      auto& node = nodes()[static_cast<uint32_t>(step) * 4 + i];
      node.submitted = At(1250 * step);
      node.start = At(1250 * step);
      node.end = At(1250 * step + 1200);
    }
    run_.record.roles[0].waits.push_back(
        {At(1250 * step + 10), At(1250 * step + 1200), {static_cast<uint32_t>(step) * 4 + 3}});
  }
  EXPECT_EQ(Run(1).roles[0].time, Us(1250));
  SetBytes(1024 * kMiB);
  const ReplayedStep::Role longer = Run(1).roles[0];
  EXPECT_EQ(longer.time, longer.communication + Us(250));
}

TEST_F(StepReplayTest, ShardsAreSmallerOnMoreHosts) {
  run_.record.names = {"adam"};
  for (uint32_t i = 3; i < nodes().size(); i += 4) nodes()[i].name = 0;
  const ReplayOptions sharded = {.sharded = {"ada"}};
  EXPECT_EQ(Run(1, sharded).roles[0].time, Us(1200));
  EXPECT_EQ(Run(2).roles[0].time - Run(2, sharded).roles[0].time, Us(50));
}

TEST_F(StepReplayTest, OneInThePlaceOfManyIsTheSame) {
  SetBytes(1024 * kMiB);
  const ReplayedStep all = Run(4), few = Run(4, {.most_nodes = 1});
  EXPECT_EQ(all.replayed, 32);
  EXPECT_EQ(few.replayed, 8);
  EXPECT_EQ(few.gpus, 32);
  EXPECT_EQ(few.roles[0].ranks, 32);
  EXPECT_EQ(few.ends, all.ends);
}

TEST_F(StepReplayTest, AllWaitForTheSlowest) {
  run_.record.names = {"kernel"};
  for (auto& node : nodes()) {
    if (node.operation == StepRecord::kNoOperation) node.name = 0;
  }
  const ReplayedStep slow = Run(2, {.most_nodes = 1, .paces = {.slower = {{9, 1.5}}}});
  EXPECT_EQ(slow.replayed, 16) << "no one in the place of others";
  // Rank 0 waits for that one's 600 us longer.
  EXPECT_NEAR(Microseconds(slow.roles[0].time), 1800, 5);
  const ReplayedStep jitter = Run(2, {.paces = {.jitter = 0.05}});
  EXPECT_GT(jitter.roles[0].time, Us(1200));
  EXPECT_LT(jitter.roles[0].time, Us(1500));
  EXPECT_EQ(Run(2, {.paces = {.jitter = 0.05}}).ends, jitter.ends);
  EXPECT_NE(Run(2, {.paces = {.jitter = 0.05, .seed = 2}}).ends, jitter.ends);
}

TEST_F(StepReplayTest, OthersAreRefused) {
  const StepRecord& record = run_.record;
  const std::vector<StepPeriod> periods = {*FindSteps(record.roles[0])};
  const auto ranks = *ScaledRanks::Create(record, RankAxes({{"dp", 8}}), {{"dp", 16}});
  const auto error = [&](const char* cluster) {
    return std::string(Replay(record, periods, ranks, *FindCluster(cluster)).status().message());
  };
  EXPECT_NE(error("dgx-a100:2").find("the recording is of h100"), std::string::npos);
  EXPECT_EQ(error("dgx-h100:1"), "16 ranks (dp=16), 8 to a host, need more than its 1 hosts");
  EXPECT_EQ(error("dgx-h100:2"), "");
  const auto dense = *ScaledRanks::Create(record, RankAxes({{"dp", 8}}), {{"dp", 16}}, 16);
  EXPECT_EQ(Replay(record, periods, dense, *FindCluster("dgx-h100:2")).status().message(),
            "its hosts have 8 GPUs, for 16 ranks of each");
}

TEST_F(StepReplayTest, WhoWaitsInVainIsNamed) {
  run_.record.roles.push_back(run_.record.roles[0]);
  run_.record.roles[1].nodes.resize(13);  // without the last step's operation
  run_.record.ranks[3].role = 1;
  const auto ranks = *ScaledRanks::Create(run_.record, RankAxes({{"dp", 8}}), {});
  const std::vector<StepPeriod> periods = {*FindSteps(run_.record.roles[0]),
                                           *FindSteps(run_.record.roles[1])};
  EXPECT_EQ(Replay(run_.record, periods, ranks, *FindCluster("dgx-h100:1")).status().message(),
            "rank 0 waits in vain: of its 16 nodes 2 never end");
}

// A stage sends each of its micro-batches on when it is done with it, and at the end all replicas
// of a stage reduce.
class PipelineTest : public testing::Test {
 protected:
  static constexpr int kStages = 4, kMicroBatches = 8;
  static constexpr int64_t kUs = 10'000;

  PipelineTest() : run_(2 * kStages) {
    run_.Communicators(1, 2);
    run_.Communicators(2, kStages);
    const int send = run_.Operation(1, {EntryForTest(Operation::kSend, 4096, 1)});
    const int receive = run_.Operation(1, {EntryForTest(Operation::kReceive, 4096, kStages - 1)});
    const int reduce = run_.AllReduce(0, 4);
    run_.record.roles.resize(kStages);
    for (size_t stage = 0; stage < kStages; ++stage) {
      auto& nodes = run_.record.roles[stage].nodes;
      const auto add = [&](int64_t us, int operation) {
        const auto last = static_cast<uint32_t>(nodes.size());
        run_.Add(stage, 0, us,
                 last == 0 ? std::vector<uint32_t>() : std::vector<uint32_t>{last - 1}, operation);
      };
      for (int step = 0; step < kSteps; ++step) {
        for (int batch = 0; batch < kMicroBatches; ++batch) {
          if (stage > 0) add(0, receive);
          add(kUs, StepRecord::kNoOperation);
          if (stage + 1 < kStages) add(0, send);
        }
        add(0, reduce);
        // All wait for the last stage.
        add(0, in_all());
      }
      for (size_t i : {0, 1}) run_.record.ranks[2 * stage + i].role = static_cast<uint32_t>(stage);
    }
  }
  int in_all() {
    if (in_all_ < 0) {
      run_.Communicators(1, 2 * kStages);
      in_all_ = run_.AllReduce(2, 4);
    }
    return in_all_;
  }
  RunForTest run_;
  int in_all_ = -1;
};

TEST_F(PipelineTest, HasItsBubble) {
  const RankAxes axes = *FindAxes(run_.record);
  EXPECT_EQ(axes.Text(), "dp=2,pp=4");
  for (const int dp : {2, 8}) {
    const ReplayedStep step = RunStep(run_.record, axes, dp == 2 ? "dgx-h100:1" : "dgx-h100:4", dp);
    ASSERT_EQ(step.roles.size(), 4u);
    for (const ReplayedStep::Role& role : step.roles) {
      EXPECT_EQ(role.ranks, dp);
      EXPECT_NEAR(Microseconds(role.time) / (kUs * (kMicroBatches + kStages - 1)), 1, 0.005);
    }
  }
}

TEST_F(PipelineTest, OneInThePlaceOfManyIsTheSame) {
  const RankAxes axes = *FindAxes(run_.record);
  const ReplayedStep all = RunStep(run_.record, axes, "dgx-h100:4", 8);
  const ReplayedStep few = RunStep(run_.record, axes, "dgx-h100:4", 8, {.most_nodes = 1});
  EXPECT_EQ(all.replayed, 32);
  EXPECT_EQ(few.replayed, 8);
  EXPECT_EQ(few.ends, all.ends);
}

}  // namespace
}  // namespace phantora
