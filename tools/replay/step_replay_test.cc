#include "tools/replay/step_replay.h"

#include <gtest/gtest.h>

#include "trap/gpu/timeline/engine_share.h"

namespace phantora {
namespace {

constexpr int kSteps = 4;
constexpr int64_t kMiB = 1 << 20;

VirtualSpan Us(int64_t us) { return VirtualSpan::Microseconds(us); }
VirtualTime At(int64_t us) { return VirtualTime() + Us(us); }
double Microseconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) * 1e-6; }

// Steps of one DGX H100: a kernel of 100 us, an all-reduce of its result, a kernel of 1 ms that
// does without it, and one of 100 us that does not.
class StepReplayTest : public testing::Test {
 protected:
  StepReplayTest() {
    record_.cluster = "dgx-h100";
    record_.gpu = "h100-sxm5-80gb";
    record_.hosts = 1;
    record_.gpus = 8;
    record_.sms = 132;
    record_.memory_bytes_per_s = 3e12;
    auto& all = record_.communicators.emplace_back();
    all.number = 1;
    for (int gpu = 0; gpu < 8; ++gpu) all.places.push_back({0, gpu});
    record_.operations.push_back({0, {{nccl::Operation::kAllReduce, 64 * kMiB}}});
    for (int step = 0; step < kSteps; ++step) {
      const auto last = static_cast<uint32_t>(record_.nodes.size());
      Add(0, 100, step == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{last - 1});
      Add(1, 0, {last}, 0);
      Add(0, 1000, {last});
      Add(0, 100, {last + 1, last + 2});
    }
  }
  void Add(uint32_t channel, int64_t us, std::vector<uint32_t> after,
           int operation = StepRecord::kNoOperation) {
    StepRecord::Node node;
    node.channel = channel;
    node.operation = operation;
    node.alone = Us(us);
    node.demand = EngineShare::kWhole / 2;  // leaves room for NCCL
    node.after = std::move(after);
    record_.nodes.push_back(std::move(node));
  }
  ReplayedStep Run(const std::string& cluster) {
    const auto period = FindSteps(record_);
    EXPECT_TRUE(period.ok());
    EXPECT_EQ(period->operations, 1u);
    auto step = Replay(record_, *period, *FindCluster(cluster));
    EXPECT_TRUE(step.ok()) << step.status();
    return *std::move(step);
  }
  StepRecord record_;
};

TEST_F(StepReplayTest, CommunicationBesideComputationIsHidden) {
  const ReplayedStep step = Run("dgx-h100:1");
  EXPECT_EQ(step.gpus, 8);
  EXPECT_EQ(step.time, Us(1200));
  EXPECT_GT(step.communication, Us(200));
  EXPECT_LT(step.communication, Us(1000));
  EXPECT_EQ(step.exposed, VirtualSpan());
}

TEST_F(StepReplayTest, WhatLastsLongerIsExposed) {
  record_.operations[0].collectives[0].bytes = 1024 * kMiB;  // 4.0 ms on eight H100
  const ReplayedStep step = Run("dgx-h100:1");
  EXPECT_NEAR(Microseconds(step.communication), 4017, 100);
  EXPECT_EQ(step.time, step.communication + Us(200));
  EXPECT_EQ(step.exposed, step.communication - Us(1000));
}

TEST_F(StepReplayTest, MoreHostsCommunicateLonger) {
  record_.operations[0].collectives[0].bytes = 1024 * kMiB;
  const ReplayedStep one = Run("dgx-h100:1"), four = Run("dgx-h100:4"), many = Run("dgx-h100:16");
  EXPECT_EQ(four.gpus, 32);
  EXPECT_GT(four.time, one.time);
  EXPECT_GT(many.time, four.time);
}

TEST_F(StepReplayTest, CollectivesOfAGroupFollowEachOther) {
  const VirtualSpan one = Run("dgx-h100:1").communication;
  auto& collectives = record_.operations[0].collectives;
  collectives.push_back(collectives[0]);
  EXPECT_NEAR(Microseconds(Run("dgx-h100:1").communication), 2 * Microseconds(one), 1);
}

