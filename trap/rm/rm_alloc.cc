#include "trap/rm/rm_alloc.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "trap/abi/generated/escapes.h"
#include "trap/abi/generated/nv_status.h"
#include "trap/abi/generated/rm_classes.h"
#include "trap/gpu/pricing/occupancy.h"
#include "trap/rm/refused_classes.h"
#include "trap/rm/rm_resources.h"
#include "trap/rm/typed_handler.h"
#include "trap/rm/virtual_memory.h"
#include "uvm_model/device_memory.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names, as the rows below list them

constexpr uint64_t k64Kib = 64 << 10;
constexpr uint64_t k2Mib = 2 << 20;
// What any one allocation may ask for; beyond it no machine reaches.
constexpr uint64_t kLargestAllocation = uint64_t{1} << 42;
constexpr uint32_t kMostGpfifoEntries = 1 << 20;
// A context makes about 20 channels per GPU. The hardware has 2048 to 4096 per GPU.
constexpr size_t kMostChannelsPerProcess = 4096;
constexpr size_t kMostVaSpacesPerProcess = 256;

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// The object is there, and nothing follows from it.
uint32_t NoState(AllocRequest&) { return NV_OK; }

// A class of engines that these GPUs lack; the driver refuses it, too.
uint32_t Lacking(AllocRequest&) { return NV_ERR_INVALID_CLASS; }

uint32_t Device(AllocRequest& request, NV0080_ALLOC_PARAMETERS& params) {
  if (params.deviceId >= request.rm.machine->gpus.size()) return NV_ERR_INVALID_DEVICE;
  request.object.gpu = static_cast<int>(params.deviceId);
  request.object.resource = std::make_shared<DeviceResource>();
  return NV_OK;
}

uint32_t Subdevice(AllocRequest& request) {
  request.object.resource = std::make_shared<SubdeviceResource>();
  return NV_OK;
}

uint32_t VaSpace(AllocRequest& request, NV_VASPACE_ALLOCATION_PARAMETERS& params) {
  // gvaspace.c: 49 bits of virtual address on Ampere; on Hopper 57, of which the caller's base is
  // left out.
  const bool hopper = request.rm.machine->profile.architecture == GpuProfile::Architecture::kHopper;
  constexpr uint64_t kHopperEnd = uint64_t{1} << 57;
  if (params.vaSize == 0) {
    params.vaSize =
        hopper && params.vaBase < kHopperEnd ? kHopperEnd - params.vaBase : uint64_t{1} << 49;
  }
  if (params.bigPageSize == 0) params.bigPageSize = k64Kib;
  if (params.index == NV_VASPACE_ALLOCATION_INDEX_GPU_DEVICE) {
    request.object.resource = VaSpaceOf(request.client, request.object.parent, 0);
    return request.object.resource == nullptr ? NV_ERR_INVALID_OBJECT_PARENT : NV_OK;
  }
  const auto& usage = request.client.usage();
  if (usage->va_spaces >= kMostVaSpacesPerProcess) return NV_ERR_INSUFFICIENT_RESOURCES;
  request.object.resource = std::make_shared<VaSpaceResource>();
  request.object.resource->token = std::make_unique<UsageToken>(usage, &ProcessUsage::va_spaces);
  return NV_OK;
}

// NV01_MEMORY_SYSTEM and NV01_MEMORY_LOCAL_USER. The 550 structure only adds a
// field at the end.
uint32_t Memory(AllocRequest& request, NV_MEMORY_ALLOCATION_PARAMS& params) {
  const bool vidmem = request.object.class_id == NV01_MEMORY_LOCAL_USER;
  if (params.size == 0) return NV_ERR_INVALID_ARGUMENT;
  if (params.size > kLargestAllocation) return NV_ERR_NO_MEMORY;
  const uint64_t page = PageSizeFor(params.attr, vidmem, params.size);
  const uint64_t bytes = RoundUp(params.size, page);
  const uint32_t status = AllocMemory(request.rm, request.call, request.object.gpu, vidmem, bytes,
                                      &request.object.resource);
  if (status != NV_OK) return status;
  params.size = bytes;
  params.limit = bytes - 1;
  params.offset = 0;
  params.address = 0;
  // What was left to the driver is stated in the reply.
  if ((params.attr & NVOS32_ATTR_PAGE_SIZE_MASK) == 0) {
    const uint32_t code = page == 4096     ? NVOS32_ATTR_PAGE_SIZE_4KB
                          : page == k64Kib ? NVOS32_ATTR_PAGE_SIZE_BIG
                                           : NVOS32_ATTR_PAGE_SIZE_HUGE;
    params.attr |= code << NVOS32_ATTR_PAGE_SIZE_SHIFT;
  }
  return NV_OK;
}

