// Controls of subdevices about engines: graphics/compute, copy, timer, watchdog
// (ctrl2080gr.h, ctrl2080grmgr.h, ctrl2080ce.h, ctrl2080tmr.h, ctrl2080rc.h).
#include <time.h>
#include <x86intrin.h>

#include <algorithm>
#include <optional>

#include "trap/abi/generated/rm_controls.h"
#include "trap/log.h"
#include "trap/rm/rm_control.h"
#include "trap/rm/rm_resources.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

constexpr uint32_t kSmsPerTpc = 2;
constexpr uint32_t kTpcsPerCpc = 3;  // Hopper: "compute processing clusters" of a GPC

constexpr uint32_t kPpcMask = 7;  // three of them in each GPC

bool IsHopper(const GpuProfile& profile) {
  return profile.architecture == GpuProfile::Architecture::kHopper;
}

// Where an H100 answers otherwise than the list below, which is that of an A100. The driver fills
// in less of what libcuda knows by the architecture.
std::optional<uint32_t> HopperGraphicsInfo(const GpuProfile& profile, uint32_t index) {
  switch (index) {
    case NV0080_CTRL_GR_INFO_INDEX_MAXCLIPS:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_MXBAR_FBP_PORTS:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_LTC_SLICES:
    case NV0080_CTRL_GR_INFO_INDEX_MAX_MIG_ENGINES:
      return 8;
    case NV0080_CTRL_GR_INFO_INDEX_BUFFER_ALIGNMENT:
      return 512;
    case NV0080_CTRL_GR_INFO_INDEX_VERTEX_CACHE_SIZE:
      return 16;
    case NV0080_CTRL_GR_INFO_INDEX_THREAD_STACK_SCALING_FACTOR:
      return profile.sms();
    case NV0080_CTRL_GR_INFO_INDEX_SWIZZLE_ALIGNMENT:
    case NV0080_CTRL_GR_INFO_INDEX_SM_REG_BANK_COUNT:
    case NV0080_CTRL_GR_INFO_INDEX_SM_REG_BANK_REG_COUNT:
    case NV0080_CTRL_GR_INFO_INDEX_MAX_SP_PER_SM:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_HSHUB_FBP_PORTS:
      return 0;
    case NV0080_CTRL_GR_INFO_INDEX_GEOM_GS_OBUF_ENTRIES:
    case NV0080_CTRL_GR_INFO_INDEX_GEOM_XBUF_ENTRIES:
      return 160;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_MXBAR_HUB_PORTS:
      return 6;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCMMU_PER_GPC:
      return 4;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_ROP_PER_GPC:
      return 1;
    case NV0080_CTRL_GR_INFO_INDEX_MAX_LEGACY_SUBCONTEXT_COUNT:
      return 2;
    case NV0080_CTRL_GR_INFO_INDEX_GFX_CAPABILITIES:
      return 15;
    // Without public names.
    case 0x2f:
      return 16;
    case 0x30:
      return 1;
    case 0x31:
      return 3;
    default:
      return std::nullopt;
  }
}

