// Page-locked host memory: cuMemAllocHost, cuMemHostAlloc with its flags, cuMemHostRegister of
// memory from malloc and of shared mappings; the device's view of it and copies through it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/tracees/tracee.h"

namespace {

// Copies in and out asynchronously and lets the device itself write to it.
void Exercise(uint8_t* host, CUdeviceptr device_view, size_t size, const std::string& what) {
  Stream stream;
  DeviceMemory memory(size);
  FillPattern(host, size, size);
  const Bytes want(host, host + size);
  CU_CHECK(cuMemcpyHtoDAsync(memory.get(), host, size, stream.get()));
  stream.Synchronize();
  CheckDevice(memory.get(), want.data(), size, what + ", to the device");
  memset(host, 0, size);
  CU_CHECK(cuMemcpyDtoHAsync(host, memory.get(), size, stream.get()));
  stream.Synchronize();
  CheckBytes(host, want.data(), size, what + ", from the device");

  CU_CHECK(cuMemsetD8Async(device_view, 0x6d, size, stream.get()));
  stream.Synchronize();
  CheckBytes(host, Bytes(size, 0x6d).data(), size, what + ", set by the device");
  CU_CHECK(cuMemcpyDtoDAsync(device_view, memory.get(), size, stream.get()));
  stream.Synchronize();
  CheckBytes(host, want.data(), size, what + ", copied by device address");
  CU_CHECK(cuMemsetD8Async(memory.get(), 0, size, stream.get()));
  CU_CHECK(cuMemcpyDtoDAsync(memory.get(), device_view, size, stream.get()));
  stream.Synchronize();
  CheckDevice(memory.get(), want.data(), size, what + ", read by device address");
}

void CheckPointer(CUdeviceptr pointer, const void* host) {
  unsigned type = 0;
  CU_CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
  CHECK_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  void* host_view = nullptr;
  CU_CHECK(cuPointerGetAttribute(&host_view, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer));
  CHECK_EQ(static_cast<const void*>(host_view), host);
}

void TestAllocated() {
  for (unsigned flags : std::initializer_list<unsigned>{
           0, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED,
           CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP}) {
    for (size_t size : {size_t{1}, size_t{4096}, size_t{100001}, 3 * kMiB}) {
      void* pointer = nullptr;
      CU_CHECK(cuMemHostAlloc(&pointer, size, flags));
      unsigned got_flags = 99;
      CU_CHECK(cuMemHostGetFlags(&got_flags, pointer));
      CHECK_EQ(got_flags & flags, flags);
      CUdeviceptr device_view = 0;
      CU_CHECK(cuMemHostGetDevicePointer(&device_view, pointer, 0));
      CHECK_EQ(device_view, reinterpret_cast<CUdeviceptr>(pointer));  // Unified addressing.
      CheckPointer(device_view, pointer);
      Exercise(static_cast<uint8_t*>(pointer), device_view, size,
               "flags " + std::to_string(flags) + ", " + std::to_string(size) + " bytes");
      CU_CHECK(cuMemFreeHost(pointer));
    }
  }
  void* pointer = nullptr;
  CU_CHECK(cuMemAllocHost(&pointer, 12345));
  Exercise(static_cast<uint8_t*>(pointer), reinterpret_cast<CUdeviceptr>(pointer), 12345,
           "cuMemAllocHost");
  CU_CHECK(cuMemFreeHost(pointer));
  CU_EXPECT(cuMemHostAlloc(&pointer, 4096, 0x1000), CUDA_ERROR_INVALID_VALUE);
  std::vector<uint8_t> ordinary(4096);
  CU_EXPECT(cuMemFreeHost(ordinary.data()), CUDA_ERROR_INVALID_VALUE);
}

void TestRegistered(const Context& context, uint8_t* memory, size_t size, unsigned flags,
                    const std::string& what) {
  const Bytes before = Pattern(size, 77);
  memcpy(memory, before.data(), size);
  CU_CHECK(cuMemHostRegister(memory, size, flags));
  CheckBytes(memory, before.data(), size, what + ", after registering");
  CU_EXPECT(cuMemHostRegister(memory, size, flags), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CUdeviceptr device_view = 0;
  CU_CHECK(cuMemHostGetDevicePointer(&device_view, memory, 0));
  if (context.Attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) != 0) {
    CHECK_EQ(device_view, reinterpret_cast<CUdeviceptr>(memory));
  }
  Exercise(memory, device_view, size, what);
  const Bytes last(memory, memory + size);
  CU_CHECK(cuMemHostUnregister(memory));
  CheckBytes(memory, last.data(), size, what + ", after unregistering");
  CU_EXPECT(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  memset(memory, 1, size);
}

void TestRegister(const Context& context) {
  // malloc'ed memory that begins and ends in the middle of pages; its neighbours stay as they are.
  Bytes block(300000);
  for (size_t offset : {size_t{0}, size_t{1}, size_t{16}, size_t{4095}}) {
    for (size_t size : {size_t{1}, size_t{1000}, size_t{65537}, size_t{200003}}) {
      std::fill(block.begin(), block.end(), 0xb7);
      TestRegistered(
          context, block.data() + offset, size, CU_MEMHOSTREGISTER_DEVICEMAP,
          "malloc'ed memory at " + std::to_string(offset) + ", " + std::to_string(size) + " bytes");
      CheckBytes(block.data(), Bytes(offset, 0xb7).data(), offset, "before registered memory");
      CHECK_EQ(block[offset + size], 0xb7);
    }
  }
  void* aligned = aligned_alloc(4096, 4 * kMiB);
  CHECK_TRUE(aligned != nullptr);
  TestRegistered(context, static_cast<uint8_t*>(aligned), 4 * kMiB, CU_MEMHOSTREGISTER_PORTABLE,
                 "page-aligned memory");
  free(aligned);
}

// Memory that two mappings share: what the device writes through one is seen through the other.
void TestRegisterShared(const Context& context) {
  constexpr size_t kSize = kMiB;
  const int fd = memfd_create("shared", 0);
  CHECK_GE(fd, 0);
  CHECK_EQ(ftruncate(fd, kSize), 0);
  auto* a = static_cast<uint8_t*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  auto* b = static_cast<uint8_t*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  CHECK_TRUE(a != MAP_FAILED && b != MAP_FAILED);
  CU_CHECK(cuMemHostRegister(a, kSize, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr device_view = 0;
  CU_CHECK(cuMemHostGetDevicePointer(&device_view, a, 0));
  Exercise(a, device_view, kSize, "shared memory");
  CheckBytes(b, Pattern(kSize, kSize).data(), kSize, "the other mapping");
  FillPattern(b, kSize, 5);
  DeviceMemory memory(kSize);
  CU_CHECK(cuMemcpyHtoD(memory.get(), a, kSize));
  CheckDevice(memory.get(), Pattern(kSize, 5).data(), kSize, "written through the other mapping");
  CU_CHECK(cuMemHostUnregister(a));
  munmap(a, kSize);
  munmap(b, kSize);
  close(fd);

  if (context.Attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) == 0) return;
  Bytes constant = Pattern(100000, 6);
  CU_CHECK(cuMemHostRegister(constant.data(), constant.size(), CU_MEMHOSTREGISTER_READ_ONLY));
  CU_CHECK(cuMemcpyHtoD(memory.get(), constant.data(), constant.size()));
  CheckDevice(memory.get(), constant.data(), constant.size(), "from read-only memory");
  CU_CHECK(cuMemHostUnregister(constant.data()));
}

// Portable memory belongs to every context; so does, with unified addressing, any other.
void TestSecondContext(const Context& first) {
  PinnedMemory pinned(kMiB, CU_MEMHOSTALLOC_PORTABLE);
  {
    Context second(first.device());
    Exercise(pinned.as(), pinned.device(), kMiB, "portable memory in a second context");
  }
  CU_CHECK(cuCtxSetCurrent(first.get()));
  Exercise(pinned.as(), pinned.device(), kMiB, "and back in the first");
}

void TestLarge() {
  // Many pieces and one large one, as data loaders use them.
  std::vector<void*> pieces(200);
  for (size_t i = 0; i < pieces.size(); ++i) {
    CU_CHECK(cuMemHostAlloc(&pieces[i], 4096 + 512 * i, 0));
    memset(pieces[i], static_cast<int>(i), 4096 + 512 * i);
  }
  PinnedMemory large(128 * kMiB);
  DeviceMemory memory(128 * kMiB);
  FillPattern(large.as(), large.size(), 8);
  const uint64_t last = *reinterpret_cast<uint64_t*>(large.as() + large.size() - 8);
  CU_CHECK(cuMemcpyHtoD(memory.get(), large.as(), large.size()));
  uint64_t got = 0;
  CU_CHECK(cuMemcpyDtoH(&got, memory.get() + large.size() - 8, 8));
  CHECK_EQ(got, last);
  for (size_t i = 0; i < pieces.size(); ++i) {
    CHECK_EQ(static_cast<uint8_t*>(pieces[i])[4095 + 512 * i], static_cast<uint8_t>(i));
    CU_CHECK(cuMemFreeHost(pieces[i]));
  }
}

}  // namespace

TRACEE(host_memory) {
  Context context;
  TestAllocated();
  TestRegister(context);
  TestRegisterShared(context);
  TestSecondContext(context);
  TestLarge();
}
