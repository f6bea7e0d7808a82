// Controls of the root object (ctrl0000*.h): the machine and its GPUs.
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"
#include "trap/rm/rm_sharing.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

std::string TitleOf(const std::string& version) {
  return "NVIDIA UNIX Open Kernel Module for x86_64  " + version;
}

uint32_t BuildVersion(ControlCall& call, NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS& params) {
  const std::string& version = call.machine().driver.text;
  const std::string title = TitleOf(version);
  const auto write = [&](uint64_t pointer, const std::string& text) {
    return pointer == 0 ||
           (text.size() < params.sizeOfStrings &&
            call.call.memory().Write(RemoteAddress{pointer}, text.c_str(), text.size() + 1));
  };
  if (!write(params.pDriverVersionBuffer, version) || !write(params.pVersionBuffer, version) ||
      !write(params.pTitleBuffer, title)) {
    return NV_ERR_INVALID_POINTER;
  }
  params.changelistNumber = params.officialChangelistNumber = 0;
  return NV_OK;
}

// The same without pointers. Every release names the branch that it was built from (nvBldVer.h);
// here it is the first of them.
template <typename Params>
uint32_t BuildVersionInline(ControlCall& call, Params& params) {
  const std::string& version = call.machine().driver.text;
  CopyText(params.driverVersionBuffer, version);
  CopyText(params.versionBuffer, version);
  CopyText(params.titleBuffer, TitleOf(version));
  if constexpr (requires { params.driverBranch; }) {
    CopyText(params.driverBranch, "r" + version.substr(0, version.find('.')) + "_00");
  }
  params.changelistNumber = params.officialChangelistNumber = 0;
  return NV_OK;
}

