// One process with a context on every GPU at once: memory, copies, kernels, streams and events on
// each, the same way as on the others. --gpus N fails unless there are exactly N.
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

constexpr size_t kSize = kMiB + 7;

struct Gpu {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  std::unique_ptr<Kernels> kernels;
  size_t free_before = 0;
};

void Use(const Gpu& gpu) { CU_CHECK(cuCtxSetCurrent(gpu.context)); }

size_t FreeMemory() {
  size_t free = 0;
  size_t total = 0;
  CU_CHECK(cuMemGetInfo(&free, &total));
  return free;
}

void Work(const Gpu& gpu, PinnedMemory& pinned, uint64_t seed) {
  FillPattern(pinned.as(), kSize, seed);
  const Bytes want(pinned.as(), pinned.as() + kSize);
  CU_CHECK(cuMemcpyHtoDAsync(gpu.memory, pinned.as(), kSize, gpu.stream));
  gpu.kernels->VectorAdd(gpu.memory + 4 * kMiB, gpu.memory + 4 * kMiB, gpu.memory + 4 * kMiB, 1000,
                         gpu.stream);
  CU_CHECK(cuMemcpyDtoDAsync(gpu.memory + 2 * kMiB, gpu.memory, kSize, gpu.stream));
  CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), gpu.memory + 2 * kMiB, kSize, gpu.stream));
  CU_CHECK(cuEventRecord(gpu.event, gpu.stream));
  CU_CHECK(cuEventSynchronize(gpu.event));
  CheckBytes(pinned.as(), want.data(), kSize, "GPU " + std::to_string(gpu.device));
}

}  // namespace

TRACEE(multi_gpu) {
  CU_CHECK(cuInit(0));
  int count = 0;
  CU_CHECK(cuDeviceGetCount(&count));
  if (args.Has("gpus")) CHECK_EQ(count, static_cast<int>(args.Number("gpus", 0)));
  std::vector<Gpu> gpus(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    Gpu& gpu = gpus[static_cast<size_t>(i)];
    CU_CHECK(cuDeviceGet(&gpu.device, i));
    CU_CHECK(cuCtxCreate(&gpu.context, 0, gpu.device));
    CU_CHECK(cuStreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING));
    CU_CHECK(cuEventCreate(&gpu.event, 0));
    gpu.kernels = std::make_unique<Kernels>();
    gpu.free_before = FreeMemory();
    CU_CHECK(cuMemAlloc(&gpu.memory, 64 * kMiB));
    CUdevice current = -1;
    CU_CHECK(cuCtxGetDevice(&current));
    CHECK_EQ(current, gpu.device);
  }
  // What one allocates is missing on this one only.
  for (const Gpu& gpu : gpus) {
    Use(gpu);
    const size_t missing = gpu.free_before - FreeMemory();
    CHECK_GE(missing, 64 * kMiB);
    CHECK_LE(missing, 68 * kMiB);  // Page tables may take a little, too.
  }
  Use(gpus[0]);
  {
    PinnedMemory pinned(kSize, CU_MEMHOSTALLOC_PORTABLE);
    for (uint64_t round = 0; round < 5; ++round) {
      for (const Gpu& gpu : gpus) {
        Use(gpu);
        Work(gpu, pinned, 100 * round + static_cast<uint64_t>(gpu.device));
      }
    }
    Use(gpus[0]);
  }
  // A thread per GPU, all at once.
  std::vector<std::thread> threads;
  for (const Gpu& gpu : gpus) {
    threads.emplace_back([&gpu] {
      Use(gpu);
      PinnedMemory pinned(kSize);
      for (uint64_t round = 0; round < 10; ++round) {
        Work(gpu, pinned, 1000 * round + static_cast<uint64_t>(gpu.device));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Gpu& gpu : gpus) {
    Use(gpu);
    gpu.kernels.reset();
    CU_CHECK(cuMemFree(gpu.memory));
    CU_CHECK(cuEventDestroy(gpu.event));
    CU_CHECK(cuStreamDestroy(gpu.stream));
  }
  for (const Gpu& gpu : gpus) CU_CHECK(cuCtxDestroy(gpu.context));
}
