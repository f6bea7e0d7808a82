#include "trap/uvm/uvm_device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/rm/fake_machine.h"
#include "trap/rm/rm_alloc.h"
#include "trap/rm/rm_resources.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr pid_t kProcess = 100, kOther = 200;
constexpr uint64_t kBase = 0x7f0000000000, kMiB = 1 << 20;
constexpr uint64_t kParams = 0x1000;  // where parameters lie in the process

// Of [kBase, kBase + 64 MiB), in whole MiB.
uint64_t MappedBytes(AddressSpace& space) {
  uint64_t bytes = 0;
  for (uint64_t va = kBase; va < kBase + 64 * kMiB; va += kMiB) bytes += space.Find(va) ? kMiB : 0;
  return bytes;
}

class UvmDeviceTest : public testing::TestWithParam<DriverAbi> {
 protected:
  UvmDeviceTest() {
    machine_.driver = {"test", GetParam()};
    machine_.log = &log_;
    machine_.unknowns = &unknowns_;
    machine_.quiet = &quiet_;
    for (int i = 0; i < 3; ++i) {
      Gpu gpu{.index = i, .bus = 0x10u + static_cast<uint32_t>(i), .uuid = {}, .heap = nullptr};
      gpu.uuid.fill(static_cast<uint8_t>(i + 1));
      machine_.gpus.push_back(gpu);
    }
    rm_.machine = &machine_;
    client_ = 0;
    EXPECT_EQ(rm_.server.AddClient({.process = kProcess, .opener = nullptr, .user = 0}, &client_),
              NV_OK);
    call_.memory().PutAll(0, std::vector<uint8_t>(1 << 16));
    for (int i = 0; i < 3; ++i) spaces_.push_back(NewSpace(i, &handles_[i]));
    device_ = std::make_unique<UvmDevice>(&rm_, kProcess);
  }

  std::shared_ptr<VaSpaceResource> NewSpace(int gpu, uint32_t* handle) {
    auto space = std::make_shared<VaSpaceResource>();
    *handle = Insert(gpu, space);
    return space;
  }
  uint32_t Insert(int gpu, std::shared_ptr<RmResource> resource) {
    RmObject object{};
    object.parent = client_;
    object.gpu = gpu;
    object.resource = std::move(resource);
    uint32_t handle = 0;
    EXPECT_EQ(rm_.server.FindAny(client_)->Insert(std::move(object), &handle), NV_OK);
    return handle;
  }
  uint32_t NewMemory(uint64_t bytes) {
    auto resource = std::make_shared<MemoryResource>();
    memory_ = std::make_shared<OwnedMemory>(MemoryKind::kSysmem, bytes);
    resource->memory = memory_;
    return Insert(0, resource);
  }
  static NvUuid Uuid(int gpu) {
    NvUuid uuid;
    std::memset(&uuid, gpu + 1, sizeof uuid);
    return uuid;
  }