uint32_t GraphicsInfo(const GpuProfile& profile, uint32_t index) {
  if (IsHopper(profile)) {
    if (const auto answer = HopperGraphicsInfo(profile, index)) return *answer;
  }
  switch (index) {
    case NV0080_CTRL_GR_INFO_INDEX_BUFFER_ALIGNMENT:
    case NV0080_CTRL_GR_INFO_INDEX_SWIZZLE_ALIGNMENT:
      return 32;
    case NV0080_CTRL_GR_INFO_INDEX_SHADER_PIPE_COUNT:
      return static_cast<uint32_t>(profile.tpcs_per_gpc.size());
    case NV0080_CTRL_GR_INFO_INDEX_THREAD_STACK_SCALING_FACTOR:
      return 2;
    case NV0080_CTRL_GR_INFO_INDEX_SHADER_PIPE_SUB_COUNT:
      return profile.tpcs();
    case NV0080_CTRL_GR_INFO_INDEX_SM_REG_BANK_COUNT:
      return 4;
    case NV0080_CTRL_GR_INFO_INDEX_SM_REG_BANK_REG_COUNT:
      return 0x4000;  // four banks of 16 Ki registers
    case NV0080_CTRL_GR_INFO_INDEX_SM_VERSION:
      return profile.compute_major << 8 | profile.compute_minor << 4;
    case NV0080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM:
      return 64;
    case NV0080_CTRL_GR_INFO_INDEX_MAX_THREADS_PER_WARP:
      return 32;
    case NV0080_CTRL_GR_INFO_INDEX_FB_MEMORY_REQUEST_GRANULARITY:
    case NV0080_CTRL_GR_INFO_INDEX_HOST_MEMORY_REQUEST_GRANULARITY:
      return 32;
    case NV0080_CTRL_GR_INFO_INDEX_MAX_SP_PER_SM:
      return profile.cores_per_sm;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS:
      return profile.litter.gpcs;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_FBPS:
      return profile.litter.fbps;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_ZCULL_BANKS:
      return 4;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC:
    case NV0080_CTRL_GR_INFO_INDEX_FAMILY_MAX_TPC_PER_GPC:
      return profile.litter.tpcs_per_gpc;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_MIN_FBPS:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_MXBAR_FBP_PORTS:
    case NV0080_CTRL_GR_INFO_INDEX_TIMESLICE_ENABLED:
      return 1;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_FBPAS:
      return profile.litter.fbpas;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_PES_PER_GPC:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPCS_PER_PES:
      return 3;
    case NV0080_CTRL_GR_INFO_INDEX_GPU_CORE_COUNT:
      return profile.sms() * profile.cores_per_sm;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_MXBAR_HUB_PORTS:
      return 16;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC:
      return kSmsPerTpc;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_HSHUB_FBP_PORTS:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_LTC_PER_FBP:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_ROP_PER_GPC:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_FBPA_PER_FBP:
      return 2;
    case NV0080_CTRL_GR_INFO_INDEX_TENSOR_CORE_COUNT:
      return profile.sms() * 4;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_GRS:
    case NV0080_CTRL_GR_INFO_INDEX_MAX_PARTITIONABLE_GPCS:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_MIN_SUBCTX_PER_SMC_ENG:
      return 8;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_LTCS:
      return profile.litter.ltcs;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_LTC_SLICES:
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_SLICES_PER_LTC:
      return 4;
    case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCMMU_PER_GPC:
      return 1;
    case NV0080_CTRL_GR_INFO_INDEX_MAX_SUBCONTEXT_COUNT:
    case NV0080_CTRL_GR_INFO_INDEX_MAX_LEGACY_SUBCONTEXT_COUNT:
    case NV0080_CTRL_GR_INFO_INDEX_MAX_PER_ENGINE_SUBCONTEXT_COUNT:
      return 64;
    default:
      return 0;
  }
}

template <typename Params>
uint32_t GraphicsInfoV1(ControlCall& call, Params& params) {
  if (params.grInfoListSize == 0 || params.grInfoList == 0) return NV_ERR_INVALID_ARGUMENT;
  return AnswerRemoteList(call, params.grInfoListSize, params.grInfoList,
                          [&](uint32_t index) { return GraphicsInfo(call.profile(), index); });
}

template <typename Params>
uint32_t GraphicsInfoV2(ControlCall& call, Params& params) {
  if (params.grInfoListSize == 0 || params.grInfoListSize > std::size(params.grInfoList)) {
    return NV_ERR_INVALID_ARGUMENT;
  }
  for (uint32_t i = 0; i < params.grInfoListSize; ++i) {
    params.grInfoList[i].data = GraphicsInfo(call.profile(), params.grInfoList[i].index);
  }
  return NV_OK;
}

uint32_t GraphicsCaps(ControlCall& call, NV0080_CTRL_GR_GET_CAPS_V2_PARAMS& params) {
  // NV0080_CTRL_GR_CAPS_*, as an H100 has them but for one, 22:0x10, which has no public name: it
  // makes libcuda replace memory barriers of kernels (opcode 0x992) by jumps into code of its own
  // when it loads them. That is for hardware; here such kernels would be unknown ones.
  static constexpr uint8_t kHopperCaps[] = {0xb0, 0x2e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
                                            0x00, 0x00, 0x00, 0x10, 0x01, 0x08, 0x00, 0x10,
                                            0x10, 0x00, 0x80, 0x00, 0x04, 0x40, 0x00};
  static_assert(sizeof kHopperCaps == sizeof params.capsTbl);
  std::memset(params.capsTbl, 0, sizeof params.capsTbl);
  if (IsHopper(call.profile())) std::memcpy(params.capsTbl, kHopperCaps, sizeof kHopperCaps);
  params.bCapsPopulated = 1;
  return NV_OK;
}