uint32_t AddressSpaceType(ControlCall& call,
                          NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS& params) {
  RmObject* object = call.client.Find(params.hObject);
  if (object == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  params.addrSpaceType = NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_SYSMEM;
  if (auto resource = object->As<MemoryResource>()) {
    if (resource->memory->kind() == MemoryKind::kVidmem) {
      params.addrSpaceType = NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_VIDMEM;
    }
  } else if (object->As<DoorbellResource>() != nullptr) {
    params.addrSpaceType = NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_REGMEM;
  }
  return NV_OK;
}

template <size_t N>
void FillIds(ControlCall& call, uint32_t (&ids)[N]) {
  for (size_t i = 0; i < N; ++i) {
    ids[i] =
        i < call.machine().gpus.size() ? call.machine().gpus[i].id() : NV0000_CTRL_GPU_INVALID_ID;
  }
}

uint32_t AttachedIds(ControlCall& call, NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS& params) {
  FillIds(call, params.gpuIds);
  return NV_OK;
}

template <typename Params>
uint32_t ProbedIds(ControlCall& call, Params& params) {
  FillIds(call, params.gpuIds);
  for (uint32_t& id : params.excludedGpuIds) id = NV0000_CTRL_GPU_INVALID_ID;
  if constexpr (requires { params.gpuFlags; }) {
    for (uint32_t& flags : params.gpuFlags) flags = 0;
  }
  return NV_OK;
}

// Whole GPUs: there are no MIG instances (gpu_mgr.c gpumgrCacheGetActiveDeviceIds).
uint32_t ActiveDeviceIds(ControlCall& call, NV0000_CTRL_GPU_GET_ACTIVE_DEVICE_IDS_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  for (const Gpu& gpu : call.machine().gpus) {
    if (params.numDevices == std::size(params.devices)) break;
    params.devices[params.numDevices++] = {gpu.id(), NV0000_CTRL_GPU_INVALID_ID,
                                           NV0000_CTRL_GPU_INVALID_ID};
  }
  return NV_OK;
}

uint32_t DeviceIds(ControlCall& call, NV0000_CTRL_GPU_GET_DEVICE_IDS_PARAMS& params) {
  params.deviceIds = (1u << call.machine().gpus.size()) - 1;
  return NV_OK;
}

template <typename Params>
uint32_t IdInfo(ControlCall& call, Params& params) {
  const Gpu* gpu = call.machine().GpuById(params.gpuId);
  if (gpu == nullptr) return NV_ERR_INVALID_ARGUMENT;
  params.gpuFlags = 0;
  params.deviceInstance = gpu->index;
  params.subDeviceInstance = 0;
  params.sliStatus = 0;
  params.boardId = gpu->id();
  params.gpuInstance = gpu->index;
  params.numaId = -1;
  return NV_OK;
}

uint32_t PciInfo(ControlCall& call, NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS& params) {
  const Gpu* gpu = call.machine().GpuById(params.gpuId);
  if (gpu == nullptr) return NV_ERR_INVALID_ARGUMENT;
  params.domain = 0;
  params.bus = static_cast<uint16_t>(gpu->bus);
  params.slot = 0;
  return NV_OK;
}

uint32_t UuidFromId(ControlCall& call, NV0000_CTRL_GPU_GET_UUID_FROM_GPU_ID_PARAMS& params) {
  const Gpu* gpu = call.machine().GpuById(params.gpuId);
  if (gpu == nullptr) return NV_ERR_INVALID_ARGUMENT;
  if ((params.flags & 2) != 0) {  // FORMAT_BINARY
    std::memset(params.gpuUuid, 0, sizeof params.gpuUuid);
    std::memcpy(params.gpuUuid, gpu->uuid.data(), gpu->uuid.size());
    params.uuidStrLen = gpu->uuid.size();
  } else {
    CopyText(params.gpuUuid, gpu->uuid_text());
    params.uuidStrLen = gpu->uuid_text().size() + 1;
  }
  return NV_OK;
}

uint32_t DrainState(ControlCall& call, NV0000_CTRL_GPU_QUERY_DRAIN_STATE_PARAMS& params) {
  if (call.machine().GpuById(params.gpuId) == nullptr) return NV_ERR_INVALID_ARGUMENT;
  params.drainState = NV0000_CTRL_GPU_DRAIN_STATE_DISABLED;
  params.flags = 0;
  return NV_OK;
}

uint32_t MemopEnable(ControlCall&, NV0000_CTRL_GPU_GET_MEMOP_ENABLE_PARAMS& params) {
  // Stream memory operations of the second version need no switch.
  params.enableMask = 0;
  return NV_OK;
}

uint32_t Features(ControlCall&, NV0000_CTRL_SYSTEM_GET_FEATURES_PARAMS& params) {
  // As an H100 answers (client_resource.c).
  params.featuresMask = NV0000_CTRL_SYSTEM_GET_FEATURES_UUID_BASED_MEM_SHARING_MASK;
  return NV_OK;
}

// Confidential computing is off (ctrlcb33.h), which Hopper is capable of.
template <typename Params>
uint32_t ConfidentialCapabilities(ControlCall& call, Params& params) {
  std::memset(&params, 0, sizeof params);
  if (call.profile().architecture == GpuProfile::Architecture::kHopper) {
    params.gpusCapability = NV_CONF_COMPUTE_SYSTEM_GPUS_CAPABILITY_HCC;
  }
  return NV_OK;
}

uint32_t FabricStatus(ControlCall&, NV0000_CTRL_SYSTEM_GET_FABRIC_STATUS_PARAMS& params) {
  // The fabric manager has nothing to wait for.
  params.fabricStatus = NV0000_CTRL_GET_SYSTEM_FABRIC_STATUS_SKIP;
  return NV_OK;
}

template <typename Params>
uint32_t CpuInfo(ControlCall&, Params& params) {
  std::memset(&params, 0, sizeof params);
  params.clock = 2000;
  params.dataCacheLineSize = 64;
  params.numLogicalCpus = params.numPhysicalCpus = params.coresOnDie = 1;
  CopyText(params.name, "x86_64");
  return NV_OK;
}

// Peers reach each other over NVLink; every GPU reaches itself.
constexpr uint32_t kPeerCaps = NV0000_CTRL_SYSTEM_GET_P2P_CAPS_READS_SUPPORTED_MASK |
                               NV0000_CTRL_SYSTEM_GET_P2P_CAPS_WRITES_SUPPORTED_MASK |
                               NV0000_CTRL_SYSTEM_GET_P2P_CAPS_PROP_SUPPORTED_MASK |
                               NV0000_CTRL_SYSTEM_GET_P2P_CAPS_NVLINK_SUPPORTED_MASK |
                               NV0000_CTRL_SYSTEM_GET_P2P_CAPS_ATOMICS_SUPPORTED_MASK;

uint32_t PeerCaps(ControlCall& call, NV0000_CTRL_SYSTEM_GET_P2P_CAPS_PARAMS& params) {
  // The 550 structure only adds a pointer at the end.
  const uint32_t count = params.gpuCount;
  if (count == 0 || count > std::size(params.gpuIds)) return NV_ERR_INVALID_ARGUMENT;
  params.p2pCaps = count > 1 ? kPeerCaps : NV0000_CTRL_SYSTEM_GET_P2P_CAPS_LOOPBACK_SUPPORTED_MASK;
  params.p2pOptimalReadCEs = params.p2pOptimalWriteCEs = 0;
  std::memset(params.p2pCapsStatus, NV0000_P2P_CAPS_STATUS_OK, sizeof params.p2pCapsStatus);
  if (params.busPeerIds != 0) {
    std::vector<uint32_t> ids(count * count);
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t j = 0; j < count; ++j) {
        ids[i * count + j] = i == j ? NV0000_CTRL_SYSTEM_GET_P2P_CAPS_INVALID_PEER : j;
      }
    }
    if (!call.call.memory().Write(RemoteAddress{params.busPeerIds}, ids.data(), ids.size() * 4)) {
      return NV_ERR_INVALID_POINTER;
    }
  }
  return NV_OK;
}

