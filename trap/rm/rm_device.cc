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
#include "trap/rm/event_device.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"
#include "trap/rm/rm_sharing.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr uint32_t kNvidiaVendor = 0x10de;
constexpr uint32_t kEscapeType = 'F';

bool IsRootClass(uint32_t class_id) {
  return class_id == NV01_ROOT || class_id == NV01_ROOT_NON_PRIV || class_id == NV01_ROOT_CLIENT;
}

template <typename T>
T& As(std::vector<uint8_t>& block) {
  return *reinterpret_cast<T*>(block.data());
}

std::string StatusText(uint32_t status) {
  const char* name = NvStatusName(status);
  return name != nullptr ? name : absl::StrFormat("0x%x", status);
}

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

int RmDevice::CheckVersion(CallContext& call, Block& block) {
  auto& params = As<nv_ioctl_rm_api_version_t>(block);
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

int RmDevice::SysParams(CallContext& call, Block& block) {
  As<nv_ioctl_sys_params_t>(block).memblock_size = 128 << 20;
  Trace(call, NV_ESC_SYS_PARAMS, "");
  return 0;
}

int RmDevice::NumaInfo(CallContext& call, Block& block) {
  auto& params = As<nv_ioctl_numa_info_t>(block);
  std::memset(&params, 0, sizeof params);
  params.nid = -1;
  params.status = NV_IOCTL_NUMA_STATUS_DISABLED;
  Trace(call, NV_ESC_NUMA_INFO, "none");
  return 0;
}

int RmDevice::RegisterFd(CallContext& call, Block& block) {
  // Ties a GPU's file to its control file; both must be ours.
  const int control = As<nv_ioctl_register_fd_t>(block).ctl_fd;
  auto device = std::dynamic_pointer_cast<RmDevice>(call.DeviceAt(control));
  Trace(call, NV_ESC_REGISTER_FD, absl::StrCat("control fd ", control));
  return device != nullptr && device->minor_ == kControlMinor ? 0 : -EINVAL;
}

int RmDevice::AllocOsEvent(CallContext& call, Block& block) {
  auto& params = As<nv_ioctl_alloc_os_event_t>(block);
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

int RmDevice::FreeOsEvent(CallContext& call, Block& block) {
  // The event ends with its objects and descriptors.
  auto& params = As<nv_ioctl_free_os_event_t>(block);
  params.Status = NV_OK;
  Trace(call, NV_ESC_FREE_OS_EVENT, absl::StrCat("fd ", params.fd));
  return 0;
}

int RmDevice::Succeed(CallContext&, Block&) { return 0; }

int RmDevice::WaitOpenComplete(CallContext&, Block& block) {
  auto& params = As<nv_ioctl_wait_open_complete_t>(block);
  params.rc = 0;
  params.adapterStatus = NV_OK;
  return 0;
}

uint32_t RmDevice::AllocClient(CallContext& call, uint32_t* handle, RemoteAddress params) {
  const uint32_t status = rm_->server.AddClient(
      {.process = call.process(), .opener = this, .user = EffectiveUser(call.process())}, handle);
  if (status != NV_OK) return status;
  if (clients_.size() == clients_.capacity()) {
    std::erase_if(clients_, [this](uint32_t other) { return !Opened(other); });
  }
  clients_.push_back(*handle);
  if (params != RemoteAddress{0}) call.memory().WriteObject(params, *handle);
  return NV_OK;
}

int RmDevice::Alloc(CallContext& call, Block& block) {
  // NVOS21 is a shorter NVOS64 (nvos.h); both name the same things.
  const auto run = [&](auto& params, uint32_t params_size) {
    const RemoteAddress at{params.pAllocParms};
    uint32_t handle = params.hObjectNew;
    if (IsRootClass(params.hClass)) {
      params.status = AllocClient(call, &handle, at);
      if (params.status == NV_OK && params.hRoot == 0) params.hRoot = handle;
    } else if (RmClient* client = rm_->server.FindFor(call.process(), params.hRoot)) {
      params.status = AllocObject(*rm_, call, *client, params.hObjectParent, &handle, params.hClass,
                                  at, params_size);
    } else {
      params.status = NV_ERR_INVALID_CLIENT;
    }
    if (params.status == NV_OK) params.hObjectNew = handle;
    const char* class_name = RmClassName(params.hClass);
    Trace(call, NV_ESC_RM_ALLOC,
          absl::StrFormat("%s (0x%x) client 0x%x parent 0x%x new 0x%x: %s",
                          class_name ? class_name : "?", params.hClass, params.hRoot,
                          params.hObjectParent, handle, StatusText(params.status)));
    return 0;
  };
  if (block.size() == sizeof(NVOS64_PARAMETERS)) {
    auto& params = As<NVOS64_PARAMETERS>(block);
    return run(params, params.paramsSize);
  }
  if (block.size() == sizeof(NVOS21_PARAMETERS)) {
    auto& params = As<NVOS21_PARAMETERS>(block);
    return run(params, params.paramsSize);
  }
  rm_->machine->unknowns->Count("escape size", uint64_t{NV_ESC_RM_ALLOC} << 32 | block.size(),
                                "NV_ESC_RM_ALLOC of unknown layout");
  return -EINVAL;
}

int RmDevice::AllocMemoryEscape(CallContext& call, Block& block) {
  auto& params = As<nv_ioctl_nvos02_parameters_with_fd>(block).params;
  RmClient* client = rm_->server.FindFor(call.process(), params.hRoot);
  RmObject* parent = client == nullptr ? nullptr : client->Find(params.hObjectParent);
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
  } else if (parent == nullptr || parent->gpu < 0) {
    params.status = NV_ERR_INVALID_OBJECT_PARENT;
  } else if (params.hClass != NV01_MEMORY_SYSTEM_OS_DESCRIPTOR) {
    rm_->machine->unknowns->Count("class", params.hClass,
                                  "in NV_ESC_RM_ALLOC_MEMORY; refused as NV_ERR_INVALID_CLASS");
    params.status = NV_ERR_INVALID_CLASS;
  } else {
    RmObject object{.handle = params.hObjectNew,
                    .parent = params.hObjectParent,
                    .class_id = params.hClass,
                    .gpu = parent->gpu,
                    .children = {},
                    .resource = {}};
    params.status = AllocOsDescriptor(*rm_, call, parent->gpu, RemoteAddress{params.pMemory},
                                      params.limit + 1, &object.resource);
    if (params.status == NV_OK) {
      params.status = client->Insert(std::move(object), &params.hObjectNew);
    }
  }
  Trace(call, NV_ESC_RM_ALLOC_MEMORY,
        absl::StrFormat("address 0x%x limit 0x%x new 0x%x: %s", params.pMemory, params.limit,
                        params.hObjectNew, StatusText(params.status)));
  return 0;
}

int RmDevice::Free(CallContext& call, Block& block) {
  auto& params = As<NVOS00_PARAMETERS>(block);
  RmClient* client = rm_->server.FindFor(call.process(), params.hRoot);
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
  } else if (params.hObjectOld == params.hRoot) {
    rm_->server.FreeClient(params.hRoot);
    params.status = NV_OK;
  } else {
    params.status = client->Free(params.hObjectOld);
  }
  Trace(call, NV_ESC_RM_FREE,
        absl::StrFormat("client 0x%x object 0x%x: %s", params.hRoot, params.hObjectOld,
                        StatusText(params.status)));
  return 0;
}

