// Communicators: how they are made, set up, waited for and ended.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "fabric/library/device_calls.h"
#include "fabric/library/nccl_for_test.h"

namespace phantora::nccl {
namespace {

TEST_F(Nccl, JoiningTellsTheSupervisorWhoAndWaits) {
  supervisor_.pending_asks = 3;
  ncclUniqueId id = {};
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm;
  ASSERT_EQ(ncclCommInitRank(&comm, 4, id, 1), ncclSuccess);
  ASSERT_EQ(supervisor_.joins.size(), 1u);
  EXPECT_EQ(memcmp(supervisor_.joins[0].id, id.internal, 128), 0);
  EXPECT_EQ(supervisor_.joins[0].gpu[15], 3);  // of device 2
  EXPECT_EQ(supervisor_.asks, 4);
  int value;
  EXPECT_EQ(ncclCommCount(comm, &value), ncclSuccess);
  EXPECT_EQ(value, 4);
  EXPECT_EQ(ncclCommUserRank(comm, &value), ncclSuccess);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(ncclCommCuDevice(comm, &value), ncclSuccess);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  ASSERT_EQ(supervisor_.leaves.size(), 1u);
  EXPECT_EQ(supervisor_.leaves[0].how, Leaving::kDestroy);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);  // a second time
}

TEST_F(Nccl, WithoutTheDeviceTheUserIsTold) {
  supervisor_.error = ENODEV;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, {}, 0), ncclSystemError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_STREQ(ncclGetLastError(nullptr), "Phantora's libnccl.so.2 works only under phantora-run");
}

TEST_F(Nccl, AFailedJoinSaysWhyAndCanBeDestroyed) {
  supervisor_.next.state = State::kFailed;
  supervisor_.next.error = ncclInvalidUsage;
  strcpy(supervisor_.next.message, "two ranks have the number 1");
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 4, {}, 1), ncclInvalidUsage);
  EXPECT_STREQ(ncclGetLastError(comm), "two ranks have the number 1");
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  ASSERT_EQ(supervisor_.leaves.size(), 1u);
  EXPECT_EQ(supervisor_.leaves[0].how, Leaving::kAbort);
}

TEST_F(Nccl, AnErrorWithoutANumberOfNcclsIsInternal) {
  supervisor_.next.state = State::kFailed;
  supervisor_.next.error = 99;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 4, {}, 1), ncclInternalError);
}

TEST_F(Nccl, JoinsWithinAGroupAreWaitedForTogether) {
  supervisor_.pending_asks = 2;
  ncclComm_t comms[2] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comms[0], 2, {}, 0), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comms[1], 2, {}, 1), ncclSuccess);
  EXPECT_EQ(supervisor_.joins.size(), 2u);
  EXPECT_EQ(supervisor_.asks, 0);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  int rank;
  EXPECT_EQ(ncclCommUserRank(comms[1], &rank), ncclSuccess);
  EXPECT_EQ(rank, 1);
}

TEST_F(Nccl, InitAllMakesOnePerDevice) {
  ncclComm_t comms[3] = {};
  const int devices[] = {3, 0, 1};
  ASSERT_EQ(ncclCommInitAll(comms, 3, devices), ncclSuccess);
  ASSERT_EQ(supervisor_.joins.size(), 3u);
  EXPECT_EQ(supervisor_.joins[0].gpu[0], 4);
  EXPECT_EQ(supervisor_.joins[1].gpu[0], 1);
  EXPECT_EQ(memcmp(supervisor_.joins[0].id, supervisor_.joins[2].id, 128), 0);
  const int twice[] = {1, 1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
  EXPECT_EQ(ncclCommInitAll(comms, 5, nullptr), ncclInvalidArgument);
}

TEST_F(Nccl, ANonblockingCommunicatorIsAskedFor) {
  supervisor_.pending_asks = 2;
  ncclConfig_t config;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, {}, 0, &config), ncclInProgress);
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, nullptr),
            ncclInvalidArgument);
  ncclResult_t state;
  ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, nullptr), ncclSuccess);

  supervisor_.pending_asks = 1;
  ncclComm_t child = comm;
  EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, nullptr), ncclInProgress);
  EXPECT_EQ(child, nullptr);
  ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  EXPECT_NE(child, nullptr);

  driver_.unready_queries = 2;
  EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
  ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
}

TEST_F(Nccl, SplittingWithoutAColorGivesNothing) {
  const ncclComm_t comm = Join();
  ncclComm_t child = comm;
  ASSERT_EQ(ncclCommSplit(comm, kNcclNoColor, 5, &child, nullptr), ncclSuccess);
  EXPECT_EQ(child, nullptr);
  ASSERT_EQ(supervisor_.leaves.size(), 1u);
  EXPECT_EQ(supervisor_.leaves[0].handle, supervisor_.splits[0].handle);
}

