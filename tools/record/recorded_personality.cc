#include "tools/record/recorded_personality.h"

#include <bit>
#include <optional>
#include <set>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "profiles/gpu/gpu_profile.h"
#include "tools/record/answers.h"
#include "trap/abi/generated/rm_controls.h"

namespace phantora::record {
namespace {

using Number = std::optional<uint64_t>;
using Json = std::optional<std::string>;  // a value's text

constexpr uint32_t kGraphicsClock = 1, kMemoryClock = 4, kVideoClock = 8;
constexpr uint32_t kMostLinks = 32;
// nv_arch.h NV_PMC_BOOT_42_ARCHITECTURE_GH100, as an architecture number.
constexpr uint64_t kArchitectureHopper = 0x180;

Json Decimal(Number number) {
  if (!number) return std::nullopt;
  return absl::StrCat(*number);
}
Json Hexadecimal(Number number) {
  if (!number) return std::nullopt;
  return absl::StrFormat("\"0x%x\"", *number);
}
Json Text(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  return absl::StrCat("\"", absl::CEscape(*text), "\"");
}
Json Pair(Number first, Number second) {
  if (!first || !second) return std::nullopt;
  return absl::StrCat("[", *first, ", ", *second, "]");
}
Number Shifted(Number number, int bits) {
  if (!number) return std::nullopt;
  return *number >> bits;
}

Json Bits(Number number, int shift, uint64_t mask) {
  if (!number) return std::nullopt;
  return absl::StrCat(*number >> shift & mask);
}

// One field of the file: what the recording says, where, and what a known personality has.
struct Field {
  const char* name;  // "pci.device"
  const char* source;
  Json recorded;
  std::string known;
};

constexpr char kPci[] = "NV2080_CTRL_CMD_BUS_GET_PCI_INFO";
constexpr char kLinks[] = "NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS";
constexpr char kInforom[] = "NV2080_CTRL_CMD_GPU_GET_INFOROM_OBJECT_VERSION";
constexpr char kChip[] = "NV2080_CTRL_CMD_GPU_GET_CHIP_DETAILS";
constexpr char kEngines[] = "NV2080_CTRL_CMD_GPU_GET_ENGINES_V2";
constexpr char kRemapped[] = "NV2080_CTRL_CMD_FB_GET_ROW_REMAPPER_HISTOGRAM";
constexpr char kPowerLimit[] = "0x2080a61d";

Json Architecture(const Answers& answers) {
  const Number number = answers.Number("NV2080_CTRL_CMD_MC_GET_ARCH_INFO", "architecture");
  if (!number) return std::nullopt;
  if (*number == kArchitectureHopper) return "\"hopper\"";
  if (*number == abi::NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_GA100) return "\"ampere\"";
  // Refused when the result is read.
  return absl::StrFormat("\"0x%x\"", *number);
}

Json MemoryType(const Answers& answers) {
  const Number type = answers.Info("fbInfoList", "RAM_TYPE");
  if (!type) return std::nullopt;
  if (*type == abi::NV2080_CTRL_FB_INFO_RAM_TYPE_HBM3) return "\"hbm3\"";
  if (*type == abi::NV2080_CTRL_FB_INFO_RAM_TYPE_HBM2) return "\"hbm2\"";
  return absl::StrCat("\"", *type, "\"");
}

Json Capability(const Answers& answers) {
  const Number version = answers.Info("grInfoList", "SM_VERSION");
  if (!version) return std::nullopt;
  return Pair(*version >> 8, *version >> 4 & 0xf);
}

// An H100's driver says only how many there are in all; its MAX_SP_PER_SM is 0.
Number CoresPerSm(const Answers& answers) {
  const Number per_sm = answers.Info("grInfoList", "MAX_SP_PER_SM");
  if (per_sm.value_or(0) != 0) return per_sm;
  const Number cores = answers.Info("grInfoList", "GPU_CORE_COUNT");
  const Number tpcs = answers.Info("grInfoList", "SHADER_PIPE_SUB_COUNT");
  const Number sms_per_tpc = answers.Info("grInfoList", "LITTER_NUM_SM_PER_TPC");
  if (!cores || *cores == 0 || tpcs.value_or(0) == 0 || sms_per_tpc.value_or(0) == 0) {
    return std::nullopt;
  }
  return *cores / *tpcs / *sms_per_tpc;
}

Number Bar1Mib(const Answers& answers) {
  if (const Number kib = answers.Info("fbInfoList", "BAR1_SIZE")) return *kib >> 10;
  return Shifted(
      answers.Number("NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO", "pciBarInfo[1].barSizeBytes"), 20);
}

Json Tpcs(const Answers& answers) {
  const std::vector<uint32_t> tpcs = RecordedTpcs(answers);
  if (tpcs.empty()) return std::nullopt;
  return absl::StrCat("[", absl::StrJoin(tpcs, ", "), "]");
}

Number CopyEngines(const Answers& answers) {
  const auto& calls = answers.Calls(kEngines);
  const std::string* list = calls.empty() ? nullptr : calls.front()->After("engineList");
  if (list == nullptr) return std::nullopt;
  uint64_t count = 0;
  for (const std::string& element : ElementsOf(*list)) {
    uint64_t engine;
    if (NumberOf(element, &engine) && engine >= abi::NV2080_ENGINE_TYPE_COPY0 &&
        engine <= abi::NV2080_ENGINE_TYPE_COPY9) {
      ++count;
    }
  }
  return count;
}

Number ClockMhz(const Answers& answers, uint32_t domain) {
  const auto clocks = RecordedClocks(answers);
  const auto found = clocks.find(domain);
  if (found == clocks.end()) return std::nullopt;
  return (found->second + 500) / 1000;
}

Number PowerLimitWatts(const Answers& answers) {
  for (const RecordedCall* call : answers.Calls(kPowerLimit)) {
    if (call->bytes == 12) return (Answers::Word(*call, 1) + 500) / 1000;
  }
  return std::nullopt;
}

Json Inforom(const Answers& answers, absl::string_view type) {
  for (const RecordedCall* call : answers.Calls(kInforom)) {
    const std::string* asked = call->After("objectType");
    std::string text;
    if (asked != nullptr && TextOf(*asked, &text) && text == type) {
      return Pair(Answers::NumberIn(*call, "version"), Answers::NumberIn(*call, "subversion"));
    }
  }
  return std::nullopt;
}

Json ChipSku(const Answers& answers) {
  if (answers.WasRefused(kChip)) return "\"\"";
  return Text(answers.Text(kChip, "chipSku"));
}

Number RemapBanks(const Answers& answers) {
  const auto& calls = answers.Calls(kRemapped);
  if (calls.empty()) return std::nullopt;
  uint64_t banks = 0;
  if (const std::string* histogram = calls.front()->After("histogram")) {
    for (const std::string& element : ElementsOf(*histogram)) {
      uint64_t number;
      if (NumberOf(element, &number)) banks += number;
    }
  }
  return banks;
}

// NVLink as its first link that is on has it.
struct Links {
  Number count, switches, switch_device;
  std::string first;  // "linkInfo[0]."
  const RecordedCall* call = nullptr;

