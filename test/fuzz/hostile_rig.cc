#include "test/fuzz/hostile_rig.h"

#include "test/fuzz/hostile_pushbuffer.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

bool Rig::Build() {
  control_fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
  gpu_fd = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
  uvm_fd = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  if (control_fd < 0 || gpu_fd < 0 || uvm_fd < 0) return false;
  NVOS64_PARAMETERS root{};
  root.hClass = NV01_ROOT_CLIENT;
  if (Rm(NV_ESC_RM_ALLOC, &root, sizeof root) != 0 || root.status != 0) return false;
  client = root.hObjectNew;
  NV0080_ALLOC_PARAMETERS device_params{};
  device = Alloc(client, 0, NV01_DEVICE_0, &device_params);
  NV2080_ALLOC_PARAMETERS subdevice_params{};
  subdevice = Alloc(device, 0, NV20_SUBDEVICE_0, &subdevice_params);
  NV_VASPACE_ALLOCATION_PARAMETERS space_params{};
  va_space = Alloc(device, 0, FERMI_VASPACE_A, &space_params);
  if (device == 0 || subdevice == 0 || va_space == 0) return false;
  ring_memory = AllocMemory(NV01_MEMORY_SYSTEM, kRingBytes);
  vidmem = AllocMemory(NV01_MEMORY_LOCAL_USER, kVidmemBytes);
  if (ring_memory == 0) return false;
  ring = static_cast<uint8_t*>(MapToHost(ring_memory, kRingBytes));
  if (vidmem != 0) vidmem_host = static_cast<uint8_t*>(MapToHost(vidmem, kVidmemBytes));
  if (ring == nullptr || !MapToGpu(ring_memory, kRingVa, kRingBytes)) return false;
  if (vidmem != 0) MapToGpu(vidmem, kVidmemVa, kVidmemBytes);

  own = static_cast<uint8_t*>(
      mmap(nullptr, kOwnBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  nv_ioctl_nvos02_parameters_with_fd descriptor{};
  descriptor.params.hRoot = client;
  descriptor.params.hObjectParent = device;
  descriptor.params.hClass = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
  descriptor.params.pMemory = reinterpret_cast<uint64_t>(own);
  descriptor.params.limit = kOwnBytes - 1;
  Rm(NV_ESC_RM_ALLOC_MEMORY, &descriptor, sizeof descriptor);
  tracee_memory = descriptor.params.hObjectNew;
  if (descriptor.params.status == 0) MapToGpu(tracee_memory, kTraceeVa, kOwnBytes);

  NV2080_CTRL_GPU_GET_GID_INFO_PARAMS gid{};
  gid.flags = 2;
  Control(subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, &gid, sizeof gid);
  memcpy(uuid.uuid, gid.data, sizeof uuid.uuid);
  UVM_INITIALIZE_PARAMS initialize{};
  ioctl(uvm_fd, UVM_INITIALIZE, &initialize);
  UVM_REGISTER_GPU_PARAMS gpu{};
  gpu.gpu_uuid = uuid;
  ioctl(uvm_fd, UVM_REGISTER_GPU, &gpu);
  UVM_REGISTER_GPU_VASPACE_PARAMS space{};
  space.gpuUuid = uuid;
  space.rmCtrlFd = control_fd;
  space.hClient = client;
  space.hVaSpace = va_space;
  ioctl(uvm_fd, UVM_REGISTER_GPU_VASPACE, &space);

  NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS group_params{};
  group_params.hVASpace = va_space;
  group_params.engineType = 1;
  group = Alloc(device, 0, KEPLER_CHANNEL_GROUP_A, &group_params);
  usermode = Alloc(subdevice, 0, HOPPER_USERMODE_A, nullptr);
  if (usermode != 0) {
    doorbell = static_cast<volatile uint32_t*>(MapToHost(usermode, kUsermodeBytes));
  }
  if (group == 0 || doorbell == nullptr) return false;
  for (int i = 0; i < kChannels; ++i) {
    if (!MakeChannel(i)) return false;
  }
  objects = {client, device,        subdevice, va_space, ring_memory,
             vidmem, tracee_memory, group,     usermode};
  for (uint32_t object : objects) shared->handles[random.Below(256)] = object;
  ++shared->rigs;
  return true;
}

bool Rig::MakeChannel(int index) {
  if (channels[index] != 0) Free(channels[index]);
  memset(ring + kNotifierAt + index * 0x100, 0, 0x100);
  NV_CHANNEL_ALLOC_PARAMS params{};
  params.hObjectError = ring_memory;
  params.gpFifoOffset = kRingVa + kGpfifoAt + static_cast<uint64_t>(index) * 0x1000;
  params.gpFifoEntries = kRingEntries;
  params.hVASpace = va_space;
  params.hUserdMemory[0] = ring_memory;
  params.userdOffset[0] = kUserdAt + static_cast<uint64_t>(index) * 0x200;
  params.engineType = index % 2 == 0 ? 1 : 11;
  // Half of them alone, so that they do not all die with the first.
  const uint32_t parent = index < 2 ? device : group;
  channels[index] =
      Alloc(parent, 0, hopper ? HOPPER_CHANNEL_GPFIFO_A : AMPERE_CHANNEL_GPFIFO_A, &params);
  put[index] = 0;
  if (channels[index] == 0) return false;
  NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS schedule{};
  Control(channels[index], NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, &schedule, sizeof schedule);
  return true;
}

void Rig::Submit(int channel, uint64_t at, uint32_t words) {
  auto* entries = reinterpret_cast<uint64_t*>(ring + kGpfifoAt + channel * 0x1000);
  entries[put[channel] % kRingEntries] =
      ((kRingVa + at) & kGpEntryAddressMask) | static_cast<uint64_t>(words) << kGpEntryLengthShift;
  put[channel] = (put[channel] + 1) % kRingEntries;
  auto* userd = reinterpret_cast<volatile uint32_t*>(ring + kUserdAt + channel * 0x200);
  userd[kUserdGpPut / 4] = put[channel];
  *(doorbell + kDoorbell / 4) = 1;
}

void WriteQmds(Rig& rig) {
  Random& random = rig.random;
  for (uint64_t i = 0; i < 16; ++i) {
    uint32_t qmd[128] = {};
    for (uint32_t& word : qmd) {
      if (random.OneIn(6)) word = static_cast<uint32_t>(random.Next());
    }
    const uint32_t next =
        static_cast<uint32_t>((kRingVa + kQmdsAt + random.Below(16) * 0x200) >> 8);
    if (rig.hopper) {
      qmd[18] = random.OneIn(16) ? static_cast<uint32_t>(random.Next()) : 4 << 4;  // version
      qmd[0] =
          random.Below(6) << 23 | (qmd[0] & 0x40000000) | (random.OneIn(4) ? random.Below(4) : 0);
      qmd[11] = random.OneIn(2) ? 0x10000 | random.Below(8) << 17 : 0;  // dependent 0
      qmd[14] = next;
      for (int r = 0; r < 3; ++r) {
        const uint64_t address = kRingVa + kSemaphoresAt + random.Below(0x400) * 16;
        if (!random.OneIn(16)) {
          qmd[20 + r * 4] = static_cast<uint32_t>(address);
          qmd[21 + r * 4] = static_cast<uint32_t>(address >> 32);
        }
      }
    } else {
      qmd[18] =
          random.OneIn(16) ? static_cast<uint32_t>(random.Next()) : (random.OneIn(2) ? 3 : 2) << 4;
      qmd[12] = random.Below(4);  // the grid's width
      qmd[15] = next;
      qmd[16] = random.OneIn(2) ? 1 | random.Below(8) << 1 : 0;
    }
    memcpy(rig.ring + kQmdsAt + i * 0x200, qmd, sizeof qmd);
  }
}

}  // namespace phantora::hostile
