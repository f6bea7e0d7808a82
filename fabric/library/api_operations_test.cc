// Operations: the kernels that they are launched as, and the order of streams.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "fabric/library/nccl_for_test.h"

namespace phantora::nccl {
namespace {

// --- Operations -----------------------------------------------------------------------

TEST_F(Nccl, ACallIsOneLaunchOfTheShortKernel) {
  const ncclComm_t comm = Join();
  ASSERT_EQ(ncclReduce(At(64), At(128), 10, ncclFloat16, ncclMax, 3, comm, Stream(7)), ncclSuccess);
  ASSERT_EQ(ncclBroadcast(At(64), At(128), 10, ncclFloat16, 1, comm, Stream(7)), ncclSuccess);
  ASSERT_EQ(driver_.launches.size(), 2u);
  const Launched& reduce = driver_.launches[0];
  EXPECT_FALSE(reduce.is_long);
  EXPECT_EQ(reduce.stream, Stream(7));
  EXPECT_EQ(reduce.marker.header.magic, MarkerHeader().magic);
  EXPECT_EQ(reduce.marker.header.handle, 1u);
  EXPECT_EQ(reduce.marker.header.entries, 1);
  EXPECT_EQ(reduce.marker.header.more, 0);
  EXPECT_EQ(reduce.marker.header.sequence, 0u);
  const Entry& entry = reduce.marker.entry[0];
  EXPECT_EQ(entry.operation, Operation::kReduce);
  EXPECT_EQ(entry.type, ncclFloat16);
  EXPECT_EQ(entry.reduction, kMax);
  EXPECT_EQ(entry.peer, 3);
  EXPECT_EQ(entry.count, 10u);
  EXPECT_EQ(entry.send, 64u);
  EXPECT_EQ(entry.receive, 0u);  // not the root
  EXPECT_EQ(driver_.launches[1].marker.header.sequence, 1u);
  EXPECT_EQ(driver_.launches[1].marker.entry[0].send, 64u);  // the root
}

TEST_F(Nccl, AGroupIsOneMarkerInOrder) {
  const ncclComm_t comm = Join();
  ncclGroupStart();
  ncclGroupStart();
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, Stream(7)), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_TRUE(driver_.launches.empty());
  EXPECT_EQ(ncclSend(At(64), 5, ncclInt8, 2, comm, Stream(7)), ncclSuccess);
  EXPECT_EQ(ncclRecv(At(96), 0, ncclInt8, 0, comm, Stream(7)), ncclSuccess);
  EXPECT_EQ(ncclAllGather(At(64), At(64), 0, ncclInt8, comm, Stream(8)), ncclSuccess);  // nothing
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_EQ(driver_.launches.size(), 1u);
  const LongMarker& marker = driver_.launches[0].marker;
  EXPECT_TRUE(driver_.launches[0].is_long);
  ASSERT_EQ(marker.header.entries, 3);
  EXPECT_EQ(marker.entry[0].operation, Operation::kAllReduce);
  EXPECT_EQ(marker.entry[1].operation, Operation::kSend);
  EXPECT_EQ(marker.entry[1].peer, 2);
  EXPECT_EQ(marker.entry[2].operation, Operation::kReceive);
  EXPECT_EQ(marker.entry[2].receive, 96u);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(Nccl, AnAllToAllIsSendsAndReceives) {
  const ncclComm_t comm = Join(4, 1);
  ASSERT_EQ(ncclAlltoAll(At(1000), At(2000), 3, ncclFloat32, comm, Stream(7)), ncclSuccess);
  EXPECT_EQ(ncclAlltoAll(At(1000), At(2000), 0, ncclFloat32, comm, Stream(7)), ncclSuccess);
  ASSERT_EQ(driver_.launches.size(), 1u);
  const LongMarker& marker = driver_.launches[0].marker;
  ASSERT_EQ(marker.header.entries, 8);
  for (int peer = 0; peer < 4; ++peer) {
    const Entry& send = marker.entry[2 * peer];
    EXPECT_EQ(send.operation, Operation::kSend);
    EXPECT_EQ(send.peer, peer);
    EXPECT_EQ(send.send, 1000u + 12 * peer);
    EXPECT_EQ(send.count, 3u);
    const Entry& receive = marker.entry[2 * peer + 1];
    EXPECT_EQ(receive.operation, Operation::kReceive);
    EXPECT_EQ(receive.peer, peer);
    EXPECT_EQ(receive.receive, 2000u + 12 * peer);
  }
  EXPECT_EQ(ncclAlltoAll(At(64), At(64), SIZE_MAX / 2, ncclFloat32, comm, Stream(7)),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAlltoAll(At(64), At(64), 1, static_cast<ncclDataType_t>(12), comm, Stream(7)),
            ncclInvalidArgument);
}

TEST_F(Nccl, OnlyTheRootHasAPieceForEachRank) {
  const ncclComm_t comm = Join(4, 1);
  // As one of many, one piece from the start of the memory.
  ASSERT_EQ(ncclGather(At(1000), At(2000), 3, ncclInt8, 2, comm, Stream(7)), ncclSuccess);
  ASSERT_EQ(ncclScatter(At(1000), At(2000), 3, ncclInt8, 2, comm, Stream(7)), ncclSuccess);
  ASSERT_EQ(driver_.launches.size(), 2u);
  ASSERT_EQ(driver_.launches[0].marker.header.entries, 1);
  EXPECT_EQ(driver_.launches[0].marker.entry[0].operation, Operation::kSend);
  EXPECT_EQ(driver_.launches[0].marker.entry[0].peer, 2);
  EXPECT_EQ(driver_.launches[0].marker.entry[0].send, 1000u);
  ASSERT_EQ(driver_.launches[1].marker.header.entries, 1);
  EXPECT_EQ(driver_.launches[1].marker.entry[0].operation, Operation::kReceive);
  EXPECT_EQ(driver_.launches[1].marker.entry[0].receive, 2000u);
  // As the root, pieces of all, its own among them.
  ASSERT_EQ(ncclGather(At(1000), At(2000), 3, ncclInt8, 1, comm, Stream(7)), ncclSuccess);
  ASSERT_EQ(ncclScatter(At(1000), At(2000), 3, ncclInt8, 1, comm, Stream(7)), ncclSuccess);
  ASSERT_EQ(driver_.launches.size(), 4u);
  const LongMarker& gather = driver_.launches[2].marker;
  ASSERT_EQ(gather.header.entries, 5);
  EXPECT_EQ(gather.entry[0].receive, 2000u);
  EXPECT_EQ(gather.entry[1].send, 1000u);
  EXPECT_EQ(gather.entry[4].receive, 2009u);
  const LongMarker& scatter = driver_.launches[3].marker;
  ASSERT_EQ(scatter.header.entries, 5);
  EXPECT_EQ(scatter.entry[0].send, 1000u);
  EXPECT_EQ(scatter.entry[2].receive, 2000u);
  EXPECT_EQ(scatter.entry[4].send, 1009u);
  EXPECT_EQ(ncclGather(At(64), At(64), 1, ncclInt8, 4, comm, Stream(7)), ncclInvalidArgument);
  EXPECT_EQ(ncclScatter(At(64), At(64), 1, ncclInt8, -1, comm, Stream(7)), ncclInvalidArgument);
}

TEST_F(Nccl, ALargeGroupIsSeveralLaunchesOfOneSequence) {
  const ncclComm_t comm = Join();
  ncclGroupStart();
  for (uintptr_t i = 0; i < 2 * kMostEntries + 1; ++i) {
    ncclSend(At(1000 + i), 1, ncclInt8, 0, comm, Stream(7));
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_EQ(driver_.launches.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const LongMarker& marker = driver_.launches[i].marker;
    EXPECT_TRUE(driver_.launches[i].is_long);
    EXPECT_EQ(marker.header.entries, i < 2 ? kMostEntries : 1);
    EXPECT_EQ(marker.header.more, i < 2);
    EXPECT_EQ(marker.header.sequence, 0u);
    EXPECT_EQ(marker.entry[0].send, 1000u + i * kMostEntries);
  }
}

TEST_F(Nccl, AnErrorDropsItsGroup) {
  const ncclComm_t comm = Join();
  ncclGroupStart();
  EXPECT_EQ(ncclSend(At(64), 1, ncclInt8, 2, comm, Stream(7)), ncclSuccess);
  EXPECT_EQ(ncclSend(At(64), 1, ncclInt8, 4, comm, Stream(7)), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_TRUE(driver_.launches.empty());
  ncclGroupStart();
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
}

TEST_F(Nccl, ArgumentsAreChecked) {
  const ncclComm_t comm = Join();
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "AllReduce : comm argument is NULL");
  EXPECT_EQ(ncclReduce(At(64), At(64), 1, ncclInt8, ncclSum, -1, comm, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(
      ncclAllReduce(At(64), At(64), 1, static_cast<ncclDataType_t>(12), ncclSum, comm, nullptr),
      ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclInt8, static_cast<ncclRedOp_t>(5), comm, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclFloat8e4m3, ncclSum, comm, nullptr),
            ncclInvalidArgument);  // not on compute capability 8
  EXPECT_EQ(ncclSend(At(64), 1, ncclInt8, 1, comm, nullptr), ncclInvalidUsage);  // to itself
  EXPECT_TRUE(driver_.launches.empty());
}

TEST_F(Nccl, AMultiplicationTravelsWithItsScalar) {
  const ncclComm_t comm = Join();
  float half = 0.5;
  ncclRedOp_t immediate, on_device;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&immediate, &half, ncclFloat32, ncclScalarHostImmediate, comm),
            ncclSuccess);
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&on_device, At(4096), ncclFloat32, ncclScalarDevice, comm),
            ncclSuccess);
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclFloat32, immediate, comm, nullptr), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclFloat32, on_device, comm, nullptr), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclFloat64, on_device, comm, nullptr),
            ncclInvalidArgument);
  ASSERT_EQ(driver_.launches.size(), 2u);
  const Entry& first = driver_.launches[0].marker.entry[0];
  EXPECT_EQ(first.reduction, kPreMulSum);
  EXPECT_EQ(first.scalar, 0x3f000000u);
  EXPECT_EQ(first.scalar_on_device, 0);
  const Entry& second = driver_.launches[1].marker.entry[0];
  EXPECT_EQ(second.scalar, 4096u);
  EXPECT_EQ(second.scalar_on_device, 1);
  EXPECT_EQ(ncclRedOpDestroy(immediate, comm), ncclSuccess);
  EXPECT_EQ(ncclRedOpDestroy(immediate, comm), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
}