int RmDevice::Control(CallContext& call, Block& block) {
  auto& params = As<NVOS54_PARAMETERS>(block);
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  params.status = client == nullptr
                      ? NV_ERR_INVALID_CLIENT
                      : ControlObject(*rm_, call, *client, params.hObject, params.cmd,
                                      RemoteAddress{params.params}, params.paramsSize);
  return 0;
}

int RmDevice::DupObject(CallContext& call, Block& block) {
  auto& params = As<NVOS55_PARAMETERS>(block);
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  RmObject* parent = client == nullptr ? nullptr : client->Find(params.hParent);
  // The source may be another process's, which must have shared it: that is how IPC handles are
  // opened (serverCopyResource in rs_server.c).
  RmClient* source_client = rm_->server.FindAny(params.hClientSrc);
  RmObject* source = source_client == nullptr ? nullptr : source_client->Find(params.hObjectSrc);
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
  } else if (source == nullptr || source->resource == nullptr) {
    params.status = NV_ERR_INVALID_OBJECT_HANDLE;
  } else if (const uint32_t status = CheckDuplication(rm_->server, *source_client, *source, *client,
                                                      parent == nullptr ? -1 : parent->gpu);
             status != NV_OK) {
    params.status = status;
  } else if (source_client->process() != call.process() &&
             source->As<MemoryResource>() == nullptr) {
    // The driver lets channel groups and address spaces be shared, too; no library does, and here
    // they are of one process.
    params.status = NV_ERR_INSUFFICIENT_PERMISSIONS;
  } else {
    params.status = client->Insert({.handle = params.hObject,
                                    .parent = params.hParent,
                                    .class_id = source->class_id,
                                    .gpu = source->gpu,
                                    .children = {},
                                    .resource = source->resource},
                                   &params.hObject);
  }
  Trace(call, NV_ESC_RM_DUP_OBJECT,
        absl::StrFormat("0x%x of client 0x%x as 0x%x: %s", params.hObjectSrc, params.hClientSrc,
                        params.hObject, StatusText(params.status)));
  return 0;
}

