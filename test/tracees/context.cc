// Contexts: the current stack, the primary context, flags, limits, many in sequence, two at once.
#include <set>
#include <thread>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

CUcontext Current() {
  CUcontext context = nullptr;
  CU_CHECK(cuCtxGetCurrent(&context));
  return context;
}

size_t FreeMemory() {
  size_t free = 0;
  size_t total = 0;
  CU_CHECK(cuMemGetInfo(&free, &total));
  CHECK_LE(free, total);
  return free;
}

void TestWithoutContext(CUdevice device) {
  CHECK_EQ(Current(), CUcontext{nullptr});
  CUdeviceptr pointer = 0;
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  size_t free = 0;
  CU_EXPECT(cuMemAlloc(&pointer, 4096), CUDA_ERROR_INVALID_CONTEXT);
  CU_EXPECT(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  CU_EXPECT(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  CU_EXPECT(cuMemGetInfo(&free, &free), CUDA_ERROR_INVALID_CONTEXT);
  CU_EXPECT(cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
  CU_EXPECT(cuCtxCreate(&context, 0xffffff00u, device), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuCtxCreate(&context, 0, 12345), CUDA_ERROR_INVALID_DEVICE);
  CU_CHECK(cuCtxSetCurrent(nullptr));
}

void TestStack(CUdevice device) {
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  CU_CHECK(cuCtxCreate(&first, 0, device));
  CHECK_EQ(Current(), first);
  CU_CHECK(cuCtxCreate(&second, 0, device));
  CHECK_NE(first, second);
  CHECK_EQ(Current(), second);

  CUdevice of_current = -1;
  CU_CHECK(cuCtxGetDevice(&of_current));
  CHECK_EQ(of_current, device);
  unsigned version = 0;
  CU_CHECK(cuCtxGetApiVersion(second, &version));
  CHECK_GE(version, 3010u);
  unsigned long long first_id = 0;   // NOLINT(google-runtime-int): the documented type.
  unsigned long long second_id = 0;  // NOLINT(google-runtime-int)
  CU_CHECK(cuCtxGetId(first, &first_id));
  CU_CHECK(cuCtxGetId(second, &second_id));
  CHECK_NE(first_id, second_id);

  CUcontext popped = nullptr;
  CU_CHECK(cuCtxPopCurrent(&popped));
  CHECK_EQ(popped, second);
  CHECK_EQ(Current(), first);
  CU_CHECK(cuCtxPushCurrent(second));
  CU_CHECK(cuCtxPushCurrent(first));
  CU_CHECK(cuCtxPopCurrent(&popped));
  CHECK_EQ(popped, first);
  CHECK_EQ(Current(), second);

  // Currency belongs to a thread.
  std::thread([&] {
    CHECK_EQ(Current(), CUcontext{nullptr});
    CU_CHECK(cuCtxSetCurrent(first));
    CHECK_EQ(Current(), first);
    CU_CHECK(cuCtxSynchronize());
  }).join();
  CHECK_EQ(Current(), second);

  // Destroying the current context takes it off the stack.
  CU_CHECK(cuCtxDestroy(second));
  CHECK_EQ(Current(), first);
  CU_CHECK(cuCtxSynchronize());
  CU_CHECK(cuCtxDestroy(first));
  CHECK_EQ(Current(), CUcontext{nullptr});
}

void TestPrimary(CUdevice device) {
  unsigned flags = 99;
  int active = 99;
  CU_CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  CHECK_EQ(active, 0);
  CU_EXPECT(cuDevicePrimaryCtxRelease(device), CUDA_ERROR_INVALID_CONTEXT);
  CU_CHECK(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_YIELD));

  CUcontext primary = nullptr;
  CUcontext again = nullptr;
  CU_CHECK(cuDevicePrimaryCtxRetain(&primary, device));
  CHECK_EQ(Current(), CUcontext{nullptr});  // Retaining does not make it current.
  CU_CHECK(cuDevicePrimaryCtxRetain(&again, device));
  CHECK_EQ(again, primary);
  CU_CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  CHECK_EQ(active, 1);
  CHECK_EQ(flags & CU_CTX_SCHED_MASK, static_cast<unsigned>(CU_CTX_SCHED_YIELD));
  CU_CHECK(cuCtxSetCurrent(primary));
  CHECK_EQ(Current(), primary);
  {
    DeviceMemory memory(kMiB);
    const Bytes data = Pattern(kMiB, 1);
    CU_CHECK(cuMemcpyHtoD(memory.get(), data.data(), data.size()));
    CheckDevice(memory.get(), data.data(), data.size(), "primary context");
  }
  CU_EXPECT(cuCtxDestroy(primary), CUDA_ERROR_INVALID_CONTEXT);

  CU_CHECK(cuDevicePrimaryCtxRelease(device));
  CU_CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  CHECK_EQ(active, 1);
  CU_CHECK(cuDevicePrimaryCtxRelease(device));
  CU_CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  CHECK_EQ(active, 0);
  CU_CHECK(cuCtxSetCurrent(nullptr));

  // Reset drops everything that was in it; the context can be taken again and works.
  CU_CHECK(cuDevicePrimaryCtxRetain(&primary, device));
  CU_CHECK(cuCtxSetCurrent(primary));
  CUdeviceptr leaked = 0;
  CU_CHECK(cuMemAlloc(&leaked, 64 * kMiB));
  CU_CHECK(cuDevicePrimaryCtxReset(device));
  CU_CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
  CHECK_EQ(active, 0);
  CU_CHECK(cuCtxSetCurrent(nullptr));
  CU_CHECK(cuDevicePrimaryCtxRetain(&primary, device));
  CU_CHECK(cuCtxSetCurrent(primary));
  { DeviceMemory memory(kMiB); }
  CU_CHECK(cuCtxSetCurrent(nullptr));
  CU_CHECK(cuDevicePrimaryCtxReset(device));
  CU_CHECK(cuDevicePrimaryCtxSetFlags(device, 0));
}

void TestFlags(CUdevice device) {
  for (unsigned want : {0u, 1u, 2u, 4u, 8u, 16u, 4u | 16u}) {
    CUcontext context = nullptr;
    CU_CHECK(cuCtxCreate(&context, want, device));
    unsigned got = 0;
    CU_CHECK(cuCtxGetFlags(&got));
    CHECK_EQ(got & CU_CTX_SCHED_MASK, want & CU_CTX_SCHED_MASK);
    CHECK_EQ(got & CU_CTX_LMEM_RESIZE_TO_MAX, want & CU_CTX_LMEM_RESIZE_TO_MAX);
    {
      DeviceMemory memory(4096);
      CU_CHECK(cuMemsetD8(memory.get(), 0x5a, 4096));
      CheckDeviceFilled(memory.get(), 0x5a, 4096, "context with flags");
    }
    CU_CHECK(cuCtxDestroy(context));
  }
}

void TestLimits(CUdevice device) {
  Context context(device);
  size_t value = 0;
  CU_CHECK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  CHECK_GT(value, 0u);
  CU_CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  CU_CHECK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  CHECK_GE(value, 4096u);
  CU_CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 4 * kMiB));
  CU_CHECK(cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
  CHECK_GE(value, 4 * kMiB);
  CU_CHECK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * kMiB));
  CU_CHECK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
  CHECK_GE(value, 32 * kMiB);
  CU_CHECK(cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 128));
  CU_CHECK(cuCtxGetLimit(&value, CU_LIMIT_MAX_L2_FETCH_GRANULARITY));
  CHECK_EQ(value, 128u);
  CU_CHECK(cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0));
  CU_CHECK(cuCtxResetPersistingL2Cache());
  CU_EXPECT(cuCtxGetLimit(&value, static_cast<CUlimit>(1000)), CUDA_ERROR_INVALID_VALUE);

  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
  CU_CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
  CU_CHECK(cuCtxGetCacheConfig(&cache));

  int least = 99;
  int greatest = 99;
  CU_CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
  CHECK_EQ(least, 0);
  CHECK_LT(greatest, least);  // A lower number is a higher priority.
}

