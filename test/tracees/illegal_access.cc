// Accesses to memory that is not there. What the driver sees through is refused at the call and
// harms nothing. What only the GPU notices (a graph whose memory has been unmapped since) must end
// as CUDA_ERROR_ILLEGAL_ADDRESS, stay in that context for good, and leave other processes alone.
//   --other  be only the other process: work and check for some seconds
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "test/tracees/kernels.h"
#include "test/tracees/tracee.h"

namespace {

// A mapping that can be taken away without the driver forgetting the graph that uses it.
class Mapping {
 public:
  explicit Mapping(CUdevice device) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CU_CHECK(cuMemGetAllocationGranularity(&size_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CU_CHECK(cuMemAddressReserve(&address_, size_, 0, 0, 0));
    CUmemGenericAllocationHandle handle = 0;
    CU_CHECK(cuMemCreate(&handle, size_, &properties, 0));
    CU_CHECK(cuMemMap(address_, size_, 0, handle, 0));
    CU_CHECK(cuMemRelease(handle));
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU_CHECK(cuMemSetAccess(address_, size_, &access, 1));
  }
  CUdeviceptr address() const { return address_; }
  void Unmap() { CU_CHECK(cuMemUnmap(address_, size_)); }

 private:
  CUdeviceptr address_ = 0;
  size_t size_ = 0;
};

// A call with a wrong address: refused, or accepted and then reported by the next wait. Returns
// true if the context has survived.
bool Harmless(CUresult at_call, const char* what) {
  if (at_call == CUDA_ERROR_INVALID_VALUE) {
    CU_CHECK(cuCtxSynchronize());
    return true;
  }
  CU_CHECK(at_call);
  CU_EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  printf("%s was left to the GPU\n", what);
  return false;
}

void CheckWorks(const std::string& when) {
  DeviceMemory memory(kMiB);
  const Bytes data = Pattern(kMiB, 1);
  CU_CHECK(cuMemcpyHtoD(memory.get(), data.data(), data.size()));
  CheckDevice(memory.get(), data.data(), data.size(), when);
}

// The context is lost: everything says so, again and again.
void CheckSticky(CUdeviceptr memory, CUfunction kernel) {
  for (int i = 0; i < 3; ++i) {
    CU_EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr block = 0;
    uint8_t byte = 0;
    CUstream stream = nullptr;
    CU_EXPECT(cuMemAlloc(&block, kMiB), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU_EXPECT(cuStreamCreate(&stream, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU_EXPECT(cuMemHostAlloc(reinterpret_cast<void**>(&block), 4096, 0),
              CUDA_ERROR_ILLEGAL_ADDRESS);
    CU_EXPECT(cuStreamSynchronize(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU_EXPECT(cuMemcpyDtoH(&byte, memory, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU_EXPECT(cuMemcpyHtoD(memory, &byte, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU_EXPECT(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

void TestRefused() {
  CU_CHECK(cuInit(0));
  CUdevice device = 0;
  CUcontext context = nullptr;
  CU_CHECK(cuDeviceGet(&device, 0));
  CU_CHECK(cuCtxCreate(&context, 0, device));
  CUdeviceptr memory = 0;
  CU_CHECK(cuMemAlloc(&memory, 4 * kMiB));
  const CUdeviceptr nowhere = 0x123400000000;
  if (!Harmless(cuMemsetD8Async(memory + kGiB * 256, 1, 4096, nullptr), "a memset far beyond")) {
    _exit(0);  // The rest needs a context that works; CheckSticky is run elsewhere.
  }
  if (!Harmless(cuMemsetD8Async(memory, 1, 5 * kMiB, nullptr), "a memset that is too long")) {
    _exit(0);
  }
  if (!Harmless(cuMemcpyDtoDAsync(memory, nowhere, 4096, nullptr), "a copy from nowhere")) {
    _exit(0);
  }
  if (!Harmless(cuMemcpyDtoDAsync(nowhere, memory, 4096, nullptr), "a copy to nowhere")) _exit(0);
  CU_EXPECT(cuMemFree(nowhere), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuMemFree(memory + 256), CUDA_ERROR_INVALID_VALUE);
  CheckWorks("after refused calls");
  CU_CHECK(cuMemFree(memory));
  CU_CHECK(cuCtxDestroy(context));
}

enum class Kind { kWrite, kRead };

void TestFault(Kind kind) {
  CU_CHECK(cuInit(0));
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CU_CHECK(cuDeviceGet(&device, 0));
  CU_CHECK(cuCtxCreate(&context, 0, device));
  CU_CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr memory = 0;
  CU_CHECK(cuMemAlloc(&memory, 64 * kKiB));
  Kernels kernels;
  const CUfunction kernel = kernels.Get("no_parameters");
  Mapping mapping(device);
  CU_CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  if (kind == Kind::kWrite) {
    CU_CHECK(cuMemsetD32Async(mapping.address(), 7, 16 * kKiB, stream));
  } else {
    CU_CHECK(cuMemcpyDtoDAsync(memory, mapping.address(), 64 * kKiB, stream));
  }
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CU_CHECK(cuStreamEndCapture(stream, &graph));
  CU_CHECK(cuGraphInstantiate(&exec, graph, 0));
  CU_CHECK(cuGraphLaunch(exec, stream));
  CU_CHECK(cuStreamSynchronize(stream));  // As long as the mapping is there, all is well.

  mapping.Unmap();
  CU_CHECK(cuGraphLaunch(exec, stream));
  CU_EXPECT(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CheckSticky(memory, kernel);
  // The process ends without cleaning up, as a program does that throws away a broken context.
  _exit(0);
}

// Until `is_over` says so, but one round at least.
void BeTheOther(const std::function<bool()>& is_over) {
  Context context;
  Stream stream;
  DeviceMemory memory(2 * kMiB);
  PinnedMemory pinned(kMiB);
  uint64_t rounds = 0;
  do {
    FillPattern(pinned.as(), kMiB, rounds);
    const Bytes want(pinned.as(), pinned.as() + kMiB);
    CU_CHECK(cuMemcpyHtoDAsync(memory.get(), pinned.as(), kMiB, stream.get()));
    CU_CHECK(cuMemcpyDtoDAsync(memory.get() + kMiB, memory.get(), kMiB, stream.get()));
    CU_CHECK(cuMemcpyDtoHAsync(pinned.as(), memory.get() + kMiB, kMiB, stream.get()));
    stream.Synchronize();
    CheckBytes(pinned.as(), want.data(), kMiB, "beside a faulting process");
    ++rounds;
  } while (!is_over());
  printf("%d rounds beside the faulting processes\n", static_cast<int>(rounds));
}

}  // namespace

TRACEE(illegal_access) {
  if (args.Has("other")) {
    const double end = Seconds() + static_cast<double>(args.Number("seconds", 5));
    BeTheOther([end] { return Seconds() >= end; });
    return;
  }
  // The other works from before the first fault until after the last, however long that is.
  int begun[2], over[2];
  if (pipe(begun) != 0 || pipe(over) != 0) Fail("no pipes");
  const pid_t other = ForkChild([&] {
    close(over[1]);
    bool first = true;
    BeTheOther([&] {
      if (std::exchange(first, false) && write(begun[1], "x", 1) != 1) Fail("nobody waits");
      pollfd end = {.fd = over[0], .events = POLLIN, .revents = 0};
      return poll(&end, 1, 0) != 0;
    });
  });
  char byte = 0;
  if (read(begun[0], &byte, 1) != 1) Fail("the other does not begin");
  WaitForChild(ForkChild([] { TestRefused(); }));
  WaitForChild(ForkChild([] { TestFault(Kind::kWrite); }));
  WaitForChild(ForkChild([] { TestFault(Kind::kRead); }));
  close(over[1]);
  WaitForChild(other);
  // And a new process finds the device in order.
  WaitForChild(ForkChild([] { BeTheOther([] { return true; }); }));
}
