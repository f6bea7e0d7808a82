#include "trap/rm/rm_sharing.h"

#include <gtest/gtest.h>

#include "trap/abi/generated/nv_status.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr pid_t kOwner = 10, kOther = 11;
constexpr uint8_t kRevoke = RS_SHARE_ACTION_FLAG_REVOKE;
constexpr uint8_t kRequire = RS_SHARE_ACTION_FLAG_REQUIRE;
constexpr uint8_t kCompose = RS_SHARE_ACTION_FLAG_COMPOSE;

RS_SHARE_POLICY Policy(uint16_t type, uint8_t action = 0, uint32_t rights = kDupRight,
                       uint32_t target = 0) {
  RS_SHARE_POLICY policy{};
  policy.target = target;
  policy.accessMask.limbs[0] = rights;
  policy.type = type;
  policy.action = action;
  return policy;
}

class RmSharingTest : public testing::Test {
 protected:
  RmClient& Client(pid_t process, std::optional<uid_t> user = std::nullopt, uint32_t handle = 0) {
    EXPECT_EQ(server_.AddClient({.process = process, .user = user}, &handle), NV_OK);
    return *server_.FindAny(handle);
  }
  uint32_t Add(RmClient& client, uint32_t parent, int gpu = 0) {
    uint32_t handle = 0;
    EXPECT_EQ(client.Insert({.handle = 0,
                             .parent = parent,
                             .class_id = 1,
                             .gpu = gpu,
                             .children = {},
                             .resource = {}},
                            &handle),
              NV_OK);
    return handle;
  }
  uint32_t Share(const RS_SHARE_POLICY& policy) {
    return ShareObject(server_, owner_, object_, policy);
  }
  bool May(const RmClient& client, int parent_gpu = 0) {
    const uint32_t status =
        CheckDuplication(server_, owner_, *owner_.Find(object_), client, parent_gpu);
    EXPECT_TRUE(status == NV_OK || status == NV_ERR_INSUFFICIENT_PERMISSIONS) << status;
    return status == NV_OK;
  }

  RmServer server_;
  RmClient& owner_ = Client(kOwner, 1000);
  RmClient& sibling_ = Client(kOwner, 1000);
  RmClient& other_ = Client(kOther, 1000);
  RmClient& stranger_ = Client(12, 1001);
  const uint32_t device_ = Add(owner_, owner_.handle());
  const uint32_t object_ = Add(owner_, device_);
};

TEST_F(RmSharingTest, ByDefaultOnlyClientsOfTheProcessMayDuplicate) {
  EXPECT_TRUE(May(owner_));
  EXPECT_TRUE(May(sibling_));
  EXPECT_FALSE(May(other_));
}

TEST_F(RmSharingTest, WhatIsSharedWithAllIsEverybodys) {
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL)), NV_OK);
  EXPECT_TRUE(May(other_));
  EXPECT_TRUE(May(stranger_));
}

TEST_F(RmSharingTest, ANewListReplacesTheOldOneUnlessItIsComposed) {
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_CLIENT, kCompose, kDupRight, other_.handle())), NV_OK);
  EXPECT_TRUE(May(sibling_)) << "the default is part of the composed list";
  EXPECT_TRUE(May(other_));
  EXPECT_FALSE(May(stranger_));
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_CLIENT, 0, kDupRight, stranger_.handle())), NV_OK);
  EXPECT_FALSE(May(sibling_));
  EXPECT_FALSE(May(other_));
  EXPECT_TRUE(May(stranger_));
  EXPECT_TRUE(May(owner_)) << "policies are for others";
}

TEST_F(RmSharingTest, RevokingTakesOnePolicyAway) {
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL, kCompose)), NV_OK);
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL, kCompose | kRevoke)), NV_OK);
  EXPECT_FALSE(May(other_));
  EXPECT_TRUE(May(sibling_));
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL, kRevoke)), NV_OK);
  EXPECT_FALSE(May(sibling_)) << "without compose the list is emptied first";
}

TEST_F(RmSharingTest, OnlyTheRightToDuplicateCounts) {
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL, kCompose, kDebugRight)), NV_OK);
  EXPECT_FALSE(May(other_));
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL, kCompose, kDupRight)), NV_OK);
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL, kCompose | kRevoke, kDebugRight)), NV_OK);
  EXPECT_TRUE(May(other_));
}

TEST_F(RmSharingTest, AllThatIsRequiredMustMatch) {
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL)), NV_OK);
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_OS_SECURITY_TOKEN, kCompose | kRequire)), NV_OK);
  EXPECT_TRUE(May(other_));
  EXPECT_FALSE(May(stranger_));
}

TEST_F(RmSharingTest, ASecurityTokenIsTheEffectiveUser) {
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_OS_SECURITY_TOKEN)), NV_OK);
  EXPECT_TRUE(May(sibling_));
  EXPECT_TRUE(May(other_));
  EXPECT_FALSE(May(stranger_));
  EXPECT_FALSE(May(Client(13))) << "nobody knows as whom that process runs";
}