TEST_F(StepReplayTest, KernelsLackTheSmsOfNccl) {
  for (auto& node : record_.nodes) node.demand = EngineShare::kWhole;
  const ReplayedStep step = Run("dgx-h100:1");
  // NCCL comes first here: its node is the earlier one.
  EXPECT_GT(step.time, Us(1200));
  EXPECT_LT(step.time, Us(1300));
}

TEST_F(StepReplayTest, TheHostSubmitsLateAndWaits) {
  // It submits a step 50 us after the last kernel of the one before is over.
  for (int step = 0; step < kSteps; ++step) {
    for (uint32_t i = 0; i < 4; ++i) {
      auto& node = record_.nodes[static_cast<uint32_t>(step) * 4 + i];
      node.submitted = At(1250 * step);
      node.start = At(1250 * step);
      node.end = At(1250 * step + 1200);
    }
    record_.waits.push_back(
        {At(1250 * step + 10), At(1250 * step + 1200), {static_cast<uint32_t>(step) * 4 + 3}});
  }
  EXPECT_EQ(Run("dgx-h100:1").time, Us(1250));
  record_.operations[0].collectives[0].bytes = 1024 * kMiB;
  const ReplayedStep longer = Run("dgx-h100:1");
  EXPECT_EQ(longer.time, longer.communication + Us(250));
}

TEST_F(StepReplayTest, ShardsAreSmallerOnMoreHosts) {
  record_.names = {"adam"};
  for (uint32_t i = 3; i < record_.nodes.size(); i += 4) record_.nodes[i].name = 0;
  const auto period = *FindSteps(record_);
  const std::vector<std::string> sharded = {"ada"};
  EXPECT_EQ(Replay(record_, period, *FindCluster("dgx-h100:1"), sharded)->time, Us(1200));
  EXPECT_EQ(Replay(record_, period, *FindCluster("dgx-h100:2"))->time -
                Replay(record_, period, *FindCluster("dgx-h100:2"), sharded)->time,
            Us(50));
}

TEST_F(StepReplayTest, MessagesAreRefused) {
  record_.operations[0].collectives[0].operation = nccl::Operation::kSend;
  EXPECT_FALSE(Replay(record_, *FindSteps(record_), *FindCluster("dgx-h100:2")).ok());
}

TEST_F(StepReplayTest, OtherHostsAreRefused) {
  EXPECT_FALSE(Replay(record_, *FindSteps(record_), *FindCluster("dgx-a100:2")).ok());
  record_.gpus = 16;
  EXPECT_FALSE(Replay(record_, *FindSteps(record_), *FindCluster("dgx-h100:2")).ok());
}

TEST_F(StepReplayTest, LayersAreNoSteps) {
  // Three layers with an operation each, and one at the end of a step.
  record_.operations.push_back({0, {{nccl::Operation::kAllReduce, 4}}});
  StepRecord layers = record_;
  layers.nodes.clear();
  for (int step = 0; step < 3; ++step) {
    for (const int operation : {0, 0, 0, 1}) {
      StepRecord::Node node;
      node.operation = operation;
      layers.nodes.push_back(node);
    }
  }
  const auto period = FindSteps(layers);
  ASSERT_TRUE(period.ok());
  EXPECT_EQ(period->operations, 4u);
  EXPECT_EQ(period->ends, (std::vector<uint32_t>{3, 7, 11}));
  EXPECT_EQ(FindSteps(layers, 8)->operations, 8u);
  layers.nodes.resize(2);
  layers.nodes[1].operation = 1;
  EXPECT_FALSE(FindSteps(layers).ok());
}

TEST_F(StepReplayTest, EqualOperationsWithDifferentKernelsBetweenAreTold) {
  StepRecord buckets = record_;
  buckets.nodes.clear();
  for (int step = 0; step < 3; ++step) {
    for (const int kernels : {400, 100, 100}) {
      buckets.nodes.resize(buckets.nodes.size() + static_cast<size_t>(kernels));
      buckets.nodes.emplace_back().operation = 0;
    }
  }
  EXPECT_EQ(FindSteps(buckets)->operations, 3u);
}