TEST_F(Nccl, OneRankAloneCopies) {
  const ncclComm_t comm = Join(1, 0);
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 8, ncclFloat32, ncclSum, comm, Stream(7)), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(At(64), At(96), 8, ncclFloat32, ncclAvg, comm, Stream(7)), ncclSuccess);
  EXPECT_EQ(driver_.order, (std::vector<std::string>{"copy 32 in 7"}));
}

// --- Streams --------------------------------------------------------------------------

// Of the first communicator, events 1 and 2 follow the last launch, outside of captures and in
// them; 3 joins streams.

TEST_F(Nccl, AnotherStreamWaitsForTheLastLaunch) {
  const ncclComm_t comm = Join();
  for (const uintptr_t stream : {7, 7, 8}) {
    ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, Stream(stream));
  }
  EXPECT_EQ(driver_.order,
            (std::vector<std::string>{"launch 7", "record 1 in 7", "launch 7", "record 1 in 7",
                                      "wait for 1 in 8", "launch 8", "record 1 in 8"}));
}

TEST_F(Nccl, AGroupInTwoStreamsIsLaunchedInTheFirstAndOrdersBoth) {
  const ncclComm_t comm = Join();
  ncclGroupStart();
  for (const uintptr_t stream : {7, 8, 7}) {
    ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, Stream(stream));
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(driver_.order, (std::vector<std::string>{"record 3 in 8", "wait for 3 in 7", "launch 7",
                                                     "record 1 in 7", "wait for 1 in 8"}));
}

TEST_F(Nccl, CapturesAreOrderedAmongThemselvesOnly) {
  const ncclComm_t comm = Join();
  driver_.captures[Stream(8)] = driver_.captures[Stream(9)] = 5;
  driver_.captures[Stream(10)] = 6;
  for (const uintptr_t stream : {7, 8, 9, 10, 7}) {
    ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, Stream(stream));
  }
  EXPECT_EQ(driver_.order,
            (std::vector<std::string>{"launch 7", "record 1 in 7", "launch 8", "record 2 in 8",
                                      "wait for 2 in 9", "launch 9", "record 2 in 9", "launch 10",
                                      "record 2 in 10", "launch 7", "record 1 in 7"}));
  ncclGroupStart();
  ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, Stream(7));
  EXPECT_EQ(ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, Stream(8)), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

}  // namespace
}  // namespace phantora::nccl
