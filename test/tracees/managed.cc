// Managed memory: the host and the device read and write the same addresses; prefetching, advice
// and attachment to streams.
#include <cstring>
#include <string>

#include "test/tracees/tracee.h"

namespace {

uint8_t* HostView(CUdeviceptr pointer) { return reinterpret_cast<uint8_t*>(pointer); }

CUdeviceptr Alloc(size_t size, unsigned flags) {
  CUdeviceptr pointer = 0;
  CU_CHECK(cuMemAllocManaged(&pointer, size, flags));
  return pointer;
}

int RangeAttribute(CUmem_range_attribute attribute, CUdeviceptr pointer, size_t size) {
  int value = -99;
  CU_CHECK(cuMemRangeGetAttribute(&value, sizeof value, attribute, pointer, size));
  return value;
}

void TestBothWays(size_t size) {
  const CUdeviceptr managed = Alloc(size, CU_MEM_ATTACH_GLOBAL);
  unsigned is_managed = 0;
  CU_CHECK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
  CHECK_EQ(is_managed, 1u);
  DeviceMemory plain(size);
  Bytes back(size);

  // Host writes, device copies.
  FillPattern(HostView(managed), size, size);
  const Bytes want = Pattern(size, size);
  CU_CHECK(cuMemcpyDtoD(plain.get(), managed, size));
  CheckDevice(plain.get(), want.data(), size, "managed memory copied by the device");
  CU_CHECK(cuMemcpyDtoH(back.data(), managed, size));
  CheckBytes(back.data(), want.data(), size, "managed memory copied to the host");

  // Device writes, host reads.
  CU_CHECK(cuMemsetD8(managed, 0x42, size));
  CU_CHECK(cuCtxSynchronize());
  CheckBytes(HostView(managed), Bytes(size, 0x42).data(), size, "the host after a memset");
  FillPattern(back.data(), size, size + 1);
  CU_CHECK(cuMemcpyHtoD(plain.get(), back.data(), size));
  CU_CHECK(cuMemcpyDtoD(managed, plain.get(), size));
  CU_CHECK(cuCtxSynchronize());
  CheckBytes(HostView(managed), back.data(), size, "the host after a device copy");

  // In turns, a piece at a time.
  for (int i = 0; i < 10; ++i) {
    HostView(managed)[size / 2] = static_cast<uint8_t>(i);
    uint8_t got = 0xff;
    CU_CHECK(cuMemcpyDtoH(&got, managed + size / 2, 1));
    CHECK_EQ(got, static_cast<uint8_t>(i));
    CU_CHECK(cuMemsetD8(managed + size / 2, static_cast<uint8_t>(100 + i), 1));
    CU_CHECK(cuCtxSynchronize());
    CHECK_EQ(HostView(managed)[size / 2], static_cast<uint8_t>(100 + i));
  }
  CU_CHECK(cuMemFree(managed));
}

void TestPrefetch(CUdevice device) {
  constexpr size_t kSize = 16 * kMiB;
  const CUdeviceptr managed = Alloc(kSize, CU_MEM_ATTACH_GLOBAL);
  Stream stream;
  const CUmemLocation on_device{CU_MEM_LOCATION_TYPE_DEVICE, device};
  const CUmemLocation on_host{CU_MEM_LOCATION_TYPE_HOST, 0};
  FillPattern(HostView(managed), kSize, 1);
  const Bytes want = Pattern(kSize, 1);
  CU_CHECK(cuMemPrefetchAsync(managed, kSize, on_device, 0, stream.get()));
  stream.Synchronize();
  CHECK_EQ(RangeAttribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed, kSize), device);
  CheckDevice(managed, want.data(), kSize, "after prefetching to the device");
  CU_CHECK(cuMemsetD32Async(managed, 0x01020304, kSize / 8, stream.get()));
  CU_CHECK(cuMemPrefetchAsync(managed, kSize, on_host, 0, stream.get()));
  stream.Synchronize();
  CHECK_EQ(RangeAttribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed, kSize),
           CU_DEVICE_CPU);
  CHECK_EQ(*reinterpret_cast<uint32_t*>(HostView(managed)), 0x01020304u);
  CheckBytes(HostView(managed) + kSize / 2, want.data() + kSize / 2, kSize / 2,
             "after prefetching to the host");

  CHECK_EQ(RangeAttribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, kSize), 0);
  CU_CHECK(cuMemAdvise(managed, kSize, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device));
  CHECK_EQ(RangeAttribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, kSize), 1);
  CU_CHECK(cuMemAdvise(managed, kSize, CU_MEM_ADVISE_UNSET_READ_MOSTLY, on_device));
  CHECK_EQ(RangeAttribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, kSize), 0);
  CU_CHECK(cuMemAdvise(managed, kSize, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_device));
  CHECK_EQ(RangeAttribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, managed, kSize), device);
  CU_CHECK(cuMemAdvise(managed, kSize, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, on_device));
  CHECK_EQ(RangeAttribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, managed, kSize),
           CU_DEVICE_INVALID);
  CU_CHECK(cuMemAdvise(managed, kSize, CU_MEM_ADVISE_SET_ACCESSED_BY, on_device));
  CU_CHECK(cuMemAdvise(managed, kSize, CU_MEM_ADVISE_UNSET_ACCESSED_BY, on_device));
  CheckDevice(managed + kSize / 2, want.data() + kSize / 2, kSize / 2, "after all that advice");
  CU_CHECK(cuMemFree(managed));
}

void TestAttach() {
  constexpr size_t kSize = 64 * kKiB;
  Stream stream;
  const CUdeviceptr managed = Alloc(kSize, CU_MEM_ATTACH_HOST);
  // Attached to the host: it may be touched while the device works on other things.
  memset(HostView(managed), 0x21, kSize);
  CU_CHECK(cuStreamAttachMemAsync(stream.get(), managed, 0, CU_MEM_ATTACH_SINGLE));
  stream.Synchronize();
  CU_CHECK(cuMemsetD8Async(managed, 0x22, kSize / 2, stream.get()));
  stream.Synchronize();
  CHECK_EQ(HostView(managed)[0], 0x22);
  CHECK_EQ(HostView(managed)[kSize - 1], 0x21);
  CU_CHECK(cuStreamAttachMemAsync(stream.get(), managed, 0, CU_MEM_ATTACH_GLOBAL));
  stream.Synchronize();
  CheckDeviceFilled(managed + kSize / 2, 0x21, kSize / 2, "attached to all again");
  CU_CHECK(cuMemFree(managed));
  CUdeviceptr nothing = 0;
  CU_EXPECT(cuMemAllocManaged(&nothing, kSize, 0x80), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

TRACEE(managed) {
  Context context;
  if (context.Attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0) {
    Skip("no concurrent managed access");
  }
  for (size_t size : {size_t{1}, size_t{4096}, size_t{100003}, 2 * kMiB, 5 * kMiB + 1}) {
    TestBothWays(size);
  }
  TestPrefetch(context.device());
  TestAttach();
}