template <typename Params>
uint32_t PeerCapsV2(ControlCall&, Params& params) {
  const uint32_t count = params.gpuCount;
  if (count == 0 || count > std::size(params.gpuIds)) return NV_ERR_INVALID_ARGUMENT;
  params.p2pCaps = count > 1 ? kPeerCaps : NV0000_CTRL_SYSTEM_GET_P2P_CAPS_LOOPBACK_SUPPORTED_MASK;
  params.p2pOptimalReadCEs = params.p2pOptimalWriteCEs = 0;
  std::memset(params.p2pCapsStatus, NV0000_P2P_CAPS_STATUS_OK, sizeof params.p2pCapsStatus);
  for (uint32_t& id : params.busPeerIds) id = 0;
  if constexpr (requires { params.busEgmPeerIds; }) {
    for (uint32_t& id : params.busEgmPeerIds) id = NV0000_CTRL_SYSTEM_GET_P2P_CAPS_INVALID_PEER;
  }
  return NV_OK;
}

uint32_t PeerCapsMatrix(ControlCall& call, NV0000_CTRL_SYSTEM_GET_P2P_CAPS_MATRIX_PARAMS& params) {
  constexpr uint32_t kMost = std::size(decltype(params.gpuIdGrpA){});
  if (params.grpACount > kMost || params.grpBCount > kMost) return NV_ERR_INVALID_ARGUMENT;
  const bool one_group = params.grpBCount == 0;
  const uint32_t columns = one_group ? params.grpACount : params.grpBCount;
  for (uint32_t i = 0; i < params.grpACount; ++i) {
    for (uint32_t j = 0; j < columns; ++j) {
      const uint32_t a = params.gpuIdGrpA[i];
      const uint32_t b = one_group ? params.gpuIdGrpA[j] : params.gpuIdGrpB[j];
      if (call.machine().GpuById(a) == nullptr || call.machine().GpuById(b) == nullptr) {
        return NV_ERR_INVALID_ARGUMENT;
      }
      params.p2pCaps[i][j] =
          a == b ? NV0000_CTRL_SYSTEM_GET_P2P_CAPS_LOOPBACK_SUPPORTED_MASK | kPeerCaps : kPeerCaps;
      params.a2bOptimalReadCes[i][j] = params.a2bOptimalWriteCes[i][j] = 0;
      params.b2aOptimalReadCes[i][j] = params.b2aOptimalWriteCes[i][j] = 0;
    }
  }
  return NV_OK;
}

