// The device's memory to the last gibibyte: what cuMemGetInfo says and what can be allocated agree,
// refusals harm nothing, and everything comes back.
#include <cstdio>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

size_t FreeMemory() {
  size_t free = 0;
  size_t total = 0;
  CU_CHECK(cuMemGetInfo(&free, &total));
  CHECK_LE(free, total);
  return free;
}

// Blocks of this size until there is no room.
std::vector<CUdeviceptr> AllocateAll(size_t size) {
  std::vector<CUdeviceptr> blocks;
  for (;;) {
    CUdeviceptr block = 0;
    const CUresult result = cuMemAlloc(&block, size);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return blocks;
    CU_CHECK(result);
    blocks.push_back(block);
    CHECK_LT(blocks.size(), 100000u);
  }
}

void FreeAll(const std::vector<CUdeviceptr>& blocks) {
  for (CUdeviceptr block : blocks) CU_CHECK(cuMemFree(block));
}

void CheckUsable(const char* when) {
  DeviceMemory memory(3 * kMiB);
  const Bytes data = Pattern(3 * kMiB, 6);
  CU_CHECK(cuMemcpyHtoD(memory.get(), data.data(), data.size()));
  CheckDevice(memory.get(), data.data(), data.size(), when);
}

void TestBlocks(size_t size) {
  const size_t before = FreeMemory();
  const std::vector<CUdeviceptr> blocks = AllocateAll(size);
  const size_t got = blocks.size() * size;
  printf("%zu MiB free, %zu blocks of %zu MiB = %zu MiB allocated\n", before / kMiB, blocks.size(),
         size / kMiB, got / kMiB);
  CHECK_LE(got, before);
  CHECK_LE(before - got, 3 * kGiB / 2);
  CHECK_LE(FreeMemory(), before - got);
  // They are all there and all different.
  for (size_t i = 0; i < blocks.size(); ++i) {
    CU_CHECK(cuMemsetD32(blocks[i], static_cast<unsigned>(i), 1));
    CU_CHECK(cuMemsetD32(blocks[i] + size - 4, ~static_cast<unsigned>(i), 1));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    uint32_t first = 0;
    uint32_t last = 0;
    CU_CHECK(cuMemcpyDtoH(&first, blocks[i], 4));
    CU_CHECK(cuMemcpyDtoH(&last, blocks[i] + size - 4, 4));
    CHECK_EQ(first, static_cast<uint32_t>(i));
    CHECK_EQ(last, ~static_cast<uint32_t>(i));
  }
  // A block freed in the middle makes room for exactly one more.
  std::vector<CUdeviceptr> remaining = blocks;
  CU_CHECK(cuMemFree(remaining.back()));
  remaining.pop_back();
  CUdeviceptr again = 0;
  CUdeviceptr too_much = 0;
  CU_CHECK(cuMemAlloc(&again, size));
  CU_EXPECT(cuMemAlloc(&too_much, size), CUDA_ERROR_OUT_OF_MEMORY);
  remaining.push_back(again);
  FreeAll(remaining);
  CHECK_EQ(FreeMemory(), before);
}

}  // namespace

TRACEE(oom) {
  Context context;
  size_t free = 0;
  size_t total = 0;
  size_t device_total = 0;
  CU_CHECK(cuMemGetInfo(&free, &total));
  CU_CHECK(cuDeviceTotalMem(&device_total, context.device()));
  CHECK_EQ(total, device_total);
  CHECK_GT(free, total / 2);
  CheckUsable("at the beginning");

  CUdeviceptr block = 0;
  CU_EXPECT(cuMemAlloc(&block, 0), CUDA_ERROR_INVALID_VALUE);
  const size_t idle = FreeMemory();
  for (size_t much : {2 * total, total + 1, size_t{1} << 46, size_t{1} << 50}) {
    const CUresult result = cuMemAlloc(&block, much);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) {
      Fail("allocating %zu MiB of %zu: %s", much / kMiB, total / kMiB,
           CudaErrorText(result).c_str());
    }
  }
  CHECK_EQ(FreeMemory(), idle);
  CheckUsable("after refusals");

  // The cost of one large block is its size.
  {
    DeviceMemory large(10 * kGiB);
    // Its page tables may take a little from the same memory.
    CHECK_GE(idle - FreeMemory(), 10 * kGiB);
    CHECK_LE(idle - FreeMemory(), 10 * kGiB + 4 * kMiB);
    CU_CHECK(cuMemsetD8(large.get() + 10 * kGiB - 1, 0x5a, 1));
    CheckDeviceFilled(large.get() + 10 * kGiB - 1, 0x5a, 1, "the last byte");
  }
  CHECK_EQ(FreeMemory(), idle);

  // The first round leaves behind what the driver keeps for the next; from then on all comes back.
  FreeAll(AllocateAll(kGiB));
  TestBlocks(kGiB);
  TestBlocks(kGiB);
  TestBlocks(64 * kMiB + 2 * kMiB);
  CheckUsable("at the end");

  // Small blocks share pages; they, too, come back.
  const size_t before = FreeMemory();
  std::vector<CUdeviceptr> small;
  for (int i = 0; i < 5000; ++i) {
    CU_CHECK(cuMemAlloc(&block, 1 + static_cast<size_t>(i) * 3));
    CHECK_EQ(block % 256, 0u);
    small.push_back(block);
  }
  CHECK_LE(FreeMemory(), before);
  FreeAll(small);
  CHECK_EQ(FreeMemory(), before);
}
