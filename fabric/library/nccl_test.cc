// The library's functions, on a made-up CUDA driver and a made-up supervisor.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "fabric/library/cuda_driver.h"
#include "fabric/library/device_calls.h"
#include "fabric/library/nccl_api.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {
namespace {

// --- The made-up supervisor -----------------------------------------------------------

struct Supervisor {
  std::map<Handle, Ask> communicators;
  std::vector<Join> joins;
  std::vector<Split> splits;
  std::vector<Shrink> shrinks;
  std::vector<Leave> leaves;
  std::atomic<int> asks{0};
  std::atomic<int> pending_asks{0};  // that many are answered with "pending"
  int error = 0;                     // of joins and the like
  Ask next = {};                     // what becomes of the next communicator
};
Supervisor* supervisor;

Handle NewCommunicator(int ranks, int rank) {
  const Handle handle = static_cast<Handle>(supervisor->communicators.size() + 1);
  Ask ask = supervisor->next;
  ask.ranks = ranks;
  ask.rank = rank;
  supervisor->communicators[handle] = ask;
  return handle;
}

int MadeUpDevice(unsigned long request, void* argument) {
  if (request != kAsk && request != kLeave && supervisor->error != 0) return supervisor->error;
  switch (request) {
    case kJoin: {
      auto& join = *static_cast<Join*>(argument);
      join.handle = NewCommunicator(join.ranks, join.rank);
      supervisor->joins.push_back(join);
      return 0;
    }
    case kSplit: {
      auto& split = *static_cast<Split*>(argument);
      split.handle = NewCommunicator(split.color < 0 ? 0 : 2, split.color < 0 ? 0 : 1);
      supervisor->splits.push_back(split);
      return 0;
    }
    case kShrink: {
      auto& shrink = *static_cast<Shrink*>(argument);
      shrink.handle = NewCommunicator(3, 0);
      supervisor->shrinks.push_back(shrink);
      return 0;
    }
    case kAsk: {
      auto& ask = *static_cast<Ask*>(argument);
      ++supervisor->asks;
      const auto found = supervisor->communicators.find(ask.handle);
      if (found == supervisor->communicators.end()) return EBADF;
      const Handle handle = ask.handle;
      ask = found->second;
      ask.handle = handle;
      if (supervisor->pending_asks > 0) {
        --supervisor->pending_asks;
        ask.state = State::kPending;
      }
      return 0;
    }
    case kLeave:
      supervisor->leaves.push_back(*static_cast<Leave*>(argument));
      return 0;
  }
  return EINVAL;
}

// --- The made-up driver ---------------------------------------------------------------

struct Launched {
  bool is_long;
  LongMarker marker;
  CudaStream stream;
};
struct Driver {
  std::vector<Launched> launches;
  std::vector<std::string> order;  // of launches, records, waits and copies
  std::map<CudaStream, uint64_t> captures;
  int compute_major = 8;
  int unready_queries = 0;
  uintptr_t last_event = 0;
};
Driver* driver;

CudaStream Stream(uintptr_t number) { return reinterpret_cast<CudaStream>(number); }
std::string Name(const void* pointer) {
  return std::to_string(reinterpret_cast<uintptr_t>(pointer));
}

thread_local std::vector<CudaContext> stack;  // of contexts, the current one last

CudaDriver MadeUpCuda() {
  CudaDriver d = {};
  d.Init = [](unsigned) { return 0; };
  d.GetErrorName = [](CudaResult, const char** name) { return *name = "ERROR", 0; };
  d.DeviceGet = [](int* device, int ordinal) { return *device = ordinal, 0; };
  d.DeviceGetCount = [](int* count) { return *count = 4, 0; };
  d.DeviceGetAttribute = [](int* value, int, int) { return *value = driver->compute_major, 0; };
  d.DeviceGetUuid = [](void* uuid, int device) { return memset(uuid, device + 1, 16), 0; };
  d.DevicePrimaryCtxRetain = [](CudaContext* context, int device) {
    *context = reinterpret_cast<CudaContext>(uintptr_t{100} + device);
    return 0;
  };
  d.CtxGetCurrent = [](CudaContext* context) {
    *context = stack.empty() ? nullptr : stack.back();
    return 0;
  };
  d.CtxSetCurrent = [](CudaContext context) { return stack.assign(1, context), 0; };
  d.CtxPushCurrent = [](CudaContext context) { return stack.push_back(context), 0; };
  d.CtxPopCurrent = [](CudaContext*) { return stack.pop_back(), 0; };
  d.CtxGetDevice = [](int* device) {
    *device = static_cast<int>(reinterpret_cast<uintptr_t>(stack.back()) - 100);
    return 0;
  };
  d.ModuleLoadData = [](CudaModule*, const void*) { return 0; };
  d.ModuleGetFunction = [](CudaFunction* function, CudaModule, const char* name) {
    *function =
        reinterpret_cast<CudaFunction>(uintptr_t{strcmp(name, kMarkerKernel) == 0 ? 1u : 2u});
    return 0;
  };
  d.FuncGetAttribute = [](int*, int, CudaFunction) { return 0; };
  d.LaunchKernel = [](CudaFunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, CudaStream stream, void** parameters, void**) {
    Launched launched = {};
    launched.is_long = function == reinterpret_cast<CudaFunction>(2);
    memcpy(&launched.marker, parameters[0], launched.is_long ? sizeof(LongMarker) : sizeof(Marker));
    launched.stream = stream;
    driver->launches.push_back(launched);
    driver->order.push_back("launch " + Name(stream));
    return 0;
  };
  d.EventCreate = [](CudaEvent* event, unsigned) {
    *event = reinterpret_cast<CudaEvent>(++driver->last_event);
    return 0;
  };
  d.EventDestroy = [](CudaEvent) { return 0; };
  d.EventRecord = [](CudaEvent event, CudaStream stream) {
    driver->order.push_back("record " + Name(event) + " in " + Name(stream));
    return 0;
  };
  d.EventQuery = [](CudaEvent) { return driver->unready_queries-- > 0 ? kCudaErrorNotReady : 0; };
  d.StreamWaitEvent = [](CudaStream stream, CudaEvent event, unsigned) {
    driver->order.push_back("wait for " + Name(event) + " in " + Name(stream));
    return 0;
  };
  d.StreamGetCaptureInfo = [](CudaStream stream, int* status, uint64_t* id, void*, void*, size_t*) {
    *id = driver->captures[stream];
    *status = *id != 0;
    return 0;
  };
  d.ThreadExchangeStreamCaptureMode = [](int*) { return 0; };
  d.MemAlloc = [](CudaAddress* address, size_t) { return *address = 0x1000, 0; };
  d.MemFree = [](CudaAddress) { return 0; };
  d.MemcpyAsync = [](CudaAddress to, CudaAddress from, size_t size, CudaStream stream) {
    driver->order.push_back("copy " + std::to_string(size) + " in " + Name(stream));
    return 0;
  };
  return d;
}

void* At(uintptr_t address) { return reinterpret_cast<void*>(address); }

class Nccl : public testing::Test {
 protected:
  Nccl() {
    supervisor = &supervisor_;
    driver = &driver_;
    supervisor_.next.state = State::kReady;
    static const CudaDriver cuda = MadeUpCuda();
    SetCudaForTest(&cuda);
    SetDeviceForTest(MadeUpDevice);
    cuda.CtxSetCurrent(reinterpret_cast<CudaContext>(uintptr_t{102}));
  }

