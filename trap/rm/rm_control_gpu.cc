// Controls of subdevices that describe the GPU: identity, memory, bus
// (ctrl2080gpu.h, ctrl2080fb.h, ctrl2080bus.h, ctrl2080mc.h, ctrl2080gsp.h).
#include <algorithm>
#include <set>

#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr uint32_t kNvidiaVendor = 0x10de;
// nv_arch.h NV_PMC_BOOT_42_ARCHITECTURE_GH100, as an architecture number; the
// control's own header stops at Ada.
constexpr uint32_t kArchitectureHopper = 0x180;

// An index without public name. With 1, NVML takes the brand to be "NVIDIA", as on all
// GPUs for data centres, and asks for more.
constexpr uint32_t kGpuInfoDatacenter = 0x11;

bool IsHopper(const GpuProfile& profile) {
  return profile.architecture == GpuProfile::Architecture::kHopper;
}

uint32_t GpuInfo(ControlCall& call) {
  const GpuProfile& profile = call.profile();
  return AnswerInlineList(call, [&](uint32_t index) -> uint32_t {
    switch (index & 0xffff) {
      case kGpuInfoDatacenter:
        return 1;
      case NV2080_CTRL_GPU_INFO_INDEX_IBMNPU_RELAXED_ORDERING:
        return NV2080_CTRL_GPU_INFO_IBMNPU_RELAXED_ORDERING_UNSUPPORTED;
      case NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE:
        return NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_DISABLED;
      case NV2080_CTRL_GPU_INFO_INDEX_GLOBAL_POISON_FUSE_ENABLED:
        return IsHopper(profile) ? NV2080_CTRL_GPU_INFO_INDEX_GLOBAL_POISON_FUSE_ENABLED_YES
                                 : NV2080_CTRL_GPU_INFO_INDEX_GLOBAL_POISON_FUSE_ENABLED_NO;
      case NV2080_CTRL_GPU_INFO_INDEX_GPU_SM_VERSION:
        return profile.compute_major << 8 | profile.compute_minor << 4;
      case NV2080_CTRL_GPU_INFO_INDEX_PER_RUNLIST_CHANNEL_RAM:
        return NV2080_CTRL_GPU_INFO_INDEX_PER_RUNLIST_CHANNEL_RAM_ENABLED;
      case NV2080_CTRL_GPU_INFO_INDEX_GPU_PROFILING_CAPABILITY:
        return NV2080_CTRL_GPU_INFO_INDEX_GPU_PROFILING_CAPABILITY_ENABLED;
      case NV2080_CTRL_GPU_INFO_INDEX_GPU_DEBUGGING_CAPABILITY:
        return NV2080_CTRL_GPU_INFO_INDEX_GPU_DEBUGGING_CAPABILITY_ENABLED;
      default:
        return 0;  // "no" or "disabled" for all the others
    }
  });
}

template <typename Params>
uint32_t NameString(ControlCall& call, Params& params) {
  // Gone with 595.
  if constexpr (requires { params.gpuNameString.unicode; }) {
    if (params.gpuNameStringFlags == NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE_UNICODE) {
      std::memset(&params.gpuNameString, 0, sizeof params.gpuNameString);
      for (size_t i = 0; i < call.profile().product.size(); ++i) {
        params.gpuNameString.unicode[i] = call.profile().product[i];
      }
      return NV_OK;
    }
  }
  CopyText(params.gpuNameString.ascii, call.profile().product);
  return NV_OK;
}

uint32_t ShortName(ControlCall& call, NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS& params) {
  CopyText(params.gpuShortNameString, call.profile().short_name);
  return NV_OK;
}

uint32_t Id(ControlCall& call, NV2080_CTRL_GPU_GET_ID_PARAMS& params) {
  params.gpuId = call.gpu().id();
  return NV_OK;
}

uint32_t GidInfo(ControlCall& call, NV2080_CTRL_GPU_GET_GID_INFO_PARAMS& params) {
  const Gpu& gpu = call.gpu();
  std::memset(params.data, 0, sizeof params.data);
  if ((params.flags & 2) != 0) {  // FORMAT_BINARY
    params.length = gpu.uuid.size();
    std::memcpy(params.data, gpu.uuid.data(), gpu.uuid.size());
  } else {
    const std::string text = gpu.uuid_text();
    params.length = text.size() + 1;
    std::memcpy(params.data, text.data(), text.size());
  }
  return NV_OK;
}

// The units that an H100 protects (NV2080_CTRL_GPU_ECC_UNIT_*), as a mask.
constexpr uint64_t kHopperEccUnits = 0x1fdfe3b;