TEST_F(RmSharingTest, SharingByGpuNeedsAParentOfTheSameGpu) {
  for (uint16_t type : {RS_SHARE_TYPE_GPU, RS_SHARE_TYPE_SMC_PARTITION}) {
    EXPECT_EQ(Share(Policy(type)), NV_OK);
    EXPECT_TRUE(May(other_, 0));
    EXPECT_FALSE(May(other_, 1));
    EXPECT_FALSE(May(other_, -1));
  }
  // No partitions, nothing to require.
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL)), NV_OK);
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_SMC_PARTITION, kCompose | kRequire)), NV_OK);
  EXPECT_TRUE(May(other_, 1));
}

TEST_F(RmSharingTest, NobodyIsSharedWithByTypesThatNobodyHas) {
  for (uint16_t type : {RS_SHARE_TYPE_NONE, RS_SHARE_TYPE_FM_CLIENT}) {
    EXPECT_EQ(Share(Policy(type)), NV_OK);
    EXPECT_FALSE(May(other_));
    EXPECT_FALSE(May(sibling_));
  }
}

TEST_F(RmSharingTest, TheListOfTheNearestAncestorHolds) {
  EXPECT_EQ(ShareObject(server_, owner_, owner_.handle(), Policy(RS_SHARE_TYPE_ALL)), NV_OK);
  EXPECT_TRUE(May(other_));
  EXPECT_EQ(ShareObject(server_, owner_, device_, Policy(RS_SHARE_TYPE_PID)), NV_OK);
  EXPECT_FALSE(May(other_));
  // The composed list begins with the device's, not with the client's.
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_CLIENT, kCompose, kDupRight, stranger_.handle())), NV_OK);
  EXPECT_TRUE(May(sibling_));
  EXPECT_FALSE(May(other_));
}

TEST_F(RmSharingTest, APolicyForAClientDiesWithIt) {
  const uint32_t handle = other_.handle();
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_CLIENT, 0, kDupRight, handle)), NV_OK);
  server_.FreeClient(handle);
  EXPECT_FALSE(May(Client(kOther, 1000, handle))) << "another client with the same handle";
  server_.FreeClient(handle);

  RmClient& again = Client(kOther, 1000, handle);
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL)), NV_OK);
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_CLIENT, kCompose | kRequire, kDupRight, handle)), NV_OK);
  EXPECT_TRUE(May(again));
  EXPECT_FALSE(May(stranger_));
  server_.FreeClient(handle);
  EXPECT_TRUE(May(stranger_));
}

TEST_F(RmSharingTest, AnOwnerCanGiveUpItsOwnRightsAndTakeThemBack) {
  const uint32_t self = owner_.handle();
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_CLIENT, kRevoke, kDupRight, self)), NV_OK);
  EXPECT_FALSE(May(owner_));
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_CLIENT, 0, kDupRight, self)), NV_OK);
  EXPECT_TRUE(May(owner_));
  // Not if the parent lacks them, too; nor do children have them that come later.
  EXPECT_EQ(
      ShareObject(server_, owner_, device_, Policy(RS_SHARE_TYPE_CLIENT, kRevoke, kDupRight, self)),
      NV_OK);
  const uint32_t child = Add(owner_, device_);
  EXPECT_EQ(CheckDuplication(server_, owner_, *owner_.Find(child), owner_, 0),
            NV_ERR_INSUFFICIENT_PERMISSIONS);
  EXPECT_EQ(ShareObject(server_, owner_, child, Policy(RS_SHARE_TYPE_ALL)),
            NV_ERR_INSUFFICIENT_PERMISSIONS);
}

TEST_F(RmSharingTest, WhatIsNotThereOrNotOnesOwnCannotBeShared) {
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_MAX)), NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(Share(Policy(0xffff)), NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_CLIENT, 0, kDupRight, 0x1234)),
            NV_ERR_INVALID_OBJECT_HANDLE);
  EXPECT_EQ(ShareObject(server_, owner_, 0x1234, Policy(RS_SHARE_TYPE_ALL)),
            NV_ERR_OBJECT_NOT_FOUND);
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_ALL, 0, kNiceRight)), NV_ERR_INSUFFICIENT_PERMISSIONS);
  EXPECT_FALSE(May(other_));
  EXPECT_TRUE(May(sibling_)) << "a refused policy changes nothing";
}

TEST_F(RmSharingTest, AListHasABound) {
  uint32_t status = NV_OK;
  size_t shared = 0;
  for (; status == NV_OK && shared <= ShareList::kMostPolicies; ++shared) {
    status =
        Share(Policy(RS_SHARE_TYPE_CLIENT, kCompose, kDupRight, Client(20 + int(shared)).handle()));
  }
  EXPECT_EQ(status, NV_ERR_NO_MEMORY);
  EXPECT_EQ(owner_.Find(object_)->shares->size(), ShareList::kMostPolicies);
  // What is there may still be changed.
  EXPECT_EQ(Share(Policy(RS_SHARE_TYPE_PID, kCompose)), NV_OK);
}

}  // namespace
}  // namespace phantora
