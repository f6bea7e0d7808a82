// Forks, and as much as there is of everything.
#include "test/fuzz/hostile_attacker.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

void Attacker::Fork() {
  const uint64_t seed = random_.Next();
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    // Only system calls from here on: other threads may have held any lock.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Random random(seed);
    uint8_t block[512] = {};
    for (int i = 0; i < 20; ++i) {
      // The parent's files, but another process.
      ioctl(rig_.control_fd,
            _IOC(_IOC_READ | _IOC_WRITE, 'F', kEscapes[random.Below(25)], random.Below(200)),
            block);
      ioctl(rig_.uvm_fd, random.Below(80), block);
      if (i == 10 && random.OneIn(4)) {
        char name[] = "/bin/true";
        char* const arguments[] = {name, nullptr};
        execv(name, arguments);
      }
      if (i == 15 && random.OneIn(2)) raise(SIGKILL);
    }
    _exit(0);
  }
  if (random_.OneIn(2)) {
    timespec pause{0, static_cast<long>(random_.Below(2000000))};
    nanosleep(&pause, nullptr);
    kill(child, SIGKILL);
  }
  waitpid(child, nullptr, 0);
}

// As much of one kind as there is to be had, and then all of it back.
void Attacker::Bomb() {
  using One = void (Attacker::*)(uint32_t, Left&);
  static constexpr One kBombs[] = {
      &Attacker::ChannelBomb, &Attacker::MemoryBomb, &Attacker::FileBomb,  &Attacker::RangeBomb,
      &Attacker::TreeBomb,    &Attacker::ClientBomb, &Attacker::EventBomb, &Attacker::WorkBomb};
  Left left;
  (this->*kBombs[random_.Below(8)])(greedy_ ? 20000 : 200, left);
  if (random_.OneIn(2)) {
    for (uint32_t handle : left.objects) rig_.Free(handle);
  } else {
    for (auto it = left.objects.rbegin(); it != left.objects.rend(); ++it) rig_.Free(*it);
  }
  for (int file : left.files) close(file);
}

void Attacker::ChannelBomb(uint32_t much, Left& left) {
  for (uint32_t i = 0; i < much; ++i) {
    NV_CHANNEL_ALLOC_PARAMS params{};
    params.gpFifoOffset = kRingVa + kGpfifoAt;
    params.gpFifoEntries = 8;
    params.hVASpace = rig_.va_space;
    params.hUserdMemory[0] = rig_.vidmem;
    params.userdOffset[0] = uint64_t{i % 4096} * 0x200;
    const uint32_t handle = rig_.Alloc(
        rig_.group, 0, rig_.hopper ? HOPPER_CHANNEL_GPFIFO_A : AMPERE_CHANNEL_GPFIFO_A, &params);
    if (handle == 0) break;
    left.objects.push_back(handle);
  }
  *(rig_.doorbell + kDoorbell / 4) = 1;
}

void Attacker::MemoryBomb(uint32_t much, Left& left) {
  for (uint32_t i = 0; i < much; ++i) {
    const uint32_t handle =
        rig_.AllocMemory(NV01_MEMORY_SYSTEM, 4096 + random_.Boundary() % (1 << 30));
    if (handle == 0) break;
    left.objects.push_back(handle);
    if (i % 4 == 0) rig_.MapToGpu(handle, kExternalVa + uint64_t{i} * 4096, 4096);
  }
}

void Attacker::FileBomb(uint32_t much, Left& left) {
  for (uint32_t i = 0; i < much; ++i) {
    const int file = open(i % 2 == 0 ? "/dev/nvidia-uvm" : "/dev/nvidiactl", O_RDWR | O_CLOEXEC);
    if (file < 0) break;
    left.files.push_back(file);
    if (!greedy_ || i % 2 == 0) {  // opened, closed, opened ...
      close(file);
      left.files.pop_back();
    }
  }
}

