// Stream-ordered allocation: cuMemAllocAsync and cuMemFreeAsync, the default pool and created
// pools, their statistics, trimming, reuse within and across streams.
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

uint64_t Statistic(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  CU_CHECK(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

void SetThreshold(CUmemoryPool pool, uint64_t bytes) {
  cuuint64_t value = bytes;
  CU_CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), bytes);
}

CUdeviceptr Alloc(size_t size, const Stream& stream) {
  CUdeviceptr pointer = 0;
  CU_CHECK(cuMemAllocAsync(&pointer, size, stream.get()));
  CHECK_NE(pointer, 0u);
  CHECK_EQ(pointer % 256, 0u);
  return pointer;
}

void TestBasics(CUmemoryPool pool) {
  Stream stream;
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0u);
  for (CUmemPool_attribute attribute :
       {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES}) {
    int on = -1;
    CU_CHECK(cuMemPoolGetAttribute(pool, attribute, &on));
    CHECK_EQ(on, 1);
  }
  std::vector<CUdeviceptr> blocks;
  std::vector<Bytes> contents;
  size_t total = 0;
  for (size_t size : {size_t{1}, size_t{256}, size_t{1000}, size_t{65537}, kMiB, 5 * kMiB + 3}) {
    blocks.push_back(Alloc(size, stream));
    contents.push_back(Pattern(size, size));
    total += size;
    CU_CHECK(cuMemcpyHtoDAsync(blocks.back(), contents.back().data(), size, stream.get()));
  }
  CHECK_GE(Statistic(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), total);
  CHECK_GE(Statistic(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
           Statistic(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  stream.Synchronize();
  for (size_t i = 0; i < blocks.size(); ++i) {
    CheckDevice(blocks[i], contents[i].data(), contents[i].size(), "a block of the pool");
    CUmemoryPool owner = nullptr;
    CU_CHECK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, blocks[i]));
    CHECK_EQ(owner, pool);
  }
  for (CUdeviceptr block : blocks) CU_CHECK(cuMemFreeAsync(block, stream.get()));
  stream.Synchronize();
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  CHECK_GE(Statistic(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), total);
  // With the threshold at zero a synchronisation gives unused memory back.
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  cuuint64_t zero = 0;
  CU_CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0u);
}

void TestReuseAndTrim(CUmemoryPool pool) {
  Stream stream;
  SetThreshold(pool, std::numeric_limits<uint64_t>::max());
  const CUdeviceptr first = Alloc(8 * kMiB, stream);
  CU_CHECK(cuMemFreeAsync(first, stream.get()));
  const uint64_t reserved = Statistic(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  CHECK_GE(reserved, 8 * kMiB);
  // Memory freed in a stream is free for what follows in this stream: the pool need not grow.
  std::set<CUdeviceptr> addresses;
  for (int i = 0; i < 200; ++i) {
    const CUdeviceptr block = Alloc(8 * kMiB, stream);
    addresses.insert(block);
    CU_CHECK(cuMemsetD8Async(block, static_cast<unsigned char>(i), 8 * kMiB, stream.get()));
    CU_CHECK(cuMemFreeAsync(block, stream.get()));
  }
  stream.Synchronize();
  CHECK_EQ(addresses.size(), 1u);
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), reserved);
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);

  size_t free_before = 0;
  size_t free_after = 0;
  size_t total = 0;
  CU_CHECK(cuMemGetInfo(&free_before, &total));
  CU_CHECK(cuMemPoolTrimTo(pool, 0));
  CU_CHECK(cuMemGetInfo(&free_after, &total));
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  CHECK_GE(free_after - free_before, reserved);
  CHECK_LE(free_after - free_before, reserved + 4 * kMiB);  // With its page tables.

  const CUdeviceptr again = Alloc(100 * kMiB, stream);
  CU_CHECK(cuMemPoolTrimTo(pool, 0));  // Used memory stays.
  CHECK_GE(Statistic(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 100 * kMiB);
  CU_CHECK(cuMemsetD8Async(again, 0x77, 100 * kMiB, stream.get()));
  stream.Synchronize();
  CheckDeviceFilled(again + 100 * kMiB - 4096, 0x77, 4096, "after trimming");
  CU_CHECK(cuMemFreeAsync(again, stream.get()));
  stream.Synchronize();
  SetThreshold(pool, 0);
  CU_CHECK(cuMemPoolTrimTo(pool, 0));
}

