#include "fabric/collectives/nccl_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace phantora {
namespace {

using testing::HasSubstr;

constexpr int64_t kMib = int64_t{1} << 20;

class NcclPlannerTest : public testing::Test {
 protected:
  void On(const std::string& name, std::optional<Multipath> multipath = {}) {
    auto cluster = FindCluster(name);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    if (multipath) cluster->network.multipath = *multipath;
    fabric_ = *ClusterFabric::Create(*cluster);
    planner_ = std::make_unique<NcclPlanner>(
        fabric_.get(), 3e12, [this](const std::string& what) { failures_.push_back(what); });
    for (int host = 0; host < cluster->hosts; ++host) {
      for (int gpu = 0; gpu < cluster->host.gpus; ++gpu) {
        communicator_.places.push_back({host, gpu});
      }
    }
    communicator_.number = 1;
  }
  auto AllReduce(int64_t bytes) {
    return planner_->Collective(communicator_, {.bytes = bytes}, false);
  }

  std::unique_ptr<ClusterFabric> fabric_;
  std::unique_ptr<NcclPlanner> planner_;
  Communicator communicator_;
  std::vector<std::string> failures_;
};

TEST_F(NcclPlannerTest, PlansAreKeptUntilRoutesChange) {
  On("dgx-h100:2");
  const auto plan = AllReduce(kMib);
  EXPECT_FALSE(plan->parts.empty());
  EXPECT_EQ(AllReduce(kMib), plan);
  EXPECT_NE(AllReduce(2 * kMib), plan);
  planner_->Forget();
  EXPECT_NE(AllReduce(kMib), plan);
}

TEST_F(NcclPlannerTest, WhatNcclHasChosenIsTaken) {
  On("dgx-h100:1");
  const auto given = [this](NcclAlgorithm algorithm, NcclProtocol protocol) {
    return planner_->Collective(
        communicator_, {.bytes = 64 * kMib, .given = NcclGiven{algorithm, protocol}}, false);
  };
  EXPECT_EQ(AllReduce(64 * kMib)->name, "NVLS Simple");
  EXPECT_EQ(given(NcclAlgorithm::kRing, NcclProtocol::kLl128)->name, "Ring LL128");
  EXPECT_EQ(given(NcclAlgorithm::kTree, NcclProtocol::kSimple)->name, "Tree Simple");
  EXPECT_EQ(AllReduce(64 * kMib)->name, "NVLS Simple");
}

TEST_F(NcclPlannerTest, SwitchesDoNotCombineAllThereIs) {
  On("dgx-h100:1");
  const auto name = [this](bool nvls) {
    return planner_->Collective(communicator_, {.bytes = 64 * kMib, .nvls = nvls}, false)->name;
  };
  EXPECT_EQ(name(true), "NVLS Simple");
  EXPECT_EQ(name(false), "Ring Simple");
  // Not even if it is asked for.
  communicator_.places.clear();
  std::snprintf(communicator_.settings.algorithm, sizeof communicator_.settings.algorithm, "NVLS");
  On("dgx-h100:1");
  EXPECT_EQ(name(true), "NVLS Simple");
  EXPECT_EQ(name(false), "Ring Simple");
  communicator_ = {};
  On("dgx-h100:2");
  EXPECT_EQ(name(true), "NVLSTree Simple");
  EXPECT_EQ(name(false), "Ring LL128");
}

TEST_F(NcclPlannerTest, AdaptivePlansAreMadeAnewWhenTheyStart) {
  On("roce-leaf-spine:8", Multipath::kAdaptive);
  const auto plan = AllReduce(kMib);
  EXPECT_TRUE(plan->adaptive);
  EXPECT_EQ(AllReduce(kMib), plan);
  const auto uses = [](const TransferPlan& of) {
    std::map<LinkId, double> weights;
    for (const auto& part : of.parts) {
      for (const LinkUse& use : part.uses) weights[use.link] += use.weight;
    }
    return weights;
  };
  // Somebody else has taken an uplink.
  const LinkId uplink = fabric_->graph().FindLinks("leaf 0 to spine 2")->front();
  EXPECT_GT(uses(*plan)[uplink], 0);
  for (int i = 0; i < 50; ++i) {
    fabric_->network().Start(VirtualTime(), {{uplink, 1}, {uplink + 1, 1}}, 1e12, 0);
  }
  const auto now = planner_->Collective(communicator_, {.bytes = kMib}, true);
  EXPECT_EQ(uses(*now)[uplink], 0);
  EXPECT_EQ(now->latency, plan->latency);
  EXPECT_EQ(AllReduce(kMib), now);
  EXPECT_TRUE(planner_->Message(communicator_, {0, 63, kMib}, false)->adaptive);
  EXPECT_FALSE(planner_->Message(communicator_, {0, 1, kMib}, false)->adaptive);
}

TEST_F(NcclPlannerTest, OthersAreNot) {
  On("roce-leaf-spine:8");
  const auto plan = AllReduce(kMib);
  EXPECT_FALSE(plan->adaptive);
  EXPECT_EQ(planner_->Collective(communicator_, {.bytes = kMib}, true), plan);
}

TEST_F(NcclPlannerTest, QueuePairsAreHashedApart) {
  const auto links = [this](int queue_pairs) {
    On("roce-leaf-spine:8");
    communicator_.settings.queue_pairs = queue_pairs;
    std::set<LinkId> used;
    for (const LinkUse& use :
         planner_->Message(communicator_, {0, 63, kMib}, false)->parts[0].uses) {
      used.insert(use.link);
    }
    communicator_.places.clear();
    return used.size();
  };
  EXPECT_EQ(links(-1), links(1));
  EXPECT_GT(links(16), links(1));
}

TEST_F(NcclPlannerTest, NoWayIsNotTheEnd) {
  On("dgx-h100:2");
  const LinkId link = fabric_->graph().FindLinks("host 1 NIC 3")->front();
  fabric_->graph().SetUp(link, false, "failed");
  const auto plan = AllReduce(kMib);
  EXPECT_THAT(plan->no_way, HasSubstr("since host 1 NIC 3 to group 0 rail 3 failed"));
  EXPECT_TRUE(plan->parts.empty());
  EXPECT_EQ(plan->patience, VirtualSpan::Nanoseconds(int64_t{4096} << 20) * 8);
  EXPECT_THAT(plan->lost, HasSubstr("after 34.4 s: 7 retries, NCCL_IB_TIMEOUT 20"));
  EXPECT_FALSE(planner_->Message(communicator_, {0, 11, kMib}, false)->no_way.empty());
  EXPECT_TRUE(planner_->Message(communicator_, {0, 12, kMib}, false)->no_way.empty());
  EXPECT_TRUE(failures_.empty());
  planner_->Forget();
  communicator_.settings.ib_timeout = 14;
  communicator_.settings.ib_retries = 0;
  EXPECT_EQ(AllReduce(kMib)->patience, VirtualSpan::Nanoseconds(int64_t{4096} << 14));
  planner_->Forget();
  fabric_->graph().SetUp(link, true);
  EXPECT_TRUE(AllReduce(kMib)->no_way.empty());
}

TEST_F(NcclPlannerTest, TcpIsPatient) {
  On("ethernet-2gpu:2");
  fabric_->graph().SetUp(fabric_->graph().FindLinks("host 1 NIC 0")->front(), false);
  EXPECT_EQ(AllReduce(kMib)->patience, VirtualSpan::Microseconds(924'600'000));
}

TEST_F(NcclPlannerTest, WhatIsForbiddenIsTheEnd) {
  On("ethernet-2gpu:2");
  std::strcpy(communicator_.settings.protocol, "LL128");
  EXPECT_TRUE(AllReduce(kMib)->no_way.empty());
  ASSERT_FALSE(failures_.empty());
  EXPECT_THAT(failures_[0], HasSubstr("NCCL_PROTO"));
}

}  // namespace
}  // namespace phantora
