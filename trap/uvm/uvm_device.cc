#include "trap/uvm/uvm_device.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_format.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/uvm_ioctl.h"
#include "trap/rm/rm_resources.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// All of user space (47 bits).
constexpr uint64_t kAddressSpaceBytes = uint64_t{1} << 47;
constexpr uint64_t kPage = 4096;
// A bound on what one process can make the supervisor keep.
constexpr size_t kMostRanges = 1 << 17;

template <typename T>
T& As(std::vector<uint8_t>& block) {
  return *reinterpret_cast<T*>(block.data());
}

bool PageAligned(uint64_t base, uint64_t length) {
  return base % kPage == 0 && length % kPage == 0 && length > 0 && base < kAddressSpaceBytes &&
         length <= kAddressSpaceBytes - base;
}

}  // namespace

UvmDevice::UvmDevice(ResourceManager* rm, pid_t owner)
    : rm_(rm),
      owner_(owner),
      file_(std::make_shared<OwnedMemory>(MemoryKind::kManaged, kAddressSpaceBytes)),
      ranges_(kMostRanges) {}

UvmDevice::~UvmDevice() {
  // The GPU address spaces may outlive this file; what it mapped does not.
  for (const auto& [gpu, space] : spaces_) Leave(*space);
}

template <typename Params>
uint32_t UvmDevice::Succeed(CallContext&, Block&) {
  return NV_OK;
}

template <typename Params>
uint32_t UvmDevice::NoPageableAccess(CallContext&, Block& block) {
  // Neither ATS nor HMM: GPUs reach only what was mapped for them.
  As<Params>(block).pageableMemAccess = 0;
  return NV_OK;
}

