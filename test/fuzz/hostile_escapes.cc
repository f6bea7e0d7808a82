// The resource manager's escapes, controls and objects.
#include "test/fuzz/hostile_attacker.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

void Attacker::OpenClose() {
  static constexpr const char* kPaths[] = {"/dev/nvidiactl",       "/dev/nvidia0", "/dev/nvidia1",
                                           "/dev/nvidia-uvm",      "/dev/nvidia7", "/dev/nvidia0/x",
                                           "/dev/nvidia-uvm-tools"};
  const int file = open(random_.Of(kPaths), random_.OneIn(8) ? O_RDONLY : O_RDWR);
  if (file < 0) return;
  Noise(64);
  NVOS64_PARAMETERS root{};
  root.hClass = NV01_ROOT_CLIENT;
  // Handles of one's own choice, also such as others will get.
  root.hObjectNew = random_.OneIn(2) ? 0 : SomeHandle();
  ioctl(file, _IOC(_IOC_READ | _IOC_WRITE, 'F', NV_ESC_RM_ALLOC, sizeof root), &root);
  if (root.status == 0) shared->handles[random_.Below(256)] = root.hObjectNew;
  const int copy = random_.OneIn(4) ? dup(file) : -1;
  close(file);
  if (copy >= 0) {
    ioctl(copy, _IOC(_IOC_READ | _IOC_WRITE, 'F', random_.Of(kEscapes), random_.Below(64)),
          block_.data());
    close(copy);
  }
}

void Attacker::RandomEscape() {
  const uint32_t number = random_.OneIn(4) ? random_.Below(256) : random_.Of(kEscapes);
  static constexpr uint32_t kSizes[] = {0,  4,  8,  12, 16, 20,  24,  28,  32,    40,
                                        48, 56, 64, 72, 80, 168, 184, 200, 0x3fff};
  const uint32_t size = random_.OneIn(3) ? random_.Below(1 << 14) : random_.Of(kSizes);
  Noise(size);
  ioctl(SomeFile(), _IOC(_IOC_READ | _IOC_WRITE, 'F', number, size),
        random_.OneIn(4) ? reinterpret_cast<void*>(SomePointer()) : block_.data());
}

// A call that would succeed, but for a few bits.
void Attacker::MutatedEscape() {
  switch (random_.Below(9)) {
    case 0:
      return MutatedDmaMapping();
    case 1:
      return MutatedHeapCall();
    case 2:
      return MutatedMapping();
    case 3:
      return MutatedOsDescriptor();
    case 4:
      return MutatedTransfer();
    default:
      return MutatedControl();
  }
}

void Attacker::MutatedDmaMapping() {
  NVOS46_PARAMETERS call{};
  call.hClient = rig_.client;
  call.hDevice = rig_.device;
  call.hDma = rig_.va_space;
  call.hMemory = SomeHandle();
  call.offset = random_.Below(1024) * 4096;
  call.length = random_.OneIn(4) ? random_.Boundary() : random_.Below(64) * 4096;
  call.dmaOffset = kExternalVa + random_.Below(1024) * 4096;
  Flip(&call, sizeof call);
  rig_.Rm(NV_ESC_RM_MAP_MEMORY_DMA, &call, sizeof call);
}

void Attacker::MutatedHeapCall() {
  NVOS32_PARAMETERS_V550 call{};
  call.hRoot = rig_.client;
  call.hObjectParent = rig_.device;
  static constexpr uint32_t kFunctions[] = {NVOS32_FUNCTION_ALLOC_SIZE, NVOS32_FUNCTION_FREE,
                                            NVOS32_FUNCTION_INFO,
                                            NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR};
  call.function = random_.Of(kFunctions);
  call.data.AllocSize.size = random_.OneIn(3) ? random_.Boundary() : random_.Below(1 << 22);
  call.data.AllocSize.attr = static_cast<uint32_t>(random_.Next());
  Flip(&call, sizeof call);
  rig_.Rm(NV_ESC_RM_VID_HEAP_CONTROL, &call,
          random_.OneIn(2) ? sizeof(NVOS32_PARAMETERS) : sizeof call);
  const uint32_t memory = call.data.AllocSize.hMemory;
  if (call.status == 0 && memory != 0 && random_.OneIn(2)) rig_.Free(memory);
}

void Attacker::MutatedMapping() {
  nv_ioctl_nvos33_parameters_with_fd call{};
  const int file = random_.OneIn(4) ? SomeFile() : open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
  if (file == rig_.control_fd || file == rig_.uvm_fd) return;
  call.params.hClient = rig_.client;
  call.params.hDevice = rig_.device;
  call.params.hMemory = SomeHandle();
  call.params.length = random_.Below(1 << 21);
  call.fd = file;
  Flip(&call.params, sizeof call.params);
  rig_.Rm(NV_ESC_RM_MAP_MEMORY, &call, sizeof call);
  if (file > rig_.uvm_fd && file > rig_.gpu_fd && file > rig_.control_fd) {
    if (random_.OneIn(2)) {
      void* at = mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (at != MAP_FAILED) munmap(at, 1 << 16);
    }
    bool kept = false;
    for (int other : rig_.memory_files) kept |= other == file;
    if (!kept) close(file);
  }
}