uint32_t GpcMask(ControlCall& call, NV2080_CTRL_GR_GET_GPC_MASK_PARAMS& params) {
  params.gpcMask = (1u << call.profile().tpcs_per_gpc.size()) - 1;
  return NV_OK;
}

uint32_t TpcMaskOf(const GpuProfile& profile, uint32_t gpc) {
  return gpc < profile.tpcs_per_gpc.size() ? (1u << profile.tpcs_per_gpc[gpc]) - 1 : 0;
}

uint32_t TpcMask(ControlCall& call, NV2080_CTRL_GR_GET_TPC_MASK_PARAMS& params) {
  params.tpcMask = TpcMaskOf(call.profile(), params.gpcId);
  return NV_OK;
}

// SMs are numbered round the GPCs, TPC by TPC. On Hopper a migratable TPC is numbered within its
// virtual GPC, and 580 tells which of the chip's two halves a GPC is in. An H100 also makes
// virtual GPCs of single TPCs where GPCs have unequally many, and visits the clusters of a GPC in
// turn; which, differs from board to board.
template <typename Params>
uint32_t GlobalSmOrder(ControlCall& call, Params& params) {
  static constexpr uint16_t kHalfOfGpc[] = {0, 1, 1, 0, 0, 1, 1, 0};
  const bool hopper = IsHopper(call.profile());
  const auto& tpcs = call.profile().tpcs_per_gpc;
  std::memset(params.globalSmId, 0, sizeof params.globalSmId);
  uint16_t sm = 0, global_tpc = 0;
  const uint32_t most = *std::max_element(tpcs.begin(), tpcs.end());
  for (uint16_t tpc = 0; tpc < most; ++tpc) {
    for (uint16_t gpc = 0; gpc < tpcs.size(); ++gpc) {
      if (tpc >= tpcs[gpc]) continue;
      for (uint16_t local = 0; local < kSmsPerTpc && sm < std::size(params.globalSmId); ++local) {
        auto& id = params.globalSmId[sm++];
        id.gpcId = id.virtualGpcId = gpc;
        id.localTpcId = tpc;
        id.localSmId = local;
        id.globalTpcId = global_tpc;
        id.migratableTpcId = hopper ? tpc : global_tpc;
        if constexpr (requires { id.virtualTpcId; }) {
          id.ugpuId = hopper ? kHalfOfGpc[gpc % std::size(kHalfOfGpc)] : 0;
          id.physicalCpcId = hopper ? tpc / kTpcsPerCpc : 0;
          id.virtualTpcId = tpc;
        }
      }
      ++global_tpc;
    }
  }
  params.numSm = sm;
  params.numTpc = global_tpc;
  return NV_OK;
}

// The same order, of GPCs and TPCs alone.
template <typename Params>
uint32_t SmMappings(ControlCall& call, Params& params) {
  NV2080_CTRL_GR_GET_GLOBAL_SM_ORDER_PARAMS order = {};
  GlobalSmOrder(call, order);
  params.smCount = std::min<uint32_t>(order.numSm, std::size(params.smId));
  for (uint32_t sm = 0; sm < params.smCount; ++sm) {
    params.smId[sm].gpcId = order.globalSmId[sm].gpcId;
    params.smId[sm].tpcId = order.globalSmId[sm].localTpcId;
  }
  return NV_OK;
}

uint32_t PpcMask(ControlCall& call, NV2080_CTRL_GR_GET_PPC_MASK_PARAMS& params) {
  if (params.gpcId >= call.profile().litter.gpcs) return NV_ERR_INVALID_ARGUMENT;
  params.ppcMask = kPpcMask;
  return NV_OK;
}

uint32_t IssueRate(ControlCall&, NV2080_CTRL_GR_GET_SM_ISSUE_RATE_MODIFIER_PARAMS& params) {
  // Full speed everywhere; the routing information stays.
  const auto route = params.grRouteInfo;
  std::memset(&params, 0, sizeof params);
  params.grRouteInfo = route;
  return NV_OK;
}

uint32_t ContextBufferSize(ControlCall& call, NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS& params) {
  params.totalBufferSize = IsHopper(call.profile()) ? 0x52c000 : 32 << 20;
  return NV_OK;
}