  template <typename Params>
  uint32_t Do(UvmDevice& device, uint32_t command, Params& params) {
    params.rmStatus = ~0u;
    EXPECT_TRUE(call_.memory().WriteObject(RemoteAddress{kParams}, params));
    EXPECT_EQ(device.Ioctl(call_, command, RemoteAddress{kParams}), 0);
    EXPECT_TRUE(call_.memory().Read(RemoteAddress{kParams}, &params, sizeof params));
    return params.rmStatus;
  }
  uint32_t Register(UvmDevice& device, int gpu, uint32_t handle) {
    UVM_REGISTER_GPU_VASPACE_PARAMS params{};
    params.gpuUuid = Uuid(gpu);
    params.hClient = client_;
    params.hVaSpace = handle;
    return Do(device, UVM_REGISTER_GPU_VASPACE, params);
  }
  uint32_t Unregister(UvmDevice& device, int gpu) {
    UVM_UNREGISTER_GPU_VASPACE_PARAMS params{};
    params.gpuUuid = Uuid(gpu);
    return Do(device, UVM_UNREGISTER_GPU_VASPACE, params);
  }
  uint32_t External(uint64_t base, uint64_t length) {
    UVM_CREATE_EXTERNAL_RANGE_PARAMS params{};
    params.base = base;
    params.length = length;
    return Do(*device_, UVM_CREATE_EXTERNAL_RANGE, params);
  }
  template <typename Params>
  uint32_t MapExternalAs(uint64_t base, uint64_t length, uint32_t memory, std::vector<int> gpus,
                         uint64_t offset) {
    Params params{};
    params.base = base;
    params.length = length;
    params.offset = offset;
    params.hClient = client_;
    params.hMemory = memory;
    params.gpuAttributesCount = gpus.size();
    for (size_t i = 0; i < gpus.size(); ++i) params.perGpuAttributes[i].gpuUuid = Uuid(gpus[i]);
    return Do(*device_, UVM_MAP_EXTERNAL_ALLOCATION, params);
  }
  uint32_t MapExternal(uint64_t base, uint64_t length, uint32_t memory, std::vector<int> gpus,
                       uint64_t offset = 0) {
    return GetParam() >= DriverAbi::k550 ? MapExternalAs<UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_V550>(
                                               base, length, memory, std::move(gpus), offset)
                                         : MapExternalAs<UVM_MAP_EXTERNAL_ALLOCATION_PARAMS>(
                                               base, length, memory, std::move(gpus), offset);
  }
  template <typename Params>
  uint32_t PoolAs(uint64_t base, uint64_t length) {
    Params params{};
    params.base = base;
    params.length = length;
    return Do(*device_, UVM_ALLOC_SEMAPHORE_POOL, params);
  }
  uint32_t Pool(uint64_t base, uint64_t length) {
    return GetParam() >= DriverAbi::k550
               ? PoolAs<UVM_ALLOC_SEMAPHORE_POOL_PARAMS_V550>(base, length)
               : PoolAs<UVM_ALLOC_SEMAPHORE_POOL_PARAMS>(base, length);
  }
  uint32_t Free(uint64_t base, uint64_t length) {
    if (GetParam() >= DriverAbi::k590) {
      UVM_FREE_PARAMS_V590 shorter{};
      shorter.base = base;
      return Do(*device_, UVM_FREE, shorter);
    }
    UVM_FREE_PARAMS params{};
    params.base = base;
    params.length = length;
    return Do(*device_, UVM_FREE, params);
  }
  uint32_t Unmap(int gpu, uint64_t base, uint64_t length) {
    UVM_UNMAP_EXTERNAL_PARAMS params{};
    params.base = base;
    params.length = length;
    params.gpuUuid = Uuid(gpu);
    return Do(*device_, UVM_UNMAP_EXTERNAL, params);
  }
  int Mmap(UvmDevice& device, uint64_t base, uint64_t length) {
    return device.Mmap(call_, {base, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, base});
  }
  AddressSpace& Space(int gpu) { return spaces_[static_cast<size_t>(gpu)]->context->memory; }
  void RegisterTwo() {
    for (int gpu : {0, 1}) ASSERT_EQ(Register(*device_, gpu, handles_[gpu]), NV_OK);
  }

  CallLog log_;
  Unknowns unknowns_;
  QuietSuccesses quiet_;
  Machine machine_{};
  ResourceManager rm_{};
  uint32_t client_;
  uint32_t handles_[3] = {};
  std::vector<std::shared_ptr<VaSpaceResource>> spaces_;
  std::shared_ptr<OwnedMemory> memory_;
  FakeCall call_{kProcess};
  std::unique_ptr<UvmDevice> device_;
};

INSTANTIATE_TEST_SUITE_P(Drivers, UvmDeviceTest, testing::ValuesIn(kDriverAbis));

// --- Mappings ---