void Attacker::MutatedOsDescriptor() {
  nv_ioctl_nvos02_parameters_with_fd call{};
  call.params.hRoot = rig_.client;
  call.params.hObjectParent = rig_.device;
  call.params.hClass = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
  call.params.pMemory = SomePointer();
  call.params.limit = random_.OneIn(3) ? random_.Boundary() : random_.Below(1 << 20);
  Flip(&call, sizeof call);
  rig_.Rm(NV_ESC_RM_ALLOC_MEMORY, &call, sizeof call);
  if (call.params.status == 0 && random_.OneIn(2)) rig_.Free(call.params.hObjectNew);
}

void Attacker::MutatedTransfer() {
  nv_ioctl_xfer_t call{};
  Noise(256);
  call.cmd = random_.Of(kEscapes);
  call.size = random_.OneIn(3) ? static_cast<uint32_t>(random_.Boundary()) : random_.Below(256);
  call.ptr = SomePointer();
  rig_.Rm(NV_ESC_IOCTL_XFER_CMD, &call, sizeof call);
}

void Attacker::MutatedControl() {
  NVOS54_PARAMETERS call{};
  const KnownControl control = random_.Of(kControls);
  Noise(control.size);
  call.hClient = rig_.client;
  call.hObject = random_.OneIn(2) ? rig_.subdevice : SomeHandle();
  call.cmd = control.command;
  call.params = reinterpret_cast<uint64_t>(block_.data());
  call.paramsSize = control.size;
  Flip(&call, sizeof call);
  rig_.Rm(NV_ESC_RM_CONTROL, &call, sizeof call);
}

void Attacker::RandomControl() {
  const KnownControl control = random_.Of(kControls);
  Noise(control.size);
  uint32_t object;
  switch (control.command >> 16) {
    case 0x2080:
    case 0x2081:
      object = rig_.subdevice;
      break;
    case 0x80:
      object = rig_.device;
      break;
    case 0:
      object = rig_.client;
      break;
    case 0x41:
      object = rig_.ring_memory;
      break;
    case 0xa06c:
      object = rig_.group;
      break;
    default:
      object = rig_.channels[random_.Below(kChannels)];
      break;
  }
  if (random_.OneIn(8)) object = SomeHandle();
  // Lists behind pointers: somewhere in the block there may be an address.
  if (random_.OneIn(3) && control.size >= 16) {
    const uint64_t pointer = SomePointer();
    memcpy(block_.data() + random_.Below(control.size / 8) * 8, &pointer, 8);
  }
  rig_.Control(object, control.command, block_.data(), control.size);
}

void Attacker::RandomAlloc() {
  Noise(512);
  const uint32_t class_id =
      random_.OneIn(16) ? static_cast<uint32_t>(random_.Next()) : random_.Of(kClasses);
  // Sizes that ask for a lot of host memory are left to the bombs.
  if (class_id == NV01_MEMORY_SYSTEM || class_id == NV01_MEMORY_LOCAL_USER) {
    const uint64_t size = random_.OneIn(4) ? random_.Boundary() : random_.Below(1 << 22);
    memcpy(block_.data() + offsetof(NV_MEMORY_ALLOCATION_PARAMS, size), &size, 8);
  }
  if (class_id == AMPERE_CHANNEL_GPFIFO_A || class_id == HOPPER_CHANNEL_GPFIFO_A) {
    auto* params = reinterpret_cast<NV_CHANNEL_ALLOC_PARAMS*>(block_.data());
    if (!random_.OneIn(4)) params->hVASpace = rig_.va_space;
    if (!random_.OneIn(4))
      params->hUserdMemory[0] = random_.OneIn(2) ? rig_.tracee_memory : rig_.vidmem;
    if (!random_.OneIn(4)) params->userdOffset[0] = random_.Below(1 << 20) & ~3u;
    if (!random_.OneIn(4)) params->gpFifoEntries = 1 + random_.Below(64);
  }
  uint32_t parent = random_.OneIn(3) ? SomeHandle() : rig_.device;
  const uint32_t handle =
      rig_.Alloc(parent, random_.OneIn(2) ? 0 : SomeHandle(), class_id,
                 random_.OneIn(16) ? reinterpret_cast<void*>(SomePointer()) : block_.data());
  if (handle == 0) return;
  shared->handles[random_.Below(256)] = handle;
  if (rig_.objects.size() < 512) {
    rig_.objects.push_back(handle);
  } else {
    // Not the first, which the rig needs.
    uint32_t& victim = rig_.objects[16 + random_.Below(rig_.objects.size() - 16)];
    rig_.Free(victim);
    victim = handle;
  }
}

void Attacker::Duplicate() {
  NVOS55_PARAMETERS call{};
  call.hClient = rig_.client;
  call.hParent = random_.OneIn(3) ? SomeHandle() : rig_.device;
  call.hClientSrc = random_.OneIn(2) ? rig_.client : SomeHandle();
  call.hObjectSrc = SomeHandle();
  rig_.Rm(NV_ESC_RM_DUP_OBJECT, &call, sizeof call);
  if (call.status == 0 && rig_.objects.size() < 512) rig_.objects.push_back(call.hObject);
  NVOS57_PARAMETERS share{};
  share.hClient = rig_.client;
  share.hObject = SomeHandle();
  rig_.Rm(NV_ESC_RM_SHARE, &share, sizeof share);
}

}  // namespace phantora::hostile
