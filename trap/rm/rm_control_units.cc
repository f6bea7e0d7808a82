// Controls about units of a GPU and what they can do, in the forms that no library of today asks
// for, but clients of their own do: lists and tables behind pointers, and older names of the same
// facts (ctrl0080*.h, ctrl2080*.h, ctrl906f.h, ctrla06c.h).
#include <algorithm>
#include <iterator>

#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

bool IsHopper(ControlCall& call) {
  return call.profile().architecture == GpuProfile::Architecture::kHopper;
}

// A table of capabilities behind a pointer has the size that the driver's has, or is refused.
template <size_t N>
uint32_t WriteTable(ControlCall& call, uint32_t size, uint64_t pointer, const uint8_t (&table)[N]) {
  if (size != N || pointer == 0) return NV_ERR_INVALID_ARGUMENT;
  return call.call.memory().Write(RemoteAddress{pointer}, table, N) ? NV_OK
                                                                    : NV_ERR_INVALID_ADDRESS;
}

// The same table by its newer control, which has it in its block.
template <typename Block>
uint32_t TableOf(ControlCall& call, uint32_t command, Block& block) {
  const ControlRow* row = FindControl(command);
  ControlCall other{call.rm,     call.call, call.client,
                    call.object, command,   {reinterpret_cast<uint8_t*>(&block), sizeof block}};
  return row->versions.For(call.machine().driver.abi).serve(other);
}

template <typename Block, uint32_t kNewer, typename Params>
uint32_t OlderTable(ControlCall& call, Params& params) {
  Block block = {};
  const uint32_t status = TableOf(call, kNewer, block);
  return status == NV_OK ? WriteTable(call, params.capsTblSize, params.capsTbl, block.capsTbl)
                         : status;
}

uint32_t GraphicsCaps(ControlCall& call, NV0080_CTRL_GR_GET_CAPS_PARAMS& params) {
  return OlderTable<NV0080_CTRL_GR_GET_CAPS_V2_PARAMS, NV0080_CTRL_CMD_GR_GET_CAPS_V2>(call,
                                                                                       params);
}
uint32_t FramebufferCaps(ControlCall& call, NV0080_CTRL_FB_GET_CAPS_PARAMS& params) {
  return OlderTable<NV0080_CTRL_FB_GET_CAPS_V2_PARAMS, NV0080_CTRL_CMD_FB_GET_CAPS_V2>(call,
                                                                                       params);
}
uint32_t HostCaps(ControlCall& call, NV0080_CTRL_HOST_GET_CAPS_PARAMS& params) {
  return OlderTable<NV0080_CTRL_HOST_GET_CAPS_V2_PARAMS, NV0080_CTRL_CMD_HOST_GET_CAPS_V2>(call,
                                                                                           params);
}
uint32_t CopyCaps(ControlCall& call, NV2080_CTRL_CE_GET_CAPS_PARAMS& params) {
  NV2080_CTRL_CE_GET_CAPS_V2_PARAMS block = {};
  if (params.capsTblSize != sizeof block.capsTbl || params.capsTbl == 0) {
    return NV_ERR_INVALID_ARGUMENT;
  }
  block.ceEngineType = params.ceEngineType;
  const uint32_t status = TableOf(call, NV2080_CTRL_CMD_CE_GET_CAPS_V2, block);
  return status == NV_OK ? WriteTable(call, params.capsTblSize, params.capsTbl, block.capsTbl)
                         : status;
}

// PCI_PB, VID_PB, NO_PIPELINED_PTE_BLIT; MULTI_VAS_PER_CHANGRP (kernel_fifo_ctrl.c).
constexpr uint8_t kFifoCaps[] = {0x86, 0x20};
uint32_t FifoCaps(ControlCall& call, NV0080_CTRL_FIFO_GET_CAPS_PARAMS& params) {
  return WriteTable(call, params.capsTblSize, params.capsTbl, kFifoCaps);
}
uint32_t FifoCapsV2(ControlCall&, NV0080_CTRL_FIFO_GET_CAPS_V2_PARAMS& params) {
  static_assert(sizeof params.capsTbl == sizeof kFifoCaps);
  std::memcpy(params.capsTbl, kFifoCaps, sizeof kFifoCaps);
  return NV_OK;
}

// 32BIT_POINTER_ENFORCED, SPARSE_VIRTUAL, MULTIPLE_VA_SPACES (gpu/mem_mgr/dma.c).
uint32_t DmaCaps(ControlCall&, NV0080_CTRL_DMA_GET_CAPS_PARAMS& params) {
  if (params.capsTblSize != sizeof params.capsTbl) return NV_ERR_INVALID_ARGUMENT;
  std::memset(params.capsTbl, 0, sizeof params.capsTbl);
  params.capsTbl[0] = 0x19;
  return NV_OK;
}