int RmDevice::Share(CallContext& call, Block& block) {
  auto& params = As<NVOS57_PARAMETERS>(block);
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  const auto& policy = params.sharePolicy;
  params.status = client == nullptr ? NV_ERR_INVALID_CLIENT
                                    : ShareObject(rm_->server, *client, params.hObject, policy);
  Trace(call, NV_ESC_RM_SHARE,
        absl::StrFormat("0x%x type %d target 0x%x rights 0x%x action 0x%x: %s", params.hObject,
                        policy.type, policy.target, policy.accessMask.limbs[0], policy.action,
                        StatusText(params.status)));
  return 0;
}

uint32_t RmDevice::HeapAllocSize(CallContext& call, RmClient& client, Block& block) {
  // The 550 structure only has more behind AllocSize's last field.
  auto& params = As<NVOS32_PARAMETERS>(block);
  auto& request = params.data.AllocSize;
  RmObject* parent = client.Find(params.hObjectParent);
  if (parent == nullptr || parent->gpu < 0) return NV_ERR_INVALID_OBJECT_PARENT;
  constexpr uint64_t kLargest = uint64_t{1} << 48;
  if (request.size == 0) return NV_ERR_INVALID_ARGUMENT;
  if (request.size > kLargest) return NV_ERR_NO_MEMORY;
  RmObject object{.handle = request.hMemory,
                  .parent = params.hObjectParent,
                  .class_id = NV50_MEMORY_VIRTUAL,
                  .gpu = parent->gpu,
                  .children = {},
                  .resource = {}};
  const uint32_t location =
      (request.attr & NVOS32_ATTR_LOCATION_MASK) >> NVOS32_ATTR_LOCATION_SHIFT;
  const bool vidmem =
      location == NVOS32_ATTR_LOCATION_VIDMEM || location == NVOS32_ATTR_LOCATION_ANY;
  const uint64_t page = PageSizeFor(request.attr, vidmem, request.size);
  const uint64_t bytes = (request.size + page - 1) / page * page;
  if ((request.flags & NVOS32_ALLOC_FLAGS_VIRTUAL) != 0) {
    auto range = std::make_shared<VirtualRangeResource>();
    range->base = request.offset;
    range->size = bytes;
    object.resource = std::move(range);
  } else {
    object.class_id = vidmem ? NV01_MEMORY_LOCAL_USER : NV01_MEMORY_SYSTEM;
    const uint32_t status = AllocMemory(*rm_, call, parent->gpu, vidmem, bytes, &object.resource);
    if (status != NV_OK) return status;
    request.offset = 0;
  }
  const VidmemHeap& heap = *rm_->machine->gpus[parent->gpu].heap;
  const uint32_t status = client.Insert(std::move(object), &request.hMemory);
  if (status != NV_OK) return status;
  request.size = bytes;
  request.limit = bytes - 1;
  request.address = 0;
  if ((request.attr & NVOS32_ATTR_PAGE_SIZE_MASK) == 0) {
    const uint32_t code = page == 4096          ? NVOS32_ATTR_PAGE_SIZE_4KB
                          : page == (64u << 10) ? NVOS32_ATTR_PAGE_SIZE_BIG
                                                : NVOS32_ATTR_PAGE_SIZE_HUGE;
    request.attr |= code << NVOS32_ATTR_PAGE_SIZE_SHIFT;
  }
  if (location == NVOS32_ATTR_LOCATION_ANY) request.attr &= ~NVOS32_ATTR_LOCATION_MASK;
  params.total = heap.capacity();
  params.free = heap.free();
  return NV_OK;
}

