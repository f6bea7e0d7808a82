// Memory, registrations and what else does nothing.
#include <gtest/gtest.h>

#include <cstring>

#include "fabric/library/nccl_for_test.h"

namespace phantora::nccl {
namespace {

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

TEST_F(Nccl, KernelsOfTheProgramDoNotCommunicate) {
  const ncclComm_t comm = Join();
  EXPECT_EQ(ncclDevCommCreate(comm, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_NE(std::strstr(ncclGetLastError(comm), "does not support symmetric memory"), nullptr);
  EXPECT_EQ(ncclDevCommCreate(nullptr, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclDevCommDestroy(comm, nullptr), ncclSuccess);
  EXPECT_EQ(ncclDevCommDestroy(comm, reinterpret_cast<const ncclDevComm*>(64)),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(Nccl, WhatIsNotSimulatedSaysSo) {
  const ncclComm_t comm = Join();
  EXPECT_EQ(ncclCommSuspend(comm, 1), ncclInvalidUsage);
  EXPECT_NE(std::strstr(ncclGetLastError(comm), "ncclCommSuspend is not simulated"), nullptr);
  EXPECT_EQ(ncclCommResume(comm), ncclInvalidUsage);
  EXPECT_EQ(ncclSignal(0, 0, 0, 0, comm, nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclCommResume(nullptr), ncclInvalidArgument);
  ncclComm_t grown = nullptr;
  EXPECT_EQ(ncclCommGrow(nullptr, 2, nullptr, 0, &grown, nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
}  // namespace phantora::nccl