// Bits of a physical address (memmgrGetMaxSysmemAddress).
uint32_t DmaInfo(ControlCall& call, NV2080_CTRL_DMA_GET_INFO_PARAMS& params) {
  if (params.dmaInfoTblSize > std::size(params.dmaInfoTbl)) return NV_ERR_INVALID_PARAM_STRUCT;
  for (uint32_t i = 0; i < params.dmaInfoTblSize; ++i) {
    if (params.dmaInfoTbl[i].index != NV2080_CTRL_DMA_INFO_INDEX_SYSTEM_ADDRESS_SIZE) {
      return NV_ERR_INVALID_ARGUMENT;
    }
    params.dmaInfoTbl[i].data = IsHopper(call) ? 52 : 47;
  }
  return NV_OK;
}

// Translations are looked up anew at each access; there is nothing to invalidate.
uint32_t CheckSpace(ControlCall& call, uint32_t handle) {
  if (handle == 0) return NV_OK;
  const RmObject* space = call.client.Find(handle);
  if (space == nullptr) return NV_ERR_OBJECT_NOT_FOUND;
  return space->As<VaSpaceResource>() == nullptr ? NV_ERR_INVALID_OBJECT_HANDLE : NV_OK;
}
uint32_t InvalidateTlb(ControlCall& call, NV0080_CTRL_DMA_INVALIDATE_TLB_PARAMS& params) {
  return CheckSpace(call, params.hVASpace);
}
uint32_t InvalidateTlbOfSubdevice(ControlCall& call,
                                  NV2080_CTRL_DMA_INVALIDATE_TLB_PARAMS& params) {
  return CheckSpace(call, params.hVASpace);
}

// For the kernel, but the buffer is looked for first.
uint32_t UpdatePde(ControlCall&, NV0080_CTRL_DMA_UPDATE_PDE_2_PARAMS& params) {
  return params.pPdeBuffer == 0 ? NV_ERR_INVALID_ARGUMENT : NV_ERR_INSUFFICIENT_PERMISSIONS;
}

uint32_t SubdeviceHandle(ControlCall& call, NV0080_CTRL_GPU_FIND_SUBDEVICE_HANDLE_PARAM& params) {
  for (const uint32_t handle : call.object.children) {
    const RmObject* child = call.client.Find(handle);
    if (child == nullptr || child->class_id != NV20_SUBDEVICE_0 || params.subDeviceInst != 0) {
      continue;
    }
    params.hSubDevice = handle;
    return NV_OK;
  }
  return NV_ERR_OBJECT_NOT_FOUND;
}

uint32_t Physicality(ControlCall&, NV0080_CTRL_FB_SET_DEFAULT_VIDMEM_PHYSICALITY_PARAMS& params) {
  return params.value > 3 ? NV_ERR_INVALID_ARGUMENT : NV_OK;
}

// USERD is video memory that the processor writes combined.
uint32_t UserdLocation(ControlCall&, NV2080_CTRL_CMD_FIFO_GET_USERD_LOCATION_PARAMS& params) {
  params.aperture = 0;
  params.attribute = 2;
  return NV_OK;
}

// Classes of objects that work on an engine: those of channels, by kind.
uint32_t EngineClasses(ControlCall& call, NV2080_CTRL_GPU_GET_ENGINE_CLASSLIST_PARAMS& params) {
  std::vector<uint32_t> classes;
  const uint32_t copy = params.engineType - NV2080_ENGINE_TYPE_COPY0;
  if (params.engineType == NV2080_ENGINE_TYPE_GRAPHICS) {
    classes = {IsHopper(call) ? HOPPER_COMPUTE_A : AMPERE_COMPUTE_A, FERMI_TWOD_A,
               KEPLER_INLINE_TO_MEMORY_B};
  } else if (copy < call.profile().copy_engines) {
    classes = {IsHopper(call) ? HOPPER_DMA_COPY_A : AMPERE_DMA_COPY_A};
  } else {
    return NV_ERR_INVALID_ARGUMENT;
  }
  const auto count = static_cast<uint32_t>(classes.size());
  if ((params.classList == 0) != (params.numClasses == 0)) return NV_ERR_INVALID_ARGUMENT;
  if (params.classList != 0) {
    if (params.numClasses < count) return NV_ERR_INVALID_PARAM_STRUCT;
    if (!call.call.memory().Write(RemoteAddress{params.classList}, classes.data(), count * 4)) {
      return NV_ERR_INVALID_ADDRESS;
    }
  }
  params.numClasses = count;
  return NV_OK;
}