template <typename Params>
uint32_t EccStatus(ControlCall& call, Params& params) {
  const uint64_t units = IsHopper(call.profile()) ? kHopperEccUnits : ~uint64_t{0};
  for (size_t i = 0; i < std::size(params.units); ++i) {
    auto& unit = params.units[i];
    std::memset(&unit, 0, sizeof unit);
    unit.enabled = unit.supported = unit.scrubComplete = units >> i & 1;
  }
  params.bFatalPoisonError = 0;
  params.uncorrectableError = 0;
  return NV_OK;
}

uint32_t EccConfiguration(ControlCall&, NV2080_CTRL_GPU_QUERY_ECC_CONFIGURATION_PARAMS& params) {
  params.currentConfiguration = params.defaultConfiguration =
      NV2080_CTRL_GPU_ECC_CONFIGURATION_ENABLED;
  return NV_OK;
}

// The lists of 550 and 580 are longer. One graphics engine and the copy engines.
uint32_t Engines(ControlCall& call, NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS& params) {
  params.engineCount = 0;
  params.engineList[params.engineCount++] = NV2080_ENGINE_TYPE_GRAPHICS;
  for (uint32_t i = 0; i < call.profile().copy_engines; ++i) {
    params.engineList[params.engineCount++] = NV2080_ENGINE_TYPE_COPY0 + i;
  }
  return NV_OK;
}

// Memory sizes are reported in KiB.
uint32_t FramebufferInfo(ControlCall& call, uint32_t index) {
  const GpuProfile& profile = call.profile();
  const VidmemHeap& heap = *call.gpu().heap;
  const auto total_kib = static_cast<uint32_t>(profile.memory.total_mib << 10);
  const auto usable_kib = static_cast<uint32_t>(heap.capacity() >> 10);
  const auto free_kib = static_cast<uint32_t>(heap.free() >> 10);
  const auto bar1_kib = static_cast<uint32_t>(profile.pci.bar1_mib << 10);
  // Partitions that are in use: an H100 with 5 of 6 memory stacks answers 10 of 12, so that each is
  // 512 bits of the bus. Which they are differs from board to board.
  constexpr uint32_t kBitsPerFbp = 512, kLtcsPerFbp = 2;
  const bool hopper = IsHopper(profile);
  const uint32_t fbps = hopper ? profile.memory.bus_width_bits / kBitsPerFbp : profile.litter.fbps;
  const uint32_t ltcs = hopper ? fbps * kLtcsPerFbp : profile.litter.ltcs;
  switch (index) {
    case NV2080_CTRL_FB_INFO_INDEX_PARTITION_COUNT:
    case NV2080_CTRL_FB_INFO_INDEX_FBP_COUNT:
      return fbps;
    case NV2080_CTRL_FB_INFO_INDEX_PARTITION_MASK:
    case NV2080_CTRL_FB_INFO_INDEX_FBP_MASK:
      return (1u << fbps) - 1;
    case NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE:
    case NV2080_CTRL_FB_INFO_INDEX_BAR1_AVAIL_SIZE:
    case NV2080_CTRL_FB_INFO_INDEX_BAR1_MAX_CONTIGUOUS_AVAIL_SIZE:
      return bar1_kib;
    case NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE:
    case NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE:
      return total_kib;
    case NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE:
    case NV2080_CTRL_FB_INFO_INDEX_MAPPABLE_HEAP_SIZE:
    case NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE:
      return usable_kib;
    case NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE:
    case NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB:
      return free_kib;
    case NV2080_CTRL_FB_INFO_INDEX_BUS_WIDTH:
      return profile.memory.bus_width_bits;
    case NV2080_CTRL_FB_INFO_INDEX_RAM_TYPE:
      return profile.memory.type == GpuProfile::MemoryType::kHbm3
                 ? NV2080_CTRL_FB_INFO_RAM_TYPE_HBM3
                 : NV2080_CTRL_FB_INFO_RAM_TYPE_HBM2;
    case NV2080_CTRL_FB_INFO_INDEX_BANK_COUNT:
      return 16;
    case NV2080_CTRL_FB_INFO_INDEX_L2CACHE_SIZE:
      return static_cast<uint32_t>(profile.memory.l2_bytes);
    case NV2080_CTRL_FB_INFO_INDEX_LTC_COUNT:
      return ltcs;
    case NV2080_CTRL_FB_INFO_INDEX_LTS_COUNT:
      return ltcs * 4;
    case NV2080_CTRL_FB_INFO_INDEX_LTC_MASK:
      return (1u << ltcs) - 1;
    case NV2080_CTRL_FB_INFO_INDEX_ALLOW_PAGE_RETIREMENT:
      return 1;
    case NV2080_CTRL_FB_INFO_INDEX_NUMA_NODE_ID:
      return ~0u;  // video memory is no node of the host's
    default:
      return 0;
  }
}