int RmDevice::VidHeapControl(CallContext& call, Block& block) {
  auto& params = As<NVOS32_PARAMETERS>(block);
  RmClient* client = rm_->server.FindFor(call.process(), params.hRoot);
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
    return 0;
  }
  switch (params.function) {
    case NVOS32_FUNCTION_ALLOC_SIZE:
    case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
      params.status = HeapAllocSize(call, *client, block);
      break;
    case NVOS32_FUNCTION_FREE:
      params.status = client->Free(params.data.Free.hMemory);
      break;
    case NVOS32_FUNCTION_INFO: {
      RmObject* device = client->Find(params.hObjectParent);
      if (device == nullptr || device->gpu < 0) {
        params.status = NV_ERR_INVALID_OBJECT_PARENT;
        break;
      }
      const VidmemHeap& heap = *rm_->machine->gpus[device->gpu].heap;
      params.total = heap.capacity();
      params.free = params.data.Info.size = heap.free();
      params.data.Info.offset = params.data.Info.base = 0;
      params.status = NV_OK;
      break;
    }
    case NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR: {
      auto& request = params.data.AllocOsDesc;
      RmObject* parent = client->Find(params.hObjectParent);
      if (parent == nullptr || parent->gpu < 0) {
        params.status = NV_ERR_INVALID_OBJECT_PARENT;
        break;
      }
      RmObject object{.handle = request.hMemory,
                      .parent = params.hObjectParent,
                      .class_id = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                      .gpu = parent->gpu,
                      .children = {},
                      .resource = {}};
      params.status = AllocOsDescriptor(*rm_, call, parent->gpu, RemoteAddress{request.descriptor},
                                        request.limit + 1, &object.resource);
      if (params.status == NV_OK) {
        params.status = client->Insert(std::move(object), &request.hMemory);
      }
      break;
    }
    default:
      rm_->machine->unknowns->Count("heap function", params.function,
                                    "answered NV_ERR_NOT_SUPPORTED");
      params.status = NV_ERR_NOT_SUPPORTED;
      break;
  }
  Trace(call, NV_ESC_RM_VID_HEAP_CONTROL,
        absl::StrFormat("function %d: %s", params.function, StatusText(params.status)));
  return 0;
}