  ncclComm_t Join(int ranks = 4, int rank = 1, ncclConfig_t* config = nullptr) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, ranks, {}, rank, config), ncclSuccess)
        << ncclGetLastError(nullptr);
    return comm;
  }

  Supervisor supervisor_;
  Driver driver_;
};

// --- Making and ending ----------------------------------------------------------------

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

// --- The rest -------------------------------------------------------------------------

TEST_F(Nccl, SimulatingAGroupDoesNothing) {
  const ncclComm_t comm = Join();
  ncclGroupStart();
  ncclAllReduce(At(64), At(64), 1, ncclInt8, ncclSum, comm, Stream(7));
  ncclSimInfo_t info = {sizeof(info), kNcclSimInfoMagic, 22707, -1};
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_EQ(info.estimatedTime, -1);
  EXPECT_TRUE(driver_.launches.empty());
}

TEST_F(Nccl, MemoryAndRegistrations) {
  const ncclComm_t comm = Join();
  void* memory = nullptr;
  EXPECT_EQ(ncclMemAlloc(&memory, 10), ncclSuccess);
  void* handle = nullptr;
  EXPECT_EQ(ncclCommRegister(comm, memory, 10, &handle), ncclSuccess);
  EXPECT_NE(handle, nullptr);
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(comm, memory, 10, &window, 1), ncclSuccess);
  EXPECT_NE(window, nullptr);
  EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  int version;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22707);
  EXPECT_STREQ(ncclGetErrorString(ncclRemoteError),
               "remote process exited or there was a network error");
}

}  // namespace
}  // namespace phantora::nccl
