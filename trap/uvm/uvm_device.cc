#include "trap/uvm/uvm_device.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

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
  while (!spaces_.empty()) Leave(spaces_.begin()->first);
}

template <typename Params>
uint32_t UvmDevice::Succeed(CallContext&, Params&) {
  return NV_OK;
}

template <typename Params>
uint32_t UvmDevice::NoPageableAccess(CallContext&, Params& params) {
  // Neither ATS nor HMM: GPUs reach only what was mapped for them.
  params.pageableMemAccess = 0;
  return NV_OK;
}

template <auto kServe>
uint32_t UvmDevice::Serve(UvmDevice& device, CallContext& call, Block& block) {
  auto& params = *reinterpret_cast<ParamsOf<kServe>*>(block.data());
  return params.rmStatus = (device.*kServe)(call, params);
}

template <auto kServe, bool kDiffersWhereNobodyLooks>
constexpr UvmDevice::Row UvmDevice::Typed(uint32_t number, const char* quiet) {
  static_assert(kDiffersWhereNobodyLooks || OnlyGrows<ParamsOf<kServe>>());
  return {number, EachSize<ParamsOf<kServe>>(&Serve<kServe>), quiet};
}

template <typename Block>
constexpr UvmDevice::Row UvmDevice::Accepted(uint32_t number, const char* why) {
  return {number, EachVersion<Handler, Block>([]<typename Layout>() {
            return TypedHandler<Handler>{sizeof(Layout), Serve<&UvmDevice::Succeed<Layout>>};
          }),
          why};
}

