// Processes and threads as programs really mix them: a process with a live context forks and execs
// children that use CUDA themselves, forks children that do not use it, and runs threads that do.
//   --child  be the executed child
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

void Work(uint64_t seed, int rounds, const std::string& who) {
  Stream stream;
  DeviceMemory memory(kMiB);
  PinnedMemory pinned(kMiB);
  for (int i = 0; i < rounds; ++i) {
    FillPattern(pinned.as(), kMiB, seed + static_cast<uint64_t>(i));
    const Bytes want(pinned.as(), pinned.as() + kMiB);
    CU_CHECK(cuMemcpyHtoDAsync(memory.get(), pinned.as(), kMiB, stream.get()));
    CU_CHECK(cuStreamSynchronize(stream.get()));
    memset(pinned.as(), 0, kMiB);
    CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), memory.get(), kMiB, stream.get()));
    stream.Synchronize();
    CheckBytes(pinned.as(), want.data(), kMiB, who);
  }
}

pid_t ExecChild(const char* option) {
  const pid_t child = fork();
  if (child < 0) Fail("fork: %s", strerror(errno));
  if (child == 0) {
    // Only exec after the fork: no CUDA call may happen here.
    execl("/proc/self/exe", "fork_exec", option, static_cast<char*>(nullptr));
    _exit(127);
  }
  return child;
}

// The driver's descriptors must not leak into a program that this one executes.
void CheckNoDeviceFiles() {
  for (int fd = 3; fd < 256; ++fd) {
    char link[64];
    char target[256] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof target - 1) < 0) continue;
    if (strstr(target, "nvidia") != nullptr) {
      Fail("descriptor %d (%s) was inherited through exec", fd, target);
    }
  }
}

void TestThreads(CUcontext context, const Kernels& kernels) {
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([context, t, &kernels] {
      CU_CHECK(cuCtxSetCurrent(context));
      Work(static_cast<uint64_t>(1000 * t), 20, "thread " + std::to_string(t));
      Stream stream;
      Event event;
      for (int i = 0; i < 200; ++i) {
        CUdeviceptr block = 0;
        CUdeviceptr none = 0;
        uint32_t n = 0;
        void* parameters[] = {&none, &none, &none, &n};
        CU_CHECK(cuMemAlloc(&block, 1000 * static_cast<size_t>(1 + (i + t) % 7)));
        CU_CHECK(cuLaunchKernel(kernels.Get("vector_add"), 2, 1, 1, 32, 1, 1, 0, stream.get(),
                                parameters, nullptr));
        CU_CHECK(cuEventRecord(event.get(), stream.get()));
        CU_CHECK(cuMemsetD8Async(block, static_cast<unsigned char>(t), 1000, stream.get()));
        uint8_t got = 0xff;
        stream.Synchronize();
        CU_CHECK(cuMemcpyDtoH(&got, block + 999, 1));
        CHECK_EQ(got, static_cast<uint8_t>(t));
        CU_CHECK(cuMemFree(block));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TRACEE(fork_exec) {
  if (args.Has("child")) {
    CheckNoDeviceFiles();
    Context context;
    Work(7, 3, "an executed child");
    return;
  }
  Context context;
  Kernels kernels;
  Work(1, 3, "before any fork");
  WaitForChild(ExecChild("--child"));
  Work(2, 3, "after a child");

  // Children while this process works.
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) children.push_back(ExecChild("--child"));
  Work(3, 30, "beside executed children");
  for (pid_t child : children) WaitForChild(child);

  // A child that only computes, as a data loader does; its exit must not disturb the context.
  for (int i = 0; i < 5; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    WaitForChild(child);
  }
  Work(4, 3, "after children that do not use CUDA");

  TestThreads(context.get(), kernels);
  WaitForChild(ExecChild("--child"));
}
