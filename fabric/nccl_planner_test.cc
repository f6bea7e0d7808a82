#include "fabric/nccl_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace phantora {
namespace {

using testing::HasSubstr;

constexpr int64_t kMib = int64_t{1} << 20;

class NcclPlannerTest : public testing::Test {
 protected:
  void On(const std::string& name) {
    auto cluster = FindCluster(name);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
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
    return planner_->Collective(communicator_, nccl::Operation::kAllReduce, bytes);
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

TEST_F(NcclPlannerTest, NoWayIsNotTheEnd) {
  On("dgx-h100:2");
  const LinkId link = fabric_->graph().FindLinks("host 1 NIC 3")->front();
  fabric_->graph().SetUp(link, false, "failed");
  const auto plan = AllReduce(kMib);
  EXPECT_THAT(plan->no_way, HasSubstr("since host 1 NIC 3 to group 0 rail 3 failed"));
  EXPECT_TRUE(plan->parts.empty());
  EXPECT_EQ(plan->patience, VirtualSpan::Nanoseconds(int64_t{4096} << 20) * 8);
  EXPECT_THAT(plan->lost, HasSubstr("after 34.4 s: 7 retries, NCCL_IB_TIMEOUT 20"));
  EXPECT_FALSE(planner_->Message(communicator_, 0, 11, kMib, 1)->no_way.empty());
  EXPECT_TRUE(planner_->Message(communicator_, 0, 12, kMib, 1)->no_way.empty());
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
