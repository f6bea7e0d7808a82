// A client of NVIDIA's driver that has none of NVIDIA's libraries: objects, memory, semaphores,
// copies, a kernel, an interrupt and a fault. Prints what it has seen; ends with 1 at what is
// wrong.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "test/raw_client/gpu.h"
#include "test/raw_client/kernel.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/abi/methods.h"

namespace raw {
namespace {

using namespace phantora::abi;  // NOLINT: NVIDIA's names

constexpr uint32_t kMmuFault = 31;  // ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT, "Xid 31"

uint32_t Low(uint64_t address) { return static_cast<uint32_t>(address); }
uint32_t High(uint64_t address) { return static_cast<uint32_t>(address >> 32); }

void PrintIdentity(Gpu& gpu) {
  NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS version{};
  RAW_EXPECT(
      gpu.rm().Control(gpu.rm().client(), NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2, version), 0);
  NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS name{};
  RAW_EXPECT(gpu.rm().Control(gpu.subdevice(), NV2080_CTRL_CMD_GPU_GET_NAME_STRING, name), 0);
  printf("%s, driver %s\n", reinterpret_cast<const char*>(name.gpuNameString.ascii),
         version.driverVersionBuffer);
}

// Objects know their parents and classes, and go with them.
void CheckObjects(Gpu& gpu) {
  ResourceManager& rm = gpu.rm();
  NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS info{};
  info.hObject = gpu.subdevice();
  info.index = NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_PARENT;
  RAW_EXPECT(rm.Control(rm.client(), NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, info), 0);
  RAW_EXPECT(info.data.hResult, gpu.device());
  info.index = NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID;
  RAW_EXPECT(rm.Control(rm.client(), NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO, info), 0);
  RAW_EXPECT(info.data.iResult, NV20_SUBDEVICE_0);
  uint32_t handle = 0;
  RAW_EXPECT(rm.TryAlloc(gpu.device(), 0xdead, nullptr, 0, &handle), NV_ERR_INVALID_CLASS);
  RAW_EXPECT(rm.Control(0xbad, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, info), NV_ERR_INVALID_ARGUMENT);
  NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS name{};
  RAW_EXPECT(rm.Control(0xbad, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, name), NV_ERR_OBJECT_NOT_FOUND);
  RAW_EXPECT(rm.Control(gpu.device(), NV2080_CTRL_CMD_GPU_GET_NAME_STRING, name),
             NV_ERR_NOT_SUPPORTED);
  printf("objects\n");
}

// Ranges of virtual addresses: what is reserved is not given, and what is unmapped is free again.
void CheckAddresses(Gpu& gpu) {
  ResourceManager& rm = gpu.rm();
  NV_MEMORY_ALLOCATION_PARAMS_V545 reserved{};
  reserved.owner = rm.client();
  reserved.size = 4 << 20;
  reserved.alignment = 2 << 20;
  reserved.flags = NVOS32_ALLOC_FLAGS_VIRTUAL;
  const uint32_t range = rm.Alloc(gpu.device(), NV50_MEMORY_VIRTUAL, reserved);
  RAW_EXPECT(reserved.offset % (2 << 20), 0);
  const Buffer other = gpu.VideoMemory(2 << 20);
  RAW_EXPECT(other.address + other.size <= reserved.offset ||
                 other.address >= reserved.offset + reserved.size,
             true);
  const uint64_t inside = rm.MapDma(gpu.device(), range, other.handle, other.size);
  RAW_EXPECT(inside, reserved.offset);
  RAW_EXPECT(rm.UnmapDma(gpu.device(), range, other.handle, inside), 0);
  RAW_EXPECT(rm.UnmapDma(gpu.device(), range, other.handle, inside), NV_ERR_OBJECT_NOT_FOUND);
  RAW_EXPECT(rm.Free(gpu.device(), range), 0);
  printf("addresses\n");
}

void Copy(Channel& copy, uint64_t to, uint64_t from, uint32_t bytes) {
  constexpr uint32_t kNonPipelined = 2, kFlush = 1 << 2, kPitch = 1 << 7 | 1 << 8;
  copy.Push(0, copy::kOffsetInUpper, {High(from), Low(from), High(to), Low(to)});
  copy.Push(0, copy::kLineLengthIn, {bytes, 1});
  copy.Push(0, copy::kLaunchDma, {kNonPipelined | kFlush | kPitch});
}

void CheckCopies(Gpu& gpu, Channel& copy) {
  constexpr uint32_t kBytes = 1 << 20;
  const Buffer host = gpu.SystemMemory(2 * kBytes), device = gpu.VideoMemory(kBytes);
  for (uint32_t i = 0; i < kBytes / 4; ++i) host.words[i] = i * 2654435761u;
  Copy(copy, device.address, host.address, kBytes);
  Copy(copy, host.address + kBytes, device.address, kBytes);
  RAW_EXPECT(copy.SubmitAndWait(), true);
  for (uint32_t i = 0; i < kBytes / 4; ++i) {
    RAW_EXPECT(device.words[i], host.words[i]);
    RAW_EXPECT(host.words[kBytes / 4 + i], host.words[i]);
  }
  printf("copies\n");
}

void CheckKernel(Gpu& gpu, Channel& compute) {
  constexpr uint32_t kBlocks = 7, kThreads = 96, kValue = 1000;
  const Buffer out = gpu.VideoMemory(kBlocks * kThreads * 4);
  LaunchStore(gpu, compute, out.address, kValue, kBlocks, kThreads);
  RAW_EXPECT(compute.SubmitAndWait(), true);
  for (uint32_t i = 0; i < kBlocks * kThreads; ++i) RAW_EXPECT(out.words[i], kValue + i);
  printf("kernel\n");
}

// An interrupt wakes who polls a device file for it.
void CheckEvent(Gpu& gpu, Channel& compute) {
  ResourceManager& rm = gpu.rm();
  const int file = rm.EventFile(gpu.device());
  NV0005_ALLOC_PARAMETERS event{};
  event.hParentClient = rm.client();
  event.hSrcResource = gpu.subdevice();
  event.hClass = NV01_EVENT_OS_EVENT;
  event.notifyIndex = NV2080_NOTIFIERS_GRAPHICS | NV01_EVENT_NONSTALL_INTR;
  event.data = static_cast<uint64_t>(file);
  const uint32_t handle = rm.Alloc(gpu.subdevice(), NV01_EVENT_OS_EVENT, event);
  pollfd poll_file = {file, POLLIN, 0};
  RAW_EXPECT(poll(&poll_file, 1, 0), 0);
  compute.Push(0, host::kNonStallInterrupt, {0});
  compute.Submit();
  RAW_EXPECT(poll(&poll_file, 1, 10'000), 1);
  RAW_EXPECT(rm.Free(gpu.subdevice(), handle), 0);
  close(file);
  printf("event\n");
}

// A fault ends the channel, which says so, and no other.
void CheckFault(Gpu& gpu, Channel& copy, Channel& compute) {
  Copy(copy, uint64_t{1} << 45, copy.handle(), 64);
  RAW_EXPECT(copy.SubmitAndWait(), false);
  RAW_EXPECT(copy.Error(), kMmuFault);
  CheckKernel(gpu, compute);
  printf("fault\n");
}

int Main() {
  ResourceManager rm;
  Gpu gpu(rm);
  PrintIdentity(gpu);
  CheckObjects(gpu);
  CheckAddresses(gpu);
  const bool hopper = gpu.Has(HOPPER_COMPUTE_A);
  Channel compute(gpu, NV2080_ENGINE_TYPE_GRAPHICS, hopper ? HOPPER_COMPUTE_A : AMPERE_COMPUTE_A);
  Channel copy(gpu, NV2080_ENGINE_TYPE_COPY0 + 2, hopper ? HOPPER_DMA_COPY_A : AMPERE_DMA_COPY_A);
  CheckCopies(gpu, copy);
  CheckKernel(gpu, compute);
  CheckEvent(gpu, compute);
  CheckFault(gpu, copy, compute);
  printf("all of it\n");
  return 0;
}

}  // namespace
}  // namespace raw

int main() { return raw::Main(); }