TEST_F(StepReplayTest, TheFirstStepMayDoMore) {
  StepRecord record = record_;
  record.operations.push_back({0, {{nccl::Operation::kAllReduce, 4}}});
  record.nodes.clear();
  for (const int kernels : {100, 400, 100}) {  // after the step before
    record.nodes.resize(record.nodes.size() + static_cast<size_t>(kernels));
    record.nodes.emplace_back().operation = 0;
    record.nodes.resize(record.nodes.size() + 10);
    record.nodes.emplace_back().operation = 1;
  }
  const auto period = FindSteps(record);
  ASSERT_TRUE(period.ok());
  EXPECT_EQ(period->operations, 2u);
  EXPECT_EQ(period->ends, (std::vector<uint32_t>{111, 523, 635}));
}

TEST_F(StepReplayTest, TheFileSaysTheSame) {
  record_.waits.push_back({At(5), At(6), {1}});
  record_.communicators[0].settings.nvls = 0;
  const std::string file = testing::TempDir() + "/step.json";
  ASSERT_TRUE(WriteStepRecord(record_, file).ok());
  const auto read = ReadStepRecord(file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->nodes.size(), record_.nodes.size());
  EXPECT_EQ(read->nodes[3].after, record_.nodes[3].after);
  EXPECT_EQ(read->nodes[2].alone, record_.nodes[2].alone);
  EXPECT_EQ(read->operations, record_.operations);
  EXPECT_EQ(read->communicators[0].places, record_.communicators[0].places);
  EXPECT_EQ(read->communicators[0].settings.nvls, 0);
  EXPECT_EQ(read->waits[0].after, record_.waits[0].after);
}

TEST(StepRecordFile, NonsenseIsRefused) {
  const std::string head =
      R"({"version":2,"cluster":"x","hosts":1,"gpus":2,"sms":4,"memory_bytes_per_s":1e9,)"
      R"("lost_releases":0,)";
  const std::string settings =
      R"("algorithm":"","protocol":"","min_channels":-1,"max_channels":-1,"nvls":-1,)"
      R"("collnet":-1,"queue_pairs":-1)";
  const std::string communicators =
      R"("communicators":[{"number":1,"places":[[0,0],[0,1]],)" + settings + "}],";
  const std::string operations = R"("operations":[[0,[[4,64,1]]]],"names":["k"],)";
  const std::string waits = R"("waits":[])";
  EXPECT_TRUE(ParseStepRecord(head + communicators + operations +
                              R"("nodes":[[0,0,-1,0,1,2,3,0,1,0,0,[]]],)" + waits + "}")
                  .ok());
  for (const std::string& nodes :
       {std::string(R"([[0,0,-1,1,1,2,3,0,1,0,0,[]]])"),   // no such operation
        std::string(R"([[0,0,-1,0,1,2,3,0,1,0,0,[0]]])"),  // after itself
        std::string(R"([[0,0,-1,0,1,3,2,0,1,0,0,[]]])"),   // ends before it starts
        std::string(R"([[0,0,-1,0,-1,2,3,0,1,0,0,[]]])"), std::string(R"([[0,0,0]])"),
        std::string(R"([[0,0,1,0,1,2,3,0,1,0,0,[]]])"),  // no such name

        std::string(R"([[0,0,-1,0,1e300,2,3,0,1,0,0,[]]])"),
        std::string(R"([[0,0,-1,0,18446744073709551615,2,3,0,1,0,0,[]]])"), std::string("{}")}) {
    EXPECT_FALSE(ParseStepRecord(head + communicators + operations + "\"nodes\":" + nodes + "," +
                                 waits + "}")
                     .ok())
        << nodes;
  }
  for (const char* text : {"", "[]", "{", "{}", "null"}) EXPECT_FALSE(ParseStepRecord(text).ok());
}

}  // namespace
}  // namespace phantora
