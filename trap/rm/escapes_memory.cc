// RmDevice's escapes about memory: the heap, and mappings.
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
#include "trap/rm/virtual_memory.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

}  // namespace

uint32_t RmDevice::HeapAllocSize(CallContext& call, RmClient& client, NVOS32_PARAMETERS& params) {
  // The 550 structure only has more behind AllocSize's last field.
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
    auto space = VaSpaceOf(client, params.hObjectParent, 0);
    if (space == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
    uint64_t size = bytes;
    const uint32_t status = ReserveRange(std::move(space), request.flags, request.alignment, &size,
                                         &request.offset, &object.resource);
    if (status != NV_OK) return status;
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

int RmDevice::VidHeapControl(CallContext& call, NVOS32_PARAMETERS& params) {
  RmClient* client = rm_->server.FindFor(call.process(), params.hRoot);
  if (client == nullptr) {
    params.status = NV_ERR_INVALID_CLIENT;
    return 0;
  }
  switch (params.function) {
    case NVOS32_FUNCTION_ALLOC_SIZE:
    case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
      params.status = HeapAllocSize(call, *client, params);
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

int RmDevice::MapMemory(CallContext& call, nv_ioctl_nvos33_parameters_with_fd& with_fd) {
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

int RmDevice::UnmapMemory(CallContext& call, NVOS34_PARAMETERS& params) {
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  params.status = client == nullptr                         ? NV_ERR_INVALID_CLIENT
                  : client->Find(params.hMemory) == nullptr ? NV_ERR_INVALID_OBJECT_HANDLE
                                                            : NV_OK;
  Trace(call, NV_ESC_RM_UNMAP_MEMORY,
        absl::StrFormat("object 0x%x: %s", params.hMemory, StatusText(params.status)));
  return 0;
}

namespace {

// Where an object of virtual memory lets others be mapped. `range`: nullptr is all of the space.
struct Target {
  std::shared_ptr<VaSpaceResource> space;
  std::shared_ptr<VirtualRangeResource> range;
};
Target TargetOf(RmClient* client, uint32_t handle) {
  const RmObject* object = client == nullptr ? nullptr : client->Find(handle);
  if (object == nullptr) return {};
  auto range = object->As<VirtualRangeResource>();
  return {range != nullptr ? range->space : object->As<VaSpaceResource>(), range};
}

// Where dmaAllocMap_IMPL (gpu/mem_mgr/dma.c) maps; NV_STATUS. `va`: what the caller says, then the
// address.
uint32_t ChooseAddress(const Target& target, uint32_t flags, uint64_t length, uint64_t* va) {
  const VirtualRangeResource* range = target.range.get();
  const bool is_fixed = (flags & NVOS46_FLAGS_DMA_OFFSET_FIXED_MASK) != 0;
  if (range == nullptr || (is_fixed && !range->is_reserved)) return NV_OK;
  if (range->is_reserved) {
    if (!is_fixed) *va += range->base;
    return *va < range->base || *va - range->base >= range->size ? NV_ERR_INVALID_OFFSET : NV_OK;
  }
  constexpr uint64_t kAlignment = 64 << 10, kFirst = 2 << 20;
  const auto room = FindRoom(*target.space, std::max(range->base, kFirst),
                             range->base + range->size, length, kAlignment);
  if (!room) return NV_ERR_NO_MEMORY;
  *va = *room;
  return NV_OK;
}

}  // namespace

template <typename Params>
int RmDevice::MapMemoryDma(CallContext& call, Params& params) {
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  RmObject* memory = client == nullptr ? nullptr : client->Find(params.hMemory);
  auto resource = memory == nullptr ? nullptr : memory->As<MemoryResource>();
  const Target target = TargetOf(client, params.hDma);
  if (resource == nullptr || target.space == nullptr) {
    params.status = NV_ERR_INVALID_OBJECT_HANDLE;
  } else {
    params.status = ChooseAddress(target, params.flags, params.length, &params.dmaOffset);
    if (params.status == NV_OK &&
        !target.space->context->memory.Map(params.dmaOffset, params.length, resource->memory,
                                           params.offset)) {
      params.status = NV_ERR_INVALID_ARGUMENT;
    }
  }
  Trace(call, NV_ESC_RM_MAP_MEMORY_DMA,
        absl::StrFormat("object 0x%x at 0x%x length 0x%x: %s", params.hMemory, params.dmaOffset,
                        params.length, StatusText(params.status)));
  return 0;
}

template int RmDevice::MapMemoryDma(CallContext&, NVOS46_PARAMETERS&);
template int RmDevice::MapMemoryDma(CallContext&, NVOS46_PARAMETERS_V580&);

// serverInterUnmap (rs_server.c): without a size, all of what was mapped at that address.
template <typename Params>
int RmDevice::UnmapMemoryDma(CallContext& call, Params& params) {
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  const Target target = TargetOf(client, params.hDma);
  uint64_t size = 0;
  if constexpr (requires { params.size; }) size = params.size;
  if (target.space == nullptr) {
    params.status = client == nullptr ? NV_ERR_INVALID_CLIENT : NV_ERR_INVALID_OBJECT_HANDLE;
  } else if (size > ~params.dmaOffset) {
    params.status = NV_ERR_INVALID_ARGUMENT;
  } else {
    AddressSpace& memory = target.space->context->memory;
    const auto mapping = memory.MappingAt(params.dmaOffset);
    params.status = NV_OK;
    if (size != 0) {
      memory.Unmap(params.dmaOffset, size);
    } else if (mapping && mapping->first == params.dmaOffset) {
      memory.Unmap(mapping->first, mapping->second);
    } else {
      params.status = NV_ERR_OBJECT_NOT_FOUND;
    }
  }
  Trace(call, NV_ESC_RM_UNMAP_MEMORY_DMA,
        absl::StrFormat("at 0x%x length 0x%x: %s", params.dmaOffset, size,
                        StatusText(params.status)));
  return 0;
}

template int RmDevice::UnmapMemoryDma(CallContext&, NVOS47_PARAMETERS&);
template int RmDevice::UnmapMemoryDma(CallContext&, NVOS47_PARAMETERS_V550&);

}  // namespace phantora