uint32_t FloorsweepInfo(ControlCall& call, NV2080_CTRL_GRMGR_GET_GR_FS_INFO_PARAMS& params) {
  if (params.numQueries > std::size(params.queries)) return NV_ERR_INVALID_ARGUMENT;
  const GpuProfile& profile = call.profile();
  for (uint32_t i = 0; i < params.numQueries; ++i) {
    auto& query = params.queries[i];
    auto& data = query.queryData;
    query.status = NV_OK;
    switch (query.queryType) {
      case NV2080_CTRL_GRMGR_GR_FS_INFO_QUERY_GPC_COUNT:
        data.gpcCountData.gpcCount = static_cast<uint32_t>(profile.tpcs_per_gpc.size());
        break;
      case NV2080_CTRL_GRMGR_GR_FS_INFO_QUERY_CHIPLET_GPC_MAP:
        data.chipletGpcMapData.chipletGpcMap = data.chipletGpcMapData.gpcId;
        break;
      case NV2080_CTRL_GRMGR_GR_FS_INFO_QUERY_TPC_MASK:
        data.tpcMaskData.tpcMask = TpcMaskOf(profile, data.tpcMaskData.gpcId);
        break;
      case NV2080_CTRL_GRMGR_GR_FS_INFO_QUERY_PPC_MASK:
        data.ppcMaskData.ppcMask = kPpcMask;
        break;
      default:
        query.status = NV_ERR_NOT_SUPPORTED;
        break;
    }
  }
  return NV_OK;
}

// CE_CAPS_*: the first two engines are the graphics ones, the next two serve
// system memory, the others peers.
void CopyCaps(uint32_t engine, uint8_t (&caps)[2]) {
  constexpr uint8_t kGrce = 0x01, kShared = 0x02, kSysmemRead = 0x04, kSysmemWrite = 0x08,
                    kNvlinkP2p = 0x10, kSysmem = 0x20, kP2p = 0x40, kLargeBlocks = 0x80;
  if (engine < 2) {
    caps[0] = kGrce | kShared | kSysmemRead | kSysmemWrite | kSysmem | kLargeBlocks;
  } else if (engine < 4) {
    caps[0] = kSysmemRead | kSysmemWrite | kSysmem | kLargeBlocks;
  } else {
    caps[0] = kNvlinkP2p | kP2p | kLargeBlocks;
  }
  caps[1] = 0x01 | 0x02;  // non-pipelined and pipelined block-linear
}

uint32_t CopyCapsV2(ControlCall& call, NV2080_CTRL_CE_GET_CAPS_V2_PARAMS& params) {
  const uint32_t engine = params.ceEngineType - NV2080_ENGINE_TYPE_COPY0;
  if (engine >= call.profile().copy_engines) return NV_ERR_NOT_SUPPORTED;
  CopyCaps(engine, params.capsTbl);
  return NV_OK;
}

template <typename Params>
uint32_t AllCopyCaps(ControlCall& call, Params& params) {
  std::memset(&params, 0, sizeof params);
  for (uint32_t engine = 0; engine < call.profile().copy_engines; ++engine) {
    CopyCaps(engine, params.capsTbl[engine]);
    params.present |= 1u << engine;
  }
  return NV_OK;
}

uint32_t TimerTime(ControlCall& call, NV2080_CTRL_TIMER_GET_TIME_PARAMS& params) {
  params.time_nsec = call.machine().scheduler->TimeOf(call.call.process()).ShownNanoseconds();
  return NV_OK;
}

uint32_t TimeCorrelation(ControlCall& call,
                         NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS& params) {
  const size_t count = std::min<size_t>(params.sampleCount, std::size(params.samples));
  // CUPTI asks for the processor's counter. Programs read that themselves, so it is the real one,
  // which does not advance with simulated time.
  const bool counter = (params.cpuClkId & NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_SOURCE_MASK) ==
                       NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_TSC;
  if (counter && !call.machine().warned_of_counter) {
    call.machine().warned_of_counter = true;
    LogWarning(
        "CUPTI relates the GPU's time to the processor's time-stamp counter, which is real: what "
        "reads that counter too (PyTorch's profiler) shows all kernels longer or shorter by one "
        "factor, and may miss some; --out shows them as they are");
  }
  for (size_t i = 0; i < count; ++i) {
    const uint64_t now = call.machine().scheduler->TimeOf(call.call.process()).ShownNanoseconds();
    params.samples[i].gpuTime = now;
    params.samples[i].cpuTime = counter ? __rdtsc() : now;
  }
  return NV_OK;
}