absl::Span<const UvmDevice::Row> UvmDevice::Rows() {
  static constexpr Row kRows[] = {
      Accepted<UVM_INITIALIZE_PARAMS>(UVM_INITIALIZE, "the file is ready when it is open"),
      Accepted<UVM_MM_INITIALIZE_PARAMS>(UVM_MM_INITIALIZE,
                                         "the address space of the process needs no watching"),
      Typed<&UvmDevice::NoPageableAccess<UVM_PAGEABLE_MEM_ACCESS_PARAMS>>(UVM_PAGEABLE_MEM_ACCESS),
      Typed<&UvmDevice::NoPageableAccess<UVM_PAGEABLE_MEM_ACCESS_ON_GPU_PARAMS>>(
          UVM_PAGEABLE_MEM_ACCESS_ON_GPU),
      Typed<&UvmDevice::RegisterGpu>(UVM_REGISTER_GPU),
      Typed<&UvmDevice::UnregisterGpu>(UVM_UNREGISTER_GPU),
      Typed<&UvmDevice::RegisterGpuVaSpace>(UVM_REGISTER_GPU_VASPACE),
      Typed<&UvmDevice::UnregisterGpuVaSpace>(UVM_UNREGISTER_GPU_VASPACE),
      Accepted<UVM_REGISTER_CHANNEL_PARAMS>(UVM_REGISTER_CHANNEL,
                                            "a channel's context knows its address space"),
      Accepted<UVM_UNREGISTER_CHANNEL_PARAMS>(UVM_UNREGISTER_CHANNEL,
                                              "a channel's context knows its address space"),
      Accepted<UVM_ENABLE_PEER_ACCESS_PARAMS>(UVM_ENABLE_PEER_ACCESS,
                                              "GPUs reach a peer's memory as soon as it is mapped"),
      Accepted<UVM_DISABLE_PEER_ACCESS_PARAMS>(
          UVM_DISABLE_PEER_ACCESS, "GPUs reach a peer's memory as long as it is mapped"),
      Typed<&UvmDevice::CreateRangeGroup>(UVM_CREATE_RANGE_GROUP),
      Accepted<UVM_DESTROY_RANGE_GROUP_PARAMS>(
          UVM_DESTROY_RANGE_GROUP, "managed memory has one copy, which does not migrate"),
      Accepted<UVM_SET_RANGE_GROUP_PARAMS>(UVM_SET_RANGE_GROUP,
                                           "managed memory has one copy, which does not migrate"),
      Accepted<UVM_PREVENT_MIGRATION_RANGE_GROUPS_PARAMS>(
          UVM_PREVENT_MIGRATION_RANGE_GROUPS,
          "managed memory has one copy, which does not migrate"),
      Accepted<UVM_ALLOW_MIGRATION_RANGE_GROUPS_PARAMS>(
          UVM_ALLOW_MIGRATION_RANGE_GROUPS, "managed memory has one copy, which does not migrate"),
      Accepted<UVM_MIGRATE_RANGE_GROUP_PARAMS>(
          UVM_MIGRATE_RANGE_GROUP, "managed memory has one copy, which does not migrate"),
      Typed<&UvmDevice::CreateExternalRange>(UVM_CREATE_EXTERNAL_RANGE),
      {UVM_MAP_EXTERNAL_ALLOCATION,
       EachVersion<Handler, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS>([]<typename Layout>() {
         return TypedHandler<Handler>{sizeof(Layout),
                                      Serve<&UvmDevice::MapExternalAllocation<Layout>>};
       })},
      Typed<&UvmDevice::MapExternalSparse>(UVM_MAP_EXTERNAL_SPARSE),
      Typed<&UvmDevice::UnmapExternal>(UVM_UNMAP_EXTERNAL),
      {UVM_ALLOC_SEMAPHORE_POOL,
       EachVersion<Handler, UVM_ALLOC_SEMAPHORE_POOL_PARAMS>([]<typename Layout>() {
         return TypedHandler<Handler>{sizeof(Layout),
                                      Serve<&UvmDevice::AllocSemaphorePool<Layout>>};
       })},
      Typed<&UvmDevice::MapDynamicParallelismRegion>(UVM_MAP_DYNAMIC_PARALLELISM_REGION),
      {UVM_FREE, EachVersion<Handler, UVM_FREE_PARAMS>([]<typename Layout>() {
         return TypedHandler<Handler>{sizeof(Layout), Serve<&UvmDevice::FreeRange<Layout>>};
       })},
      Typed<&UvmDevice::ValidateRange>(UVM_VALIDATE_VA_RANGE),
      // 550 has a signed cpuNumaNode.
      Typed<&UvmDevice::Migrate, true>(UVM_MIGRATE),
      Accepted<UVM_SET_PREFERRED_LOCATION_PARAMS>(UVM_SET_PREFERRED_LOCATION,
                                                  "managed memory has one copy in one place"),
      Accepted<UVM_UNSET_PREFERRED_LOCATION_PARAMS>(UVM_UNSET_PREFERRED_LOCATION,
                                                    "managed memory has one copy in one place"),
      Accepted<UVM_SET_ACCESSED_BY_PARAMS>(UVM_SET_ACCESSED_BY,
                                           "managed memory is mapped into all GPUs"),
      Accepted<UVM_UNSET_ACCESSED_BY_PARAMS>(UVM_UNSET_ACCESSED_BY,
                                             "managed memory is mapped into all GPUs"),
      Accepted<UVM_ENABLE_READ_DUPLICATION_PARAMS>(UVM_ENABLE_READ_DUPLICATION,
                                                   "managed memory has one copy"),
      Accepted<UVM_DISABLE_READ_DUPLICATION_PARAMS>(UVM_DISABLE_READ_DUPLICATION,
                                                    "managed memory has one copy"),
      Accepted<UVM_ENABLE_SYSTEM_WIDE_ATOMICS_PARAMS>(
          UVM_ENABLE_SYSTEM_WIDE_ATOMICS,
          "managed memory has one copy, so that atomics hold everywhere"),
      Accepted<UVM_DISABLE_SYSTEM_WIDE_ATOMICS_PARAMS>(
          UVM_DISABLE_SYSTEM_WIDE_ATOMICS,
          "managed memory has one copy, so that atomics hold everywhere"),
      Accepted<UVM_CLEAN_UP_ZOMBIE_RESOURCES_PARAMS>(UVM_CLEAN_UP_ZOMBIE_RESOURCES,
                                                     "nothing outlives its process"),
      Accepted<UVM_POPULATE_PAGEABLE_PARAMS>(
          UVM_POPULATE_PAGEABLE,
          "GPUs do not reach pageable memory; the kernel populates it on use"),
      Typed<&UvmDevice::Is8Supported>(UVM_IS_8_SUPPORTED),
  };
  return kRows;
}

bool UvmDevice::Knows(uint32_t command) {
  const auto rows = Rows();
  return command == UVM_DEINITIALIZE ||
         std::any_of(rows.begin(), rows.end(),
                     [command](const Row& row) { return row.number == command; });
}