uint32_t FramebufferInfoV1(ControlCall& call, const NV2080_CTRL_FB_GET_INFO_PARAMS& params) {
  return AnswerRemoteList(call, params.fbInfoListSize, params.fbInfoList,
                          [&](uint32_t index) { return FramebufferInfo(call, index); });
}

uint32_t FramebufferInfoV2(ControlCall& call) {
  return AnswerInlineList(call, [&](uint32_t index) { return FramebufferInfo(call, index); });
}

uint32_t PciIds(ControlCall& call, NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS& params) {
  const auto& pci = call.profile().pci;
  params.pciDeviceId = pci.device << 16 | kNvidiaVendor;
  params.pciSubSystemId = pci.subsystem << 16 | kNvidiaVendor;
  params.pciRevisionId = pci.revision;
  params.pciExtDeviceId = pci.device;
  return NV_OK;
}

uint32_t PciBars(ControlCall& call, NV2080_CTRL_BUS_GET_PCI_BAR_INFO_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  const uint64_t bar1 = call.profile().pci.bar1_mib << 20;
  const uint64_t index = call.gpu().index;
  params.pciBarCount = 3;
  params.pciBarInfo[0] = {0, 16, 16 << 20, 0xa0000000 + index * (64 << 20)};
  params.pciBarInfo[1] = {0, static_cast<uint32_t>(bar1 >> 20), bar1, 0x20000000000 + index * bar1};
  params.pciBarInfo[2] = {0, 32, 32 << 20, 0xa2000000 + index * (64 << 20)};
  return NV_OK;
}

// PCIE_LINK_CAP_* and PCIE_LINK_CTRL_STATUS_*: generation g is coded g - 1 in the
// GEN fields and g in the speed fields.
uint32_t LinkCaps(const GpuProfile& profile) {
  const uint32_t generation = profile.pci.generation, width = profile.pci.width;
  return generation | width << 4 | (generation - 1) << 12 | (generation - 1) << 16 |
         (generation - 1) << 20;
}

uint32_t BusInfo(ControlCall& call, uint32_t index) {
  const GpuProfile& profile = call.profile();
  const uint32_t generation = profile.pci.generation, width = profile.pci.width;
  switch (index) {
    case NV2080_CTRL_BUS_INFO_INDEX_TYPE:
    case NV2080_CTRL_BUS_INFO_INDEX_INTERFACE_TYPE:
    case NV2080_CTRL_BUS_INFO_INDEX_GPU_INTERFACE_TYPE:
      return NV2080_CTRL_BUS_INFO_TYPE_PCI_EXPRESS;
    case NV2080_CTRL_BUS_INFO_INDEX_COHERENT_DMA_FLAGS:
      return IsHopper(profile) ? NV2080_CTRL_BUS_INFO_COHERENT_DMA_FLAGS_CTXDMA_MASK |
                                     NV2080_CTRL_BUS_INFO_COHERENT_DMA_FLAGS_GPUGART_MASK
                               : 0;
    case NV2080_CTRL_BUS_INFO_INDEX_INTLINE:
      return 16;
    case NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CAPS:
    case NV2080_CTRL_BUS_INFO_INDEX_PCIE_ROOT_LINK_CAPS:
    case NV2080_CTRL_BUS_INFO_INDEX_PCIE_UPSTREAM_LINK_CAPS:
      return LinkCaps(profile);
    case NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CTRL_STATUS:
    case NV2080_CTRL_BUS_INFO_INDEX_PCIE_ROOT_LINK_CTRL_STATUS:
      // LINK_SPEED 19:16, LINK_WIDTH 25:20
      return generation << 16 | width << 20;
    case NV2080_CTRL_BUS_INFO_INDEX_GPU_GART_SIZE:
      return 0x400000;
    case NV2080_CTRL_BUS_INFO_INDEX_BUS_NUMBER:
      return call.gpu().bus;
    case NV2080_CTRL_BUS_INFO_INDEX_PCIE_GEN_INFO:
      // The generation's fields, where the capabilities have them.
      return LinkCaps(profile) & 0xfff000;
    default:
      return 0;
  }
}

uint32_t BusInfoV1(ControlCall& call, const NV2080_CTRL_BUS_GET_INFO_PARAMS& params) {
  return AnswerRemoteList(call, params.busInfoListSize, params.busInfoList,
                          [&](uint32_t index) { return BusInfo(call, index); });
}