uint32_t BoostGroups(ControlCall&, NV0000_SYNC_GPU_BOOST_GROUP_INFO_PARAMS& params) {
  params.groupCount = 0;
  return NV_OK;
}

// What NV_ESC_RM_SHARE does; the older way to say it (client_resource.c).
uint32_t ShareByControl(ControlCall& call, const NV0000_CTRL_CLIENT_SHARE_OBJECT_PARAMS& params) {
  return ShareObject(call.rm.server, call.client, params.hObject, params.sharePolicy);
}

// The same for the client itself, and so for all of its objects that are not shared otherwise.
uint32_t InheritedSharePolicy(ControlCall& call,
                              const NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS& params) {
  return ShareObject(call.rm.server, call.client, call.client.handle(), params.sharePolicy);
}

constexpr ControlRow kRows[] = {
    Control<BuildVersion>(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION),
    ControlByVersion<NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS,
                     [](ControlCall& call, auto& params) {
                       return BuildVersionInline(call, params);
                     }>(NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2),
    ControlByVersion<NV0000_CTRL_SYSTEM_GET_CPU_INFO_PARAMS,
                     [](ControlCall& call, auto& params) { return CpuInfo(call, params); }>(
        NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO),
    Control<Features>(NV0000_CTRL_CMD_SYSTEM_GET_FEATURES),
    Control<FabricStatus>(NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS),
    Control<PeerCaps>(NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS),
    ControlByVersion<NV0000_CTRL_SYSTEM_GET_P2P_CAPS_V2_PARAMS,
                     [](ControlCall& call, auto& params) { return PeerCapsV2(call, params); }>(
        NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_V2),
    Control<PeerCapsMatrix>(NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX),
    Control<AddressSpaceType>(NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE),
    Control<InheritedSharePolicy>(NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY),
    Control<ShareByControl>(NV0000_CTRL_CMD_CLIENT_SHARE_OBJECT),
    Control<AttachedIds>(NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS),
    ControlByVersion<NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS,
                     [](ControlCall& call, auto& params) { return ProbedIds(call, params); }>(
        NV0000_CTRL_CMD_GPU_GET_PROBED_IDS),
    Control<ActiveDeviceIds>(NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS),
    AcceptedControl<NV0000_CTRL_GPU_ATTACH_IDS_PARAMS>(NV0000_CTRL_CMD_GPU_ATTACH_IDS,
                                                       "GPUs are always attached"),
    AcceptedControl<NV0000_CTRL_GPU_DETACH_IDS_PARAMS>(NV0000_CTRL_CMD_GPU_DETACH_IDS,
                                                       "GPUs are always attached"),
    AcceptedControl<NV0000_CTRL_GPU_ASYNC_ATTACH_ID_PARAMS>(NV0000_CTRL_CMD_GPU_ASYNC_ATTACH_ID,
                                                            "GPUs are always attached"),
    Control<DeviceIds>(NV0000_CTRL_CMD_GPU_GET_DEVICE_IDS),
    Control<IdInfo<NV0000_CTRL_GPU_GET_ID_INFO_PARAMS>>(NV0000_CTRL_CMD_GPU_GET_ID_INFO),
    Control<IdInfo<NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS>>(NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2),
    Control<PciInfo>(NV0000_CTRL_CMD_GPU_GET_PCI_INFO),
    Control<UuidFromId>(NV0000_CTRL_CMD_GPU_GET_UUID_FROM_GPU_ID),
    Control<DrainState>(NV0000_CTRL_CMD_GPU_QUERY_DRAIN_STATE),
    Control<MemopEnable>(NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE),
    Control<BoostGroups>(NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO),
    ControlByVersion<NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS,
                     [](ControlCall& call, auto& params) {
                       return ConfidentialCapabilities(call, params);
                     }>(NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES),
    ZeroControl<NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_GPUS_STATE_PARAMS>(
        NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_GPUS_STATE, "confidential computing is off"),
};

}  // namespace

absl::Span<const ControlRow> SystemControls() { return kRows; }

}  // namespace phantora
