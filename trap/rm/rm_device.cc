#include "trap/rm/rm_device.h"

#include <linux/ioctl.h>

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
#include "trap/rm/rm_resources.h"
#include "trap/rm/rm_sharing.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr uint32_t kEscapeType = 'F';

}  // namespace

RmDevice::~RmDevice() {
  // A handle may have been freed, and be another's by now.
  for (uint32_t handle : clients_) {
    if (Opened(handle)) rm_->server.FreeClient(handle);
  }
}

bool RmDevice::Opened(uint32_t handle) const {
  const RmClient* client = rm_->server.FindAny(handle);
  return client != nullptr && client->opener() == this;
}

std::string RmDevice::name() const {
  return minor_ == kControlMinor ? "/dev/nvidiactl" : absl::StrCat("/dev/nvidia", minor_);
}

const RmDevice::Row RmDevice::kRows[] = {
    {NV_ESC_CARD_INFO, kAnySize, kAnySize, &RmDevice::CardInfo},
    {NV_ESC_REGISTER_FD, sizeof(nv_ioctl_register_fd_t), sizeof(nv_ioctl_register_fd_t),
     &RmDevice::RegisterFd},
    {NV_ESC_ALLOC_OS_EVENT, sizeof(nv_ioctl_alloc_os_event_t), sizeof(nv_ioctl_alloc_os_event_t),
     &RmDevice::AllocOsEvent},
    {NV_ESC_FREE_OS_EVENT, sizeof(nv_ioctl_free_os_event_t), sizeof(nv_ioctl_free_os_event_t),
     &RmDevice::FreeOsEvent},
    {NV_ESC_STATUS_CODE, sizeof(nv_ioctl_status_code_t), sizeof(nv_ioctl_status_code_t),
     &RmDevice::Succeed},
    {NV_ESC_CHECK_VERSION_STR, sizeof(nv_ioctl_rm_api_version_t), sizeof(nv_ioctl_rm_api_version_t),
     &RmDevice::CheckVersion},
    {NV_ESC_ATTACH_GPUS_TO_FD, kAnySize, kAnySize, &RmDevice::Succeed},
    {NV_ESC_SYS_PARAMS, sizeof(nv_ioctl_sys_params_t), sizeof(nv_ioctl_sys_params_t),
     &RmDevice::SysParams},
    {NV_ESC_NUMA_INFO, sizeof(nv_ioctl_numa_info_t), sizeof(nv_ioctl_numa_info_t),
     &RmDevice::NumaInfo},
    {NV_ESC_WAIT_OPEN_COMPLETE, sizeof(nv_ioctl_wait_open_complete_t),
     sizeof(nv_ioctl_wait_open_complete_t), &RmDevice::WaitOpenComplete},
    {NV_ESC_RM_ALLOC, kAnySize, kAnySize, &RmDevice::Alloc},
    {NV_ESC_RM_ALLOC_MEMORY, sizeof(nv_ioctl_nvos02_parameters_with_fd),
     sizeof(nv_ioctl_nvos02_parameters_with_fd), &RmDevice::AllocMemoryEscape},
    {NV_ESC_RM_FREE, sizeof(NVOS00_PARAMETERS), sizeof(NVOS00_PARAMETERS), &RmDevice::Free},
    {NV_ESC_RM_CONTROL, sizeof(NVOS54_PARAMETERS), sizeof(NVOS54_PARAMETERS), &RmDevice::Control},
    {NV_ESC_RM_DUP_OBJECT, sizeof(NVOS55_PARAMETERS), sizeof(NVOS55_PARAMETERS),
     &RmDevice::DupObject},
    {NV_ESC_RM_SHARE, sizeof(NVOS57_PARAMETERS), sizeof(NVOS57_PARAMETERS), &RmDevice::Share},
    {NV_ESC_RM_VID_HEAP_CONTROL, sizeof(NVOS32_PARAMETERS), sizeof(NVOS32_PARAMETERS_V550),
     &RmDevice::VidHeapControl},
    {NV_ESC_RM_MAP_MEMORY, sizeof(nv_ioctl_nvos33_parameters_with_fd),
     sizeof(nv_ioctl_nvos33_parameters_with_fd), &RmDevice::MapMemory},
    {NV_ESC_RM_UNMAP_MEMORY, sizeof(NVOS34_PARAMETERS), sizeof(NVOS34_PARAMETERS),
     &RmDevice::UnmapMemory},
    {NV_ESC_RM_MAP_MEMORY_DMA, sizeof(NVOS46_PARAMETERS), sizeof(NVOS46_PARAMETERS),
     &RmDevice::MapMemoryDma},
    {NV_ESC_RM_UNMAP_MEMORY_DMA, sizeof(NVOS47_PARAMETERS), sizeof(NVOS47_PARAMETERS_V550),
     &RmDevice::UnmapMemoryDma},
    {NV_ESC_RM_GET_EVENT_DATA, sizeof(NVOS41_PARAMETERS), sizeof(NVOS41_PARAMETERS),
     &RmDevice::GetEventData},
    {NV_ESC_RM_IDLE_CHANNELS, sizeof(NVOS30_PARAMETERS), sizeof(NVOS30_PARAMETERS),
     &RmDevice::IdleChannels},
    {NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, sizeof(NVOS56_PARAMETERS), sizeof(NVOS56_PARAMETERS),
     &RmDevice::UpdateDeviceMappingInfo},
};