TEST_P(UvmDeviceTest, AMappingReachesAllRegisteredGpus) {
  RegisterTwo();
  ASSERT_EQ(Mmap(*device_, kBase, kMiB), 0);
  EXPECT_EQ(MappedBytes(Space(0)), kMiB);
  EXPECT_EQ(MappedBytes(Space(1)), kMiB);
  EXPECT_EQ(MappedBytes(Space(2)), 0u);
  // One memory: what a GPU writes another reads, also one that comes later.
  const uint32_t word = 0x1234;
  EXPECT_FALSE(Space(0).Write(kBase + 8, &word, 4));
  ASSERT_EQ(Register(*device_, 2, handles_[2]), NV_OK);
  for (int gpu : {1, 2}) {
    uint32_t read = 0;
    EXPECT_FALSE(Space(gpu).Read(kBase + 8, &read, 4));
    EXPECT_EQ(read, word);
  }
}

TEST_P(UvmDeviceTest, OverlappingMappingsLeaveNoHolesAndNoRemains) {
  RegisterTwo();
  struct {
    uint64_t base, length, total;  // in MiB; total is what is mapped afterwards
  } const cases[] = {{2, 8, 18},  {5, 15, 15}, {5, 30, 30},  {10, 4, 10},
                     {12, 4, 10}, {15, 5, 10}, {15, 10, 15}, {30, 1, 11}};
  for (const auto& test : cases) {
    auto device = std::make_unique<UvmDevice>(&rm_, kProcess);
    std::swap(device, device_);
    device.reset();
    RegisterTwo();
    ASSERT_EQ(Mmap(*device_, kBase + 10 * kMiB, 10 * kMiB), 0);
    ASSERT_EQ(Mmap(*device_, kBase + test.base * kMiB, test.length * kMiB), 0);
    for (int gpu : {0, 1}) EXPECT_EQ(MappedBytes(Space(gpu)), test.total * kMiB) << test.base;
    // What is left over of the old one is still known: it goes with the file.
    ASSERT_EQ(Unregister(*device_, 0), NV_OK);
    EXPECT_EQ(MappedBytes(Space(0)), 0u) << test.base;
    device_.reset();
    EXPECT_EQ(MappedBytes(Space(1)), 0u) << test.base;
    device_ = std::make_unique<UvmDevice>(&rm_, kProcess);
    RegisterTwo();
  }
}

TEST_P(UvmDeviceTest, AMappingOverAnExternalRangeIsRefusedAndChangesNothing) {
  RegisterTwo();
  const uint32_t memory = NewMemory(kMiB);
  ASSERT_EQ(Mmap(*device_, kBase, kMiB), 0);
  ASSERT_EQ(External(kBase + kMiB, kMiB), NV_OK);
  ASSERT_EQ(MapExternal(kBase + kMiB, kMiB, memory, {0, 1}), NV_OK);
  EXPECT_EQ(Mmap(*device_, kBase, 2 * kMiB), -EADDRINUSE);
  EXPECT_EQ(Mmap(*device_, kBase + kMiB, kMiB), -EADDRINUSE);
  for (int gpu : {0, 1}) {
    ASSERT_TRUE(Space(gpu).Find(kBase + kMiB));
    EXPECT_EQ(Space(gpu).Find(kBase + kMiB)->memory, memory_.get());
    EXPECT_EQ(MappedBytes(Space(gpu)), 2 * kMiB);
  }
}

TEST_P(UvmDeviceTest, MappingsThatTheDriverRefuses) {
  const auto map = [this](MmapRequest request) { return device_->Mmap(call_, request); };
  constexpr uint64_t kBoth = PROT_READ | PROT_WRITE;
  EXPECT_EQ(map({kBase, kMiB, kBoth, MAP_SHARED, 0}), -EINVAL);
  EXPECT_EQ(map({kBase, kMiB, PROT_READ, MAP_SHARED, kBase}), -EINVAL);
  EXPECT_EQ(map({kBase, kMiB, PROT_WRITE, MAP_SHARED, kBase}), -EINVAL);
  EXPECT_EQ(map({kBase, kMiB, kBoth, MAP_PRIVATE, kBase}), -EINVAL);
  EXPECT_EQ(map({kBase, 0, kBoth, MAP_SHARED, kBase}), -EINVAL);
  EXPECT_EQ(map({kBase, UINT64_MAX, kBoth, MAP_SHARED, kBase}), -EINVAL);
  EXPECT_EQ(map({kBase + 1, kMiB, kBoth, MAP_SHARED, kBase + 1}), -EINVAL);
  EXPECT_EQ(map({UINT64_MAX - 4095, kMiB, kBoth, MAP_SHARED, UINT64_MAX - 4095}), -EINVAL);
  EXPECT_EQ(map({kBase, kMiB, kBoth, MAP_SHARED_VALIDATE, kBase}), 0);
  call_.set_process(kOther);
  EXPECT_EQ(map({kBase, kMiB, kBoth, MAP_SHARED, kBase}), -EPERM);
}