  Number Of(absl::string_view member) const {
    if (call == nullptr) return std::nullopt;
    return Answers::NumberIn(*call, absl::StrCat(first, member));
  }
};

Links RecordedLinks(const Answers& answers) {
  Links links;
  const auto& calls = answers.Calls(kLinks);
  if (calls.empty()) return links;
  links.call = calls.front();
  const auto mask = static_cast<uint32_t>(Answers::NumberIn(*links.call, "enabledLinkMask"));
  links.count = std::popcount(mask);
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> switches;
  for (uint32_t i = 0; i < kMostLinks; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const std::string link = absl::StrCat("linkInfo[", i, "].");
    if (links.first.empty()) links.first = link;
    const std::string remote = link + "remoteDeviceInfo.";
    if (Answers::NumberIn(*links.call, remote + "deviceType") !=
        abi::NV2080_CTRL_NVLINK_DEVICE_INFO_DEVICE_TYPE_SWITCH) {
      continue;
    }
    switches.insert({Answers::NumberIn(*links.call, remote + "domain"),
                     Answers::NumberIn(*links.call, remote + "bus"),
                     Answers::NumberIn(*links.call, remote + "device")});
    links.switch_device = Answers::NumberIn(*links.call, remote + "pciDeviceId") >> 16;
  }
  if (!switches.empty()) links.switches = switches.size();
  if (mask == 0) links.switches = links.switch_device = 0;
  return links;
}

std::string Version(const GpuProfile::Version& version) {
  return *Pair(version.major, version.minor);
}

std::string Shown(uint64_t number) { return absl::StrCat(number); }
std::string ShownHex(uint64_t number) { return *Hexadecimal(number); }

std::vector<Field> IdentityFields(const Answers& answers, const GpuProfile& known) {
  const Number link_caps = answers.Info("busInfoList", "PCIE_GPU_LINK_CAPS");
  const bool hopper = known.architecture == GpuProfile::Architecture::kHopper;
  const auto& pci = known.pci;
  return {
      {"product", "NV2080_CTRL_CMD_GPU_GET_NAME_STRING",
       Text(answers.Text("NV2080_CTRL_CMD_GPU_GET_NAME_STRING", "gpuNameString")),
       *Text(known.product)},
      {"short_name", "NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING",
       Text(answers.Text("NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING", "gpuShortNameString")),
       *Text(known.short_name)},
      {"architecture", "NV2080_CTRL_CMD_MC_GET_ARCH_INFO", Architecture(answers),
       hopper ? "\"hopper\"" : "\"ampere\""},
      {"compute_capability", "grInfoList[SM_VERSION]", Capability(answers),
       *Pair(known.compute_major, known.compute_minor)},
      {"pci.device", kPci, Hexadecimal(Shifted(answers.Number(kPci, "pciDeviceId"), 16)),
       ShownHex(pci.device)},
      {"pci.subsystem", kPci, Hexadecimal(Shifted(answers.Number(kPci, "pciSubSystemId"), 16)),
       ShownHex(pci.subsystem)},
      {"pci.revision", kPci, Hexadecimal(answers.Number(kPci, "pciRevisionId")),
       ShownHex(pci.revision)},
      {"pci.generation", "busInfoList[PCIE_GPU_LINK_CAPS]", Bits(link_caps, 0, 0xf),
       Shown(pci.generation)},
      {"pci.width", "busInfoList[PCIE_GPU_LINK_CAPS]", Bits(link_caps, 4, 0x3f), Shown(pci.width)},
      {"pci.bar1_mib", "fbInfoList[BAR1_SIZE] or NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO",
       Decimal(Bar1Mib(answers)), Shown(pci.bar1_mib)},
  };
}

std::vector<Field> PartsFields(const Answers& answers, const GpuProfile& known) {
  const auto gr = [&](const char* index) { return Decimal(answers.Info("grInfoList", index)); };
  return {
      {"tpcs_per_gpc", "NV2080_CTRL_CMD_GR_GET_TPC_MASK or GR_GET_GLOBAL_SM_ORDER", Tpcs(answers),
       absl::StrCat("[", absl::StrJoin(known.tpcs_per_gpc, ", "), "]")},
      {"litter.gpcs", "grInfoList[LITTER_NUM_GPCS]", gr("LITTER_NUM_GPCS"),
       Shown(known.litter.gpcs)},
      {"litter.tpcs_per_gpc", "grInfoList[LITTER_NUM_TPC_PER_GPC]", gr("LITTER_NUM_TPC_PER_GPC"),
       Shown(known.litter.tpcs_per_gpc)},
      {"litter.fbps", "grInfoList[LITTER_NUM_FBPS]", gr("LITTER_NUM_FBPS"),
       Shown(known.litter.fbps)},
      {"litter.fbpas", "grInfoList[LITTER_NUM_FBPAS]", gr("LITTER_NUM_FBPAS"),
       Shown(known.litter.fbpas)},
      {"litter.ltcs", "grInfoList[LITTER_NUM_LTCS]", gr("LITTER_NUM_LTCS"),
       Shown(known.litter.ltcs)},
      {"cores_per_sm", "grInfoList[MAX_SP_PER_SM] or [GPU_CORE_COUNT]",
       Decimal(CoresPerSm(answers)), Shown(known.cores_per_sm)},
  };
}

std::vector<Field> MemoryAndClockFields(const Answers& answers, const GpuProfile& known) {
  const auto fb = [&](const char* index) { return answers.Info("fbInfoList", index); };
  const bool hbm3 = known.memory.type == GpuProfile::MemoryType::kHbm3;
  return {
      {"memory.type", "fbInfoList[RAM_TYPE]", MemoryType(answers), hbm3 ? "\"hbm3\"" : "\"hbm2\""},
      {"memory.total_mib", "fbInfoList[TOTAL_RAM_SIZE]", Decimal(Shifted(fb("TOTAL_RAM_SIZE"), 10)),
       Shown(known.memory.total_mib)},
      {"memory.usable_mib", "fbInfoList[HEAP_SIZE]", Decimal(Shifted(fb("HEAP_SIZE"), 10)),
       Shown(known.memory.usable_mib)},
      {"memory.bus_width_bits", "fbInfoList[BUS_WIDTH]", Decimal(fb("BUS_WIDTH")),
       Shown(known.memory.bus_width_bits)},
      {"memory.l2_bytes", "fbInfoList[L2CACHE_SIZE]", Decimal(fb("L2CACHE_SIZE")),
       Shown(known.memory.l2_bytes)},
      {"memory.clock_mhz", "clocks of the highest state", Decimal(ClockMhz(answers, kMemoryClock)),
       Shown(known.memory.clock_mhz)},
      {"sm_clock_mhz", "clocks of the highest state", Decimal(ClockMhz(answers, kGraphicsClock)),
       Shown(known.sm_clock_mhz)},
      {"power_limit_watts", "control 0x2080a61d", Decimal(PowerLimitWatts(answers)),
       Shown(known.power_limit_watts)},
      {"copy_engines", kEngines, Decimal(CopyEngines(answers)), Shown(known.copy_engines)},
  };
}

std::vector<Field> BoardFields(const Answers& answers, const GpuProfile& known) {
  const auto& board = known.board;
  return {
      {"board.inforom_oem", kInforom, Inforom(answers, "OBD"), Version(board.inforom_oem)},
      {"board.inforom_ecc", kInforom, Inforom(answers, "ECC"), Version(board.inforom_ecc)},
      {"board.chip_sku", kChip, ChipSku(answers), *Text(board.chip_sku)},
      {"board.remap_banks", kRemapped, Decimal(RemapBanks(answers)), Shown(board.remap_banks)},
      {"board.video_clock_mhz", "clocks of the highest state",
       Decimal(ClockMhz(answers, kVideoClock)), Shown(board.video_clock_mhz)},
  };
}

std::vector<Field> NvlinkFields(const Answers& answers, const GpuProfile& known) {
  const Links links = RecordedLinks(answers);
  const auto& nvlink = known.nvlink;
  return {
      {"nvlink.links", kLinks, Decimal(links.count), Shown(nvlink.links)},
      {"nvlink.version", kLinks, Decimal(links.Of("nvlinkVersion")), Shown(nvlink.version)},
      {"nvlink.line_rate_mbps", kLinks, Decimal(links.Of("nvlinkLineRateMbps")),
       Shown(nvlink.line_rate_mbps)},
      {"nvlink.data_rate_kib_per_s", kLinks, Decimal(links.Of("nvlinkLinkDataRateKiBps")),
       Shown(nvlink.data_rate_kib_per_s)},
      {"nvlink.clock_mhz", kLinks, Decimal(links.Of("nvlinkLinkClockMhz")),
       Shown(nvlink.clock_mhz)},
      {"nvlink.lanes", kLinks, Decimal(links.Of("subLinkWidth")), Shown(nvlink.lanes)},
      {"nvlink.switches", kLinks, Decimal(links.switches), Shown(nvlink.switches)},
      {"nvlink.switch_device", kLinks, Hexadecimal(links.switch_device),
       ShownHex(nvlink.switch_device)},
  };
}

// `known` may be anything if it is not needed.
std::vector<Field> Fields(const Answers& answers, const GpuProfile& known) {
  std::vector<Field> fields;
  for (const auto part :
       {IdentityFields, PartsFields, MemoryAndClockFields, BoardFields, NvlinkFields}) {
    for (Field& field : part(answers, known)) fields.push_back(std::move(field));
  }
  return fields;
}

// {"a", ...}, with an object for the fields of each group: "pci.device".
std::string Write(const Recording& recording, const std::string& name, const std::string& like,
                  const std::vector<Field>& fields) {
  std::string text = absl::StrCat("// From a recording of driver ", recording.driver, ".\n{\n");
  absl::StrAppend(&text, "  \"name\": ", *Text(name));
  std::string group;
  for (const Field& field : fields) {
    const std::string full = field.name;
    const size_t dot = full.find('.');
    const std::string this_group = dot == std::string::npos ? "" : full.substr(0, dot);
    // The comma of the field before comes before its comment, which ends with its line.
    text += text.back() == '{' ? "\n" : ",\n";
    if (this_group != group) {
      if (!group.empty()) text.replace(text.size() - 2, 2, "\n  },\n");
      if (!this_group.empty()) absl::StrAppend(&text, "  \"", this_group, "\": {\n");
      group = this_group;
    }
    const std::string indent = group.empty() ? "  " : "    ";
    absl::StrAppend(&text, indent, "// ",
                    field.recorded ? absl::StrCat("recorded: ", field.source)
                                   : absl::StrCat("assumed, as ", like),
                    "\n", indent, "\"", dot == std::string::npos ? full : full.substr(dot + 1),
                    "\": ", field.recorded ? *field.recorded : field.known);
  }
  return absl::StrCat(text, group.empty() ? "" : "\n  }", "\n}\n");
}

}  // namespace

absl::StatusOr<RecordedPersonality> MakePersonality(const Recording& recording,
                                                    const std::string& name,
                                                    const std::string& like) {
  GpuProfile known = {};
  if (!like.empty()) {
    auto found = FindGpuProfile(like);
    if (!found.ok()) return found.status();
    known = *found;
  }
  const std::vector<Field> fields = Fields(Answers(recording), known);
  RecordedPersonality result;
  for (const Field& field : fields) {
    if (!field.recorded) result.assumed.push_back(field.name);
  }
  if (!result.assumed.empty() && like.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the recording does not say: ", absl::StrJoin(result.assumed, ", "),
        ". Record nvidia-smi -q, nvidia-smi --query-gpu=power.limit --format=csv and a program "
        "that makes a CUDA context, or take the rest from a known GPU with --like (",
        absl::StrJoin(GpuProfileNames(), ", "), ")"));
  }
  result.json = Write(recording, name, like, fields);
  // What no GPU could be is an error here rather than where it is used.
  const auto parsed = ParseGpuProfile(result.json);
  if (!parsed.ok()) return parsed.status();
  return result;
}

}  // namespace phantora::record