bool RmDevice::Knows(uint32_t escape) {
  return escape == NV_ESC_IOCTL_XFER_CMD ||
         std::any_of(std::begin(kRows), std::end(kRows),
                     [escape](const Row& row) { return row.number == escape; });
}

int RmDevice::Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) {
  if (_IOC_TYPE(command) != kEscapeType) {
    rm_->machine->unknowns->Count("ioctl", command, "on a device of the resource manager");
    return -EINVAL;
  }
  return Escape(call, _IOC_NR(command), _IOC_SIZE(command), argument, false);
}

int RmDevice::Escape(CallContext& call, uint32_t number, uint32_t size, RemoteAddress argument,
                     bool nested) {
  // Larger than the 14 bits of an ioctl number allow: the call is wrapped.
  constexpr uint32_t kLargestWrapped = 1 << 20;
  if (number == NV_ESC_IOCTL_XFER_CMD && !nested) {
    auto wrapped = call.memory().ReadObject<nv_ioctl_xfer_t>(argument);
    if (!wrapped) return -EFAULT;
    if (wrapped->size > kLargestWrapped) return -EINVAL;
    return Escape(call, wrapped->cmd, wrapped->size, RemoteAddress{wrapped->ptr}, true);
  }
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                [number](const Row& row) { return row.number == number; });
  if (row == std::end(kRows)) {
    const char* name = EscapeName(number);
    rm_->machine->unknowns->Count(
        "escape", number,
        absl::StrFormat("%s, %d bytes; answered EINVAL", name ? name : "no public name", size));
    return -EINVAL;
  }
  const uint32_t expected = rm_->machine->abi_550() ? row->size_550 : row->size_535;
  if (expected != kAnySize && expected != size) {
    rm_->machine->unknowns->Count(
        "escape size", uint64_t{number} << 32 | size,
        absl::StrFormat("%s: %d bytes instead of %d", EscapeName(number), size, expected));
    return -EINVAL;
  }
  Block block(size);
  if (!call.memory().Read(argument, block.data(), size)) return -EFAULT;
  const int result = (this->*row->handle)(call, block);
  if (result == 0 && !call.memory().Write(argument, block.data(), size)) return -EFAULT;
  return result;
}

void RmDevice::Trace(CallContext& call, uint32_t number, const std::string& text) {
  if (!rm_->machine->log->enabled()) return;
  rm_->machine->log->Line(call.process(), absl::StrCat(EscapeName(number), " ", text));
}

}  // namespace phantora
