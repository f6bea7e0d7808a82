// RmDevice's escapes about the driver, its cards, and the file itself.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/rm/effective_user.h"
#include "trap/rm/escape_block.h"
#include "trap/rm/event_device.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_device.h"
#include "trap/rm/rm_resources.h"
#include "trap/rm/rm_sharing.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr uint32_t kNvidiaVendor = 0x10de;

}  // namespace

int RmDevice::CheckVersion(CallContext& call, nv_ioctl_rm_api_version_t& params) {
  params.versionString[sizeof params.versionString - 1] = '\0';
  Trace(call, NV_ESC_CHECK_VERSION_STR, params.versionString);
  const std::string& version = rm_->machine->driver.text;
  if (params.cmd != 0 && version != params.versionString) {
    params.reply = NV_RM_API_VERSION_REPLY_UNRECOGNIZED;
  } else {
    params.reply = NV_RM_API_VERSION_REPLY_RECOGNIZED;
  }
  CopyText(params.versionString, version);
  return 0;
}

int RmDevice::CardInfo(CallContext& call, Block& block) {
  const size_t count = block.size() / sizeof(nv_ioctl_card_info_t);
  const auto& gpus = rm_->machine->gpus;
  const auto& pci = rm_->machine->profile.pci;
  if (count < gpus.size()) return -EINVAL;
  std::fill(block.begin(), block.end(), 0);
  auto* cards = reinterpret_cast<nv_ioctl_card_info_t*>(block.data());
  for (const Gpu& gpu : gpus) {
    auto& card = cards[gpu.index];
    const uint64_t bar1 = pci.bar1_mib << 20;
    card.valid = 1;
    card.pci_info.bus = static_cast<uint8_t>(gpu.bus);
    card.pci_info.vendor_id = kNvidiaVendor;
    card.pci_info.device_id = static_cast<uint16_t>(pci.device);
    card.gpu_id = gpu.id();
    card.interrupt_line = 16;
    card.reg_address = 0xa0000000 + uint64_t(gpu.index) * (64 << 20);
    card.reg_size = 16 << 20;
    card.fb_address = 0x20000000000 + gpu.index * bar1;
    card.fb_size = bar1;
    card.minor_number = gpu.index;
  }
  Trace(call, NV_ESC_CARD_INFO, absl::StrCat(gpus.size(), " GPUs"));
  return 0;
}

int RmDevice::SysParams(CallContext& call, nv_ioctl_sys_params_t& params) {
  params.memblock_size = 128 << 20;
  Trace(call, NV_ESC_SYS_PARAMS, "");
  return 0;
}

int RmDevice::NumaInfo(CallContext& call, nv_ioctl_numa_info_t& params) {
  std::memset(&params, 0, sizeof params);
  params.nid = -1;
  params.status = NV_IOCTL_NUMA_STATUS_DISABLED;
  Trace(call, NV_ESC_NUMA_INFO, "none");
  return 0;
}

int RmDevice::RegisterFd(CallContext& call, nv_ioctl_register_fd_t& params) {
  // Ties a GPU's file to its control file; both must be ours.
  const int control = params.ctl_fd;
  auto device = std::dynamic_pointer_cast<RmDevice>(call.DeviceAt(control));
  Trace(call, NV_ESC_REGISTER_FD, absl::StrCat("control fd ", control));
  return device != nullptr && device->minor_ == kControlMinor ? 0 : -EINVAL;
}

int RmDevice::AllocOsEvent(CallContext& call, nv_ioctl_alloc_os_event_t& params) {
  // Only a descriptor of ours may be replaced.
  auto device = std::dynamic_pointer_cast<RmDevice>(call.DeviceAt(params.fd));
  const bool replaced =
      device != nullptr &&
      call.ReplaceByDevice(params.fd, std::make_shared<EventDevice>(rm_, device->minor_)).ok();
  params.Status = replaced ? NV_OK : NV_ERR_INVALID_ARGUMENT;
  Trace(call, NV_ESC_ALLOC_OS_EVENT,
        absl::StrCat("fd ", params.fd, ": ", StatusText(params.Status)));
  return 0;
}

int RmDevice::FreeOsEvent(CallContext& call, nv_ioctl_free_os_event_t& params) {
  params.Status = NV_OK;
  Trace(call, NV_ESC_FREE_OS_EVENT, absl::StrCat("fd ", params.fd));
  return 0;
}

int RmDevice::StatusCode(CallContext&, nv_ioctl_status_code_t& params) {
  // nv.c nvidia_ioctl: of the GPU at this PCI address, all of which work; slots are 0
  // (pci_address).
  const auto& gpus = rm_->machine->gpus;
  const bool found =
      params.domain == 0 && params.slot == 0 &&
      std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.bus == params.bus; });
  if (!found) return -EINVAL;
  params.status = NV_OK;
  return 0;
}

int RmDevice::AttachGpus(CallContext&, Block&) { return 0; }

int RmDevice::WaitOpenComplete(CallContext&, nv_ioctl_wait_open_complete_t& params) {
  params.rc = 0;
  params.adapterStatus = NV_OK;
  return 0;
}

int RmDevice::GetEventData(CallContext&, NVOS41_PARAMETERS& params) {
  // Events carry no data here.
  params.MoreEvents = 0;
  params.status = NV_ERR_GENERIC;
  return 0;
}

}  // namespace phantora