int RmDevice::MapMemory(CallContext& call, Block& block) {
  auto& with_fd = As<nv_ioctl_nvos33_parameters_with_fd>(block);
  auto& params = with_fd.params;
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  RmObject* object = client == nullptr ? nullptr : client->Find(params.hMemory);
  std::shared_ptr<MemoryObject> memory;
  if (object != nullptr) {
    if (auto resource = object->As<MemoryResource>()) memory = resource->memory;
    if (auto resource = object->As<DoorbellResource>()) memory = resource->doorbell->page;
  }
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
  } else if (memory == nullptr || memory->MappableFd() < 0 ||
             call.DeviceAt(with_fd.fd) == nullptr) {
    params.status = NV_ERR_INVALID_OBJECT_HANDLE;
  } else if (params.offset != 0 || params.length > memory->size()) {
    // The caller maps the descriptor from offset 0 on; both drivers always map
    // whole objects.
    rm_->machine->unknowns->Count("partial mapping", params.offset,
                                  "refused as NV_ERR_INVALID_ARGUMENT");
    params.status = NV_ERR_INVALID_ARGUMENT;
  } else {
    // From now on the descriptor is the memory itself, and the caller's mmap of
    // it needs no help.
    params.status =
        call.Replace(with_fd.fd, memory->MappableFd()).ok() ? NV_OK : NV_ERR_INVALID_ARGUMENT;
    params.pLinearAddress = 0;
  }
  Trace(call, NV_ESC_RM_MAP_MEMORY,
        absl::StrFormat("object 0x%x length 0x%x fd %d: %s", params.hMemory, params.length,
                        with_fd.fd, StatusText(params.status)));
  return 0;
}

int RmDevice::UnmapMemory(CallContext& call, Block& block) {
  // The pages go with the caller's munmap.
  auto& params = As<NVOS34_PARAMETERS>(block);
  params.status = NV_OK;
  Trace(call, NV_ESC_RM_UNMAP_MEMORY, absl::StrFormat("object 0x%x", params.hMemory));
  return 0;
}

int RmDevice::MapMemoryDma(CallContext& call, Block& block) {
  auto& params = As<NVOS46_PARAMETERS>(block);
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  RmObject* memory = client == nullptr ? nullptr : client->Find(params.hMemory);
  RmObject* space = client == nullptr ? nullptr : client->Find(params.hDma);
  auto resource = memory == nullptr ? nullptr : memory->As<MemoryResource>();
  std::shared_ptr<GpuContext> context;
  if (space != nullptr) {
    if (auto va_space = space->As<VaSpaceResource>()) context = va_space->context;
  }
  if (resource == nullptr || context == nullptr) {
    params.status = NV_ERR_INVALID_OBJECT_HANDLE;
  } else {
    params.status =
        context->memory.Map(params.dmaOffset, params.length, resource->memory, params.offset)
            ? NV_OK
            : NV_ERR_INVALID_ARGUMENT;
  }
  Trace(call, NV_ESC_RM_MAP_MEMORY_DMA,
        absl::StrFormat("object 0x%x at 0x%x length 0x%x: %s", params.hMemory, params.dmaOffset,
                        params.length, StatusText(params.status)));
  return 0;
}

int RmDevice::UnmapMemoryDma(CallContext& call, Block& block) {
  // No driver library was seen to use it; the length is known to 550 only.
  rm_->machine->unknowns->Count("escape", NV_ESC_RM_UNMAP_MEMORY_DMA,
                                "NV_ESC_RM_UNMAP_MEMORY_DMA; answered EINVAL");
  return -EINVAL;
}

int RmDevice::GetEventData(CallContext& call, Block& block) {
  // Events carry no data here.
  auto& params = As<NVOS41_PARAMETERS>(block);
  params.MoreEvents = 0;
  params.status = NV_ERR_GENERIC;
  return 0;
}

int RmDevice::IdleChannels(CallContext& call, Block& block) {
  As<NVOS30_PARAMETERS>(block).status = NV_OK;
  return 0;
}

int RmDevice::UpdateDeviceMappingInfo(CallContext& call, Block& block) {
  // Only bookkeeping: mappings are not tracked by address here.
  As<NVOS56_PARAMETERS>(block).status = NV_OK;
  return 0;
}

}  // namespace phantora
