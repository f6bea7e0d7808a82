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
uint32_t InforomObjectVersion(ControlCall& call,
                              NV2080_CTRL_GPU_GET_INFOROM_OBJECT_VERSION_PARAMS& params) {
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
uint32_t ChipDetails(ControlCall& call, NV2080_CTRL_GPU_GET_CHIP_DETAILS_PARAMS& params) {
  const GpuProfile& profile = call.profile();
  if (profile.board.chip_sku.empty()) return NV_ERR_NOT_SUPPORTED;
  params.pciDevId = profile.pci.device;
  CopyText(params.chipSku, profile.board.chip_sku);
  params.chipMajor = profile.pci.revision >> 4;
  params.chipMinor = profile.pci.revision & 0xf;
  return NV_OK;
}

// No bank of the memory has used up any of its spare rows.
uint32_t RowRemapperHistogram(ControlCall& call,
                              NV2080_CTRL_FB_GET_ROW_REMAPPER_HISTOGRAM_PARAMS& params) {
  std::memset(&params, 0, sizeof params);
  params.histogram[0] = call.profile().board.remap_banks;
  return NV_OK;
}

// No errors and no replays on the bus.
uint32_t PexCounters(ControlCall&, NV2080_CTRL_BUS_GET_PEX_COUNTERS_PARAMS& params) {
  const uint32_t mask = params.pexCounterMask;
  std::memset(&params, 0, sizeof params);
  params.pexCounterMask = mask;
  return NV_OK;
}

uint32_t AccountingState(ControlCall&, NV0000_CTRL_GPUACCT_GET_ACCOUNTING_STATE_PARAMS& params) {
  params.state = NV0000_CTRL_GPU_ACCOUNTING_STATE_DISABLED;
  return NV_OK;
}

uint32_t AccountedProcesses(ControlCall&, NV0000_CTRL_GPUACCT_GET_ACCOUNTING_PIDS_PARAMS& params) {
  params.pidCount = 0;
  return NV_OK;
}

constexpr ControlRow kRows[] = {
    Control<AccountedProcesses>(NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_PIDS),
    Control<AccountingState>(NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_STATE),
    Control<InforomObjectVersion>(NV2080_CTRL_CMD_GPU_GET_INFOROM_OBJECT_VERSION),
    AcceptedOfSizes(NV2080_CTRL_CMD_GPU_QUERY_INFOROM_ECC_SUPPORT, 0,
                    "the answer is the status: ECC is supported"),
    ControlOfSizes(kVerifyInforom, 8, VerifyInforom),
    Control<ChipDetails>(NV2080_CTRL_CMD_GPU_GET_CHIP_DETAILS),
    // Neither a reset nor a drain is due, nor another way to recover.
    ZeroControl<NV2080_CTRL_GPU_GET_RECOVERY_ACTION_PARAMS>(NV2080_CTRL_CMD_GPU_GET_RECOVERY_ACTION,
                                                            "no recovery is due: action NONE"),
    ZeroControl<NV2080_CTRL_GPU_GET_RESET_STATUS_PARAMS>(NV2080_CTRL_CMD_GPU_GET_RESET_STATUS,
                                                         "no reset is due"),
    ZeroControl<NV2080_CTRL_GPU_GET_DRAIN_AND_RESET_STATUS_PARAMS>(
        NV2080_CTRL_CMD_GPU_GET_DRAIN_AND_RESET_STATUS, "no drain is due"),
    // No errors, no encoder or capture sessions.
    ZeroControl<NV2080_CTRL_ECC_GET_CLIENT_EXPOSED_COUNTERS_PARAMS>(
        NV2080_CTRL_CMD_ECC_GET_CLIENT_EXPOSED_COUNTERS, "memory has had no errors"),
    // In 555 and 560 it is the number of ECC_GET_ECI_COUNTERS.
    ZeroOfSizes(NV2080_CTRL_CMD_ECC_GET_VOLATILE_COUNTS,
                BlockSizes(sizeof(NV2080_CTRL_ECC_GET_VOLATILE_COUNTS_PARAMS))
                    .From(DriverAbi::k555, 96)
                    .From(DriverAbi::k565, sizeof(NV2080_CTRL_ECC_GET_VOLATILE_COUNTS_PARAMS)),
                "memory has had no errors"),
    // Of 555 and 560, and of some releases of 535 and 550, that of the volatile counts.
    ZeroOfSizes(NV2080_CTRL_CMD_ECC_GET_VOLATILE_COUNTS_V555, 40, "memory has had no errors"),
    ZeroControl<NV2080_CTRL_FB_GET_REMAPPED_ROWS_PARAMS>(NV2080_CTRL_CMD_FB_GET_REMAPPED_ROWS,
                                                         "no row of memory is remapped"),
    ZeroControl<NV2080_CTRL_ECC_GET_REPAIR_STATUS_PARAMS>(NV2080_CTRL_CMD_ECC_GET_REPAIR_STATUS,
                                                          "memory needs no repair"),
    ZeroOfSizes(0x20803406, Since(DriverAbi::k580, 1), "an H100 without errors answers zero, too"),
    ZeroControl<NV2080_CTRL_CMD_BUS_GET_PCIE_CPL_ATOMICS_CAPS_PARAMS>(
        NV2080_CTRL_CMD_BUS_GET_PCIE_CPL_ATOMICS_CAPS, "no atomics over PCIe"),
    Control<RowRemapperHistogram>(NV2080_CTRL_CMD_FB_GET_ROW_REMAPPER_HISTOGRAM),
    Control<PexCounters>(NV2080_CTRL_CMD_BUS_GET_PEX_COUNTERS),
    ZeroControl<NV2080_CTRL_GPU_GET_NVENC_SW_SESSION_STATS_PARAMS>(
        NV2080_CTRL_GPU_GET_NVENC_SW_SESSION_STATS, "no encoder sessions"),
    ZeroControl<NV2080_CTRL_GPU_GET_NVFBC_SW_SESSION_STATS_PARAMS>(
        NV2080_CTRL_GPU_GET_NVFBC_SW_SESSION_STATS, "no capture sessions"),
    // These GPUs remap rows instead of retiring pages.
    RefusedControl<NV2080_CTRL_FB_GET_OFFLINED_PAGES_PARAMS>(NV2080_CTRL_CMD_FB_GET_OFFLINED_PAGES),
    // What differs from board to board or is measured: firmware versions, the place
    // on the board, traffic.
    RefusedControl<NV2080_CTRL_BIOS_GET_INFO_PARAMS>(NV2080_CTRL_CMD_BIOS_GET_INFO),
    RefusedControl<NV2080_CTRL_GPU_GET_INFOROM_IMAGE_VERSION_PARAMS>(
        NV2080_CTRL_CMD_GPU_GET_INFOROM_IMAGE_VERSION),
    RefusedOfSizes(NV2080_CTRL_CMD_PMGR_GET_MODULE_INFO, 8),
    RefusedControl<NV2080_CTRL_BUS_GET_PEX_UTIL_COUNTERS_PARAMS>(
        NV2080_CTRL_CMD_BUS_GET_PEX_UTIL_COUNTERS),
    RefusedControl<NV2080_CTRL_CMD_BUS_GET_PCIE_REQ_ATOMICS_CAPS_PARAMS>(
        NV2080_CTRL_CMD_BUS_GET_PCIE_REQ_ATOMICS_CAPS),
    RefusedControl<NV2080_CTRL_PERF_GET_VID_ENG_PERFMON_SAMPLE_PARAMS>(
        NV2080_CTRL_CMD_PERF_GET_VID_ENG_PERFMON_SAMPLE),
    RefusedControl<NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS>(
        NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2),
    RefusedControl<NV90E7_CTRL_BBX_GET_LAST_FLUSH_TIME_PARAMS>(
        NV90E7_CTRL_CMD_BBX_GET_LAST_FLUSH_TIME),
    // An H100 refuses this one, too. The place in a rack of hosts is not emulated.
    RefusedControl<NV2080_CTRL_FB_DRAM_ENCRYPTION_INFOROM_SUPPORT_PARAMS>(
        NV2080_CTRL_CMD_FB_QUERY_DRAM_ENCRYPTION_INFOROM_SUPPORT),
    RefusedControl<NV2080_CTRL_FB_DRAM_ENCRYPTION_INFOROM_SUPPORT_PARAMS>(
        NV2080_CTRL_CMD_FB_QUERY_DRAM_ENCRYPTION_INFOROM_SUPPORT_V575),
    RefusedControl<NV2080_CTRL_NVLINK_GET_PLATFORM_INFO_PARAMS>(
        NV2080_CTRL_CMD_NVLINK_GET_PLATFORM_INFO),
    // Which partitions MIG could make: the GPU's firmware says it (subdevice_ctrl_gpu_smc.c), and
    // what it says of these boards is not published. libcuda 595 asks, and does without.
    RefusedControl<NV2080_CTRL_GPU_GET_SKYLINE_INFO_PARAMS>(NV2080_CTRL_CMD_GPU_GET_SKYLINE_INFO),
    RefusedControl<NV2080_CTRL_GPU_DESCRIBE_PARTITIONS_PARAMS>(
        NV2080_CTRL_CMD_GPU_DESCRIBE_PARTITIONS),
    // What crosses a GPU's links is not counted link by link.
    RefusedControl<NV2080_CTRL_NVLINK_GET_COUNTERS_PARAMS>(NV2080_CTRL_CMD_NVLINK_GET_COUNTERS),
    RefusedControl<NV2080_CTRL_NVLINK_GET_COUNTERS_V2_PARAMS>(
        NV2080_CTRL_CMD_NVLINK_GET_COUNTERS_V2),
    // The rest has no public name. What nvidia-smi leaves out of its answer when they
    // are refused says what they are. Temperatures and their limits:
    RefusedOfSizes(0x20808513, 1432),
    RefusedOfSizes(0x2080852a, BlockSizes(1496, 1496, 1784)
                                   .From(DriverAbi::k555, 1560)
                                   .From(DriverAbi::k570, 1716)
                                   .From(DriverAbi::k580, 1784)),
    RefusedOfSizes(0x2080852b, Since(DriverAbi::k580, 2836)),
    RefusedOfSizes(0x20808536, BlockSizes(104)
                                   .From(DriverAbi::k545, 140)
                                   .From(DriverAbi::k550, 108)
                                   .From(DriverAbi::k555, 1812)
                                   .From(DriverAbi::k595, 25552)),
    RefusedOfSizes(0x2080853a, Since(DriverAbi::k555, 1428).From(DriverAbi::k570, 1456)),
    RefusedOfSizes(0x20808542, Since(DriverAbi::k545, 488).From(DriverAbi::k580, 504)),
    RefusedOfSizes(0x20800513, Since(DriverAbi::k580, 1432)),
    RefusedOfSizes(0x20808546, 24),
    // Fans, of which these boards have none; an H100 refuses the second, too.
    RefusedOfSizes(0x2080852e, BlockSizes(528).From(DriverAbi::k595, 596)),
    RefusedOfSizes(0x2080852f, Since(DriverAbi::k580, 776)),
    // Power draw, its limits' bounds, and voltage.
    RefusedOfSizes(0x2080a612, BlockSizes(3608, 3608, 11680).From(DriverAbi::k595, 54352)),
    RefusedOfSizes(0x2080a618, BlockSizes(6944)
                                   .From(DriverAbi::k545, 6952)
                                   .From(DriverAbi::k555, 6956)
                                   .From(DriverAbi::k570, 8236)
                                   .From(DriverAbi::k580, 8620)
                                   .From(DriverAbi::k595, 8632)),
    RefusedOfSizes(0x2080a63c, Since(DriverAbi::k570, 16).From(DriverAbi::k580, 28)),
    RefusedOfSizes(0x2080a637,
                   BlockSizes(88024).From(DriverAbi::k570, 96024).From(DriverAbi::k580, 88024)),
    RefusedOfSizes(0x2080b201,
                   BlockSizes(1676).From(DriverAbi::k545, 2060).From(DriverAbi::k555, 2188)),
    // Utilisation, of the GPU and (535) of the video engines.
    RefusedOfSizes(0x2080a097, 1168),
    RefusedOfSizes(0x2080a087, {12, kAbsentControl}),
    // Why clocks are lowered; samples of the clocks; deferred clocks.
    RefusedOfSizes(0x2080a080, 52),
    RefusedOfSizes(0x20809040, 4808),
    RefusedOfSizes(0x2080a06e, 1),
    // Since 580, between those of clocks and performance states.
    RefusedOfSizes(0x20809019, Since(DriverAbi::k580, 10800)),
    RefusedOfSizes(0x2080a06f, Since(DriverAbi::k580, 4)),
    RefusedOfSizes(0x2080a0a4, Since(DriverAbi::k580, 67396)),
    RefusedOfSizes(0x2080a0a6, Since(DriverAbi::k580, 34720)),
    RefusedOfSizes(0x2080a0a8, Since(DriverAbi::k580, 19724)),
    RefusedOfSizes(0x2080a0f2, Since(DriverAbi::k570, 96)),
    RefusedOfSizes(0x20809085, Since(DriverAbi::k545, 684).From(DriverAbi::k555, 716)),
    RefusedOfSizes(0x2080a0a0, 8),
    RefusedOfSizes(0x2080a0d4, 904),
    // Polling for the values that RM_USER_SHARED_DATA leaves out.
    RefusedControl<NV00DE_CTRL_REQUEST_DATA_POLL_PARAMS>(NV00DE_CTRL_CMD_REQUEST_DATA_POLL),
    // GPU operation mode; display modes (550).
    RefusedOfSizes(0x20800152, 12),
    RefusedOfSizes(0x20810110, {kAbsentControl, 1}),
    RefusedOfSizes(0x20810111, {kAbsentControl, 4}),
};

}  // namespace

absl::Span<const ControlRow> NvmlControls() { return kRows; }

}  // namespace phantora
