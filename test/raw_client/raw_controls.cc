// Makes every control that the published driver has for anyone, with a block of zeros of the right
// size, on an object of the class that it is for, and prints the number, the class and the status
// of each.
#include <stdio.h>

#include <map>
#include <vector>

#include "test/raw_client/gpu.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/rm/control_exports.h"

namespace raw {
namespace {

using namespace phantora::abi;  // NOLINT: NVIDIA's names
using phantora::ControlAccess;
using phantora::ControlExport;
using phantora::RmInternalClass;

constexpr int kBranch = 550;

const char* NameOf(RmInternalClass exporter) {
  static constexpr const char* kNames[] = {
#define RM_CLASS(name) #name,
#define RM_OBJECTS(number, since, ...)
#define RM_EXPORT(command, since, exporter, access, by_firmware, size_first, rights, size)
#include "trap/abi/generated/rm_exports.inc"
  };
  return kNames[static_cast<size_t>(exporter)];
}

int Main() {
  ResourceManager rm;
  Gpu gpu(rm);
  const bool hopper = gpu.Has(HOPPER_COMPUTE_A);
  Channel channel(gpu, NV2080_ENGINE_TYPE_GRAPHICS, hopper ? HOPPER_COMPUTE_A : AMPERE_COMPUTE_A);
  const Buffer memory = gpu.VideoMemory(1 << 20);
  NV83DE_ALLOC_PARAMETERS debugger{};
  debugger.hAppClient = rm.client();
  debugger.hClass3dObject = channel.object();
  NV_VASPACE_ALLOCATION_PARAMETERS space{};
  const std::map<RmInternalClass, uint32_t> objects = {
      {RmInternalClass::kRmClientResource, rm.client()},
      {RmInternalClass::kDevice, gpu.device()},
      {RmInternalClass::kSubdevice, gpu.subdevice()},
      {RmInternalClass::kMemory, memory.handle},
      {RmInternalClass::kKernelChannel, channel.handle()},
      {RmInternalClass::kKernelChannelGroupApi, channel.group()},
      {RmInternalClass::kKernelSMDebuggerSession, rm.Alloc(gpu.device(), GT200_DEBUGGER, debugger)},
      {RmInternalClass::kConfidentialComputeApi, rm.Alloc(rm.client(), NV_CONFIDENTIAL_COMPUTE)},
      {RmInternalClass::kGenericEngineApi, rm.Alloc(gpu.subdevice(), GF100_SUBDEVICE_MASTER)},
      {RmInternalClass::kDiagApi, rm.Alloc(gpu.subdevice(), NV20_SUBDEVICE_DIAG)},
      {RmInternalClass::kTimerApi, rm.Alloc(gpu.subdevice(), NV01_TIMER)},
      {RmInternalClass::kVaSpaceApi, rm.Alloc(gpu.device(), FERMI_VASPACE_A, space)},
  };
  std::map<std::pair<uint32_t, RmInternalClass>, ControlExport> exports;
  for (const ControlExport& row : phantora::AllExports()) {
    if (row.since <= kBranch) exports[{row.command, row.exporter}] = row;
  }
  for (const auto& [key, row] : exports) {
    const auto object = objects.find(row.exporter);
    if (row.access != ControlAccess::kAnyone || object == objects.end()) continue;
    std::vector<uint32_t> block(row.size / 4 + 1);
    const uint32_t status =
        rm.Control(object->second, row.command, row.size == 0 ? nullptr : block.data(), row.size);
    printf("0x%x\t%s\t%s\n", row.command, NameOf(row.exporter), NvStatusName(status));
  }
  return 0;
}

}  // namespace
}  // namespace raw

int main() { return raw::Main(); }