uint32_t BusInfoV2(ControlCall& call) {
  return AnswerInlineList(call, [&](uint32_t index) { return BusInfo(call, index); });
}

uint32_t ArchInfo(ControlCall& call, NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS& params) {
  const bool hopper = IsHopper(call.profile());
  params.architecture = hopper ? kArchitectureHopper : NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_GA100;
  params.implementation = 0;
  params.revision = call.profile().pci.revision;
  params.subRevision = hopper ? NV2080_CTRL_MC_ARCH_INFO_SUBREVISION_R : 0;
  return NV_OK;
}

uint32_t GspFeatures(ControlCall& call, NV2080_CTRL_GSP_GET_FEATURES_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  params.gspFeatures = 1;  // UVM_ENABLED
  params.bValid = params.bDefaultGspRmGpu = 1;
  CopyText(params.firmwareVersion, call.machine().driver.text);
  return NV_OK;
}

uint32_t BoardInfo(ControlCall&, NV2080_CTRL_GPU_GET_OEM_BOARD_INFO_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  return NV_OK;
}

// One policy, the timeslice, at its default. libcuda gives up without it.
uint32_t ComputePolicy(ControlCall&, NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  params.numConfigs = 1;
  params.configList[0].type = NV2080_CTRL_GPU_COMPUTE_POLICY_TIMESLICE;
  params.configList[0].data.timeslice = NV2080_CTRL_CMD_GPU_COMPUTE_TIMESLICE_DEFAULT;
  return NV_OK;
}

// The processes that have an object of a class on this GPU; the class of compute
// objects finds those that run CUDA (subdevice_ctrl_gpu_kernel.c).
uint32_t Processes(ControlCall& call, NV2080_CTRL_GPU_GET_PIDS_PARAMS& params) {
  if (params.idType != NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS) return NV_ERR_NOT_SUPPORTED;
  std::set<pid_t> processes;
  call.rm.server.ForEach([&](const RmClient& client) {
    client.ForEach([&](const RmObject& object) {
      if (object.class_id == params.id && object.gpu == call.gpu().index) {
        processes.insert(client.process());
      }
    });
  });
  params.pidTblCount = std::min<uint32_t>(processes.size(), std::size(params.pidTbl));
  std::copy_n(processes.begin(), params.pidTblCount, params.pidTbl);
  return NV_OK;
}

// The video memory that a process has on this GPU.
NV2080_CTRL_GPU_PID_INFO_VIDEO_MEMORY_USAGE_DATA VideoMemoryOf(ControlCall& call, pid_t process) {
  NV2080_CTRL_GPU_PID_INFO_VIDEO_MEMORY_USAGE_DATA usage = {};
  std::set<const RmResource*> seen;
  call.rm.server.ForEach([&](const RmClient& client) {
    if (client.process() != process) return;
    client.ForEach([&](const RmObject& object) {
      auto memory = object.As<MemoryResource>();
      if (memory == nullptr || memory->memory->kind() != MemoryKind::kVidmem ||
          memory->reservation == nullptr || memory->gpu != call.gpu().index ||
          !seen.insert(memory.get()).second) {
        return;
      }
      (memory->owner == process ? usage.memPrivate : usage.memSharedDuped) +=
          memory->reservation->bytes();
    });
  });
  return usage;
}

uint32_t ProcessInfo(ControlCall& call, NV2080_CTRL_GPU_GET_PID_INFO_PARAMS& params) {
  if (params.pidInfoListCount > std::size(params.pidInfoList)) return NV_ERR_INVALID_ARGUMENT;
  for (uint32_t i = 0; i < params.pidInfoListCount; ++i) {
    auto& info = params.pidInfoList[i];
    if (info.index != NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE) {
      info.result = NV_ERR_INVALID_ARGUMENT;
      continue;
    }
    info.data.vidMemUsage = VideoMemoryOf(call, info.pid);
    info.smcSubscription = {~0u, ~0u};  // no MIG
    info.result = NV_OK;
  }
  return NV_OK;
}

// 0x20808159, undocumented: a count and 41 {index, value} pairs. Zero is accepted.
uint32_t Undocumented8159(ControlCall& call) {
  return AnswerInlineList(call, [](uint32_t) { return 0; });
}

constexpr HandlerVersions<ControlHandler> RefusedUntil580(uint32_t size) {
  return HandlerVersions<ControlHandler>({size, ControlNotSupported})
      .Since(DriverAbi::k580, {size, ControlSucceeds});
}

