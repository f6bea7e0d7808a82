#include "tools/observe/link_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "fabric/cluster/cluster.h"

namespace phantora {
namespace {

using testing::HasSubstr;

VirtualTime At(int64_t us) { return VirtualTime() + VirtualSpan::Microseconds(us); }

class LinkStatisticsTest : public testing::Test {
 protected:
  void RunTo(int64_t us) {
    while (fabric_->network().NextEnd() <= At(us)) {
      fabric_->network().Ended(fabric_->network().NextEnd());
    }
  }
  void Finish(int64_t us) {
    RunTo(us);
    statistics_.Finish(At(us));
  }
  std::unique_ptr<ClusterFabric> fabric_ = *ClusterFabric::Create(*FindCluster("dgx-h100:4"));
  LinkStatistics statistics_{fabric_.get(), At(5)};
};

TEST_F(LinkStatisticsTest, NothingMoved) {
  Finish(100);
  EXPECT_EQ(statistics_.Line(), "");
  EXPECT_EQ(statistics_.Json().dump(), R"({"busiest":[]})");
}

TEST_F(LinkStatisticsTest, TheBusiestFirst) {
  const LinkId one = fabric_->graph().FindLinks("host 1 NIC 2")->front();
  const LinkId other = fabric_->graph().FindLinks("host 0 NIC 0")->front();
  FlowNetwork& network = fabric_->network();
  // 50 GB/s for 40 us, then a fifth of that.
  network.Start(At(15), {{one, 1}, {fabric_->PeerEgress({1, 3}), 1}}, 2e6, 0);
  RunTo(60);
  network.Start(At(60), {{one, 1}}, 4e5, 10e9);
  network.Start(At(65), {{other, 1}}, 1e5, 0);
  network.Start(At(65), {{fabric_->MessageRate(0, 0), 1}}, 1e3, 0);
  Finish(115);
  const auto json = statistics_.Json();
  EXPECT_EQ(json["start_s"], 10e-6);
  EXPECT_EQ(json["end_s"], 95e-6);
  ASSERT_EQ(json["busiest"].size(), 3u);
  const auto& busiest = json["busiest"][0];
  EXPECT_EQ(busiest["name"], "host 1 NIC 2 to group 0 rail 2");
  EXPECT_EQ(busiest["network"], true);
  EXPECT_NEAR(busiest["gbit_per_s"].get<double>(), 400, 1e-6);
  EXPECT_EQ(busiest["bytes"], 2.4e6);
  EXPECT_NEAR(busiest["mean_share"].get<double>(), 2.4e6 / 50e9 / 85e-6, 1e-5);
  EXPECT_NEAR(busiest["peak_share"].get<double>(), 1, 1e-5);
  EXPECT_NEAR(busiest["share"].back().get<double>(), 0.2, 1e-5);
  EXPECT_EQ(json["busiest"][1]["name"], "host 0 NIC 0 to group 0 rail 0");
  EXPECT_EQ(json["busiest"][2]["name"], "host 1 GPU 3 to NVLink");
  EXPECT_EQ(json["busiest"][2]["network"], false);
  EXPECT_EQ(statistics_.Line(),
            "  network: the busiest link, host 1 NIC 2 to group 0 rail 2, carried 2.4 MB: 56 % of "
            "400 Gbit/s in the mean of 0.000085 s, 100 % at most");
}

TEST_F(LinkStatisticsTest, OnlySoManyAreShown) {
  for (int host = 0; host < 4; ++host) {
    for (int gpu = 0; gpu < 8; ++gpu) {
      fabric_->network().Start(At(10), {{fabric_->PeerEgress({host, gpu}), 1}}, 1e6, 0);
    }
  }
  Finish(200);
  EXPECT_EQ(statistics_.Json()["busiest"].size(), LinkStatistics::kMostLinks);
  EXPECT_EQ(statistics_.Json()["busiest"][0]["name"], "host 0 GPU 0 to NVLink");
  EXPECT_EQ(statistics_.Line(), "");
}

TEST_F(LinkStatisticsTest, CountersOfATrace) {
  const LinkId link = fabric_->graph().FindLinks("host 1 NIC 2")->front();
  fabric_->network().Start(At(15), {{link, 1}}, 1e6, 25e9);
  Finish(115);
  const std::string path = testing::TempDir() + "/trace.json";
  auto trace = TraceWriter::Open(path);
  ASSERT_TRUE(trace.ok());
  statistics_.Trace(trace->get());
  ASSERT_TRUE((*trace)->Close().ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const auto events = nlohmann::json::parse(text.str());
  ASSERT_EQ(events.size(), 4u);  // two of the name
  EXPECT_EQ(events[2]["name"], "host 1 NIC 2 to group 0 rail 2");
  EXPECT_EQ(events[2]["ts"], 10);
  EXPECT_EQ(events[2]["args"]["%"], 50);
  EXPECT_EQ(events[3]["ts"], 50);
  EXPECT_EQ(events[3]["args"]["%"], 0);
}

}  // namespace
}  // namespace phantora