void TestManyInSequence(CUdevice device) {
  Context keeper(device);
  size_t after_first = 0;
  for (int i = 0; i < 12; ++i) {
    CUcontext context = nullptr;
    CU_CHECK(cuCtxCreate(&context, 0, device));
    {
      DeviceMemory memory(3 * kMiB);
      CU_CHECK(cuMemsetD32(memory.get(), static_cast<unsigned>(i), 3 * kMiB / 4));
      uint32_t word = 0;
      CU_CHECK(cuMemcpyDtoH(&word, memory.get() + 3 * kMiB - 4, 4));
      CHECK_EQ(word, static_cast<uint32_t>(i));
    }
    CUdeviceptr leaked = 0;
    CU_CHECK(cuMemAlloc(&leaked, 100 * kMiB));  // Destroying the context gives it back.
    CU_CHECK(cuCtxDestroy(context));
    CHECK_EQ(Current(), keeper.get());
    if (i == 0) after_first = FreeMemory();
  }
  CHECK_EQ(FreeMemory(), after_first);
}

void TestTwoAtOnce(CUdevice device) {
  CUcontext contexts[2];
  CUdeviceptr memory[2];
  const Bytes data[2] = {Pattern(kMiB + 3, 10), Pattern(kMiB + 3, 11)};
  for (int i = 0; i < 2; ++i) {
    CU_CHECK(cuCtxCreate(&contexts[i], 0, device));
    CU_CHECK(cuMemAlloc(&memory[i], data[i].size()));
    CU_CHECK(cuMemcpyHtoD(memory[i], data[i].data(), data[i].size()));
    CUcontext owner = nullptr;
    CU_CHECK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory[i]));
    CHECK_EQ(owner, contexts[i]);
  }
  CHECK_NE(memory[0], memory[1]);  // One unified address space for the process.
  for (int i = 0; i < 2; ++i) {
    CU_CHECK(cuCtxSetCurrent(contexts[i]));
    CheckDevice(memory[i], data[i].data(), data[i].size(), "one of two contexts");
  }
  CU_CHECK(cuCtxDestroy(contexts[0]));
  CU_CHECK(cuCtxSetCurrent(contexts[1]));
  CheckDevice(memory[1], data[1].data(), data[1].size(), "the other context was destroyed");
  CU_CHECK(cuMemFree(memory[1]));
  CU_CHECK(cuCtxDestroy(contexts[1]));
}

}  // namespace

TRACEE(context) {
  CU_CHECK(cuInit(0));
  CUdevice device = 0;
  CU_CHECK(cuDeviceGet(&device, static_cast<int>(args.Number("device", 0))));
  TestWithoutContext(device);
  TestStack(device);
  TestPrimary(device);
  TestFlags(device);
  TestLimits(device);
  TestManyInSequence(device);
  TestTwoAtOnce(device);
}