uint32_t SubdeviceMask(ControlCall&, NV2080_CTRL_GPU_GET_SDM_PARAMS& params) {
  params.subdeviceMask = 1;
  return NV_OK;
}

uint32_t Engines(ControlCall& call, NV2080_CTRL_GPU_GET_ENGINES_PARAMS& params) {
  std::vector<uint32_t> engines = {NV2080_ENGINE_TYPE_GRAPHICS};
  for (uint32_t i = 0; i < call.profile().copy_engines; ++i) {
    engines.push_back(NV2080_ENGINE_TYPE_COPY0 + i);
  }
  const auto count = static_cast<uint32_t>(engines.size());
  if ((params.engineList == 0) != (params.engineCount == 0)) return NV_ERR_INVALID_ARGUMENT;
  if (params.engineList != 0) {
    if (params.engineCount < count) return NV_ERR_BUFFER_TOO_SMALL;
    if (!call.call.memory().Write(RemoteAddress{params.engineList}, engines.data(), count * 4)) {
      return NV_ERR_INVALID_ADDRESS;
    }
  }
  params.engineCount = count;
  return NV_OK;
}

uint32_t GpcMask(ControlCall& call, NV2080_CTRL_GPU_GET_FERMI_GPC_INFO_PARAMS& params) {
  params.gpcMask = (1u << call.profile().tpcs_per_gpc.size()) - 1;
  return NV_OK;
}
uint32_t TpcMask(ControlCall& call, NV2080_CTRL_GPU_GET_FERMI_TPC_INFO_PARAMS& params) {
  const auto& tpcs = call.profile().tpcs_per_gpc;
  params.tpcMask = params.gpcId < tpcs.size() ? (1u << tpcs[params.gpcId]) - 1 : 0;
  return NV_OK;
}
uint32_t TpcsOfGpc(ControlCall& call, NV2080_CTRL_GR_GET_NUM_TPCS_FOR_GPC_PARAMS& params) {
  const auto& tpcs = call.profile().tpcs_per_gpc;
  if (params.gpcId >= tpcs.size()) return NV_ERR_INVALID_ARGUMENT;
  params.numTpcs = tpcs[params.gpcId];
  return NV_OK;
}

// H.264 and HEVC: 100 even of a chip without an encoder; AV1 is none of these chips'.
uint32_t EncoderCapacity(ControlCall&, NV2080_CTRL_GPU_GET_ENCODER_CAPACITY_PARAMS& params) {
  constexpr uint32_t kAv1 = 2;
  if (params.queryType >= kAv1) {
    return params.queryType == kAv1 ? NV_ERR_NOT_SUPPORTED : NV_ERR_INVALID_ARGUMENT;
  }
  params.encoderCapacity = 100;
  return NV_OK;
}

uint32_t LargestPage(ControlCall&, NV2080_CTRL_GPU_GET_MAX_SUPPORTED_PAGE_SIZE_PARAMS& params) {
  params.maxSupportedPageSize = 512 << 20;
  return NV_OK;
}

// Only the whole cache of a GPU can be written back, and what is written back is always there.
uint32_t FlushCache(ControlCall&, NV2080_CTRL_FB_FLUSH_GPU_CACHE_PARAMS& params) {
  const bool write_back =
      (params.flags & NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_WRITE_BACK_MASK) != 0;
  const bool invalidate =
      (params.flags & NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_INVALIDATE_MASK) != 0;
  if (!write_back && !invalidate) return NV_OK;
  const uint32_t aperture = params.flags & NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE_MASK;
  if (aperture > NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE_PEER_MEMORY) {
    return NV_ERR_INVALID_ARGUMENT;
  }
  if ((params.flags & NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_FLUSH_MODE_MASK) == 0) {
    const bool valid = params.addressArraySize != 0 && params.memBlockSizeBytes != 0 &&
                       params.addressArraySize <= std::size(params.addressArray);
    return valid ? NV_ERR_GENERIC : NV_ERR_INVALID_ARGUMENT;
  }
  return aperture == NV2080_CTRL_FB_FLUSH_GPU_CACHE_FLAGS_APERTURE_VIDEO_MEMORY && !invalidate
             ? NV_ERR_NOT_SUPPORTED
             : NV_OK;
}