// A profiler asks for the timer's full rate, which it has anyway here. Hopper's cannot be set
// (gpu/timer/timer.c).
uint32_t TickRate(ControlCall& call, NV2080_CTRL_CMD_TIMER_SET_GR_TICK_FREQ_PARAMS& params) {
  const auto subdevice = call.object.As<SubdeviceResource>();
  if (subdevice == nullptr) return NV_ERR_INVALID_OBJECT;
  const bool wanted = params.bSetMaxFreq != 0;
  if (wanted && IsHopper(call.profile())) return NV_ERR_NOT_SUPPORTED;
  if (wanted == subdevice->holds_tick_rate) return NV_ERR_ILLEGAL_ACTION;
  subdevice->holds_tick_rate = wanted;
  return NV_OK;
}

uint32_t WatchdogInfo(ControlCall&, NV2080_CTRL_RC_GET_WATCHDOG_INFO_PARAMS& params) {
  params.watchdogStatusFlags = NV2080_CTRL_RC_GET_WATCHDOG_INFO_FLAGS_DISABLED |
                               NV2080_CTRL_RC_GET_WATCHDOG_INFO_FLAGS_INITIALIZED;
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    Control<GraphicsInfoV1<NV2080_CTRL_GR_GET_INFO_PARAMS>>(NV2080_CTRL_CMD_GR_GET_INFO),
    Control<GraphicsInfoV1<NV0080_CTRL_GR_GET_INFO_PARAMS>>(NV0080_CTRL_CMD_GR_GET_INFO),
    ControlByVersion<NV0080_CTRL_GR_GET_INFO_V2_PARAMS,
                     [](ControlCall& call, auto& params) { return GraphicsInfoV2(call, params); }>(
        NV2080_CTRL_CMD_GR_GET_INFO_V2),
    ControlByVersion<NV0080_CTRL_GR_GET_INFO_V2_PARAMS,
                     [](ControlCall& call, auto& params) { return GraphicsInfoV2(call, params); }>(
        NV0080_CTRL_CMD_GR_GET_INFO_V2),
    Control<GraphicsCaps>(NV2080_CTRL_CMD_GR_GET_CAPS_V2),
    Control<GpcMask>(NV2080_CTRL_CMD_GR_GET_GPC_MASK),
    Control<TpcMask>(NV2080_CTRL_CMD_GR_GET_TPC_MASK),
    ControlByVersion<NV2080_CTRL_GR_GET_GLOBAL_SM_ORDER_PARAMS,
                     [](ControlCall& call, auto& params) { return GlobalSmOrder(call, params); }>(
        NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER),
    ControlByVersion<NV2080_CTRL_GR_GET_SM_TO_GPC_TPC_MAPPINGS_PARAMS,
                     [](ControlCall& call, auto& params) { return SmMappings(call, params); }>(
        NV2080_CTRL_CMD_GR_GET_SM_TO_GPC_TPC_MAPPINGS),
    Control<PpcMask>(NV2080_CTRL_CMD_GR_GET_PPC_MASK),
    Control<IssueRate>(NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER),
    Control<ContextBufferSize>(NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE),
    AcceptedControl<NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_PARAMS>(
        NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE,
        "contexts are not switched in the middle of a kernel"),
    Control<FloorsweepInfo>(NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO),
    Control<CopyCapsV2>(NV2080_CTRL_CMD_CE_GET_CAPS_V2),
    ControlByVersion<NV2080_CTRL_CE_GET_ALL_CAPS_PARAMS,
                     [](ControlCall& call, auto& params) { return AllCopyCaps(call, params); }>(
        NV2080_CTRL_CMD_CE_GET_ALL_CAPS),
    AcceptedControl<NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS>(
        NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION, "every registered event is told"),
    Control<TimerTime>(NV2080_CTRL_CMD_TIMER_GET_TIME),
    Control<TimeCorrelation>(NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO),
    Control<TickRate>(NV2080_CTRL_CMD_TIMER_SET_GR_TICK_FREQ),
    Control<WatchdogInfo>(NV2080_CTRL_CMD_RC_GET_WATCHDOG_INFO),
    AcceptedOfSizes(NV2080_CTRL_CMD_RC_RELEASE_WATCHDOG_REQUESTS, 0, "there is no watchdog"),
    AcceptedOfSizes(NV2080_CTRL_CMD_RC_SOFT_DISABLE_WATCHDOG, 0, "there is no watchdog"),
    AcceptedControl<NV2080_CTRL_PERF_BOOST_PARAMS>(NV2080_CTRL_CMD_PERF_BOOST,
                                                   "clocks are always those of a busy GPU"),
};

}  // namespace

absl::Span<const ControlRow> EngineControls() { return kRows; }

}  // namespace phantora