TEST_F(Nccl, ShrinkingNamesTheExcluded) {
  const ncclComm_t comm = Join();
  int excluded[] = {3};
  ncclComm_t child = nullptr;
  ASSERT_EQ(ncclCommShrink(comm, excluded, 1, &child, nullptr, kNcclShrinkAbort), ncclSuccess);
  EXPECT_NE(child, nullptr);
  EXPECT_EQ(supervisor_.shrinks[0].abort, 1);
  EXPECT_EQ(supervisor_.shrinks[0].excluded_count, 1);
  int itself[] = {1};
  EXPECT_EQ(ncclCommShrink(comm, itself, 1, &child, nullptr, 0), ncclInvalidArgument);
}

TEST_F(Nccl, DestroyingWaitsForWhatWasLaunched) {
  const ncclComm_t comm = Join();
  ASSERT_EQ(ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, nullptr), ncclSuccess);
  driver_.unready_queries = 3;
  const int before = supervisor_.asks;
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(supervisor_.asks, before + 1);
  EXPECT_LT(driver_.unready_queries, 0);
}

TEST_F(Nccl, AnotherThreadCanAbortAWait) {
  supervisor_.pending_asks = 1'000'000;
  ncclComm_t made = nullptr;
  std::thread waiter([&] { EXPECT_EQ(ncclCommInitRank(&made, 2, {}, 0), ncclInternalError); });
  ncclComm_t seen = nullptr;
  while (seen == nullptr) seen = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
  EXPECT_EQ(ncclCommAbort(seen), ncclSuccess);
  waiter.join();
  ASSERT_EQ(supervisor_.leaves.size(), 1u);
  EXPECT_EQ(supervisor_.leaves[0].how, Leaving::kAbort);
}

TEST_F(Nccl, AChildProcessHasNoneOfItsParentsCommunicators) {
  const ncclComm_t comm = Join();
  const pid_t child = fork();
  if (child == 0) {
    int count;
    const bool none = ncclCommCount(comm, &count) == ncclInvalidArgument;
    ncclComm_t own = nullptr;
    const bool makes = ncclCommInitRank(&own, 1, {}, 0) == ncclSuccess;
    _exit(none && makes ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Nccl, TheFailureOfAnotherRankIsToldAndStays) {
  const ncclComm_t comm = Join();
  ncclResult_t state;
  ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  supervisor_.communicators[1].error = ncclRemoteError;
  strcpy(supervisor_.communicators[1].message, "rank 3 has ended");
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclRemoteError);
  }
  EXPECT_STREQ(ncclGetLastError(comm), "rank 3 has ended");
}

// --- Settings -------------------------------------------------------------------------

TEST_F(Nccl, TheEnvironmentGoesBeforeTheConfiguration) {
  ncclConfig_t config;
  config.minCTAs = 4;
  config.maxCTAs = 8;
  setenv("NCCL_ALGO", "Ring", 1);
  setenv("NCCL_MAX_CTAS", "16", 1);
  Join(4, 1, &config);
  unsetenv("NCCL_ALGO");
  unsetenv("NCCL_MAX_CTAS");
  Join(4, 1, &config);
  EXPECT_STREQ(supervisor_.joins[0].settings.algorithm, "Ring");
  EXPECT_EQ(supervisor_.joins[0].settings.min_channels, 4);
  EXPECT_EQ(supervisor_.joins[0].settings.max_channels, 16);
  EXPECT_EQ(supervisor_.joins[0].settings.nvls, -1);
  EXPECT_STREQ(supervisor_.joins[1].settings.algorithm, "");
  EXPECT_EQ(supervisor_.joins[1].settings.max_channels, 8);
}

TEST_F(Nccl, ConfigurationsOfOlderProgramsAreShorter) {
  ncclConfig_t config;
  config.version = 21400;
  config.size = 24;  // up to `blocking` and padding
  config.blocking = 1;
  config.cgaClusterSize = -77;  // in the padding
  config.minCTAs = 77;          // beyond
  Join(4, 1, &config);
  EXPECT_EQ(supervisor_.joins[0].settings.min_channels, -1);
  config.magic = 1;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, {}, 0, &config), ncclInvalidArgument);
}

TEST_F(Nccl, ConfigurationsOfNewerProgramsAreLonger) {
  struct {
    ncclConfig_t known;
    int channels_per_peer = 77, nvlink_centric = 77;
  } config;
  config.known.size = sizeof(config);
  config.known.version = 22809;
  config.known.CTAPolicy = 2;
  config.known.minCTAs = 3;
  config.known.maxCTAs = 4;
  Join(4, 1, &config.known);
  EXPECT_EQ(supervisor_.joins[0].settings.min_channels, 3);
  config.known.version = 22707;  // which does not know this policy
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, {}, 0, &config.known), ncclInvalidArgument);
}

}  // namespace
}  // namespace phantora::nccl
