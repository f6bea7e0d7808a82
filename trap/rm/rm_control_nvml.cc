// What only NVML asks: board, reliability and bus counters (ctrl2080gpu.h,
// ctrl2080ecc.h, ctrl2080fb.h, ctrl2080bus.h). Of the things that this machine does
// not have, such as temperatures, nothing is made up: NVML says "N/A".
#include <algorithm>

#include "trap/abi/generated/rm_controls.h"
#include "trap/rm/rm_control.h"

namespace phantora {
namespace {

using namespace abi;  // NOLINT: NVIDIA's names

// The objects of the InfoROM, a store on the board. Without the one for ECC, NVML
// does not offer ECC.
uint32_t InforomObjectVersion(ControlCall& call) {
  auto& params = call.Params<NV2080_CTRL_GPU_GET_INFOROM_OBJECT_VERSION_PARAMS>();
  const auto& board = call.profile().board;
  const auto answer = [&](const GpuProfile::Version& version) -> uint32_t {
    params.version = version.major;
    params.subversion = version.minor;
    return NV_OK;
  };
  const std::string_view type(reinterpret_cast<const char*>(params.objectType), 3);
  if (type == "OBD") return answer(board.inforom_oem);
  if (type == "ECC") return answer(board.inforom_ecc);
  return NV_ERR_OBJECT_NOT_FOUND;
}

// ctrl208fgpu.h NV208F_CTRL_CMD_GPU_VERIFY_INFOROM: a result and a checksum.
constexpr uint32_t kVerifyInforom = 0x208f1105;
uint32_t VerifyInforom(ControlCall& call) {
  constexpr uint32_t kAnswer[2] = {2, 0};  // _VERIFICATION_RESULT_VALID
  std::memcpy(call.params.data(), kAnswer, sizeof kAnswer);
  return NV_OK;
}

// NVML makes the part number of this: "2330-885-A1".
uint32_t ChipDetails(ControlCall& call) {
  const GpuProfile& profile = call.profile();
  if (profile.board.chip_sku.empty()) return NV_ERR_NOT_SUPPORTED;
  auto& params = call.Params<NV2080_CTRL_GPU_GET_CHIP_DETAILS_PARAMS>();
  params.pciDevId = profile.pci.device;
  CopyText(params.chipSku, profile.board.chip_sku);
  params.chipMajor = profile.pci.revision >> 4;
  params.chipMinor = profile.pci.revision & 0xf;
  return NV_OK;
}

// No bank of the memory has used up any of its spare rows.
uint32_t RowRemapperHistogram(ControlCall& call) {
  auto& params = call.Params<NV2080_CTRL_FB_GET_ROW_REMAPPER_HISTOGRAM_PARAMS>();
  std::memset(&params, 0, sizeof params);
  params.histogram[0] = call.profile().board.remap_banks;
  return NV_OK;
}

// No errors and no replays on the bus.
uint32_t PexCounters(ControlCall& call) {
  auto& params = call.Params<NV2080_CTRL_BUS_GET_PEX_COUNTERS_PARAMS>();
  const uint32_t mask = params.pexCounterMask;
  std::memset(&params, 0, sizeof params);
  params.pexCounterMask = mask;
  return NV_OK;
}

uint32_t AccountingState(ControlCall& call) {
  call.Params<NV0000_CTRL_GPUACCT_GET_ACCOUNTING_STATE_PARAMS>().state =
      NV0000_CTRL_GPU_ACCOUNTING_STATE_DISABLED;
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    Control<NV0000_CTRL_GPUACCT_GET_ACCOUNTING_STATE_PARAMS>(
        NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_STATE, AccountingState),
    Control<NV2080_CTRL_GPU_GET_INFOROM_OBJECT_VERSION_PARAMS>(
        NV2080_CTRL_CMD_GPU_GET_INFOROM_OBJECT_VERSION, InforomObjectVersion),
    ControlOfSize(NV2080_CTRL_CMD_GPU_QUERY_INFOROM_ECC_SUPPORT, 0, ControlSucceeds),
    ControlOfSize(kVerifyInforom, 8, VerifyInforom),
    Control<NV2080_CTRL_GPU_GET_CHIP_DETAILS_PARAMS>(NV2080_CTRL_CMD_GPU_GET_CHIP_DETAILS,
                                                     ChipDetails),
    // Neither a reset nor a drain is due.
    Control<NV2080_CTRL_GPU_GET_RESET_STATUS_PARAMS>(NV2080_CTRL_CMD_GPU_GET_RESET_STATUS,
                                                     ControlAnswersZero),
    Control<NV2080_CTRL_GPU_GET_DRAIN_AND_RESET_STATUS_PARAMS>(
        NV2080_CTRL_CMD_GPU_GET_DRAIN_AND_RESET_STATUS, ControlAnswersZero),
    // No errors, no encoder or capture sessions.
    Control<NV2080_CTRL_ECC_GET_CLIENT_EXPOSED_COUNTERS_PARAMS>(
        NV2080_CTRL_CMD_ECC_GET_CLIENT_EXPOSED_COUNTERS, ControlAnswersZero),
    Control<NV2080_CTRL_ECC_GET_VOLATILE_COUNTS_PARAMS>(NV2080_CTRL_CMD_ECC_GET_VOLATILE_COUNTS,
                                                        ControlAnswersZero),
    Control<NV2080_CTRL_FB_GET_REMAPPED_ROWS_PARAMS>(NV2080_CTRL_CMD_FB_GET_REMAPPED_ROWS,
                                                     ControlAnswersZero),
    Control<NV2080_CTRL_FB_GET_ROW_REMAPPER_HISTOGRAM_PARAMS>(
        NV2080_CTRL_CMD_FB_GET_ROW_REMAPPER_HISTOGRAM, RowRemapperHistogram),
    Control<NV2080_CTRL_BUS_GET_PEX_COUNTERS_PARAMS>(NV2080_CTRL_CMD_BUS_GET_PEX_COUNTERS,
                                                     PexCounters),
    Control<NV2080_CTRL_GPU_GET_NVENC_SW_SESSION_STATS_PARAMS>(
        NV2080_CTRL_GPU_GET_NVENC_SW_SESSION_STATS, ControlAnswersZero),
    Control<NV2080_CTRL_GPU_GET_NVFBC_SW_SESSION_STATS_PARAMS>(
        NV2080_CTRL_GPU_GET_NVFBC_SW_SESSION_STATS, ControlAnswersZero),
    // These GPUs remap rows instead of retiring pages.
    Control<NV2080_CTRL_FB_GET_OFFLINED_PAGES_PARAMS>(NV2080_CTRL_CMD_FB_GET_OFFLINED_PAGES,
                                                      ControlNotSupported),
    // What differs from board to board or is measured: firmware versions, the place
    // on the board, traffic.
    Control<NV2080_CTRL_BIOS_GET_INFO_PARAMS>(NV2080_CTRL_CMD_BIOS_GET_INFO, ControlNotSupported),
    Control<NV2080_CTRL_GPU_GET_INFOROM_IMAGE_VERSION_PARAMS>(
        NV2080_CTRL_CMD_GPU_GET_INFOROM_IMAGE_VERSION, ControlNotSupported),
    ControlOfSize(NV2080_CTRL_CMD_PMGR_GET_MODULE_INFO, 8, ControlNotSupported),
    Control<NV2080_CTRL_BUS_GET_PEX_UTIL_COUNTERS_PARAMS>(NV2080_CTRL_CMD_BUS_GET_PEX_UTIL_COUNTERS,
                                                          ControlNotSupported),
    Control<NV2080_CTRL_CMD_BUS_GET_PCIE_REQ_ATOMICS_CAPS_PARAMS>(
        NV2080_CTRL_CMD_BUS_GET_PCIE_REQ_ATOMICS_CAPS, ControlNotSupported),
    {NV2080_CTRL_CMD_PERF_GET_VID_ENG_PERFMON_SAMPLE, ControlRow::kAbsent,
     sizeof(NV2080_CTRL_PERF_GET_VID_ENG_PERFMON_SAMPLE_PARAMS), ControlNotSupported},
    {NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2,
     sizeof(NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS),
     sizeof(NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS_V550), ControlNotSupported},
    Control<NV90E7_CTRL_BBX_GET_LAST_FLUSH_TIME_PARAMS>(NV90E7_CTRL_CMD_BBX_GET_LAST_FLUSH_TIME,
                                                        ControlNotSupported),
    // The rest has no public name. What nvidia-smi leaves out of its answer when they
    // are refused says what they are. Temperatures and their limits:
    ControlOfSize(0x20808513, 1432, ControlNotSupported),
    ControlOfSize(0x2080852a, 1496, ControlNotSupported),
    {0x20808536, 104, 108, ControlNotSupported},
    ControlOfSize(0x20808546, 24, ControlNotSupported),
    // Fans, of which these boards have none.
    ControlOfSize(0x2080852e, 528, ControlNotSupported),
    // Power draw, its limits' bounds, and voltage.
    ControlOfSize(0x2080a612, 3608, ControlNotSupported),
    {0x2080a618, 6944, 6952, ControlNotSupported},
    ControlOfSize(0x2080a637, 88024, ControlNotSupported),
    {0x2080b201, 1676, 2060, ControlNotSupported},
    // Utilisation, of the GPU and (535) of the video engines.
    ControlOfSize(0x2080a097, 1168, ControlNotSupported),
    {0x2080a087, 12, ControlRow::kAbsent, ControlNotSupported},
    // Why clocks are lowered; samples of the clocks; deferred clocks.
    ControlOfSize(0x2080a080, 52, ControlNotSupported),
    ControlOfSize(0x20809040, 4808, ControlNotSupported),
    ControlOfSize(0x2080a06e, 1, ControlNotSupported),
    // GPU operation mode; display modes (550).
    ControlOfSize(0x20800152, 12, ControlNotSupported),
    {0x20810110, ControlRow::kAbsent, 1, ControlNotSupported},
    {0x20810111, ControlRow::kAbsent, 4, ControlNotSupported},
};

}  // namespace

absl::Span<const ControlRow> NvmlControls() { return kRows; }

}  // namespace phantora