void Attacker::RangeBomb(uint32_t much, Left& left) {
  for (uint32_t i = 0; i < much; ++i) {
    UVM_CREATE_EXTERNAL_RANGE_PARAMS params{};
    params.base = kExternalVa * 2 + uint64_t{i} * 8192;
    params.length = 4096;
    if (ioctl(rig_.uvm_fd, UVM_CREATE_EXTERNAL_RANGE, &params) != 0) break;
  }
}

void Attacker::TreeBomb(uint32_t much, Left& left) {
  // A deep tree.
  uint32_t parent = rig_.device;
  for (uint32_t i = 0; i < much; ++i) {
    NV2080_ALLOC_PARAMETERS params{};
    const uint32_t handle = rig_.Alloc(parent, 0, NV20_SUBDEVICE_0, &params);
    if (handle == 0) break;
    if (i == 0) left.objects.push_back(handle);
    parent = handle;
  }
}

void Attacker::ClientBomb(uint32_t much, Left& left) {
  for (uint32_t i = 0; i < (greedy_ ? 2000u : 20u); ++i) {
    NVOS64_PARAMETERS root{};
    root.hClass = NV01_ROOT_CLIENT;
    if (rig_.Rm(NV_ESC_RM_ALLOC, &root, sizeof root) != 0 || root.status != 0) break;
    NV0080_ALLOC_PARAMETERS device{};
    const uint32_t own = rig_.client;
    rig_.client = root.hObjectNew;
    const uint32_t handle = rig_.Alloc(root.hObjectNew, 0, NV01_DEVICE_0, &device);
    rig_.Alloc(handle, 0, HOPPER_USERMODE_A, nullptr);
    rig_.client = own;
    NVOS00_PARAMETERS gone{};
    gone.hRoot = gone.hObjectOld = root.hObjectNew;
    if (!greedy_ || random_.OneIn(2)) rig_.Rm(NV_ESC_RM_FREE, &gone, sizeof gone);
  }
}

void Attacker::EventBomb(uint32_t much, Left& left) {
  for (uint32_t i = 0; i < much / 10; ++i) {
    const int file = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
    if (file < 0) break;
    nv_ioctl_alloc_os_event_t os_event{};
    os_event.fd = file;
    rig_.Rm(NV_ESC_ALLOC_OS_EVENT, &os_event, sizeof os_event);
    left.files.push_back(file);
    for (int j = 0; j < 20; ++j) {
      NV0005_ALLOC_PARAMETERS params{};
      params.hClass = NV01_EVENT_OS_EVENT;
      params.notifyIndex = NV01_EVENT_NONSTALL_INTR | NV2080_NOTIFIERS_GRAPHICS;
      params.data = static_cast<uint64_t>(file);
      const uint32_t handle = rig_.Alloc(rig_.subdevice, 0, NV01_EVENT_OS_EVENT, &params);
      if (handle != 0) left.objects.push_back(handle);
    }
  }
}

void Attacker::WorkBomb(uint32_t much, Left& left) {
  // Long work: interrupts and copies without end in one segment, on all channels.
  for (int channel = 0; channel < kChannels; ++channel) {
    rig_.MakeChannel(channel);
    Pushbuffer push(random_, rig_.ring + kPushAt, 1 << 21);
    push.Method(4, host::kSetObject, 0xc8b5);
    push.Address(4, copy::kOffsetInUpper, kVidmemVa);
    push.Address(4, copy::kOffsetOutUpper, kVidmemVa + kVidmemBytes / 2);
    push.Method(4, copy::kLineLengthIn, kVidmemBytes / 2);
    const uint32_t what = random_.Below(3);
    if (what == 2) {
      push.Method(4, copy::kRemapComponents, 0x03333210);
      push.Method(4, copy::kLineLengthIn, 100000);
      push.Method(4, copy::kLineCount, 600);
    }
    for (int i = 0; i < (greedy_ ? 100000 : 1000); ++i) {
      if (what == 0) push.Method(0, host::kNonStallInterrupt, 0);
      if (what == 1) push.Method(4, copy::kLaunchDma, 0x182);
      if (what == 2) push.Method(4, copy::kLaunchDma, 0x782);
    }
    rig_.Submit(channel, kPushAt, push.used());
  }
}

}  // namespace phantora::hostile
