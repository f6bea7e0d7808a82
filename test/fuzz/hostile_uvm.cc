// UVM's calls, and work for the GPU.
#include "test/fuzz/hostile_attacker.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

void Attacker::RandomUvm() {
  const uint32_t command = random_.OneIn(8) ? random_.Below(2048) : 1 + random_.Below(0x4c);
  Noise(9300);
  if (random_.OneIn(2)) memcpy(block_.data() + random_.Below(8) * 8, &rig_.uuid, 16);
  ioctl(random_.OneIn(8) ? SomeFile() : rig_.uvm_fd, command,
        random_.OneIn(8) ? reinterpret_cast<void*>(SomePointer()) : block_.data());
}

void Attacker::MutatedUvm() {
  const uint64_t base = kExternalVa + uint64_t{random_.Below(1024)} * 4096;
  const uint64_t length = (1 + uint64_t{random_.Below(64)}) * 4096;
  switch (random_.Below(5)) {
    case 0: {
      UVM_CREATE_EXTERNAL_RANGE_PARAMS params{};
      params.base = base;
      params.length = length;
      Flip(&params, sizeof params);
      ioctl(rig_.uvm_fd, UVM_CREATE_EXTERNAL_RANGE, &params);
      break;
    }
    case 1: {
      const auto map = [&](auto& params) {
        params.base = base;
        params.length = length;
        params.gpuAttributesCount = 1;
        params.perGpuAttributes[0].gpuUuid = rig_.uuid;
        params.rmCtrlFd = rig_.control_fd;
        params.hClient = rig_.client;
        params.hMemory = random_.OneIn(2) ? rig_.vidmem : SomeHandle();
        Flip(&params, 24);
        if (random_.OneIn(4)) params.gpuAttributesCount = random_.Boundary();
        ioctl(rig_.uvm_fd, UVM_MAP_EXTERNAL_ALLOCATION, &params);
      };
      if (random_.OneIn(2)) {
        UVM_MAP_EXTERNAL_ALLOCATION_PARAMS params{};
        map(params);
      } else {
        UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_V550 params{};
        map(params);
      }
      break;
    }
    case 2: {
      UVM_UNMAP_EXTERNAL_PARAMS params{};
      params.base = base;
      params.length = length;
      params.gpuUuid = rig_.uuid;
      Flip(&params, sizeof params);
      ioctl(rig_.uvm_fd, UVM_UNMAP_EXTERNAL, &params);
      break;
    }
    case 3: {
      UVM_FREE_PARAMS params{};
      params.base = base;
      params.length = length;
      Flip(&params, sizeof params);
      ioctl(rig_.uvm_fd, UVM_FREE, &params);
      break;
    }
    default: {
      UVM_REGISTER_GPU_VASPACE_PARAMS params{};
      params.gpuUuid = rig_.uuid;
      params.hClient = rig_.client;
      params.hVaSpace = random_.OneIn(2) ? rig_.va_space : SomeHandle();
      ioctl(rig_.uvm_fd, random_.OneIn(3) ? UVM_UNREGISTER_GPU_VASPACE : UVM_REGISTER_GPU_VASPACE,
            &params);
      break;
    }
  }
}

void Attacker::Push() {
  const int channel = static_cast<int>(random_.Below(kChannels));
  // A dead channel has something in its error notifier, which is all channels'.
  if (rig_.channels[channel] == 0 || random_.OneIn(3)) {
    memset(rig_.ring + kGpfifoAt + channel * 0x1000, 0, 0x1000);
    rig_.MakeChannel(channel);
  }
  if (random_.OneIn(8)) WriteQmds(rig_);
  const uint64_t at = kPushAt + uint64_t{random_.Below(512)} * 0x1000;
  Pushbuffer push(random_, rig_.ring + at, 0x2000);
  push.Fill();
  if (random_.OneIn(32)) {
    auto* userd = reinterpret_cast<volatile uint32_t*>(rig_.ring + kUserdAt + channel * 0x200);
    userd[kUserdGpPut / 4] = static_cast<uint32_t>(random_.Boundary());
  }
  const uint32_t words =
      random_.OneIn(32) ? static_cast<uint32_t>(kGpEntryLengthMask) : push.used();
  rig_.Submit(channel, at, words);
}

void Attacker::Channels() {
  rig_.MakeChannel(static_cast<int>(random_.Below(kChannels)));
  if (random_.OneIn(2)) {
    NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS schedule{};
    rig_.Control(rig_.group, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &schedule, sizeof schedule);
  }
}

}  // namespace phantora::hostile