int UvmDevice::Ioctl(CallContext& call, uint32_t command, RemoteAddress argument) {
  // A child of the opener has the descriptor, but not the address space
  // (uvm.c uvm_fd_va_space checks the mm).
  if (call.process() != owner_) return -EPERM;
  if (command == UVM_DEINITIALIZE) return 0;
  const auto rows = Rows();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [command](const Row& row) { return row.number == command; });
  const char* name = UvmIoctlName(command);
  const DriverAbi abi = rm_->machine->driver.abi;
  if (row == rows.end() || row->versions.For(abi).serve == nullptr) {
    rm_->machine->unknowns->Count(
        "UVM ioctl", command,
        absl::StrFormat("%s; answered EINVAL", name ? name : "no public name"));
    return -EINVAL;
  }
  const auto& [size, serve] = row->versions.For(abi);
  Block block(size);
  if (!call.memory().Read(argument, block.data(), block.size())) return -EFAULT;
  const uint32_t status = serve(*this, call, block);
  if (row->quiet != nullptr) rm_->machine->quiet->Count("UVM ioctl", command, name, row->quiet);
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
  // uvm.c uvm_mmap: the offset must be the address, and the mapping shared, readable and writable.
  if (request.length > kAddressSpaceBytes) return -EINVAL;
  const uint64_t length = (request.length + kPage - 1) & ~(kPage - 1);
  constexpr uint64_t kBoth = PROT_READ | PROT_WRITE;
  const uint64_t sharing = request.flags & MAP_TYPE;
  if (request.offset != request.address || !PageAligned(request.address, length) ||
      (request.protection & kBoth) != kBoth ||
      (sharing != MAP_SHARED && sharing != MAP_SHARED_VALIDATE)) {
    return -EINVAL;
  }
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
  }
  if (MapEverywhere(request.address, length)) return 0;
  ranges_.Remove(request.address);
  return -ENOMEM;
}

bool UvmDevice::MapEverywhere(uint64_t base, uint64_t length) {
  const bool mapped = std::all_of(spaces_.begin(), spaces_.end(), [&](const auto& space) {
    return MapManaged(base, length, space.second->memory);
  });
  if (mapped) return true;
  for (const auto& [gpu, space] : spaces_) space->memory.Unmap(base, length);
  return false;
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

bool UvmDevice::Leave(int gpu) {
  const auto it = spaces_.find(gpu);
  if (it == spaces_.end()) return false;
  GpuContext& space = *it->second;
  for (const auto& [base, range] : ranges_.all()) space.memory.Unmap(base, range.length);
  space.uvm_file = nullptr;
  spaces_.erase(it);
  return true;
}

bool UvmDevice::MapManaged(uint64_t base, uint64_t length, AddressSpace& space) {
  return space.Map(base, length, file_, base);
}

AddressSpace* UvmDevice::SpaceOf(const uint8_t* gpu_uuid) {
  const Gpu* gpu = rm_->machine->GpuByUuid(gpu_uuid);
  if (gpu == nullptr) return nullptr;
  auto it = spaces_.find(gpu->index);
  return it == spaces_.end() ? nullptr : &it->second->memory;
}

uint32_t UvmDevice::RegisterGpu(CallContext&, UVM_REGISTER_GPU_PARAMS& params) {
  if (rm_->machine->GpuByUuid(params.gpu_uuid.uuid) == nullptr) return NV_ERR_INVALID_DEVICE;
  params.numaEnabled = 0;
  params.numaNodeId = -1;
  return NV_OK;
}

uint32_t UvmDevice::UnregisterGpu(CallContext&, UVM_UNREGISTER_GPU_PARAMS& params) {
  const Gpu* gpu = rm_->machine->GpuByUuid(params.gpu_uuid.uuid);
  if (gpu == nullptr) return NV_ERR_INVALID_DEVICE;
  Leave(gpu->index);  // uvm_va_space.c uvm_va_space_unregister_gpu
  return NV_OK;
}

uint32_t UvmDevice::RegisterGpuVaSpace(CallContext& call, UVM_REGISTER_GPU_VASPACE_PARAMS& params) {
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
    if (range.is_of_file() && !MapManaged(base, range.length, va_space->context->memory)) {
      Leave(gpu->index);
      return NV_ERR_NO_MEMORY;
    }
  }
  return NV_OK;
}

uint32_t UvmDevice::UnregisterGpuVaSpace(CallContext&, UVM_UNREGISTER_GPU_VASPACE_PARAMS& params) {
  const Gpu* gpu = rm_->machine->GpuByUuid(params.gpuUuid.uuid);
  // Also when none is registered (uvm_va_space.c uvm_va_space_unregister_gpu_va_space).
  return gpu != nullptr && Leave(gpu->index) ? NV_OK : NV_ERR_INVALID_DEVICE;
}

