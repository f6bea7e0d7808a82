// Controls of devices (ctrl0080*.h).
#include <algorithm>

#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

uint32_t SubdeviceCount(ControlCall&, NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS& params) {
  params.numSubDevices = 1;
  return NV_OK;
}

uint32_t ClassList(ControlCall& call, NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS& params) {
  const auto& classes = ClassesOf(call.profile().architecture);
  if (params.classList != 0) {
    const size_t count = std::min<size_t>(params.numClasses, classes.size());
    if (!call.call.memory().Write(RemoteAddress{params.classList}, classes.data(), count * 4)) {
      return NV_ERR_INVALID_POINTER;
    }
  }
  params.numClasses = static_cast<uint32_t>(classes.size());
  return NV_OK;
}

// Each branch has room for another number of classes.
template <typename Params>
uint32_t ClassListV2(ControlCall& call, Params& params) {
  const auto& classes = ClassesOf(call.profile().architecture);
  if (classes.size() > std::size(params.classList)) return NV_ERR_INVALID_ARGUMENT;
  params.numClasses = static_cast<uint32_t>(classes.size());
  std::copy(classes.begin(), classes.end(), params.classList);
  return NV_OK;
}

bool IsHopper(const GpuProfile& profile) {
  return profile.architecture == GpuProfile::Architecture::kHopper;
}

uint32_t HostCaps(ControlCall& call, NV0080_CTRL_HOST_GET_CAPS_V2_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  // GPU_COHERENT_MAPPING_SUPPORTED, which an H100 does not say of itself.
  params.capsTbl[0] = IsHopper(call.profile()) ? 0 : 0x04;
  return NV_OK;
}

uint32_t FramebufferCaps(ControlCall& call, NV0080_CTRL_FB_GET_CAPS_V2_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  params.capsTbl[0] = 0x01 | 0x02 | 0x08;  // render to, blocklinear and cached sysmem
  params.capsTbl[1] = 0x80;                // GENERIC_PAGE_KIND
  params.capsTbl[2] = 0x02 | 0x04;         // VIDMEM_ALLOCS_ARE_CLEARED, PLC off
  if (IsHopper(call.profile())) {
    params.capsTbl[1] |= 0x01;        // BLOCKLINEAR_GOBS_512
    params.capsTbl[2] = 0x02 | 0x10;  // VIDMEM_ALLOCS_ARE_CLEARED, PARTIAL_UNMAP
  }
  return NV_OK;
}

uint32_t VaCaps(ControlCall&, NV0080_CTRL_DMA_ADV_SCHED_GET_VA_CAPS_PARAMS& params) {
  const uint32_t va_space = params.hVASpace;
  std::memset(&params, 0, sizeof params);
  params.hVASpace = va_space;
  params.vaBitCount = 49;
  params.pdeCoverageBitCount = 47;
  params.num4KPageTableFormats = 1;
  params.bigPageSize = 64 << 10;
  params.compressionPageSize = 64 << 10;
  params.dualPageTableSupported = 1;
  params.idealVRAMPageSize = 2 << 20;
  params.supportedPageSizeMask = (512 << 20) | (2 << 20) | (64 << 10) | 4096;
  params.vaSpaceId = 1;
  return NV_OK;
}

uint32_t GraphicsCaps(ControlCall&, NV0080_CTRL_GR_GET_CAPS_V2_PARAMS& params) {
  std::memset(params.capsTbl, 0, sizeof params.capsTbl);
  params.bCapsPopulated = 1;
  return NV_OK;
}

uint32_t ChannelList(ControlCall& call, const NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS& params) {
  constexpr uint32_t kMostChannels = 4096;
  if (params.numChannels > kMostChannels) return NV_ERR_INVALID_ARGUMENT;
  std::vector<uint32_t> handles(params.numChannels), ids(params.numChannels);
  const auto& memory = call.call.memory();
  if (!memory.Read(RemoteAddress{params.pChannelHandleList}, handles.data(), handles.size() * 4)) {
    return NV_ERR_INVALID_POINTER;
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    RmObject* object = call.client.Find(handles[i]);
    auto channel = object == nullptr ? nullptr : object->As<ChannelResource>();
    ids[i] = channel == nullptr ? ~0u : channel->channel->config().id;
  }
  return memory.Write(RemoteAddress{params.pChannelList}, ids.data(), ids.size() * 4)
             ? NV_OK
             : NV_ERR_INVALID_POINTER;
}

constexpr ControlRow kRows[] = {
    Control<SubdeviceCount>(NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES),
    Control<ClassList>(NV0080_CTRL_CMD_GPU_GET_CLASSLIST),
    ControlByVersion<NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS,
                     [](ControlCall& call, auto& params) { return ClassListV2(call, params); }>(
        NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2),
    // Bare metal: mode 0.
    ZeroControl<NV0080_CTRL_GPU_GET_VIRTUALIZATION_MODE_PARAMS>(
        NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE, "bare metal: mode 0"),
    ZeroControl<NV0080_CTRL_GPU_QUERY_SW_STATE_PERSISTENCE_PARAMS>(
        NV0080_CTRL_CMD_GPU_QUERY_SW_STATE_PERSISTENCE, "persistence mode is on, as on servers"),
    ZeroControl<NV0080_CTRL_GPU_GET_VGX_CAPS_PARAMS>(NV0080_CTRL_CMD_GPU_GET_VGX_CAPS,
                                                     "no virtual GPU"),
    // No Quadro, NVS or Titan.
    ZeroControl<NV0080_CTRL_GPU_GET_BRAND_CAPS_PARAMS>(NV0080_CTRL_CMD_GPU_GET_BRAND_CAPS,
                                                       "no Quadro, NVS or Titan"),
    Control<HostCaps>(NV0080_CTRL_CMD_HOST_GET_CAPS_V2),
    Control<FramebufferCaps>(NV0080_CTRL_CMD_FB_GET_CAPS_V2),
    Control<VaCaps>(NV0080_CTRL_CMD_DMA_ADV_SCHED_GET_VA_CAPS),
    Control<GraphicsCaps>(NV0080_CTRL_CMD_GR_GET_CAPS_V2),
    Control<ChannelList>(NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST),
    AcceptedControl<NV0080_CTRL_PERF_CUDA_LIMIT_CONTROL_PARAMS>(
        NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL, "clocks are not limited for CUDA"),
    // Without public names. 0x80028b is tolerated as unsupported by both drivers;
    // 0x809909 (one byte in, 535) is a switch that must be accepted.
    ZeroOfSizes(0x80028b, 1, "both drivers take zero as unsupported"),
    AcceptedOfSizes(0x809909, 1,
                    "a switch that 535 must find accepted; what it switches is not public"),
};

}  // namespace

absl::Span<const ControlRow> DeviceControls() { return kRows; }

}  // namespace phantora