const std::vector<UvmDevice::Row>& UvmDevice::Rows() {
// One row per ioctl whose layout is the same in all versions, and one per ioctl
// whose layout 550 changed.
#define PHANTORA_UVM_ROW(command, handler)                                          \
  Row {                                                                             \
    command, sizeof(command##_PARAMS), sizeof(command##_PARAMS),                    \
        offsetof(command##_PARAMS, rmStatus), offsetof(command##_PARAMS, rmStatus), \
        &UvmDevice::handler, &UvmDevice::handler                                    \
  }
#define PHANTORA_UVM_ROW_V550(command, handler)                                           \
  Row {                                                                                   \
    command, sizeof(command##_PARAMS), sizeof(command##_PARAMS_V550),                     \
        offsetof(command##_PARAMS, rmStatus), offsetof(command##_PARAMS_V550, rmStatus),  \
        &UvmDevice::handler<command##_PARAMS>, &UvmDevice::handler<command##_PARAMS_V550> \
  }
#define PHANTORA_UVM_OK(command) PHANTORA_UVM_ROW(command, Succeed<command##_PARAMS>)
  static const std::vector<Row> rows = {
      PHANTORA_UVM_OK(UVM_INITIALIZE),
      PHANTORA_UVM_OK(UVM_MM_INITIALIZE),
      PHANTORA_UVM_ROW(UVM_PAGEABLE_MEM_ACCESS, NoPageableAccess<UVM_PAGEABLE_MEM_ACCESS_PARAMS>),
      PHANTORA_UVM_ROW(UVM_PAGEABLE_MEM_ACCESS_ON_GPU,
                       NoPageableAccess<UVM_PAGEABLE_MEM_ACCESS_ON_GPU_PARAMS>),
      PHANTORA_UVM_ROW(UVM_REGISTER_GPU, RegisterGpu),
      PHANTORA_UVM_ROW(UVM_UNREGISTER_GPU, UnregisterGpu),
      PHANTORA_UVM_ROW(UVM_REGISTER_GPU_VASPACE, RegisterGpuVaSpace),
      PHANTORA_UVM_ROW(UVM_UNREGISTER_GPU_VASPACE, UnregisterGpuVaSpace),
      // Channels need no registration here: their contexts know the space.
      PHANTORA_UVM_OK(UVM_REGISTER_CHANNEL),
      PHANTORA_UVM_OK(UVM_UNREGISTER_CHANNEL),
      // Peers reach each other's memory as soon as it is mapped for them.
      PHANTORA_UVM_OK(UVM_ENABLE_PEER_ACCESS),
      PHANTORA_UVM_OK(UVM_DISABLE_PEER_ACCESS),
      PHANTORA_UVM_ROW(UVM_CREATE_RANGE_GROUP, CreateRangeGroup),
      PHANTORA_UVM_OK(UVM_DESTROY_RANGE_GROUP),
      PHANTORA_UVM_OK(UVM_SET_RANGE_GROUP),
      PHANTORA_UVM_OK(UVM_PREVENT_MIGRATION_RANGE_GROUPS),
      PHANTORA_UVM_OK(UVM_ALLOW_MIGRATION_RANGE_GROUPS),
      PHANTORA_UVM_OK(UVM_MIGRATE_RANGE_GROUP),
      PHANTORA_UVM_ROW(UVM_CREATE_EXTERNAL_RANGE, CreateExternalRange),
      PHANTORA_UVM_ROW_V550(UVM_MAP_EXTERNAL_ALLOCATION, MapExternalAllocation),
      PHANTORA_UVM_ROW(UVM_MAP_EXTERNAL_SPARSE, MapExternalSparse),
      PHANTORA_UVM_ROW(UVM_UNMAP_EXTERNAL, UnmapExternal),
      PHANTORA_UVM_ROW_V550(UVM_ALLOC_SEMAPHORE_POOL, AllocSemaphorePool),
      PHANTORA_UVM_ROW(UVM_MAP_DYNAMIC_PARALLELISM_REGION, MapDynamicParallelismRegion),
      PHANTORA_UVM_ROW(UVM_FREE, FreeRange),
      PHANTORA_UVM_ROW(UVM_VALIDATE_VA_RANGE, ValidateRange),
      // There is one copy of managed memory, so hints about its place and
      // migrations have no effect but their completion.
      PHANTORA_UVM_ROW(UVM_MIGRATE, Migrate),
      PHANTORA_UVM_ROW_V550(UVM_SET_PREFERRED_LOCATION, Succeed),
      PHANTORA_UVM_OK(UVM_UNSET_PREFERRED_LOCATION),
      PHANTORA_UVM_OK(UVM_SET_ACCESSED_BY),
      PHANTORA_UVM_OK(UVM_UNSET_ACCESSED_BY),
      PHANTORA_UVM_OK(UVM_ENABLE_READ_DUPLICATION),
      PHANTORA_UVM_OK(UVM_DISABLE_READ_DUPLICATION),
      PHANTORA_UVM_OK(UVM_ENABLE_SYSTEM_WIDE_ATOMICS),
      PHANTORA_UVM_OK(UVM_DISABLE_SYSTEM_WIDE_ATOMICS),
      PHANTORA_UVM_OK(UVM_CLEAN_UP_ZOMBIE_RESOURCES),
      PHANTORA_UVM_OK(UVM_POPULATE_PAGEABLE),
      PHANTORA_UVM_ROW(UVM_IS_8_SUPPORTED, Is8Supported),
  };
#undef PHANTORA_UVM_OK
#undef PHANTORA_UVM_ROW_V550
#undef PHANTORA_UVM_ROW
  return rows;
}

bool UvmDevice::Knows(uint32_t command) {
  const auto& rows = Rows();
  return command == UVM_DEINITIALIZE ||
         std::any_of(rows.begin(), rows.end(),
                     [command](const Row& row) { return row.number == command; });
}

int UvmDevice::Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) {
  // A child of the opener has the descriptor, but not the address space
  // (uvm.c uvm_fd_va_space checks the mm).
  if (call.process() != owner_) return -EPERM;
  if (command == UVM_DEINITIALIZE) return 0;
  const auto& rows = Rows();
  auto row = std::find_if(rows.begin(), rows.end(),
                          [command](const Row& row) { return row.number == command; });
  const char* name = UvmIoctlName(command);
  if (row == rows.end()) {
    rm_->machine->unknowns->Count(
        "UVM ioctl", command,
        absl::StrFormat("%s; answered EINVAL", name ? name : "no public name"));
    return -EINVAL;
  }
  const bool v550 = rm_->machine->abi_550();
  Block block(v550 ? row->size_550 : row->size_535);
  if (!call.memory().Read(argument, block.data(), block.size())) return -EFAULT;
  const uint32_t status = (this->*(v550 ? row->handle_550 : row->handle_535))(call, block);
  std::memcpy(block.data() + (v550 ? row->status_550 : row->status_535), &status, 4);
  if (rm_->machine->log->enabled()) {
    const char* status_name = NvStatusName(status);
    rm_->machine->log->Line(
        call.process(), absl::StrFormat("%s: %s\n      %s", name, status_name ? status_name : "?",
                                        CallLog::Hex(block, 64)));
  }
  return call.memory().Write(argument, block.data(), block.size()) ? 0 : -EFAULT;
}

DeviceFile::Handle UvmDevice::MakeHandle() {
  const int file = file_->MappableFd();
  return {.file = UniqueFd(fcntl(file, F_DUPFD_CLOEXEC, 3)),
          .keeper = UniqueFd(fcntl(file, F_DUPFD_CLOEXEC, 3)),
          .tells_last_close = false};
}

int UvmDevice::Mmap(CallContext& call, const MmapRequest& request) {
  if (call.process() != owner_) return -EPERM;
  // uvm.c uvm_mmap: the offset must be the address.
  const uint64_t length = (request.length + kPage - 1) & ~(kPage - 1);
  if (request.offset != request.address || !PageAligned(request.address, length)) return -EINVAL;
  std::vector<VaRanges::Piece> ended;
  switch (ranges_.Replace(request.address, length, &ended)) {
    case VaRanges::Outcome::kDone:
      break;
    case VaRanges::Outcome::kInUse:
      return -EADDRINUSE;  // uvm_common.c nv_status_to_errno
    case VaRanges::Outcome::kFull:
      return -ENOMEM;
  }
  // The kernel's own mapping follows, and may fail. Then the range has none of the processor's,
  // which does no harm: GPUs see the same bytes of the file at the same address as before.
  for (const auto& [gpu, space] : spaces_) {
    for (const auto& [base, bytes] : ended) space->memory.Unmap(base, bytes);
    MapManaged(request.address, length, space->memory);
  }
  return 0;
}

uint32_t UvmDevice::AddRange(uint64_t base, uint64_t length, VaRanges::Kind kind) {
  if (!PageAligned(base, length)) return NV_ERR_INVALID_ADDRESS;
  switch (ranges_.Add(base, length, kind)) {
    case VaRanges::Outcome::kDone:
      return NV_OK;
    case VaRanges::Outcome::kInUse:
      return NV_ERR_UVM_ADDRESS_IN_USE;
    case VaRanges::Outcome::kFull:
      break;
  }
  return NV_ERR_NO_MEMORY;
}

void UvmDevice::Leave(GpuContext& space) {
  for (const auto& [base, range] : ranges_.all()) space.memory.Unmap(base, range.length);
  space.uvm_file = nullptr;
}

void UvmDevice::MapManaged(uint64_t base, uint64_t length, AddressSpace& space) {
  space.Map(base, length, file_, base);
}

AddressSpace* UvmDevice::SpaceOf(const uint8_t* gpu_uuid) {
  const Gpu* gpu = rm_->machine->GpuByUuid(gpu_uuid);
  if (gpu == nullptr) return nullptr;
  auto it = spaces_.find(gpu->index);
  return it == spaces_.end() ? nullptr : &it->second->memory;
}

uint32_t UvmDevice::RegisterGpu(CallContext&, Block& block) {
  auto& params = As<UVM_REGISTER_GPU_PARAMS>(block);
  if (rm_->machine->GpuByUuid(params.gpu_uuid.uuid) == nullptr) return NV_ERR_INVALID_DEVICE;
  params.numaEnabled = 0;
  params.numaNodeId = -1;
  return NV_OK;
}

uint32_t UvmDevice::UnregisterGpu(CallContext&, Block& block) {
  const auto& params = As<UVM_UNREGISTER_GPU_PARAMS>(block);
  return rm_->machine->GpuByUuid(params.gpu_uuid.uuid) == nullptr ? NV_ERR_INVALID_DEVICE : NV_OK;
}

uint32_t UvmDevice::RegisterGpuVaSpace(CallContext& call, Block& block) {
  const auto& params = As<UVM_REGISTER_GPU_VASPACE_PARAMS>(block);
  const Gpu* gpu = rm_->machine->GpuByUuid(params.gpuUuid.uuid);
  if (gpu == nullptr) return NV_ERR_INVALID_DEVICE;
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  RmObject* object = client == nullptr ? nullptr : client->Find(params.hVaSpace);
  auto va_space = object == nullptr ? nullptr : object->As<VaSpaceResource>();
  if (va_space == nullptr || object->gpu != gpu->index) return NV_ERR_INVALID_OBJECT_HANDLE;
  // One space of each GPU, and of one file (uvm_va_space.c check_gpu_va_space; create_gpu_va_space,
  // where RM refuses page directories that UVM has already).
  if (spaces_.contains(gpu->index) || va_space->context->uvm_file != nullptr) {
    return NV_ERR_INVALID_DEVICE;
  }
  va_space->context->uvm_file = this;
  spaces_[gpu->index] = va_space->context;
  for (const auto& [base, range] : ranges_.all()) {
    if (range.kind == VaRanges::Kind::kManaged) {
      MapManaged(base, range.length, va_space->context->memory);
    }
  }
  return NV_OK;
}

uint32_t UvmDevice::UnregisterGpuVaSpace(CallContext&, Block& block) {
  const auto& params = As<UVM_UNREGISTER_GPU_VASPACE_PARAMS>(block);
  const Gpu* gpu = rm_->machine->GpuByUuid(params.gpuUuid.uuid);
  if (gpu == nullptr) return NV_ERR_INVALID_DEVICE;
  auto it = spaces_.find(gpu->index);
  if (it == spaces_.end()) return NV_OK;
  Leave(*it->second);
  spaces_.erase(it);
  return NV_OK;
}

uint32_t UvmDevice::CreateRangeGroup(CallContext&, Block& block) {
  As<UVM_CREATE_RANGE_GROUP_PARAMS>(block).rangeGroupId = next_range_group_++;
  return NV_OK;
}

uint32_t UvmDevice::CreateExternalRange(CallContext&, Block& block) {
  const auto& params = As<UVM_CREATE_EXTERNAL_RANGE_PARAMS>(block);
  return AddRange(params.base, params.length, VaRanges::Kind::kExternal);
}

template <typename Params>
uint32_t UvmDevice::MapExternalAllocation(CallContext& call, Block& block) {
  const auto& params = As<Params>(block);
  if (!PageAligned(params.base, params.length)) return NV_ERR_INVALID_ADDRESS;
  if (params.gpuAttributesCount == 0 ||
      params.gpuAttributesCount > std::size(params.perGpuAttributes)) {
    return NV_ERR_INVALID_ARGUMENT;
  }
  const VaRanges::Range* range = ranges_.Around(params.base, params.length);
  if (range == nullptr || range->kind != VaRanges::Kind::kExternal) return NV_ERR_INVALID_ADDRESS;
  RmClient* client = rm_->server.FindFor(call.process(), params.hClient);
  RmObject* object = client == nullptr ? nullptr : client->Find(params.hMemory);
  auto resource = object == nullptr ? nullptr : object->As<MemoryResource>();
  if (resource == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  for (uint64_t i = 0; i < params.gpuAttributesCount; ++i) {
    AddressSpace* space = SpaceOf(params.perGpuAttributes[i].gpuUuid.uuid);
    if (space == nullptr) return NV_ERR_INVALID_DEVICE;
    if (!space->Map(params.base, params.length, resource->memory, params.offset)) {
      return NV_ERR_INVALID_OFFSET;
    }
  }
  return NV_OK;
}

uint32_t UvmDevice::MapExternalSparse(CallContext&, Block& block) {
  // Reads of sparse mappings give zero, writes vanish; here they hit fresh memory
  // of the process's file, which reads zero until it is written.
  const auto& params = As<UVM_MAP_EXTERNAL_SPARSE_PARAMS>(block);
  if (!PageAligned(params.base, params.length)) return NV_ERR_INVALID_ADDRESS;
  if (ranges_.Around(params.base, params.length) == nullptr) return NV_ERR_INVALID_ADDRESS;
  AddressSpace* space = SpaceOf(params.gpuUuid.uuid);
  if (space == nullptr) return NV_ERR_INVALID_DEVICE;
  MapManaged(params.base, params.length, *space);
  return NV_OK;
}

uint32_t UvmDevice::UnmapExternal(CallContext&, Block& block) {
  const auto& params = As<UVM_UNMAP_EXTERNAL_PARAMS>(block);
  AddressSpace* space = SpaceOf(params.gpuUuid.uuid);
  if (space == nullptr) return NV_ERR_INVALID_DEVICE;
  const VaRanges::Range* range = ranges_.Around(params.base, params.length);
  if (range == nullptr || range->kind == VaRanges::Kind::kManaged) return NV_ERR_INVALID_ADDRESS;
  space->Unmap(params.base, params.length);
  return NV_OK;
}

template <typename Params>
uint32_t UvmDevice::AllocSemaphorePool(CallContext&, Block& block) {
  const auto& params = As<Params>(block);
  // The process maps the same range of the file, before or after.
  if (ranges_.Around(params.base, params.length) != nullptr) return NV_OK;
  const uint32_t status = AddRange(params.base, params.length, VaRanges::Kind::kManaged);
  if (status != NV_OK) return status;
  for (const auto& [gpu, space] : spaces_) MapManaged(params.base, params.length, space->memory);
  return NV_OK;
}

uint32_t UvmDevice::MapDynamicParallelismRegion(CallContext&, Block& block) {
  const auto& params = As<UVM_MAP_DYNAMIC_PARALLELISM_REGION_PARAMS>(block);
  const uint32_t status = AddRange(params.base, params.length, VaRanges::Kind::kSparse);
  if (status != NV_OK) return status;
  AddressSpace* space = SpaceOf(params.gpuUuid.uuid);
  if (space != nullptr) MapManaged(params.base, params.length, *space);
  return NV_OK;
}

uint32_t UvmDevice::FreeRange(CallContext&, Block& block) {
  const auto& params = As<UVM_FREE_PARAMS>(block);
  const VaRanges::Range* range = ranges_.At(params.base);
  if (range == nullptr) return NV_ERR_INVALID_ADDRESS;
  for (const auto& [gpu, space] : spaces_) space->memory.Unmap(params.base, range->length);
  if (range->kind != VaRanges::Kind::kExternal) file_->Zero(params.base, range->length);
  ranges_.Remove(params.base);
  return NV_OK;
}

uint32_t UvmDevice::ValidateRange(CallContext&, Block& block) {
  const auto& params = As<UVM_VALIDATE_VA_RANGE_PARAMS>(block);
  const VaRanges::Range* range = ranges_.Around(params.base, params.length);
  return range != nullptr && range->kind == VaRanges::Kind::kManaged ? NV_OK
                                                                     : NV_ERR_INVALID_ADDRESS;
}

uint32_t UvmDevice::Migrate(CallContext& call, Block& block) {
  auto& params = As<UVM_MIGRATE_PARAMS>(block);
  params.userSpaceStart = params.userSpaceLength = 0;
  if (params.semaphoreAddress != 0 &&
      !call.memory().WriteObject(RemoteAddress{params.semaphoreAddress}, params.semaphorePayload)) {
    return NV_ERR_INVALID_ADDRESS;
  }
  return NV_OK;
}

uint32_t UvmDevice::Is8Supported(CallContext&, Block& block) {
  As<UVM_IS_8_SUPPORTED_PARAMS>(block).is8Supported = 1;
  return NV_OK;
}

}  // namespace phantora