// NV01_MEMORY_VIRTUAL (virtual_mem.c virtmemConstruct_IMPL): a limit of 0 is the space's.
uint32_t VirtualMemory(AllocRequest& request, NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS& params) {
  auto space = VaSpaceOf(request.client, request.object.parent, params.hVASpace);
  if (space == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  const uint64_t limit = params.limit == 0 ? kLastVirtualAddress : params.limit;
  if (params.offset > limit || limit > kLastVirtualAddress) return NV_ERR_INVALID_ARGUMENT;
  request.object.resource = std::make_shared<VirtualRangeResource>(
      std::move(space), params.offset, limit - params.offset + 1, false);
  return NV_OK;
}

uint32_t VirtualRange(AllocRequest& request, NV_MEMORY_ALLOCATION_PARAMS& params) {
  auto space = VaSpaceOf(request.client, request.object.parent, params.hVASpace);
  if (space == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  return ReserveRange(std::move(space), params.flags, params.alignment, &params.size,
                      &params.offset, &request.object.resource);
}

uint32_t ChannelGroup(AllocRequest& request, NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS& params) {
  auto group = std::make_shared<ChannelGroupResource>();
  group->id = request.rm.next_group++;
  group->engine = params.engineType;
  group->va_space = VaSpaceOf(request.client, request.object.parent, params.hVASpace);
  request.object.resource = std::move(group);
  return NV_OK;
}

uint32_t ContextShare(AllocRequest& request, NV_CTXSHARE_ALLOCATION_PARAMETERS& params) {
  auto share = std::make_shared<ContextShareResource>();
  share->va_space = VaSpaceOf(request.client, request.object.parent, params.hVASpace);
  params.subctxId = params.flags == NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_SYNC ? 0 : 1;
  request.object.resource = std::move(share);
  return NV_OK;
}

std::shared_ptr<MemoryObject> MemoryOf(RmClient& client, uint32_t handle) {
  RmObject* object = handle == 0 ? nullptr : client.Find(handle);
  if (object == nullptr) return nullptr;
  auto resource = object->As<MemoryResource>();
  return resource == nullptr ? nullptr : resource->memory;
}

uint32_t GpfifoChannel(AllocRequest& request, NV_CHANNEL_ALLOC_PARAMS& params) {
  std::shared_ptr<ChannelGroupResource> group = request.parent->As<ChannelGroupResource>();
  std::shared_ptr<VaSpaceResource> va_space;
  if (params.hVASpace != 0) va_space = VaSpaceOf(request.client, 0, params.hVASpace);
  if (va_space == nullptr && params.hContextShare != 0) {
    RmObject* share = request.client.Find(params.hContextShare);
    if (share == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
    if (auto resource = share->As<ContextShareResource>()) va_space = resource->va_space;
  }
  if (va_space == nullptr && group != nullptr) va_space = group->va_space;
  if (va_space == nullptr && params.hVASpace == 0) {
    va_space = VaSpaceOf(request.client, request.object.parent, 0);
  }
  if (va_space == nullptr) return NV_ERR_INVALID_ARGUMENT;
  auto userd = MemoryOf(request.client, params.hUserdMemory[0]);
  if (userd == nullptr) return NV_ERR_INVALID_OBJECT_HANDLE;
  if (params.gpFifoEntries == 0 || params.gpFifoEntries > kMostGpfifoEntries ||
      params.userdOffset[0] % 4 != 0 || params.userdOffset[0] > userd->size() ||
      userd->size() - params.userdOffset[0] < 0x200) {
    return NV_ERR_INVALID_ARGUMENT;
  }
  const auto& usage = request.client.usage();
  GpuScheduler* scheduler = request.rm.machine->scheduler;
  auto doorbell = request.client.DoorbellOf(request.object.gpu, *scheduler);
  if (usage->channels >= kMostChannelsPerProcess || doorbell == nullptr) {
    return NV_ERR_INSUFFICIENT_RESOURCES;
  }
  Channel::Config config;
  config.gpu = request.object.gpu;
  config.id = request.rm.next_channel++;
  config.process = request.call.process();
  config.context = va_space->context;
  config.gpfifo = params.gpFifoOffset;
  config.gpfifo_entries = params.gpFifoEntries;
  config.userd = std::move(userd);
  config.userd_offset = params.userdOffset[0];
  config.error_notifier = MemoryOf(request.client, params.hObjectError);
  config.engine = params.engineType != 0 ? params.engineType : group != nullptr ? group->engine : 0;
  // A channel without a group is a group of its own.
  config.group = group != nullptr ? group->id : request.rm.next_group++;
  config.sm_limits = SmLimitsOf(request.rm.machine->profile);
  params.cid = config.id;
  scheduler->Prepare(config);
  auto channel = std::make_shared<Channel>(std::move(config));
  scheduler->Add(channel, doorbell);
  request.object.resource = std::make_shared<ChannelResource>(std::move(channel), scheduler);
  request.object.resource->token = std::make_unique<UsageToken>(usage, &ProcessUsage::channels);
  return NV_OK;
}

uint32_t Usermode(AllocRequest& request) {
  auto resource = std::make_shared<DoorbellResource>();
  resource->doorbell =
      request.client.DoorbellOf(request.object.gpu, *request.rm.machine->scheduler);
  if (resource->doorbell == nullptr) return NV_ERR_INSUFFICIENT_RESOURCES;
  request.object.resource = std::move(resource);
  return NV_OK;
}

// Objects of channels are of the GPU's own classes (fifo/channel_descendant.c).
bool IsOfGpu(const AllocRequest& request) {
  const auto& classes = ClassesOf(request.rm.machine->profile.architecture);
  return std::find(classes.begin(), classes.end(), request.object.class_id) != classes.end();
}

uint32_t CopyEngine(AllocRequest& request, NVB0B5_ALLOCATION_PARAMETERS& params) {
  if (!IsOfGpu(request)) return NV_ERR_INVALID_CLASS;
  auto resource = std::make_shared<EngineResource>();
  // cl90b5sw.h: version 0 gives the engine's number, version 1 its engine type.
  resource->engine =
      params.version == 1 ? params.engineType : NV2080_ENGINE_TYPE_COPY0 + params.engineType;
  request.object.resource = std::move(resource);
  return NV_OK;
}

uint32_t GraphicsEngine(AllocRequest& request) {
  if (!IsOfGpu(request)) return NV_ERR_INVALID_CLASS;
  auto resource = std::make_shared<EngineResource>();
  resource->engine = NV2080_ENGINE_TYPE_GRAPHICS;
  request.object.resource = std::move(resource);
  return NV_OK;
}

uint32_t Event(AllocRequest& request, NV0005_ALLOC_PARAMETERS& params) {
  auto source =
      std::dynamic_pointer_cast<EventSource>(request.call.DeviceAt(static_cast<int>(params.data)));
  if (source == nullptr) return NV_ERR_INVALID_ARGUMENT;
  auto resource = std::make_shared<EventResource>();
  resource->registration = request.rm.machine->events->Register(
      request.object.gpu, request.call.process(), params.notifyIndex, source->descriptor());
  if (resource->registration == nullptr) return NV_ERR_INSUFFICIENT_RESOURCES;
  request.object.resource = std::move(resource);
  return NV_OK;
}

// What 580 does not poll for carries a sequence number instead of a time, even when it is valid
// (cl00de.h RUSD_SEQ_DATA_VALID).
constexpr uint64_t kRusdSequenceStart = 0xff00000000000000;

// Where each branch has the size of BAR1, and what says that no error has been contained.
template <typename Layout>
bool FillSharedData(MemoryObject& memory, uint32_t bar1_kib) {
  Layout data = {};
  if constexpr (requires { data.bar1MemoryInfo.bar1Size; }) {
    data.bar1MemoryInfo = {kRusdSequenceStart, bar1_kib, bar1_kib};
  } else if constexpr (requires { data.bar1Size; }) {
    data.bar1Size = data.bar1AvailSize = bar1_kib;
  }
  if constexpr (requires { data.shadowErrCont.lastModifiedTimestamp; }) {
    data.shadowErrCont.lastModifiedTimestamp = kRusdSequenceStart;
  }
  return memory.Write(0, &data, sizeof data);
}

// Shared read-only GPU state (cl00de.h), of which NVML 550 takes the size of BAR1
// (kern_bus.c kbusUpdateRusdStatistics). libcuda 580 maps it, too; what it reads there is not
// known, so that what would say "no error" is valid. The polled values, and the memory's use, which
// changes, are all "invalid", which readers must expect.
uint32_t SharedUserData(AllocRequest& request) {
  const uint32_t status = AllocMemory(request.rm, request.call, request.object.gpu, false, k64Kib,
                                      &request.object.resource);
  if (status != NV_OK || !request.rm.machine->abi_550()) return status;
  const auto bar1_kib = static_cast<uint32_t>(request.rm.machine->profile.pci.bar1_mib << 10);
  const auto& memory = request.object.As<MemoryResource>()->memory;
  using Fill = bool (*)(MemoryObject&, uint32_t);
  static constexpr auto kFills = EachVersion<Fill, NV00DE_SHARED_DATA>([]<typename Layout>() {
    return TypedHandler<Fill>{sizeof(Layout), FillSharedData<Layout>};
  });
  return kFills.For(request.rm.machine->driver.abi).serve(*memory, bar1_kib) ? NV_OK
                                                                             : NV_ERR_NO_MEMORY;
}

using Constructor = uint32_t (*)(AllocRequest&);

struct ClassRow {
  uint32_t class_id;
  bool needs_gpu;
  HandlerVersions<Constructor> versions;
  // Of a class whose objects do nothing: why they need not.
  const char* quiet = nullptr;
};

template <auto kConstruct>
uint32_t ConstructTyped(AllocRequest& request) {
  return kConstruct(request, *reinterpret_cast<ParamsOf<kConstruct>*>(request.params.data()));
}

// kConstruct is `uint32_t (AllocRequest&, Params&)`; later versions only add to the end of Params.
template <auto kConstruct>
constexpr ClassRow Class(uint32_t class_id, bool needs_gpu = true) {
  static_assert(OnlyGrows<ParamsOf<kConstruct>>());
  return {class_id, needs_gpu, EachSize<ParamsOf<kConstruct>>(&ConstructTyped<kConstruct>)};
}
// `construct` looks at no parameters.
template <typename Block>
constexpr ClassRow Untyped(uint32_t class_id, bool needs_gpu, Constructor construct,
                           const char* quiet = nullptr) {
  return {class_id, needs_gpu, EachSize<Block>(construct), quiet};
}
// Without parameters.
constexpr ClassRow Bare(uint32_t class_id, bool needs_gpu, Constructor construct,
                        const char* quiet = nullptr) {
  return {class_id, needs_gpu, HandlerVersions<Constructor>({0, construct}), quiet};
}

constexpr ClassRow kClasses[] = {
    Class<Device>(NV01_DEVICE_0, false),
    Untyped<NV2080_ALLOC_PARAMETERS>(NV20_SUBDEVICE_0, true, Subdevice),
    Bare(NV2081_BINAPI, true, NoState, "its controls need no more than the GPU"),
    Bare(GF100_SUBDEVICE_MASTER, true, NoState, "its controls need no more than the GPU"),
    Bare(GF100_SUBDEVICE_INFOROM, true, NoState, "its controls need no more than the GPU"),
    Bare(NV20_SUBDEVICE_DIAG, true, NoState, "its controls need no more than the GPU"),
    Bare(NV01_TIMER, true, NoState, "its controls need no more than the GPU"),
    Bare(NV0020_GPU_MANAGEMENT, false, NoState, "the driver's own has no state either"),
    // Displays, and virtual ones (0xa083, without public name).
    Bare(NV04_DISPLAY_COMMON, false, Lacking),
    Bare(0xa083, false, Lacking),
    Bare(NV_CONFIDENTIAL_COMPUTE, false, NoState, "confidential computing is off"),
    Class<VaSpace>(FERMI_VASPACE_A),
    Class<Memory>(NV01_MEMORY_SYSTEM),
    Class<Memory>(NV01_MEMORY_LOCAL_USER),
    Class<VirtualRange>(NV50_MEMORY_VIRTUAL),
    Class<VirtualMemory>(NV01_MEMORY_VIRTUAL),
    Class<ChannelGroup>(KEPLER_CHANNEL_GROUP_A),
    Class<ContextShare>(FERMI_CONTEXT_SHARE_A),
    Class<GpfifoChannel>(AMPERE_CHANNEL_GPFIFO_A),
    Class<GpfifoChannel>(HOPPER_CHANNEL_GPFIFO_A),
    Bare(VOLTA_USERMODE_A, true, Usermode),
    Bare(TURING_USERMODE_A, true, Usermode),
    Bare(AMPERE_USERMODE_A, true, Usermode),
    Bare(HOPPER_USERMODE_A, true, Usermode),
    Class<CopyEngine>(AMPERE_DMA_COPY_A),
    Class<CopyEngine>(HOPPER_DMA_COPY_A),
    Untyped<NV_GR_ALLOCATION_PARAMETERS>(AMPERE_COMPUTE_A, true, GraphicsEngine),
    Untyped<NV_GR_ALLOCATION_PARAMETERS>(HOPPER_COMPUTE_A, true, GraphicsEngine),
    Class<Event>(NV01_EVENT_OS_EVENT),
    Untyped<NV503B_ALLOC_PARAMETERS>(NV50_P2P, false, NoState,
                                     "peers reach each other as soon as memory is mapped"),
    Untyped<NV503C_ALLOC_PARAMETERS>(NV50_THIRD_PARTY_P2P, true, NoState,
                                     "registration by control says what is shared"),
    Untyped<NV83DE_ALLOC_PARAMETERS>(GT200_DEBUGGER, true, NoState,
                                     "no exception is raised by computing"),
    Untyped<NV00DE_ALLOC_PARAMETERS>(RM_USER_SHARED_DATA, true, SharedUserData),
};

const ClassRow* FindClass(uint32_t class_id) {
  for (const ClassRow& row : kClasses) {
    if (row.class_id == class_id) return &row;
  }
  return nullptr;
}

}  // namespace

void ResourceManager::ProcessDied(pid_t process) {
  address_spaces.ProcessDied(process);
  server.ProcessDied(process);
  machine->events->ProcessDied(process);
}

void ResourceManager::EachSpace(pid_t process,
                                const std::function<void(AddressSpace&)>& use) const {
  server.ForEach([&](const RmClient& client) {
    if (client.process() != process) return;
    client.ForEach([&](const RmObject& object) {
      auto space = object.As<VaSpaceResource>();
      if (const auto device = object.As<DeviceResource>()) space = device->DefaultSpace();
      if (space != nullptr) use(space->context->memory);
    });
  });
}

uint64_t PageSizeFor(uint32_t attributes, bool vidmem, uint64_t bytes) {
  switch ((attributes & NVOS32_ATTR_PAGE_SIZE_MASK) >> NVOS32_ATTR_PAGE_SIZE_SHIFT) {
    case NVOS32_ATTR_PAGE_SIZE_4KB:
      // Video memory is handed out in 64 KiB at least (pma.c).
      return vidmem ? k64Kib : 4096;
    case NVOS32_ATTR_PAGE_SIZE_BIG:
      return k64Kib;
    case NVOS32_ATTR_PAGE_SIZE_HUGE:
      return k2Mib;
    default:
      if (!vidmem) return 4096;
      return bytes >= k2Mib ? k2Mib : k64Kib;
  }
}

uint32_t AllocMemory(ResourceManager& rm, CallContext& call, int gpu, bool vidmem, uint64_t bytes,
                     std::shared_ptr<RmResource>* result) {
  auto resource = std::make_shared<MemoryResource>();
  resource->gpu = gpu;
  resource->owner = call.process();
  resource->reservation = VidmemHeap::Reserve(
      vidmem ? rm.machine->gpus[gpu].heap : rm.server.UsageOf(call.process())->system_memory,
      bytes);
  if (resource->reservation == nullptr || !rm.machine->pages->MayAllocate()) {
    return NV_ERR_NO_MEMORY;
  }
  if (vidmem) {
    resource->memory = std::make_shared<DeviceMemory>(rm.machine->pages, bytes);
    resource->memory->set_gpu(gpu);
  } else {
    resource->memory = std::make_shared<OwnedMemory>(MemoryKind::kSysmem, bytes);
  }
  if (vidmem && rm.machine->memory_observer != nullptr) {
    resource->observer = rm.machine->memory_observer;
    resource->observer->VideoMemory(resource->owner, gpu, static_cast<int64_t>(bytes));
  }
  *result = std::move(resource);
  return NV_OK;
}

uint32_t ReserveRange(std::shared_ptr<VaSpaceResource> space, uint32_t flags, uint64_t alignment,
                      uint64_t* size, uint64_t* va, std::shared_ptr<RmResource>* result) {
  // The first 2 MiB are never given.
  constexpr uint64_t kFirst = k2Mib;
  if (*size == 0 || *size > kLastVirtualAddress) return NV_ERR_INVALID_ARGUMENT;
  const uint64_t length = RoundUp(*size, 4096);
  if ((flags & NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE) != 0) {
    if (*va > kLastVirtualAddress || length - 1 > kLastVirtualAddress - *va) {
      return NV_ERR_INVALID_ARGUMENT;
    }
    if (IsReserved(*space, *va, length)) return NV_ERR_NO_MEMORY;
  } else {
    const uint64_t step = std::clamp<uint64_t>(alignment, k64Kib, uint64_t{1} << 40);
    const auto room = FindRoom(*space, kFirst, kLastVirtualAddress, length, step);
    if (!room) return NV_ERR_NO_MEMORY;
    *va = *room;
  }
  *size = length;
  *result = std::make_shared<VirtualRangeResource>(std::move(space), *va, length, true);
  return NV_OK;
}

uint32_t AllocOsDescriptor(ResourceManager& rm, CallContext& call, int gpu, RemoteAddress address,
                           uint64_t bytes, std::shared_ptr<RmResource>* result) {
  if (bytes == 0 || bytes > kLargestAllocation) return NV_ERR_INVALID_LIMIT;
  auto space = rm.address_spaces.Of(call.process());
  if (!space.ok()) {
    return absl::IsResourceExhausted(space.status()) ? NV_ERR_INSUFFICIENT_RESOURCES
                                                     : NV_ERR_OPERATING_SYSTEM;
  }
  auto resource = std::make_shared<MemoryResource>();
  resource->gpu = gpu;
  resource->memory = std::make_shared<TraceeMemory>(*std::move(space), address, bytes);
  *result = std::move(resource);
  return NV_OK;
}

const std::vector<uint32_t>& ClassesOf(GpuProfile::Architecture architecture) {
  // g_classlist.c of the open kernel modules, for GA100 and GH100, less display,
  // graphics and video classes.
  static const std::vector<uint32_t> ampere = {
      AMPERE_SMC_PARTITION_REF,
      AMPERE_CHANNEL_GPFIFO_A,
      AMPERE_COMPUTE_A,
      AMPERE_DMA_COPY_A,
      AMPERE_USERMODE_A,
      FERMI_CONTEXT_SHARE_A,
      FERMI_TWOD_A,
      FERMI_VASPACE_A,
      G84_PERFBUFFER,
      GF100_HDACODEC,
      GF100_SUBDEVICE_INFOROM,
      GF100_SUBDEVICE_MASTER,
      GF100_TIMED_SEMAPHORE_SW,
      GF100_ZBC_CLEAR,
      GP100_UVM_SW,
      KEPLER_CHANNEL_GROUP_A,
      KEPLER_INLINE_TO_MEMORY_B,
      MMU_FAULT_BUFFER,
      ACCESS_COUNTER_NOTIFY_BUFFER,
      NV0060_SYNC_GPU_BOOST,
      NV01_MEMORY_VIRTUAL,
      NV04_SOFTWARE_TEST,
      NV50_DEFERRED_API_CLASS,
      NV50_MEMORY_VIRTUAL,
      NV50_P2P,
      NV50_THIRD_PARTY_P2P,
      NVENC_SW_SESSION,
      TURING_CHANNEL_GPFIFO_A,
      TURING_USERMODE_A,
      VOLTA_USERMODE_A,
      RM_USER_SHARED_DATA,
      NV_CONFIDENTIAL_COMPUTE,
  };
  static const std::vector<uint32_t> hopper = {
      AMPERE_SMC_PARTITION_REF,
      AMPERE_CHANNEL_GPFIFO_A,
      AMPERE_USERMODE_A,
      FERMI_CONTEXT_SHARE_A,
      FERMI_TWOD_A,
      FERMI_VASPACE_A,
      G84_PERFBUFFER,
      GF100_SUBDEVICE_INFOROM,
      GF100_SUBDEVICE_MASTER,
      GF100_TIMED_SEMAPHORE_SW,
      GF100_ZBC_CLEAR,
      GP100_UVM_SW,
      HOPPER_CHANNEL_GPFIFO_A,
      HOPPER_COMPUTE_A,
      HOPPER_DMA_COPY_A,
      HOPPER_SEC2_WORK_LAUNCH_A,
      HOPPER_USERMODE_A,
      KEPLER_CHANNEL_GROUP_A,
      KEPLER_INLINE_TO_MEMORY_B,
      MMU_FAULT_BUFFER,
      ACCESS_COUNTER_NOTIFY_BUFFER,
      NV0060_SYNC_GPU_BOOST,
      NV01_MEMORY_VIRTUAL,
      NV04_SOFTWARE_TEST,
      NV50_DEFERRED_API_CLASS,
      NV50_MEMORY_VIRTUAL,
      NV50_P2P,
      NV50_THIRD_PARTY_P2P,
      NVENC_SW_SESSION,
      TURING_CHANNEL_GPFIFO_A,
      TURING_USERMODE_A,
      VOLTA_CHANNEL_GPFIFO_A,
      VOLTA_USERMODE_A,
      RM_USER_SHARED_DATA,
      NV_CONFIDENTIAL_COMPUTE,
  };
  return architecture == GpuProfile::Architecture::kHopper ? hopper : ampere;
}

bool KnowsClass(uint32_t class_id) {
  return class_id == NV01_ROOT || class_id == NV01_ROOT_NON_PRIV || class_id == NV01_ROOT_CLIENT ||
         FindClass(class_id) != nullptr;
}

uint32_t AllocObject(ResourceManager& rm, CallContext& call, RmClient& client, uint32_t parent,
                     uint32_t* handle, uint32_t class_id, RemoteAddress params,
                     uint32_t params_size) {
  const ClassRow* row = FindClass(class_id);
  const DriverAbi abi = rm.machine->driver.abi;
  const RefusedClass* refused = FindRefusedClass(class_id);
  if (row == nullptr && refused != nullptr) return refused->status;
  if (row == nullptr || row->versions.For(abi).serve == nullptr) {
    const char* name = RmClassName(class_id);
    rm.machine->unknowns->Count(
        "class", class_id,
        absl::StrFormat("%s, refused as NV_ERR_INVALID_CLASS", name ? name : "no public name"));
    return NV_ERR_INVALID_CLASS;
  }
  RmObject* parent_object = client.Find(parent);
  if (parent_object == nullptr) return NV_ERR_OBJECT_NOT_FOUND;
  if (row->needs_gpu && parent_object->gpu < 0) return NV_ERR_INVALID_OBJECT_PARENT;
  AllocRequest request{rm,
                       call,
                       client,
                       RmObject{.handle = *handle,
                                .parent = parent,
                                .class_id = class_id,
                                .gpu = parent_object->gpu,
                                .children = {},
                                .resource = {}},
                       parent_object,
                       {}};
  // The class implies the size: the driver does not look at what is said of it
  // (serverAllocApiCopyIn in rmapi/alloc_free.c). Where another is said, another version is meant.
  const TypedHandler<Constructor>& constructor = row->versions.For(abi);
  const uint32_t size = constructor.size;
  // Without a pointer the parameters are all zero (535 makes engines that way).
  const bool has_params = size > 0 && params != RemoteAddress{0};
  request.params.resize(size);
  if (has_params) {
    if (params_size != 0 && params_size != size) {
      rm.machine->unknowns->Count(
          "class size", class_id,
          absl::StrFormat("%d bytes instead of %d: another driver version?", params_size, size));
    }
    if (!call.memory().Read(params, request.params.data(), size)) return NV_ERR_INVALID_ADDRESS;
  }
  uint32_t status = constructor.serve(request);
  if (status != NV_OK) return status;
  status = client.Insert(std::move(request.object), handle);
  if (status == NV_OK && has_params && !call.memory().Write(params, request.params.data(), size)) {
    client.Free(*handle);
    return NV_ERR_INVALID_ADDRESS;
  }
  if (status == NV_OK && row->quiet != nullptr) {
    rm.machine->quiet->Count("class", class_id, RmClassName(class_id), row->quiet);
  }
  return status;
}

}  // namespace phantora
