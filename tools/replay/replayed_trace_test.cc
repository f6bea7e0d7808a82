#include "tools/replay/replayed_trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tools/replay/run_for_test.h"

namespace phantora {
namespace {

using Operation = nccl::Operation;

// Two stages of two replicas: each step a message from the first to the second.
class ReplayedTraceTest : public testing::Test {
 protected:
  ReplayedTraceTest() : run_(4, 4) {
    run_.Communicators(2, 2);
    run_.record.roles.resize(2);
    run_.record.ranks[2].role = run_.record.ranks[3].role = 1;
    run_.record.names = {"forward"};
    const int send = run_.Operation(0, {EntryForTest(Operation::kSend, 256, 1)});
    const int receive = run_.Operation(0, {EntryForTest(Operation::kReceive, 256, 1)});
    for (uint32_t step = 0; step < 3; ++step) {
      const auto after = step == 0 ? std::vector<uint32_t>() : std::vector<uint32_t>{2 * step - 1};
      run_.record.roles[0].nodes[run_.Add(0, 0, 100, after)].name = 0;
      run_.Add(0, 1, 0, {2 * step}, send);
      run_.Add(1, 1, 0, after, receive);
      run_.record.roles[1].nodes[run_.Add(1, 0, 50, {2 * step})].name = 0;
    }
  }
  RunForTest run_;
};

TEST_F(ReplayedTraceTest, RanksHaveTheirWorkOnTracks) {
  const auto ranks =
      *ScaledRanks::Create(run_.record, RankAxes({{"dp", 2}, {"pp", 2}}), {{"dp", 4}});
  std::vector<StepPeriod> periods;
  for (const auto& role : run_.record.roles) periods.push_back(*FindSteps(role));
  const auto step = Replay(run_.record, periods, ranks, *FindCluster("dgx-h100:2"),
                           {.shown = {5}, .show_roles = true});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_EQ(step->timelines.size(), 3u);
  EXPECT_EQ(step->timelines[0].rank, 5);
  const std::string file = testing::TempDir() + "/replayed.json";
  ASSERT_TRUE(WriteReplayedTrace(run_.record, ranks, *step, file).ok());
  std::ifstream in(file);
  std::map<std::string, int> slices;  // by process and name
  std::map<int, std::string> processes;
  double first_end = 0, received = 0;
  for (const auto& event : nlohmann::json::parse(in)) {
    const int process = event.at("pid");
    if (event.at("ph") == "M" && event.at("name") == "process_name") {
      processes[process] = event.at("args").at("name");
    }
    if (event.at("ph") != "X") continue;
    ++slices[processes[process] + " / " + event.at("name").get<std::string>()];
    const double end = event.at("ts").get<double>() + event.at("dur").get<double>();
    if (processes[process] == "rank 0: dp 0 pp 0" && event.at("name") == "forward" &&
        first_end == 0) {
      first_end = end;
    }
    if (processes[process] == "rank 4: dp 0 pp 1" && event.at("cat") == "nccl" && received == 0) {
      received = end;
    }
  }
  EXPECT_EQ(slices, (std::map<std::string, int>{
                        {"rank 0: dp 0 pp 0 / forward", 3},
                        {"rank 0: dp 0 pp 0 / Send of 1024 bytes to 4, 2 ranks", 3},
                        {"rank 4: dp 0 pp 1 / forward", 3},
                        {"rank 4: dp 0 pp 1 / Recv of 1024 bytes from 0, 2 ranks", 3},
                        {"rank 5: dp 1 pp 1 / forward", 3},
                        {"rank 5: dp 1 pp 1 / Recv of 1024 bytes from 1, 2 ranks", 3}}));
  EXPECT_EQ(first_end, 100) << "us";
  EXPECT_GT(received, 100);
  EXPECT_FALSE(WriteReplayedTrace(run_.record, ranks, *step, "/nowhere/replayed.json").ok());
}

TEST_F(ReplayedTraceTest, RanksThatAreNotThereAreRefused) {
  const auto ranks = *ScaledRanks::Create(run_.record, RankAxes({{"dp", 2}, {"pp", 2}}), {});
  std::vector<StepPeriod> periods;
  for (const auto& role : run_.record.roles) periods.push_back(*FindSteps(role));
  EXPECT_EQ(Replay(run_.record, periods, ranks, *FindCluster("dgx-h100:1"), {.shown = {4}})
                .status()
                .message(),
            "there is no rank 4: it has 4");
}

}  // namespace
}  // namespace phantora
