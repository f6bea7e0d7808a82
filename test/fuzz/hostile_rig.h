// Everything that submitting work to a GPU needs.
#ifndef PHANTORA_TEST_FUZZ_HOSTILE_RIG_H_
#define PHANTORA_TEST_FUZZ_HOSTILE_RIG_H_

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/fuzz/hostile_shared.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/abi/methods.h"

namespace phantora::hostile {

using namespace abi;  // NOLINT: NVIDIA's names

inline constexpr uint64_t kRingBytes = 4 << 20;
inline constexpr uint64_t kRingVa = 0x1000000000;
inline constexpr uint64_t kVidmemBytes = 8 << 20;
inline constexpr uint64_t kVidmemVa = 0x2000000000;
inline constexpr uint64_t kExternalVa = 0x3000000000;
inline constexpr uint64_t kTraceeVa = 0x3800000000;
inline constexpr uint32_t kRingEntries = 512;
// Offsets in the ring memory.
inline constexpr uint64_t kGpfifoAt = 0x0, kUserdAt = 0x8000, kNotifierAt = 0x10000,
                          kPushAt = 0x40000, kSemaphoresAt = 0x20000, kQmdsAt = 0x30000;
inline constexpr int kChannels = 4;

class Rig {
 public:
  Rig(uint64_t seed, bool hopper) : random(seed), hopper(hopper) {}

  int Rm(uint32_t number, void* block, uint32_t size) {
    return ioctl(control_fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', number, size), block);
  }
  uint32_t Alloc(uint32_t parent, uint32_t handle, uint32_t class_id, void* params,
                 uint32_t params_size = 0) {
    NVOS64_PARAMETERS call{};
    call.hRoot = client;
    call.hObjectParent = parent;
    call.hObjectNew = handle;
    call.hClass = class_id;
    call.pAllocParms = reinterpret_cast<uint64_t>(params);
    call.paramsSize = params_size;
    if (Rm(NV_ESC_RM_ALLOC, &call, sizeof call) != 0) return 0;
    return call.status == 0 ? call.hObjectNew : 0;
  }
  uint32_t Control(uint32_t object, uint32_t command, void* params, uint32_t size) {
    NVOS54_PARAMETERS call{};
    call.hClient = client;
    call.hObject = object;
    call.cmd = command;
    call.params = reinterpret_cast<uint64_t>(params);
    call.paramsSize = size;
    return Rm(NV_ESC_RM_CONTROL, &call, sizeof call) == 0 ? call.status : ~0u;
  }
  void Free(uint32_t object) {
    NVOS00_PARAMETERS call{};
    call.hRoot = client;
    call.hObjectOld = object;
    Rm(NV_ESC_RM_FREE, &call, sizeof call);
  }
  uint32_t AllocMemory(uint32_t class_id, uint64_t size) {
    NV_MEMORY_ALLOCATION_PARAMS_V545 params{};  // longer than 535's
    params.size = size;
    return Alloc(device, 0, class_id, &params);
  }
  void* MapToHost(uint32_t memory, uint64_t size) {
    const int file = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
    nv_ioctl_nvos33_parameters_with_fd call{};
    call.params.hClient = client;
    call.params.hDevice = device;
    call.params.hMemory = memory;
    call.params.length = size;
    call.fd = file;
    void* mapped = MAP_FAILED;
    if (file >= 0 && Rm(NV_ESC_RM_MAP_MEMORY, &call, sizeof call) == 0 && call.params.status == 0) {
      mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    // Kept for tricks with the memfd; some are closed.
    if (file >= 0) {
      if (memory_files.size() < 32)
        memory_files.push_back(file);
      else
        close(file);
    }
    return mapped == MAP_FAILED ? nullptr : mapped;
  }
  bool MapToGpu(uint32_t memory, uint64_t va, uint64_t length, uint64_t offset = 0) {
    // 580 has a longer block, and knows the older one by no name.
    return MapToGpuAs<NVOS46_PARAMETERS>(memory, va, length, offset) ||
           MapToGpuAs<NVOS46_PARAMETERS_V580>(memory, va, length, offset);
  }
  template <typename Params>
  bool MapToGpuAs(uint32_t memory, uint64_t va, uint64_t length, uint64_t offset) {
    Params call{};
    call.hClient = client;
    call.hDevice = device;
    call.hDma = va_space;
    call.hMemory = memory;
    call.offset = offset;
    call.length = length;
    call.dmaOffset = va;
    return Rm(NV_ESC_RM_MAP_MEMORY_DMA, &call, sizeof call) == 0 && call.status == 0;
  }

  bool Build();
  bool MakeChannel(int index);
  void Submit(int channel, uint64_t at, uint32_t words);

  Random random;
  const bool hopper;
  int control_fd = -1, gpu_fd = -1, uvm_fd = -1;
  uint32_t client = 0, device = 0, subdevice = 0, va_space = 0, group = 0, usermode = 0;
  uint32_t ring_memory = 0, vidmem = 0, tracee_memory = 0;
  uint8_t* ring = nullptr;
  uint8_t* vidmem_host = nullptr;
  uint8_t* own = nullptr;  // given to the GPU as an OS descriptor
  volatile uint32_t* doorbell = nullptr;
  uint32_t channels[kChannels] = {};
  uint32_t put[kChannels] = {};
  NvUuid uuid{};
  std::vector<int> memory_files;
  std::vector<uint32_t> objects;  // handles to play with
};

inline constexpr uint64_t kOwnBytes = 1 << 20;

}  // namespace phantora::hostile

#endif  // PHANTORA_TEST_FUZZ_HOSTILE_RIG_H_
