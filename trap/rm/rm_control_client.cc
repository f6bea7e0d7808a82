// Controls of the root object and of memory that no library makes, but clients of their own do:
// what else the machine has, and what a client knows of its objects (ctrl0000*.h, ctrl0041.h). As
// rmapi/client_resource.c answers them on a server without bridges, displays and virtual GPUs.
#include <algorithm>
#include <iterator>

#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"
#include "trap/rm/share_list.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr uint32_t kNoId = ~0u;

// The board below the emulated GPUs is nobody's: the driver says so of a chipset that it does not
// know.
uint32_t Chipset(ControlCall&, NV0000_CTRL_SYSTEM_GET_CHIPSET_INFO_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  params.vendorId = params.deviceId = params.subSysVendorId = params.subSysDeviceId = 0xffff;
  params.HBvendorId = params.HBdeviceId = params.HBsubSysVendorId = params.HBsubSysDeviceId =
      0xffff;
  for (auto* name : {&params.vendorNameString, &params.subSysVendorNameString,
                     &params.chipsetNameString, &params.sliBondNameString}) {
    CopyText(*name, "Unknown");
  }
  return NV_OK;
}

// Classes whose objects lie below the client itself (resource_list.h).
uint32_t SystemClasses(ControlCall&, NV0000_CTRL_SYSTEM_GET_CLASSLIST_PARAMS& params) {
  static constexpr uint32_t kClasses[] = {0xf,    0x20,   0x60,   0x80,   0xe0,   0xf1,
                                          0xf9,   0xfb,   0xfd,   0x30f1, 0x503b, 0x900e,
                                          0x90cd, 0x90ce, 0xc639, 0xc640, 0xcb33};
  static_assert(sizeof kClasses <= sizeof params.classes);
  std::memset(&params, 0, sizeof params);
  params.numClasses = std::size(kClasses);
  std::copy(std::begin(kClasses), std::end(kClasses), params.classes);
  return NV_OK;
}

uint32_t Bridges(ControlCall&, NV0000_CTRL_SYSTEM_GET_HWBC_INFO_PARAMS& params) {
  for (auto& bridge : params.hwbcInfo) bridge.hwbcId = kNoId;
  return NV_OK;
}

// External power is connected: 0.
uint32_t PowerStatus(ControlCall& call, NV0000_CTRL_SYSTEM_GET_GPUS_POWER_STATUS_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  for (const Gpu& gpu : call.machine().gpus) {
    if (params.gpuCount == std::size(params.gpuBus)) break;
    params.gpuBus[params.gpuCount++] = static_cast<uint8_t>(gpu.bus);
  }
  return NV_OK;
}

uint32_t InitStatus(ControlCall& call, NV0000_CTRL_GPU_GET_INIT_STATUS_PARAMS& params) {
  if (call.machine().GpuById(params.gpuId) == nullptr) return NV_ERR_INVALID_ARGUMENT;
  params.status = NV_OK;
  return NV_OK;
}

uint32_t VideoLinks(ControlCall& call, NV0000_CTRL_GPU_GET_VIDEO_LINKS_PARAMS& params) {
  std::memset(&params, 0xff, sizeof params);
  const auto& gpus = call.machine().gpus;
  if (gpus.size() < 2) return NV_OK;
  for (size_t i = 0; i < std::min<size_t>(gpus.size(), 8); ++i)
    params.links[i].gpuId = gpus[i].id();
  return NV_OK;
}

uint32_t SvmSize(ControlCall& call, NV0000_CTRL_GPU_GET_SVM_SIZE_PARAMS& params) {
  if (call.machine().GpuById(params.gpuId) == nullptr) return NV_ERR_INVALID_ARGUMENT;
  params.svmSize = 0;
  return NV_OK;
}

uint32_t UuidInfo(ControlCall& call, NV0000_CTRL_GPU_GET_UUID_INFO_PARAMS& params) {
  if ((params.flags & NV0000_CTRL_CMD_GPU_GET_UUID_INFO_FLAGS_TYPE_MASK) != 0) {
    return NV_ERR_OBJECT_NOT_FOUND;
  }
  const bool binary = (params.flags & NV0000_CTRL_CMD_GPU_GET_UUID_INFO_FLAGS_FORMAT_MASK) ==
                      NV0000_CTRL_CMD_GPU_GET_UUID_INFO_FLAGS_FORMAT_BINARY;
  for (const Gpu& gpu : call.machine().gpus) {
    const std::string text = gpu.uuid_text();
    const bool same = binary ? std::memcmp(params.gpuUuid, gpu.uuid.data(), gpu.uuid.size()) == 0
                             : std::memcmp(params.gpuUuid, text.c_str(), text.size() + 1) == 0;
    if (!same) continue;
    params.gpuId = gpu.id();
    params.deviceInstance = static_cast<uint32_t>(gpu.index);
    params.subdeviceInstance = 0;
    return NV_OK;
  }
  return NV_ERR_OBJECT_NOT_FOUND;
}

