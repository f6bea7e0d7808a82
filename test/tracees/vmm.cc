// Virtual memory management: reserve, create, map, set access, unmap, release; data that survives
// being mapped elsewhere; two mappings of one handle; accounting of memory.
#include <string>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

using Handle = CUmemGenericAllocationHandle;

CUmemAllocationProp Properties(CUdevice device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

size_t Granularity(CUdevice device) {
  const CUmemAllocationProp properties = Properties(device);
  size_t minimum = 0;
  size_t recommended = 0;
  CU_CHECK(cuMemGetAllocationGranularity(&minimum, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CU_CHECK(cuMemGetAllocationGranularity(&recommended, &properties,
                                         CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  CHECK_GE(minimum, 4096u);
  CHECK_EQ(minimum & (minimum - 1), 0u);
  CHECK_EQ(recommended % minimum, 0u);
  return recommended;
}

CUdeviceptr Reserve(size_t size) {
  CUdeviceptr address = 0;
  CU_CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  return address;
}

Handle Create(CUdevice device, size_t size) {
  const CUmemAllocationProp properties = Properties(device);
  Handle handle = 0;
  CU_CHECK(cuMemCreate(&handle, size, &properties, 0));
  return handle;
}

void Allow(CUdevice device, CUdeviceptr address, size_t size, CUmemAccess_flags flags) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = flags;
  CU_CHECK(cuMemSetAccess(address, size, &access, 1));
}

void MapForUse(CUdevice device, CUdeviceptr address, size_t size, Handle handle) {
  CU_CHECK(cuMemMap(address, size, 0, handle, 0));
  Allow(device, address, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

size_t FreeMemory() {
  size_t free = 0;
  size_t total = 0;
  CU_CHECK(cuMemGetInfo(&free, &total));
  return free;
}

void TestBasics(CUdevice device, size_t unit) {
  const size_t size = 3 * unit;
  const CUdeviceptr address = Reserve(size);
  CHECK_EQ(address % unit, 0u);
  const Handle handle = Create(device, size);
  CU_CHECK(cuMemMap(address, size, 0, handle, 0));
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, device};
  unsigned long long flags = 99;  // NOLINT(google-runtime-int): the documented type.
  CU_CHECK(cuMemGetAccess(&flags, &here, address));
  CHECK_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_NONE));  // NOLINT
  Allow(device, address, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CU_CHECK(cuMemGetAccess(&flags, &here, address + unit));
  CHECK_EQ(flags, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));  // NOLINT

  const Bytes data = Pattern(size, 1);
  CU_CHECK(cuMemcpyHtoD(address, data.data(), size));
  CheckDevice(address, data.data(), size, "mapped memory");

  CUmemAllocationProp properties{};
  CU_CHECK(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  CHECK_EQ(properties.type, CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK_EQ(properties.location.id, device);
  Handle retained = 0;
  CU_CHECK(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(address + 5)));
  CHECK_EQ(retained, handle);
  CU_CHECK(cuMemRelease(retained));

  // The mapping keeps the memory after the handle is released.
  CU_CHECK(cuMemRelease(handle));
  CheckDevice(address, data.data(), size, "after the handle's release");
  CU_CHECK(cuMemUnmap(address, size));
  CU_CHECK(cuMemAddressFree(address, size));
}

void TestErrors(CUdevice device, size_t unit) {
  const CUmemAllocationProp properties = Properties(device);
  CUdeviceptr address = 0;
  Handle handle = 0;
  CU_EXPECT(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuMemAddressReserve(&address, unit + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuMemCreate(&handle, unit + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  address = Reserve(2 * unit);
  handle = Create(device, unit);
  CHECK_NE(cuMemMap(address, 2 * unit, 0, handle, 0), CUDA_SUCCESS);  // More than there is.
  CU_EXPECT(cuMemMap(address + 4096, unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  CU_CHECK(cuMemMap(address, unit, 0, handle, 0));
  CU_EXPECT(cuMemMap(address, unit, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  CU_CHECK(cuMemUnmap(address, unit));
  CU_CHECK(cuMemRelease(handle));
  CU_CHECK(cuMemAddressFree(address, 2 * unit));
}

// As a growing buffer does: blocks mapped one after the other, then the same blocks elsewhere.
void TestRemap(CUdevice device, size_t unit) {
  constexpr size_t kBlocks = 5;
  const CUdeviceptr first = Reserve(kBlocks * unit);
  std::vector<Handle> handles;
  std::vector<Bytes> data;
  for (size_t i = 0; i < kBlocks; ++i) {
    handles.push_back(Create(device, unit));
    data.push_back(Pattern(unit, 10 + i));
    MapForUse(device, first + i * unit, unit, handles[i]);
    CU_CHECK(cuMemcpyHtoD(first + i * unit, data[i].data(), unit));
  }
  // One copy may span all of them.
  Bytes all(kBlocks * unit);
  CU_CHECK(cuMemcpyDtoH(all.data(), first, all.size()));
  for (size_t i = 0; i < kBlocks; ++i) {
    CheckBytes(all.data() + i * unit, data[i].data(), unit, "block " + std::to_string(i));
  }
  // A block in the middle is replaced; its neighbours do not notice.
  CU_CHECK(cuMemUnmap(first + 2 * unit, unit));
  const Handle fresh = Create(device, unit);
  MapForUse(device, first + 2 * unit, unit, fresh);
  const Bytes other = Pattern(unit, 99);
  CU_CHECK(cuMemcpyHtoD(first + 2 * unit, other.data(), unit));
  CheckDevice(first + unit, data[1].data(), unit, "before the replaced block");
  CheckDevice(first + 2 * unit, other.data(), unit, "the replaced block");
  CheckDevice(first + 3 * unit, data[3].data(), unit, "after the replaced block");
  CU_CHECK(cuMemUnmap(first, kBlocks * unit));

  // All of the old ones in reverse order at a new place: the contents travel with the handles.
  const CUdeviceptr second = Reserve(kBlocks * unit);
  for (size_t i = 0; i < kBlocks; ++i) {
    CU_CHECK(cuMemMap(second + i * unit, unit, 0, handles[kBlocks - 1 - i], 0));
  }
  Allow(device, second, kBlocks * unit, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  for (size_t i = 0; i < kBlocks; ++i) {
    CheckDevice(second + i * unit, data[kBlocks - 1 - i].data(), unit, "after being mapped anew");
  }
  CU_CHECK(cuMemUnmap(second, kBlocks * unit));
  for (Handle handle : handles) CU_CHECK(cuMemRelease(handle));
  CU_CHECK(cuMemRelease(fresh));
  CU_CHECK(cuMemAddressFree(first, kBlocks * unit));
  CU_CHECK(cuMemAddressFree(second, kBlocks * unit));
}

void TestAlias(CUdevice device, size_t unit) {
  const Handle handle = Create(device, unit);
  const CUdeviceptr a = Reserve(unit);
  const CUdeviceptr b = Reserve(unit);
  CHECK_NE(a, b);
  MapForUse(device, a, unit, handle);
  MapForUse(device, b, unit, handle);
  CU_CHECK(cuMemsetD32(a, 0x11223344, unit / 4));
  CU_CHECK(cuCtxSynchronize());
  const std::vector<uint32_t> first(unit / 4, 0x11223344);
  CheckDevice(b, first.data(), unit, "written through the other mapping");
  const Bytes data = Pattern(unit, 4);
  CU_CHECK(cuMemcpyHtoD(b, data.data(), unit));
  CheckDevice(a, data.data(), unit, "and back");
  CU_CHECK(cuMemUnmap(a, unit));
  CheckDevice(b, data.data(), unit, "after the first mapping is gone");
  CU_CHECK(cuMemUnmap(b, unit));
  CU_CHECK(cuMemRelease(handle));
  CU_CHECK(cuMemAddressFree(a, unit));
  CU_CHECK(cuMemAddressFree(b, unit));
}

void TestReservation(size_t unit) {
  // Address space far beyond the memory of any GPU costs nothing.
  const size_t before = FreeMemory();
  CUdeviceptr huge = 0;
  CU_CHECK(cuMemAddressReserve(&huge, size_t{1} << 40, 0, 0, 0));
  CHECK_EQ(FreeMemory(), before);
  CU_CHECK(cuMemAddressFree(huge, size_t{1} << 40));
  CUdeviceptr aligned = 0;
  CU_CHECK(cuMemAddressReserve(&aligned, unit, 64 * kMiB, 0, 0));
  CHECK_EQ(aligned % (64 * kMiB), 0u);
  CU_CHECK(cuMemAddressFree(aligned, unit));
  // The address asked for is only a hint.
  CUdeviceptr again = 0;
  CU_CHECK(cuMemAddressReserve(&again, unit, 0, aligned, 0));
  CHECK_EQ(again % unit, 0u);
  CU_CHECK(cuMemAddressFree(again, unit));
}

void TestAccounting(CUdevice device, size_t unit) {
  const size_t size = 512 * unit;
  // Once beforehand, so that what the driver keeps for itself is already there.
  for (int round = 0; round < 2; ++round) {
    const size_t before = FreeMemory();
    const Handle handle = Create(device, size);
    const size_t with_handle = FreeMemory();
    CHECK_EQ(before - with_handle, size);
    const CUdeviceptr address = Reserve(size);
    MapForUse(device, address, size, handle);
    CU_CHECK(cuMemRelease(handle));
    CHECK_LE(FreeMemory(), with_handle);
    CU_CHECK(cuMemsetD8(address + size - 4096, 0x3c, 4096));
    CheckDeviceFilled(address + size - 4096, 0x3c, 4096, "the end of a large mapping");
    CU_CHECK(cuMemUnmap(address, size));
    CU_CHECK(cuMemAddressFree(address, size));
    if (round == 1) CHECK_EQ(FreeMemory(), before);
  }
}

}  // namespace

TRACEE(vmm) {
  Context context;
  if (context.Attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0) {
    Skip("no virtual memory management");
  }
  const size_t unit = Granularity(context.device());
  TestBasics(context.device(), unit);
  TestErrors(context.device(), unit);
  TestRemap(context.device(), unit);
  TestAlias(context.device(), unit);
  TestReservation(unit);
  TestAccounting(context.device(), unit);
}
