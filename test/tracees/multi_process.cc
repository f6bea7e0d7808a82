// Several processes at once, forked before anyone used CUDA, as a launcher starts the ranks of a
// job.
//   --processes N  (default 4)
//   --shared       all on GPU 0; otherwise rank i on GPU i modulo their number
#include <string>
#include <vector>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

void Rank(int rank, bool shared) {
  CU_CHECK(cuInit(0));
  int count = 0;
  CU_CHECK(cuDeviceGetCount(&count));
  Context context(shared ? 0 : rank % count);
  Kernels kernels;
  Stream stream;
  const std::string name = "rank " + std::to_string(rank);
  for (uint64_t round = 0; round < 10; ++round) {
    const size_t size = kMiB * (1 + round) + static_cast<size_t>(rank);
    DeviceMemory memory(2 * size + 16);
    PinnedMemory pinned(size);
    const uint64_t seed = 1000 * round + static_cast<uint64_t>(rank);
    FillPattern(pinned.as(), size, seed);
    const Bytes want(pinned.as(), pinned.as() + size);
    CU_CHECK(cuMemcpyHtoDAsync(memory.get(), pinned.as(), size, stream.get()));
    const CUdeviceptr second = memory.get() + (size + 15) / 16 * 16;
    CU_CHECK(cuMemcpyDtoDAsync(second, memory.get(), size, stream.get()));
    for (int i = 0; i < 100; ++i) {
      CUdeviceptr address = 0;
      uint32_t n = 0;
      void* parameters[] = {&address, &address, &address, &n};
      CU_CHECK(cuLaunchKernel(kernels.Get("vector_add"), 8, 1, 1, 64, 1, 1, 0, stream.get(),
                              parameters, nullptr));
    }
    CU_CHECK(cuMemsetD8Async(memory.get(), static_cast<unsigned char>(rank), size, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), second, size, stream.get()));
    stream.Synchronize();
    CheckBytes(pinned.as(), want.data(), size, name);
    CheckDeviceFilled(memory.get(), static_cast<uint8_t>(rank), size, name);
  }
}

}  // namespace

TRACEE(multi_process) {
  const auto processes = static_cast<int>(args.Number("processes", 4));
  const bool shared = args.Has("shared");
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(ForkChild([&] { Rank(i, shared); }));
  }
  for (pid_t child : children) WaitForChild(child);
}