uint32_t BoostInfo(ControlCall&, NV0000_SYNC_GPU_BOOST_INFO_PARAMS& params) {
  params.bEnabled = 1;
  return NV_OK;
}

uint32_t HandleInfo(ControlCall& call, NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS& params) {
  const RmObject* object = call.client.Find(params.hObject);
  if (object == nullptr) return NV_ERR_OBJECT_NOT_FOUND;
  switch (params.index) {
    case NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_PARENT:
      params.data.hResult = object->handle == call.client.handle() ? 0 : object->parent;
      return NV_OK;
    case NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID:
      params.data.iResult = object->class_id;
      return NV_OK;
    default:
      return NV_ERR_INVALID_ARGUMENT;
  }
}

// Of a client's own objects; what others have shared is not told.
uint32_t AccessRights(ControlCall& call, NV0000_CTRL_CLIENT_GET_ACCESS_RIGHTS_PARAMS& params) {
  if (params.hClient != call.client.handle()) return NV_ERR_INVALID_CLIENT;
  const RmObject* object = call.client.Find(params.hObject);
  if (object == nullptr) return NV_ERR_OBJECT_NOT_FOUND;
  params.maskResult.limbs[0] = object->owner_rights;
  return NV_OK;
}

uint32_t AreDuplicates(ControlCall& call,
                       NV0000_CTRL_CLIENT_OBJECTS_ARE_DUPLICATES_PARAMS& params) {
  const RmObject* one = call.client.Find(params.hObject1);
  if (one == nullptr) return NV_ERR_OBJECT_NOT_FOUND;
  const auto memory = one->As<MemoryResource>();
  if (memory == nullptr) return NV_ERR_NOT_SUPPORTED;
  const RmObject* other = call.client.Find(params.hObject2);
  if (other == nullptr) return NV_ERR_OBJECT_NOT_FOUND;
  const auto other_memory = other->As<MemoryResource>();
  if (other_memory == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  params.bDuplicates = memory->memory == other_memory->memory ? 1 : 0;
  return NV_OK;
}

// The driver keeps no messages unless it is told to when it is loaded.
uint32_t Messages(ControlCall&, NV0000_CTRL_SYSTEM_DEBUG_RMMSG_CTRL_PARAMS& params) {
  if (params.cmd > 1) return NV_ERR_INVALID_ARGUMENT;
  if (params.cmd == 1) return NV_ERR_INSUFFICIENT_PERMISSIONS;  // to set what is kept
  params.count = 0;
  return NV_OK;
}

// Calls to the firmware are not counted: there is none.
uint32_t ProfileCalls(ControlCall&, NV0000_CTRL_DIAG_PROFILE_RPC_PARAMS& params) {
  return params.rpcProfileCmd > 2 ? NV_ERR_INVALID_ARGUMENT : NV_OK;
}
uint32_t DumpCalls(ControlCall&, NV0000_CTRL_DIAG_DUMP_RPC_PARAMS& params) {
  if (params.firstEntryOffset != 0) return NV_ERR_INVALID_ARGUMENT;
  params.outputEntryCount = params.remainingEntryCount = 0;
  params.elapsedTimeInNs = 0;
  return NV_OK;
}

// Nobody has an event of the client itself, only of GPUs.
uint32_t SetNotification(ControlCall&, NV0000_CTRL_EVENT_SET_NOTIFICATION_PARAMS& params) {
  constexpr uint32_t kEvents = 5;
  return params.event >= kEvents ? NV_ERR_INVALID_ARGUMENT : NV_ERR_INVALID_STATE;
}

// Accounting is off.
uint32_t Accounting(ControlCall& call,
                    NV0000_CTRL_GPUACCT_GET_PROC_ACCOUNTING_INFO_PARAMS& params) {
  return call.machine().GpuById(params.gpuId) == nullptr ? NV_ERR_INVALID_ARGUMENT
                                                         : NV_ERR_OBJECT_NOT_FOUND;
}

uint32_t PageSize(ControlCall& call, NV0041_CTRL_GET_MEM_PAGE_SIZE_PARAMS& params) {
  const auto memory = call.object.As<MemoryResource>();
  if (memory == nullptr) return NV_ERR_NOT_SUPPORTED;
  params.pageSize =
      PageSizeFor(0, memory->memory->kind() == MemoryKind::kVidmem, memory->memory->size());
  return NV_OK;
}

uint32_t SetTag(ControlCall& call, NV0041_CTRL_CMD_SET_TAG_PARAMS& params) {
  const auto memory = call.object.As<MemoryResource>();
  if (memory == nullptr) return NV_ERR_NOT_SUPPORTED;
  memory->tag = params.tag;
  return NV_OK;
}
uint32_t Tag(ControlCall& call, NV0041_CTRL_CMD_GET_TAG_PARAMS& params) {
  const auto memory = call.object.As<MemoryResource>();
  if (memory == nullptr) return NV_ERR_NOT_SUPPORTED;
  params.tag = memory->tag;
  return NV_OK;
}

// Of confidential computing, which is off: its controls name a subdevice of the client first.
uint32_t CheckSubdevice(ControlCall& call, uint32_t handle) {
  const RmObject* object = call.client.Find(handle);
  if (object == nullptr) return NV_ERR_OBJECT_NOT_FOUND;
  return object->class_id == NV20_SUBDEVICE_0 ? NV_OK : NV_ERR_INVALID_OBJECT_HANDLE;
}
uint32_t ProtectedMemory(ControlCall& call,
                         NV_CONF_COMPUTE_CTRL_CMD_GPU_GET_VIDMEM_SIZE_PARAMS& params) {
  if (const uint32_t status = CheckSubdevice(call, params.hSubDevice); status != NV_OK) {
    return status;
  }
  params.protectedMemSizeInKb = 0;
  params.unprotectedMemSizeInKb = call.machine().gpus[0].heap->capacity() >> 10;
  return NV_OK;
}
uint32_t SecureChannels(ControlCall& call,
                        NV_CONF_COMPUTE_CTRL_CMD_GPU_GET_NUM_SECURE_CHANNELS_PARAMS& params) {
  if (const uint32_t status = CheckSubdevice(call, params.hSubDevice); status != NV_OK) {
    return status;
  }
  params.maxSec2Channels = params.maxCeChannels = 0;
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    Control<Messages>(NV0000_CTRL_CMD_SYSTEM_DEBUG_RMMSG_CTRL),
    Control<ProfileCalls>(NV0000_CTRL_CMD_DIAG_PROFILE_RPC),
    Control<DumpCalls>(NV0000_CTRL_CMD_DIAG_DUMP_RPC),
    Control<SetNotification>(NV0000_CTRL_CMD_EVENT_SET_NOTIFICATION),
    Control<Accounting>(NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO),
    Control<PageSize>(NV0041_CTRL_CMD_GET_MEM_PAGE_SIZE),
    Control<SetTag>(NV0041_CTRL_CMD_SET_TAG),
    Control<Tag>(NV0041_CTRL_CMD_GET_TAG),
    Control<ProtectedMemory>(NV_CONF_COMPUTE_CTRL_CMD_GPU_GET_VIDMEM_SIZE),
    Control<SecureChannels>(NV_CONF_COMPUTE_CTRL_CMD_GPU_GET_NUM_SECURE_CHANNELS),
    Control<Chipset>(NV0000_CTRL_CMD_SYSTEM_GET_CHIPSET_INFO),
    Control<SystemClasses>(NV0000_CTRL_CMD_SYSTEM_GET_CLASSLIST),
    Control<Bridges>(NV0000_CTRL_CMD_SYSTEM_GET_HWBC_INFO),
    Control<PowerStatus>(NV0000_CTRL_CMD_SYSTEM_GET_GPUS_POWER_STATUS),
    Control<InitStatus>(NV0000_CTRL_CMD_GPU_GET_INIT_STATUS),
    Control<VideoLinks>(NV0000_CTRL_CMD_GPU_GET_VIDEO_LINKS),
    Control<SvmSize>(NV0000_CTRL_CMD_GPU_GET_SVM_SIZE),
    Control<UuidInfo>(NV0000_CTRL_CMD_GPU_GET_UUID_INFO),
    Control<BoostInfo>(NV0000_CTRL_CMD_SYNC_GPU_BOOST_INFO),
    Control<HandleInfo>(NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO),
    Control<AccessRights>(NV0000_CTRL_CMD_CLIENT_GET_ACCESS_RIGHTS),
    Control<AreDuplicates>(NV0000_CTRL_CMD_CLIENT_OBJECTS_ARE_DUPLICATES),
};

}  // namespace

absl::Span<const ControlRow> ClientControls() { return kRows; }

}  // namespace phantora
