// NVLink and fabric controls of subdevices (ctrl2080nvlink.h, ctrl2080gpu.h).
#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// NV2080_CTRL_NVLINK_CAPS_* as bits of a little-endian word: SUPPORTED,
// P2P_SUPPORTED, P2P_ATOMICS; POWER_STATE_L0 and VALID in the second byte.
constexpr uint32_t kLinkCaps = 0x01 | 0x02 | 0x08 | (0x01 | 0x10) << 8;
constexpr uint32_t kNvidiaVendor = 0x10de;
// PCI bus numbers of an HGX board's NVSwitches.
constexpr uint32_t kFirstSwitchBus = 5;

uint32_t LinkMask(const GpuProfile& profile) { return (1u << profile.nvlink.links) - 1; }

// The mask that 570 and 575 have beside the one of 32 links.
void SetLinks(const GpuProfile& profile, uint64_t& mask) { mask = LinkMask(profile); }

// The mask that 580 has beside the one of 32 links (ctrl2080nvlink_common.h).
void SetLinks(const GpuProfile& profile, NV2080_CTRL_NVLINK_LINK_MASK& mask) {
  mask.lenMasks = 1;
  mask.masks[0] = LinkMask(profile);
}

template <typename Params>
uint32_t Caps(ControlCall& call, Params& params) {
  std::memset(&params, 0, sizeof params);
  const auto& nvlink = call.profile().nvlink;
  if (nvlink.links == 0) return NV_OK;
  params.capsTbl = kLinkCaps;
  params.lowestNvlinkVersion = params.highestNvlinkVersion = nvlink.version;
  params.lowestNciVersion = params.highestNciVersion = nvlink.version;
  params.discoveredLinkMask = params.enabledLinkMask = LinkMask(call.profile());
  if constexpr (requires { params.discoveredLinks; }) {
    SetLinks(call.profile(), params.discoveredLinks);
    SetLinks(call.profile(), params.enabledLinks);
  }
  return NV_OK;
}

// Every link goes to an NVSwitch; link i of each GPU to switch i mod n.
template <typename Params>
uint32_t Status(ControlCall& call, Params& params) {
  const bool instance = params.bSublinkStateInst != 0;
  std::memset(&params, 0, sizeof params);
  params.bSublinkStateInst = instance;
  const auto& profile = call.profile();
  const auto& nvlink = profile.nvlink;
  params.enabledLinkMask = LinkMask(profile);
  if constexpr (requires { params.enabledLinks; }) SetLinks(profile, params.enabledLinks);
  for (uint32_t i = 0; i < nvlink.links; ++i) {
    auto& link = params.linkInfo[i];
    link.capsTbl = kLinkCaps;
    link.phyType = NV2080_CTRL_NVLINK_STATUS_PHY_NVHS;
    link.subLinkWidth = static_cast<uint8_t>(nvlink.lanes);
    link.linkState = NV2080_CTRL_NVLINK_STATUS_LINK_STATE_ACTIVE;
    link.rxSublinkStatus = NV2080_CTRL_NVLINK_STATUS_SUBLINK_RX_STATE_HIGH_SPEED_1;
    link.txSublinkStatus = NV2080_CTRL_NVLINK_STATUS_SUBLINK_TX_STATE_HIGH_SPEED_1;
    link.nvlinkVersion = link.nciVersion = static_cast<uint8_t>(nvlink.version);
    link.phyVersion = 1;
    link.nvlinkLineRateMbps = nvlink.line_rate_mbps;
    link.nvlinkLinkDataRateKiBps = nvlink.data_rate_kib_per_s;
    link.nvlinkLinkClockMhz = link.nvlinkCommonClockSpeedMhz = nvlink.clock_mhz;
    link.nvlinkLinkClockKHz = link.nvlinkCommonClockSpeedKHz = nvlink.clock_mhz * 1000;
    link.nvlinkRefClkSpeedMhz = 156;
    link.nvlinkRefClkSpeedKHz = 156250;
    link.connected = 1;
    link.localDeviceLinkNumber = static_cast<uint8_t>(i);
    const uint32_t per_switch = nvlink.links / nvlink.switches;
    link.remoteDeviceLinkNumber =
        static_cast<uint8_t>(call.gpu().index * per_switch + i / nvlink.switches);
    auto& local = link.localDeviceInfo;
    local.deviceIdFlags = 1;  // PCI
    local.bus = static_cast<uint16_t>(call.gpu().bus);
    local.pciDeviceId = profile.pci.device << 16 | kNvidiaVendor;
    local.deviceType = NV2080_CTRL_NVLINK_DEVICE_INFO_DEVICE_TYPE_GPU;
    auto& remote = link.remoteDeviceInfo;
    remote.deviceIdFlags = 1;
    remote.bus = static_cast<uint16_t>(kFirstSwitchBus + i % nvlink.switches);
    remote.pciDeviceId = nvlink.switch_device << 16 | kNvidiaVendor;
    remote.deviceType = NV2080_CTRL_NVLINK_DEVICE_INFO_DEVICE_TYPE_SWITCH;
  }
  return NV_OK;
}

// Fabric registration exists from Hopper on. Capabilities stay empty, which keeps
// multicast (NVLS) off.
template <typename Params>
uint32_t FabricProbe(ControlCall& call, Params& params) {
  std::memset(&params, 0, sizeof params);
  const bool hopper = call.profile().architecture == GpuProfile::Architecture::kHopper;
  if (!hopper || call.profile().nvlink.links == 0) return NV_ERR_NOT_SUPPORTED;
  params.state = NV2080_CTRL_GPU_FABRIC_PROBE_STATE_COMPLETE;
  params.status = NV_OK;
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    ControlByVersion<NV2080_CTRL_CMD_NVLINK_GET_NVLINK_CAPS_PARAMS,
                     [](ControlCall& call, auto& params) { return Caps(call, params); }>(
        NV2080_CTRL_CMD_NVLINK_GET_NVLINK_CAPS),
    ControlByVersion<NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS_PARAMS,
                     [](ControlCall& call, auto& params) { return Status(call, params); }>(
        NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS),
    ControlByVersion<NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO_PARAMS,
                     [](ControlCall& call, auto& params) { return FabricProbe(call, params); }>(
        NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO),
};

}  // namespace

absl::Span<const ControlRow> NvlinkControls() { return kRows; }

}  // namespace phantora