constexpr ControlRow kRows[] = {
    UntypedControl<NV2080_CTRL_GPU_GET_INFO_V2_PARAMS>(NV2080_CTRL_CMD_GPU_GET_INFO_V2, GpuInfo),
    ControlByVersion<NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS,
                     [](ControlCall& call, auto& params) { return NameString(call, params); }>(
        NV2080_CTRL_CMD_GPU_GET_NAME_STRING),
    Control<ShortName>(NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING),
    ZeroControl<NV2080_CTRL_GPU_GET_SIMULATION_INFO_PARAMS>(
        NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO, "programs are to see a real GPU: type 0"),
    Control<Id>(NV2080_CTRL_CMD_GPU_GET_ID),
    Control<GidInfo>(NV2080_CTRL_CMD_GPU_GET_GID_INFO),
    ZeroControl<NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS>(
        NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES, "compute mode is the default"),
    // ACQUIRE and RELEASE_COMPUTE_MODE_RESERVATION; named in no public header.
    AcceptedOfSizes(0x20800145, 0,
                    "acquires a compute-mode reservation, which the default mode gives to all"),
    AcceptedOfSizes(0x20800146, 0, "releases a compute-mode reservation"),
    ControlByVersion<NV2080_CTRL_GPU_QUERY_ECC_STATUS_PARAMS,
                     [](ControlCall& call, auto& params) { return EccStatus(call, params); }>(
        NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS),
    Control<EccConfiguration>(NV2080_CTRL_CMD_GPU_QUERY_ECC_CONFIGURATION),
    Control<BoardInfo>(NV2080_CTRL_CMD_GPU_GET_OEM_BOARD_INFO),
    Control<Engines>(NV2080_CTRL_CMD_GPU_GET_ENGINES_V2),
    ZeroControl<NV2080_CTRL_GPU_GET_ACTIVE_PARTITION_IDS_PARAMS>(
        NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS, "no MIG instances"),
    // No MIG: the driver refuses.
    RefusedControl<NV2080_CTRL_GPU_GET_PARTITIONS_PARAMS>(NV2080_CTRL_CMD_GPU_GET_PARTITIONS),
    Control<Processes>(NV2080_CTRL_CMD_GPU_GET_PIDS),
    Control<ProcessInfo>(NV2080_CTRL_CMD_GPU_GET_PID_INFO),
    Control<ComputePolicy>(NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG),
    Control<FramebufferInfoV1>(NV2080_CTRL_CMD_FB_GET_INFO),
    UntypedControl<NV2080_CTRL_FB_GET_INFO_V2_PARAMS>(NV2080_CTRL_CMD_FB_GET_INFO_V2,
                                                      FramebufferInfoV2),
    Control<PciIds>(NV2080_CTRL_CMD_BUS_GET_PCI_INFO),
    Control<PciBars>(NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO),
    Control<BusInfoV1>(NV2080_CTRL_CMD_BUS_GET_INFO),
    UntypedControl<NV2080_CTRL_BUS_GET_INFO_V2_PARAMS>(NV2080_CTRL_CMD_BUS_GET_INFO_V2, BusInfoV2),
    ZeroControl<NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS_PARAMS>(
        NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS, "no atomics over PCIe"),
    // No chip-to-chip link to the CPU.
    ZeroControl<NV2080_CTRL_CMD_BUS_GET_C2C_INFO_PARAMS>(NV2080_CTRL_CMD_BUS_GET_C2C_INFO,
                                                         "no chip-to-chip link to the processor"),
    Control<ArchInfo>(NV2080_CTRL_CMD_MC_GET_ARCH_INFO),
    AcceptedControl<NV2080_CTRL_MC_SERVICE_INTERRUPTS_PARAMS>(NV2080_CTRL_CMD_MC_SERVICE_INTERRUPTS,
                                                              "no interrupt is ever left to serve"),
    Control<GspFeatures>(NV2080_CTRL_CMD_GSP_GET_FEATURES),
    ControlOfSizes(0x20808159, 332, Undocumented8159),
    // Peer access between two GPUs (undocumented): zero permits it.
    ZeroOfSizes(0x20808162, 1, "peer access between two GPUs: zero permits it"),
    // Undocumented, refused without harm by 535 and 550. An H100 with 580 accepts two of them and
    // leaves the zeros that libcuda sends.
    RefusedOfSizes(0x20808161, 952),
    {0x20810108, RefusedUntil580(992), "an H100 changes nothing in the block either"},
    {0x20809038, RefusedUntil580(4), "an H100 changes nothing in the block either"},
};

}  // namespace

absl::Span<const ControlRow> GpuControls() { return kRows; }

}  // namespace phantora
