// Processes killed in the middle of their work: everything they held must come back, so that a new
// process can have the whole device, again and again.
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

constexpr size_t kBlock = 512 * kMiB;

// Memory of a dead process may take a moment to come back, on a real GPU as well: the kernel driver
// puts off closing its files when it is busy.
void Soon(const std::function<CUresult()>& allocate) {
  const double deadline = Seconds() + 10;
  CUresult result = allocate();
  while (result == CUDA_ERROR_OUT_OF_MEMORY && Seconds() < deadline) {
    usleep(20000);
    result = allocate();
  }
  CU_CHECK(result);
}

void CreateContext(unsigned flags) {
  CU_CHECK(cuInit(0));
  Soon([flags] {
    CUcontext context = nullptr;
    return cuCtxCreate(&context, flags, 0);
  });
}

// In a process of its own: how many blocks the device has room for.
size_t CountBlocks() {
  Channel channel;
  const pid_t child = ForkChild([&] {
    channel.UseChildSide();
    CreateContext(0);
    std::vector<CUdeviceptr> blocks;
    for (;;) {
      CUdeviceptr block = 0;
      const CUresult result = cuMemAlloc(&block, kBlock);
      if (result == CUDA_ERROR_OUT_OF_MEMORY) break;
      CU_CHECK(result);
      blocks.push_back(block);
    }
    CHECK_GT(blocks.size(), 0u);
    // The last block works: what was freed is really there.
    SetDevice(blocks.back(), 0x3d, kMiB);
    CheckDeviceFilled(blocks.back(), 0x3d, kMiB, "memory a dead process had");
    channel.Put(blocks.size());
    // Some leave without cleaning up.
    if (blocks.size() % 2 == 0) _exit(0);
  });
  channel.UseParentSide();
  const auto count = channel.Take<size_t>();
  WaitForChild(child);
  return count;
}

[[noreturn]] void WorkForever(const Channel& channel, size_t blocks, int kind) {
  CreateContext(kind == 2 ? CU_CTX_SCHED_BLOCKING_SYNC : CU_CTX_SCHED_AUTO);
  Kernels kernels;
  Stream stream;
  Gate gate;
  for (size_t i = 0; i < blocks; ++i) {
    CUdeviceptr block = 0;
    Soon([&block] { return cuMemAlloc(&block, kBlock); });
    CU_CHECK(cuMemsetD8(block, 1, kMiB));
  }
  DeviceMemory memory(16 * kMiB);
  PinnedMemory pinned(16 * kMiB);
  channel.Put('r');
  if (kind == 0) gate.Close(stream.get());  // Killed with work that would never end.
  for (;;) {
    for (int i = 0; i < 50; ++i) {
      kernels.VectorAdd(memory.get(), memory.get(), memory.get(), 1000, stream.get());
      CU_CHECK(cuMemcpyHtoDAsync(memory.get(), pinned.as(), pinned.size(), stream.get()));
    }
    stream.Synchronize();
    CUdeviceptr churn = 0;
    CU_CHECK(cuMemAlloc(&churn, 8 * kMiB));
    CU_CHECK(cuMemFree(churn));
  }
}

void KillAfter(pid_t child, useconds_t microseconds) {
  usleep(microseconds);
  CHECK_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  CHECK_TRUE(WIFSIGNALED(status));
  CHECK_EQ(WTERMSIG(status), SIGKILL);
}

void ExpectAll(size_t want) {
  const double deadline = Seconds() + 10;
  size_t got = 0;
  do {
    got = CountBlocks();
    if (got == want) return;
    usleep(100000);
  } while (Seconds() < deadline);
  Fail("of %zu blocks only %zu came back", want, got);
}

}  // namespace

TRACEE(kill_child) {
  const size_t all = CountBlocks();
  printf("room for %zu blocks of %zu MiB\n", all, kBlock / kMiB);
  CHECK_GE(all, 4u);
  Random random(8);
  for (int round = 0; round < 4; ++round) {
    constexpr int kChildren = 3;
    std::vector<pid_t> children;
    for (int i = 0; i < kChildren; ++i) {
      Channel channel;
      children.push_back(ForkChild([&] {
        channel.UseChildSide();
        WorkForever(channel, all / (kChildren + 1), i);
      }));
      channel.UseParentSide();
      CHECK_EQ(channel.Take<char>(), 'r');
    }
    for (pid_t child : children) {
      KillAfter(child, static_cast<useconds_t>(random.Below(50000)));
    }
    ExpectAll(all);
  }
  // Killed at any moment of starting up, too.
  for (int i = 0; i < 10; ++i) {
    Channel channel;
    const pid_t child = ForkChild([&] {
      channel.UseChildSide();
      channel.Put('s');
      WorkForever(channel, 1, 1);
    });
    channel.UseParentSide();
    channel.Take<char>();
    KillAfter(child, static_cast<useconds_t>(random.Below(300000)));
  }
  ExpectAll(all);
}