// The kernel's answer is not seen: a range that it refused is replaced by the next mapping.
TEST_P(UvmDeviceTest, ARangeThatTheKernelRefusedIsReplaced) {
  RegisterTwo();
  ASSERT_EQ(Mmap(*device_, kBase, 4 * kMiB), 0);
  ASSERT_EQ(Mmap(*device_, kBase + kMiB, kMiB), 0);
  ASSERT_EQ(Mmap(*device_, kBase, 8 * kMiB), 0);
  EXPECT_EQ(MappedBytes(Space(0)), 8 * kMiB);
}

TEST_P(UvmDeviceTest, ASemaphorePoolMayBeMappedBeforeAndAfter) {
  RegisterTwo();
  ASSERT_EQ(Pool(kBase, kMiB), NV_OK);
  EXPECT_EQ(Mmap(*device_, kBase, kMiB), 0);
  EXPECT_EQ(Mmap(*device_, kBase, kMiB / 2), -EADDRINUSE);
  ASSERT_EQ(Mmap(*device_, kBase + kMiB, kMiB), 0);
  EXPECT_EQ(Pool(kBase + kMiB, kMiB), NV_OK);
  EXPECT_EQ(MappedBytes(Space(0)), 2 * kMiB);
  EXPECT_EQ(MappedBytes(Space(1)), 2 * kMiB);
  EXPECT_EQ(Free(kBase, kMiB), NV_OK);
  EXPECT_EQ(MappedBytes(Space(1)), kMiB);
}

// --- External ranges ---

TEST_P(UvmDeviceTest, AnExternalRangeIsMappedAndUnmappedPerGpu) {
  RegisterTwo();
  const uint32_t memory = NewMemory(2 * kMiB);
  ASSERT_EQ(External(kBase, 2 * kMiB), NV_OK);
  ASSERT_EQ(MapExternal(kBase, kMiB, memory, {0, 1}, kMiB), NV_OK);
  EXPECT_EQ(Space(0).Find(kBase)->offset, kMiB);
  EXPECT_EQ(Unmap(0, kBase, kMiB), NV_OK);
  EXPECT_EQ(MappedBytes(Space(0)), 0u);
  EXPECT_EQ(MappedBytes(Space(1)), kMiB);
  EXPECT_EQ(Free(kBase, 2 * kMiB), NV_OK);
  EXPECT_EQ(MappedBytes(Space(1)), 0u);
  EXPECT_EQ(Free(kBase, 2 * kMiB), NV_ERR_INVALID_ADDRESS);
}

