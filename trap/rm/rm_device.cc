#include "trap/rm/rm_device.h"

#include <linux/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

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

template <auto kServe>
int RmDevice::Serve(RmDevice& device, CallContext& call, Block& block) {
  using Params = ParamsOf<kServe>;
  if constexpr (std::is_same_v<Params, Block>) {
    return (device.*kServe)(call, block);
  } else {
    return (device.*kServe)(call, *reinterpret_cast<Params*>(block.data()));
  }
}

// Blocks without a status have none but what the call returns.
template <auto kServe>
bool RmDevice::Succeeded(const Block& block) {
  using Params = ParamsOf<kServe>;
  if constexpr (!std::is_same_v<Params, Block>) {
    const auto& params = *reinterpret_cast<const Params*>(block.data());
    if constexpr (requires { params.status; }) return params.status == NV_OK;
    if constexpr (requires { params.Status; }) return params.Status == NV_OK;
  }
  return true;
}

// Later versions only add to the end of kServe's parameters, or differ where nobody looks.
template <auto kServe, bool kDiffersWhereNobodyLooks>
constexpr RmDevice::Row RmDevice::Typed(uint32_t number, const char* quiet) {
  static_assert(kDiffersWhereNobodyLooks || OnlyGrows<ParamsOf<kServe>>());
  return {number, EachSize<ParamsOf<kServe>>(&Serve<kServe>), quiet, Succeeded<kServe>};
}

template <auto kServe>
constexpr RmDevice::Row RmDevice::AnySize(uint32_t number, const char* quiet) {
  return {number, HandlerVersions<Handler>({kAnySize, Serve<kServe>}), quiet, Succeeded<kServe>};
}

absl::Span<const RmDevice::Row> RmDevice::Rows() {
  static constexpr Row kRows[] = {
      AnySize<&RmDevice::CardInfo>(NV_ESC_CARD_INFO),
      Typed<&RmDevice::RegisterFd>(NV_ESC_REGISTER_FD),
      Typed<&RmDevice::AllocOsEvent>(NV_ESC_ALLOC_OS_EVENT),
      Typed<&RmDevice::FreeOsEvent>(NV_ESC_FREE_OS_EVENT,
                                    "an event ends with its objects and descriptors"),
      Typed<&RmDevice::StatusCode>(NV_ESC_STATUS_CODE),
      Typed<&RmDevice::CheckVersion>(NV_ESC_CHECK_VERSION_STR),
      AnySize<&RmDevice::AttachGpus>(NV_ESC_ATTACH_GPUS_TO_FD, "GPUs are always attached"),
      Typed<&RmDevice::SysParams>(NV_ESC_SYS_PARAMS),
      Typed<&RmDevice::NumaInfo>(NV_ESC_NUMA_INFO),
      Typed<&RmDevice::WaitOpenComplete>(NV_ESC_WAIT_OPEN_COMPLETE),
      AnySize<&RmDevice::Alloc>(NV_ESC_RM_ALLOC),
      Typed<&RmDevice::AllocMemoryEscape>(NV_ESC_RM_ALLOC_MEMORY),
      Typed<&RmDevice::Free>(NV_ESC_RM_FREE),
      Typed<&RmDevice::Control>(NV_ESC_RM_CONTROL),
      Typed<&RmDevice::DupObject>(NV_ESC_RM_DUP_OBJECT),
      Typed<&RmDevice::Share>(NV_ESC_RM_SHARE),
      // 575 has other members for functions that nobody asks for (Dump, AllocHintAlignment).
      Typed<&RmDevice::VidHeapControl, true>(NV_ESC_RM_VID_HEAP_CONTROL),
      Typed<&RmDevice::MapMemory>(NV_ESC_RM_MAP_MEMORY),
      Typed<&RmDevice::UnmapMemory>(NV_ESC_RM_UNMAP_MEMORY,
                                    "the pages go with the caller's munmap"),
      {NV_ESC_RM_MAP_MEMORY_DMA, EachVersion<Handler, NVOS46_PARAMETERS>([]<typename Layout>() {
         return TypedHandler<Handler>{sizeof(Layout), Serve<&RmDevice::MapMemoryDma<Layout>>};
       })},
      {NV_ESC_RM_UNMAP_MEMORY_DMA, EachVersion<Handler, NVOS47_PARAMETERS>([]<typename Layout>() {
         return TypedHandler<Handler>{sizeof(Layout), Serve<&RmDevice::UnmapMemoryDma<Layout>>};
       })},
      Typed<&RmDevice::GetEventData>(NV_ESC_RM_GET_EVENT_DATA),
      Typed<&RmDevice::IdleChannels>(NV_ESC_RM_IDLE_CHANNELS,
                                     "who waits for a channel finds its work done in order"),
      Typed<&RmDevice::UpdateDeviceMappingInfo>(NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO,
                                                "mappings are not kept by address"),
  };
  return kRows;
}

bool RmDevice::Knows(uint32_t escape) {
  return escape == NV_ESC_IOCTL_XFER_CMD ||
         std::any_of(Rows().begin(), Rows().end(),
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
  const auto row = std::find_if(Rows().begin(), Rows().end(),
                                [number](const Row& row) { return row.number == number; });
  const DriverAbi abi = rm_->machine->driver.abi;
  if (row == Rows().end() || row->versions.For(abi).serve == nullptr) {
    const char* name = EscapeName(number);
    rm_->machine->unknowns->Count(
        "escape", number,
        absl::StrFormat("%s, %d bytes; answered EINVAL", name ? name : "no public name", size));
    return -EINVAL;
  }
  const auto& [expected, serve] = row->versions.For(abi);
  if (expected != kAnySize && expected != size) {
    rm_->machine->unknowns->Count(
        "escape size", uint64_t{number} << 32 | size,
        absl::StrFormat("%s: %d bytes instead of %d", EscapeName(number), size, expected));
    return -EINVAL;
  }
  Block block(size);
  if (!call.memory().Read(argument, block.data(), size)) return -EFAULT;
  const int result = serve(*this, call, block);
  if (row->quiet != nullptr && result == 0 && row->succeeded(block)) {
    rm_->machine->quiet->Count("escape", number, EscapeName(number), row->quiet);
  }
  if (result == 0 && !call.memory().Write(argument, block.data(), size)) return -EFAULT;
  return result;
}

void RmDevice::Trace(CallContext& call, uint32_t number, const std::string& text) {
  if (!rm_->machine->log->enabled()) return;
  rm_->machine->log->Line(call.process(), absl::StrCat(EscapeName(number), " ", text));
}

}  // namespace phantora