// Kinds of pages (kern_mem_sys_ctrl.c): pitch and generic ones, of which 8 to 14 are compressible.
uint32_t IsKind(ControlCall&, NV2080_CTRL_FB_IS_KIND_PARAMS& params) {
  const uint32_t kind = params.kind;
  switch (params.operation) {
    case 0:  // supported
      params.result = kind <= 15 && kind != 7;
      return NV_OK;
    case 1:  // compressible
    case 5:  // zero-bandwidth clears
      params.result = kind >= 8 && kind <= 14;
      return NV_OK;
    default:
      if (params.operation > 8) return NV_ERR_INVALID_ARGUMENT;
      params.result = 0;
      return NV_OK;
  }
}

uint32_t SemaphoreLayout(ControlCall& call,
                         NV2080_CTRL_FB_GET_SEMAPHORE_SURFACE_LAYOUT_PARAMS& params) {
  params.monitoredFenceThresholdOffset = 16;
  params.maxSubmittedSemaphoreValueOffset = 24;
  params.size = 32;
  params.caps = IsHopper(call) ? 3 : 1;
  return NV_OK;
}

uint32_t Timeslice(ControlCall& call, NVA06C_CTRL_TIMESLICE_PARAMS& params) {
  const auto group = call.object.As<ChannelGroupResource>();
  if (group == nullptr) return NV_ERR_INVALID_OBJECT;
  params.timesliceUs = group->timeslice_us;
  return NV_OK;
}

uint32_t GroupInfo(ControlCall& call, NVA06C_CTRL_GET_INFO_PARAMS& params) {
  const auto group = call.object.As<ChannelGroupResource>();
  if (group == nullptr) return NV_ERR_INVALID_OBJECT;
  params.tsgID = static_cast<uint32_t>(group->id);
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    Control<GraphicsCaps>(NV0080_CTRL_CMD_GR_GET_CAPS),
    Control<FramebufferCaps>(NV0080_CTRL_CMD_FB_GET_CAPS),
    Control<HostCaps>(NV0080_CTRL_CMD_HOST_GET_CAPS),
    Control<FifoCaps>(NV0080_CTRL_CMD_FIFO_GET_CAPS),
    Control<FifoCapsV2>(NV0080_CTRL_CMD_FIFO_GET_CAPS_V2),
    Control<DmaCaps>(NV0080_CTRL_CMD_DMA_GET_CAPS),
    Control<InvalidateTlb>(NV0080_CTRL_CMD_DMA_INVALIDATE_TLB),
    Control<UpdatePde>(NV0080_CTRL_CMD_DMA_UPDATE_PDE_2),
    Control<SubdeviceHandle>(NV0080_CTRL_CMD_GPU_FIND_SUBDEVICE_HANDLE),
    Control<Physicality>(NV0080_CTRL_CMD_FB_SET_DEFAULT_VIDMEM_PHYSICALITY),
    Control<UserdLocation>(NV2080_CTRL_CMD_FIFO_GET_USERD_LOCATION),
    Control<EngineClasses>(NV2080_CTRL_CMD_GPU_GET_ENGINE_CLASSLIST),
    Control<SubdeviceMask>(NV2080_CTRL_CMD_GPU_GET_SDM),
    Control<Engines>(NV2080_CTRL_CMD_GPU_GET_ENGINES),
    Control<GpcMask>(NV2080_CTRL_CMD_GPU_GET_FERMI_GPC_INFO),
    Control<TpcMask>(NV2080_CTRL_CMD_GPU_GET_FERMI_TPC_INFO),
    Control<TpcsOfGpc>(NV2080_CTRL_CMD_GR_GET_NUM_TPCS_FOR_GPC),
    Control<EncoderCapacity>(NV2080_CTRL_CMD_GPU_GET_ENCODER_CAPACITY),
    Control<LargestPage>(NV2080_CTRL_CMD_GPU_GET_MAX_SUPPORTED_PAGE_SIZE),
    Control<FlushCache>(NV2080_CTRL_CMD_FB_FLUSH_GPU_CACHE),
    Control<IsKind>(NV2080_CTRL_CMD_FB_IS_KIND),
    Control<SemaphoreLayout>(NV2080_CTRL_CMD_FB_GET_SEMAPHORE_SURFACE_LAYOUT),
    Control<CopyCaps>(NV2080_CTRL_CMD_CE_GET_CAPS),
    Control<DmaInfo>(NV2080_CTRL_CMD_DMA_GET_INFO),
    Control<InvalidateTlbOfSubdevice>(NV2080_CTRL_CMD_DMA_INVALIDATE_TLB),
    Control<Timeslice>(NVA06C_CTRL_CMD_GET_TIMESLICE),
    Control<GroupInfo>(NVA06C_CTRL_CMD_GET_INFO),
};

}  // namespace

absl::Span<const ControlRow> UnitControls() { return kRows; }

}  // namespace phantora