TEST_P(UvmDeviceTest, WrongExternalMappingsAreRefused) {
  RegisterTwo();
  const uint32_t memory = NewMemory(kMiB);
  ASSERT_EQ(External(kBase, kMiB), NV_OK);
  EXPECT_EQ(External(kBase, kMiB), NV_ERR_UVM_ADDRESS_IN_USE);
  EXPECT_EQ(External(kBase + 1, kMiB), NV_ERR_INVALID_ADDRESS);
  EXPECT_EQ(MapExternal(kBase, kMiB, memory, {}), NV_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(MapExternal(kBase, 2 * kMiB, memory, {0}), NV_ERR_INVALID_ADDRESS);
  EXPECT_EQ(MapExternal(kBase, kMiB, handles_[0], {0}), NV_ERR_INVALID_OBJECT_HANDLE);
  EXPECT_EQ(MapExternal(kBase, kMiB, memory, {2}), NV_ERR_INVALID_DEVICE);
  EXPECT_EQ(MapExternal(kBase, kMiB, memory, {0}, kMiB), NV_ERR_INVALID_OFFSET);
  EXPECT_EQ(MapExternal(kBase, kMiB, memory, {0}, UINT64_MAX), NV_ERR_INVALID_OFFSET);
  EXPECT_EQ(Unmap(2, kBase, kMiB), NV_ERR_INVALID_DEVICE);
  EXPECT_EQ(Unmap(0, kBase, UINT64_MAX), NV_ERR_INVALID_ADDRESS);
  EXPECT_EQ(MappedBytes(Space(0)), 0u);
}

// --- Address spaces ---

TEST_P(UvmDeviceTest, AGpuHasOneSpaceInAFile) {
  ASSERT_EQ(Register(*device_, 0, handles_[0]), NV_OK);
  ASSERT_EQ(Mmap(*device_, kBase, kMiB), 0);
  uint32_t second = 0;
  auto space = NewSpace(0, &second);
  EXPECT_EQ(Register(*device_, 0, second), NV_ERR_INVALID_DEVICE);
  EXPECT_EQ(Register(*device_, 0, handles_[0]), NV_ERR_INVALID_DEVICE);
  EXPECT_EQ(MappedBytes(space->context->memory), 0u);
  EXPECT_EQ(MappedBytes(Space(0)), kMiB);
  // After the first has gone there is room.
  ASSERT_EQ(Unregister(*device_, 0), NV_OK);
  EXPECT_EQ(MappedBytes(Space(0)), 0u);
  EXPECT_EQ(Unregister(*device_, 0), NV_ERR_INVALID_DEVICE);
  EXPECT_EQ(Register(*device_, 0, second), NV_OK);
  EXPECT_EQ(MappedBytes(space->context->memory), kMiB);
}

TEST_P(UvmDeviceTest, ASpaceBelongsToOneFile) {
  ASSERT_EQ(Register(*device_, 0, handles_[0]), NV_OK);
  ASSERT_EQ(Mmap(*device_, kBase, kMiB), 0);
  {
    UvmDevice other(&rm_, kProcess);
    ASSERT_EQ(Mmap(other, kBase, kMiB), 0);
    EXPECT_EQ(Register(other, 0, handles_[0]), NV_ERR_INVALID_DEVICE);
  }
  EXPECT_EQ(MappedBytes(Space(0)), kMiB);
  device_.reset();
  EXPECT_EQ(MappedBytes(Space(0)), 0u);
  UvmDevice other(&rm_, kProcess);
  EXPECT_EQ(Register(other, 0, handles_[0]), NV_OK);
}

TEST_P(UvmDeviceTest, UnregisteringAGpuTakesItsSpace) {
  RegisterTwo();
  ASSERT_EQ(Mmap(*device_, kBase, kMiB), 0);
  UVM_UNREGISTER_GPU_PARAMS params{};
  params.gpu_uuid = Uuid(0);
  ASSERT_EQ(Do(*device_, UVM_UNREGISTER_GPU, params), NV_OK);
  EXPECT_EQ(MappedBytes(Space(0)), 0u);
  EXPECT_EQ(MappedBytes(Space(1)), kMiB);
  EXPECT_EQ(Register(*device_, 0, handles_[0]), NV_OK);
}

TEST_P(UvmDeviceTest, WrongSpacesAreRefused) {
  EXPECT_EQ(Register(*device_, 7, handles_[0]), NV_ERR_INVALID_DEVICE);
  EXPECT_EQ(Register(*device_, 0, handles_[1]), NV_ERR_INVALID_OBJECT_HANDLE);
  EXPECT_EQ(Register(*device_, 0, 12345), NV_ERR_INVALID_OBJECT_HANDLE);
  EXPECT_EQ(Register(*device_, 0, NewMemory(kMiB)), NV_ERR_INVALID_OBJECT_HANDLE);
}

TEST_P(UvmDeviceTest, ADeadProcessLeavesNothing) {
  RegisterTwo();
  ASSERT_EQ(Mmap(*device_, kBase, kMiB), 0);
  rm_.server.ProcessDied(kProcess);
  device_.reset();  // as late as it can be
  EXPECT_EQ(MappedBytes(Space(0)), 0u);
  EXPECT_EQ(MappedBytes(Space(1)), 0u);
  EXPECT_EQ(spaces_[0]->context.use_count(), 1);
}

// --- Calls ---

TEST_P(UvmDeviceTest, OnlyItsOwnProcessAndOnlyKnownCalls) {
  EXPECT_EQ(device_->Ioctl(call_, UVM_DEINITIALIZE, RemoteAddress{0}), 0);
  EXPECT_EQ(device_->Ioctl(call_, 0x7777, RemoteAddress{kParams}), -EINVAL);
  EXPECT_FALSE(UvmDevice::Knows(0x7777));
  EXPECT_NE(unknowns_.Report(), "");
  call_.set_process(kOther);
  EXPECT_EQ(device_->Ioctl(call_, UVM_DEINITIALIZE, RemoteAddress{0}), -EPERM);
}

TEST_P(UvmDeviceTest, SuccessesOfNothingAreCountedWithTheirReason) {
  UvmDevice device(&rm_, kProcess);
  UVM_INITIALIZE_PARAMS params{};
  const std::string line =
      "  UVM ioctl UVM_INITIALIZE (0x30000001): 1 times; the file is ready when it is open\n";
  EXPECT_EQ(Do(device, UVM_INITIALIZE, params), NV_OK);
  EXPECT_EQ(quiet_.Report(), line);
  // What does something is not.
  EXPECT_EQ(Register(device, 0, handles_[0]), NV_OK);
  EXPECT_EQ(quiet_.Report(), line);
}

TEST_P(UvmDeviceTest, ParametersThatEndEarlyFault) {
  for (uint32_t command = 0; command < 200; ++command) {
    if (!UvmDevice::Knows(command) || command == UVM_DEINITIALIZE) continue;
    // Of the smallest block, rmStatus alone, three bytes are there.
    EXPECT_EQ(device_->Ioctl(call_, command, RemoteAddress{(1 << 16) - 3}), -EFAULT) << command;
    EXPECT_EQ(device_->Ioctl(call_, command, RemoteAddress{UINT64_MAX}), -EFAULT) << command;
  }
}

TEST_P(UvmDeviceTest, RandomBytesForEveryNumber) {
  std::mt19937_64 random(static_cast<unsigned>(GetParam()) + 1);
  const uint32_t memory = NewMemory(kMiB);
  RegisterTwo();
  const uint64_t edges[] = {0,      1,       kBase,       kBase + kMiB, kMiB,       4096,
                            memory, client_, handles_[0], UINT64_MAX,   1ull << 47, ~4095ull};
  for (int step = 0; step < 40000; ++step) {
    const uint32_t command =
        random() % 50 == 0 ? UVM_INITIALIZE : static_cast<uint32_t>(random() % 128);
    for (size_t at = kParams; at < kParams + 10240; at += 8) {
      const uint64_t word = random() % 3 == 0 ? random() : edges[random() % std::size(edges)];
      call_.memory().Put(at, word);
      if (at > kParams + 64 && random() % 64 == 0) at += 4096;  // the rest is old
    }
    if (random() % 4 != 0) call_.memory().Put(kParams + 16, Uuid(0));
    const int result = device_->Ioctl(call_, command, RemoteAddress{kParams});
    ASSERT_TRUE(result == 0 || result == -EINVAL || result == -EFAULT) << command;
    ASSERT_EQ(result == -EINVAL, !UvmDevice::Knows(command)) << command;
    if (random() % 16 == 0) Mmap(*device_, edges[random() % 12], edges[random() % 12]);
  }
  device_.reset();
  for (int gpu : {0, 1, 2}) EXPECT_EQ(MappedBytes(Space(gpu)), 0u);
}

}  // namespace
}  // namespace phantora