// Allocated in one stream, used in a second, freed in a third, with events in between.
void TestAcrossStreams() {
  Stream a;
  Stream b;
  Stream c;
  Event ready(CU_EVENT_DISABLE_TIMING);
  Event used(CU_EVENT_DISABLE_TIMING);
  PinnedMemory out(4 * 100);
  for (uint32_t i = 0; i < 100; ++i) {
    const CUdeviceptr block = Alloc(3 * kMiB, a);
    CU_CHECK(cuMemsetD32Async(block, i, 3 * kMiB / 4, a.get()));
    CU_CHECK(cuEventRecord(ready.get(), a.get()));
    CU_CHECK(cuStreamWaitEvent(b.get(), ready.get(), 0));
    CU_CHECK(cuMemcpyDtoHAsync(out.as() + 4 * i, block + 3 * kMiB - 4, 4, b.get()));
    CU_CHECK(cuEventRecord(used.get(), b.get()));
    CU_CHECK(cuStreamWaitEvent(c.get(), used.get(), 0));
    CU_CHECK(cuMemFreeAsync(block, c.get()));
  }
  CU_CHECK(cuCtxSynchronize());
  for (uint32_t i = 0; i < 100; ++i) CHECK_EQ(out.as<uint32_t>()[i], i);
}

void TestCreatedPool(CUdevice device, CUmemoryPool standard) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemoryPool pool = nullptr;
  CU_CHECK(cuMemPoolCreate(&pool, &properties));
  CHECK_NE(pool, standard);
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation here = properties.location;
  CU_CHECK(cuMemPoolGetAccess(&access, pool, &here));
  CHECK_EQ(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  SetThreshold(pool, 64 * kMiB);

  Stream stream;
  CUdeviceptr block = 0;
  CU_CHECK(cuMemAllocFromPoolAsync(&block, 2 * kMiB, pool, stream.get()));
  const Bytes data = Pattern(2 * kMiB, 3);
  CU_CHECK(cuMemcpyHtoDAsync(block, data.data(), data.size(), stream.get()));
  stream.Synchronize();
  CheckDevice(block, data.data(), data.size(), "a block of a created pool");
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 2 * kMiB);
  CHECK_EQ(Statistic(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  CU_CHECK(cuMemFreeAsync(block, stream.get()));
  stream.Synchronize();
  CHECK_GE(Statistic(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2 * kMiB);

  CUmemoryPool current = nullptr;
  CU_CHECK(cuDeviceGetMemPool(&current, device));
  CHECK_EQ(current, standard);
  CU_CHECK(cuDeviceSetMemPool(device, pool));
  CU_CHECK(cuDeviceGetMemPool(&current, device));
  CHECK_EQ(current, pool);
  block = Alloc(kMiB, stream);
  CUmemoryPool owner = nullptr;
  CU_CHECK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
  CHECK_EQ(owner, pool);
  CU_CHECK(cuMemFreeAsync(block, stream.get()));
  stream.Synchronize();
  CU_CHECK(cuDeviceSetMemPool(device, standard));
  CU_CHECK(cuMemPoolDestroy(pool));
}

// A thousand blocks of changing size, each checked when it is freed.
void TestChurn() {
  Stream stream;
  Random random(5);
  struct Block {
    CUdeviceptr at;
    size_t size;
    uint32_t tag;
  };
  std::vector<Block> live;
  PinnedMemory out(4 * 1000);
  std::vector<uint32_t> want;
  for (uint32_t i = 0; i < 1000; ++i) {
    const size_t size = (1 + random.Below(300000)) * 4;
    live.push_back({Alloc(size, stream), size, i});
    CU_CHECK(cuMemsetD32Async(live.back().at, i, size / 4, stream.get()));
    if (live.size() > 20) {
      const size_t victim = random.Below(live.size());
      const Block block = live[victim];
      CU_CHECK(cuMemcpyDtoHAsync(out.as() + 4 * want.size(), block.at + block.size - 4, 4,
                                 stream.get()));
      want.push_back(block.tag);
      CU_CHECK(cuMemFreeAsync(block.at, stream.get()));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  for (const Block& block : live) CU_CHECK(cuMemFreeAsync(block.at, stream.get()));
  stream.Synchronize();
  for (size_t i = 0; i < want.size(); ++i) CHECK_EQ(out.as<uint32_t>()[i], want[i]);
}

// cuMemFree takes such a pointer, too. (Driver 550 then no longer counts it out of the used bytes.)
void TestPlainFree(CUmemoryPool pool) {
  Stream stream;
  const CUdeviceptr block = Alloc(kMiB, stream);
  stream.Synchronize();
  CU_CHECK(cuMemFree(block));
  CU_CHECK(cuCtxSynchronize());
  CHECK_EQ(Statistic(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
}

}  // namespace

TRACEE(mempool) {
  Context context;
  CUmemoryPool pool = nullptr;
  CU_CHECK(cuDeviceGetDefaultMemPool(&pool, context.device()));
  TestBasics(pool);
  TestReuseAndTrim(pool);
  TestAcrossStreams();
  TestCreatedPool(context.device(), pool);
  TestChurn();
  TestPlainFree(pool);
}
