#include "test/raw_client/gpu.h"

#include <time.h>

#include <algorithm>

#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/methods.h"

namespace raw {
namespace {

using namespace phantora::abi;  // NOLINT: NVIDIA's names

constexpr uint64_t kPage = 64 << 10;
constexpr uint32_t kFifoEntries = 512;
constexpr uint64_t kCommandBytes = 1 << 20;

void Sleep() {
  const timespec time = {0, 100'000};
  nanosleep(&time, nullptr);
}

}  // namespace

Gpu::Gpu(ResourceManager& rm) : rm_(rm) {
  NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS ids{};
  RAW_EXPECT(rm.Control(rm.client(), NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, ids), 0);
  RAW_EXPECT(ids.gpuIds[0] == NV0000_CTRL_GPU_INVALID_ID, false);
  NV0080_ALLOC_PARAMETERS device{};
  device_ = rm.Alloc(rm.client(), NV01_DEVICE_0, device);
  NV2080_ALLOC_PARAMETERS subdevice{};
  subdevice_ = rm.Alloc(device_, NV20_SUBDEVICE_0, subdevice);
  NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS range{};
  range_ = rm.Alloc(device_, NV01_MEMORY_VIRTUAL, range);

  NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS list{};
  RAW_EXPECT(rm.Control(device_, NV0080_CTRL_CMD_GPU_GET_CLASSLIST, list), 0);
  classes_.resize(list.numClasses);
  list.classList = reinterpret_cast<uint64_t>(classes_.data());
  RAW_EXPECT(rm.Control(device_, NV0080_CTRL_CMD_GPU_GET_CLASSLIST, list), 0);

  const uint32_t usermode =
      rm.Alloc(subdevice_, Has(HOPPER_USERMODE_A) ? HOPPER_USERMODE_A : AMPERE_USERMODE_A);
  doorbell_ =
      static_cast<volatile uint32_t*>(rm.Map(subdevice_, usermode, kUsermodeBytes, "/dev/nvidia0"));
}

bool Gpu::Has(uint32_t class_id) const {
  return std::find(classes_.begin(), classes_.end(), class_id) != classes_.end();
}

Buffer Gpu::Memory(uint64_t size, bool video) {
  NV_MEMORY_ALLOCATION_PARAMS_V545 params{};
  params.owner = rm_.client();
  params.size = std::max(size, kPage);
  params.attr = video ? 0
                      : NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT |
                            NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS << NVOS32_ATTR_PHYSICALITY_SHIFT;
  Buffer buffer;
  buffer.handle = rm_.Alloc(device_, video ? NV01_MEMORY_LOCAL_USER : NV01_MEMORY_SYSTEM, params);
  buffer.size = params.size;
  buffer.address = rm_.MapDma(device_, range_, buffer.handle, buffer.size);
  buffer.words = static_cast<volatile uint32_t*>(
      rm_.Map(device_, buffer.handle, buffer.size, video ? "/dev/nvidia0" : "/dev/nvidiactl"));
  return buffer;
}

Channel::Channel(Gpu& gpu, uint32_t engine, uint32_t object_class) : gpu_(gpu) {
  ResourceManager& rm = gpu.rm();
  commands_ = gpu.SystemMemory(kCommandBytes);
  fifo_ = gpu.SystemMemory(kFifoEntries * kGpEntryBytes);
  userd_ = gpu.VideoMemory(kUserdBytes);
  notifier_ = gpu.SystemMemory(kPage);
  semaphore_ = gpu.SystemMemory(kPage);

  NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group{};
  group.engineType = engine;
  group_ = rm.Alloc(gpu.device(), KEPLER_CHANNEL_GROUP_A, group);
  NV_CHANNEL_ALLOC_PARAMS params{};
  params.hObjectError = notifier_.handle;
  params.gpFifoOffset = fifo_.address;
  params.gpFifoEntries = kFifoEntries;
  params.hUserdMemory[0] = userd_.handle;
  params.engineType = engine;
  channel_ = rm.Alloc(
      group_, gpu.Has(HOPPER_CHANNEL_GPFIFO_A) ? HOPPER_CHANNEL_GPFIFO_A : AMPERE_CHANNEL_GPFIFO_A,
      params);
  if (engine == NV2080_ENGINE_TYPE_GRAPHICS) {
    NV_GR_ALLOCATION_PARAMETERS object{};
    object_ = rm.Alloc(channel_, object_class, object);
  } else {
    NVB0B5_ALLOCATION_PARAMETERS object{};
    object.version = 1;
    object.engineType = engine;
    object_ = rm.Alloc(channel_, object_class, object);
  }
  NVA06F_CTRL_BIND_PARAMS bind{};
  bind.engineType = engine;
  RAW_EXPECT(rm.Control(channel_, NVA06F_CTRL_CMD_BIND, bind), 0);
  NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS token{};
  RAW_EXPECT(rm.Control(channel_, NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, token), 0);
  token_ = token.workSubmitToken;
  NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS schedule{};
  schedule.bEnable = 1;
  RAW_EXPECT(rm.Control(group_, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, schedule), 0);
  Push(0, host::kSetObject, {object_class});
  RAW_EXPECT(SubmitAndWait(), true);
}

void Channel::Push(uint32_t subchannel, uint32_t method, const std::vector<uint32_t>& data) {
  RAW_EXPECT((end_ + 1 + data.size()) * 4 > kCommandBytes, false);
  commands_.words[end_++] = kSecOpIncMethod << 29 | static_cast<uint32_t>(data.size()) << 16 |
                            subchannel << 13 | method / 4;
  for (const uint32_t word : data) commands_.words[end_++] = word;
}

void Channel::Submit() {
  const uint64_t address = commands_.address + begin_ * 4;
  const uint64_t entry = address | (end_ - begin_) << kGpEntryLengthShift;
  fifo_.words[put_ * 2] = static_cast<uint32_t>(entry);
  fifo_.words[put_ * 2 + 1] = static_cast<uint32_t>(entry >> 32);
  begin_ = end_;
  put_ = (put_ + 1) % kFifoEntries;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  userd_.words[kUserdGpPut / 4] = put_;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  gpu_.doorbell()[kDoorbell / 4] = token_;
}

bool Channel::SubmitAndWait() {
  ++released_;
  Push(0, host::kSemAddrLo,
       {static_cast<uint32_t>(semaphore_.address), static_cast<uint32_t>(semaphore_.address >> 32),
        released_, 0, host::kRelease | 1u << 20});
  Submit();
  while (semaphore_.words[0] != released_) {
    if (Error() != 0) return false;
    Sleep();
  }
  return true;
}

uint32_t Channel::Error() const {
  // NvNotification: two words of time, info32 (the error), info16 and status.
  return notifier_.words[3] >> 16 != 0 ? notifier_.words[2] : 0;
}

}  // namespace raw