uint32_t UvmDevice::CreateRangeGroup(CallContext&, UVM_CREATE_RANGE_GROUP_PARAMS& params) {
  params.rangeGroupId = next_range_group_++;
  return NV_OK;
}

uint32_t UvmDevice::CreateExternalRange(CallContext&, UVM_CREATE_EXTERNAL_RANGE_PARAMS& params) {
  return AddRange(params.base, params.length, VaRanges::Kind::kExternal);
}

template <typename Params>
uint32_t UvmDevice::MapExternalAllocation(CallContext& call, Params& params) {
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

uint32_t UvmDevice::MapExternalSparse(CallContext&, UVM_MAP_EXTERNAL_SPARSE_PARAMS& params) {
  // Reads of sparse mappings give zero, writes vanish; here they hit fresh memory
  // of the process's file, which reads zero until it is written.
  if (!PageAligned(params.base, params.length)) return NV_ERR_INVALID_ADDRESS;
  if (ranges_.Around(params.base, params.length) == nullptr) return NV_ERR_INVALID_ADDRESS;
  AddressSpace* space = SpaceOf(params.gpuUuid.uuid);
  if (space == nullptr) return NV_ERR_INVALID_DEVICE;
  return MapManaged(params.base, params.length, *space) ? NV_OK : NV_ERR_NO_MEMORY;
}

uint32_t UvmDevice::UnmapExternal(CallContext&, UVM_UNMAP_EXTERNAL_PARAMS& params) {
  AddressSpace* space = SpaceOf(params.gpuUuid.uuid);
  if (space == nullptr) return NV_ERR_INVALID_DEVICE;
  const VaRanges::Range* range = ranges_.Around(params.base, params.length);
  if (range == nullptr || range->is_of_file()) return NV_ERR_INVALID_ADDRESS;
  space->Unmap(params.base, params.length);
  return NV_OK;
}

template <typename Params>
uint32_t UvmDevice::AllocSemaphorePool(CallContext&, Params& params) {
  // The process maps the same range of the file, before or after.
  if (ranges_.Around(params.base, params.length) != nullptr) return NV_OK;
  const uint32_t status = AddRange(params.base, params.length, VaRanges::Kind::kSemaphorePool);
  if (status != NV_OK) return status;
  if (MapEverywhere(params.base, params.length)) return NV_OK;
  ranges_.Remove(params.base);
  return NV_ERR_NO_MEMORY;
}

uint32_t UvmDevice::MapDynamicParallelismRegion(CallContext&,
                                                UVM_MAP_DYNAMIC_PARALLELISM_REGION_PARAMS& params) {
  const uint32_t status = AddRange(params.base, params.length, VaRanges::Kind::kSparse);
  if (status != NV_OK) return status;
  AddressSpace* space = SpaceOf(params.gpuUuid.uuid);
  if (space == nullptr || MapManaged(params.base, params.length, *space)) return NV_OK;
  ranges_.Remove(params.base);
  return NV_ERR_NO_MEMORY;
}

template <typename Params>
uint32_t UvmDevice::FreeRange(CallContext&, Params& params) {
  const VaRanges::Range* range = ranges_.At(params.base);
  if (range == nullptr) return NV_ERR_INVALID_ADDRESS;
  for (const auto& [gpu, space] : spaces_) space->memory.Unmap(params.base, range->length);
  if (range->kind != VaRanges::Kind::kExternal) file_->Zero(params.base, range->length);
  ranges_.Remove(params.base);
  return NV_OK;
}

uint32_t UvmDevice::ValidateRange(CallContext&, UVM_VALIDATE_VA_RANGE_PARAMS& params) {
  const VaRanges::Range* range = ranges_.Around(params.base, params.length);
  return range != nullptr && range->is_of_file() ? NV_OK : NV_ERR_INVALID_ADDRESS;
}

uint32_t UvmDevice::Migrate(CallContext& call, UVM_MIGRATE_PARAMS& params) {
  params.userSpaceStart = params.userSpaceLength = 0;
  if (params.semaphoreAddress != 0 &&
      !call.memory().WriteObject(RemoteAddress{params.semaphoreAddress}, params.semaphorePayload)) {
    return NV_ERR_INVALID_ADDRESS;
  }
  return NV_OK;
}

uint32_t UvmDevice::Is8Supported(CallContext&, UVM_IS_8_SUPPORTED_PARAMS& params) {
  params.is8Supported = 1;
  return NV_OK;
}

}  // namespace phantora
