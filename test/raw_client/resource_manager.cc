#include "test/raw_client/resource_manager.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"

namespace raw {
namespace {

using namespace phantora::abi;  // NOLINT: NVIDIA's names

int Open(const char* path) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
  }
  return file;
}

template <typename Params>
int Escape(int file, uint32_t number, Params& params) {
  return ioctl(file, _IOC(_IOC_READ | _IOC_WRITE, NV_IOCTL_MAGIC, number, sizeof params), &params);
}

uint64_t Pointer(const void* address) { return reinterpret_cast<uint64_t>(address); }

}  // namespace

void Fail(const char* file, int line, const char* what, uint64_t got, uint64_t want) {
  fprintf(stderr, "%s:%d: %s is 0x%llx, not 0x%llx\n", file, line, what,
          static_cast<unsigned long long>(got), static_cast<unsigned long long>(want));
  exit(1);
}

ResourceManager::ResourceManager() : control_(Open("/dev/nvidiactl")) {
  RAW_EXPECT(TryAlloc(0, NV01_ROOT, nullptr, 0, &client_), 0);
}

uint32_t ResourceManager::TryAlloc(uint32_t parent, uint32_t class_id, void* params, uint32_t size,
                                   uint32_t* handle, int file) {
  NVOS64_PARAMETERS call{};
  call.hRoot = client_;
  call.hObjectParent = parent;
  call.hClass = class_id;
  call.pAllocParms = Pointer(params);
  call.paramsSize = size;
  RAW_EXPECT(Escape(file < 0 ? control_ : file, NV_ESC_RM_ALLOC, call), 0);
  *handle = call.hObjectNew;
  return call.status;
}

uint32_t ResourceManager::Free(uint32_t parent, uint32_t handle) {
  NVOS00_PARAMETERS call{};
  call.hRoot = client_;
  call.hObjectParent = parent;
  call.hObjectOld = handle;
  RAW_EXPECT(Escape(control_, NV_ESC_RM_FREE, call), 0);
  return call.status;
}

uint32_t ResourceManager::Control(uint32_t object, uint32_t command, void* params, uint32_t size) {
  NVOS54_PARAMETERS call{};
  call.hClient = client_;
  call.hObject = object;
  call.cmd = command;
  call.params = Pointer(params);
  call.paramsSize = size;
  RAW_EXPECT(Escape(control_, NV_ESC_RM_CONTROL, call), 0);
  return call.status;
}

void* ResourceManager::Map(uint32_t device, uint32_t memory, uint64_t size, const char* file) {
  nv_ioctl_nvos33_parameters_with_fd call{};
  call.fd = Open(file);
  call.params.hClient = client_;
  call.params.hDevice = device;
  call.params.hMemory = memory;
  call.params.length = size;
  RAW_EXPECT(Escape(control_, NV_ESC_RM_MAP_MEMORY, call), 0);
  RAW_EXPECT(call.params.status, 0);
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, call.fd, 0);
  RAW_EXPECT(address == MAP_FAILED, false);
  return address;
}

uint64_t ResourceManager::MapDma(uint32_t device, uint32_t range, uint32_t memory, uint64_t size) {
  NVOS46_PARAMETERS call{};
  call.hClient = client_;
  call.hDevice = device;
  call.hDma = range;
  call.hMemory = memory;
  call.length = size;
  RAW_EXPECT(Escape(control_, NV_ESC_RM_MAP_MEMORY_DMA, call), 0);
  RAW_EXPECT(call.status, 0);
  return call.dmaOffset;
}

uint32_t ResourceManager::UnmapDma(uint32_t device, uint32_t range, uint32_t memory,
                                   uint64_t address) {
  NVOS47_PARAMETERS_V550 call{};
  call.hClient = client_;
  call.hDevice = device;
  call.hDma = range;
  call.hMemory = memory;
  call.dmaOffset = address;
  RAW_EXPECT(Escape(control_, NV_ESC_RM_UNMAP_MEMORY_DMA, call), 0);
  return call.status;
}

int ResourceManager::EventFile(uint32_t device) {
  const int file = Open("/dev/nvidia0");
  nv_ioctl_register_fd_t register_call{};
  register_call.ctl_fd = control_;
  RAW_EXPECT(Escape(file, NV_ESC_REGISTER_FD, register_call), 0);
  nv_ioctl_alloc_os_event_t call{};
  call.hClient = client_;
  call.hDevice = device;
  call.fd = file;
  RAW_EXPECT(Escape(file, NV_ESC_ALLOC_OS_EVENT, call), 0);
  RAW_EXPECT(call.Status, 0);
  return file;
}

}  // namespace raw
