#include "profiles/gpu/gpu_profile.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "profiles/data/embedded_data.h"
#include "profiles/kernels/whole_numbers.h"

namespace phantora {
namespace {

using Json = nlohmann::json;

constexpr char kDirectory[] = "profiles/data/", kFile[] = "/personality.json";

// JSON has no hexadecimal numbers; ids are strings like "0x2330".
uint32_t Id(const Json& json) {
  const uint64_t id = std::stoul(json.get<std::string>(), nullptr, 16);
  if (id > std::numeric_limits<uint32_t>::max()) throw std::invalid_argument("an id has 32 bits");
  return static_cast<uint32_t>(id);
}

double Positive(const Json& json, const std::string& name) {
  const double value = json;
  if (!(value > 0) || !std::isfinite(value)) {
    throw std::invalid_argument("rates: " + name + " must be positive");
  }
  return value;
}

// A misspelt key would silently price with something else.
GpuProfile::Rated RatedFrom(const Json& json) {
  GpuProfile::Rated rated{.given = true, .from = ""};
  for (const auto& [key, value] : json.items()) {
    if (key == "from") {
      value.get_to(rated.from);
    } else if (key == "memory_tb_per_s") {
      rated.memory_bytes_per_s = Positive(value, key) * 1e12;
    } else if (key == "peak_tflops") {
      for (const auto& [precision, tflops] : value.items()) {
        int i = 0;
        while (i < kMathPrecisions && precision != Name(static_cast<MathPrecision>(i))) ++i;
        if (i == kMathPrecisions) throw std::invalid_argument("rates: no precision " + precision);
        rated.peak_flops_per_s[static_cast<size_t>(i)] = Positive(tflops, precision) * 1e12;
      }
    } else {
      throw std::invalid_argument("rates: unknown key " + key +
                                  "; known are from, peak_tflops, memory_tb_per_s");
    }
  }
  return rated;
}

// Which of the chip's parts are there.
void ReadParts(const Json& json, GpuProfile& profile) {
  json.at("tpcs_per_gpc").get_to(profile.tpcs_per_gpc);
  if (profile.tpcs_per_gpc.empty() || profile.tpcs_per_gpc.size() > 16) {
    throw std::invalid_argument("tpcs_per_gpc must have 1 to 16 entries");
  }
  for (uint32_t tpcs : profile.tpcs_per_gpc) {
    if (tpcs > 16) throw std::invalid_argument("tpcs_per_gpc: at most 16 each");
  }
  const Json& litter = json.at("litter");
  profile.litter = {litter.at("gpcs"), litter.at("tpcs_per_gpc"), litter.at("fbps"),
                    litter.at("fbpas"), litter.at("ltcs")};
}

GpuProfile::Memory MemoryFrom(const Json& memory) {
  const std::string type = memory.at("type");
  if (type != "hbm2" && type != "hbm3") {
    throw std::invalid_argument("memory.type must be \"hbm2\" or \"hbm3\"");
  }
  const GpuProfile::Memory made = {
      type == "hbm3" ? GpuProfile::MemoryType::kHbm3 : GpuProfile::MemoryType::kHbm2,
      memory.at("total_mib"),
      memory.at("usable_mib"),
      memory.at("bus_width_bits"),
      memory.at("l2_bytes"),
      memory.at("clock_mhz")};
  if (made.clock_mhz == 0 || made.bus_width_bits == 0) {
    throw std::invalid_argument("memory.clock_mhz and memory.bus_width_bits must not be 0");
  }
  if (made.usable_mib > made.total_mib) {
    throw std::invalid_argument("memory.usable_mib exceeds memory.total_mib");
  }
  return made;
}

GpuProfile::Nvlink NvlinkFrom(const Json& nvlink) {
  const GpuProfile::Nvlink made = {nvlink.at("links"),          nvlink.at("version"),
                                   nvlink.at("line_rate_mbps"), nvlink.at("data_rate_kib_per_s"),
                                   nvlink.at("clock_mhz"),      nvlink.at("lanes"),
                                   nvlink.at("switches"),       Id(nvlink.at("switch_device"))};
  if (made.links > 18 || (made.links > 0 && made.switches == 0)) {
    throw std::invalid_argument("nvlink: at most 18 links, and at least one switch for them");
  }
  return made;
}

GpuProfile FromJson(const Json& json) {
  GpuProfile profile;
  json.at("name").get_to(profile.name);
  json.at("product").get_to(profile.product);
  json.at("short_name").get_to(profile.short_name);
  const std::string architecture = json.at("architecture");
  if (architecture != "ampere" && architecture != "hopper") {
    throw std::invalid_argument("architecture must be \"ampere\" or \"hopper\"");
  }
  profile.architecture = architecture == "hopper" ? GpuProfile::Architecture::kHopper
                                                  : GpuProfile::Architecture::kAmpere;
  profile.compute_major = json.at("compute_capability").at(0);
  profile.compute_minor = json.at("compute_capability").at(1);

  const Json& pci = json.at("pci");
  profile.pci = {Id(pci.at("device")), Id(pci.at("subsystem")), Id(pci.at("revision")),
                 pci.at("generation"), pci.at("width"),         pci.at("bar1_mib")};

  ReadParts(json, profile);
  json.at("cores_per_sm").get_to(profile.cores_per_sm);

  profile.memory = MemoryFrom(json.at("memory"));
  json.at("sm_clock_mhz").get_to(profile.sm_clock_mhz);
  json.at("power_limit_watts").get_to(profile.power_limit_watts);
  if (profile.sm_clock_mhz == 0 || profile.power_limit_watts == 0 || profile.tpcs() == 0) {
    throw std::invalid_argument("sm_clock_mhz, power_limit_watts and all of tpcs_per_gpc are 0");
  }
  json.at("copy_engines").get_to(profile.copy_engines);
  if (profile.copy_engines < 1 || profile.copy_engines > 10) {
    throw std::invalid_argument("copy_engines must be 1 to 10");
  }
  const Json& board = json.at("board");
  profile.board = {{board.at("inforom_oem").at(0), board.at("inforom_oem").at(1)},
                   {board.at("inforom_ecc").at(0), board.at("inforom_ecc").at(1)},
                   board.at("chip_sku"),
                   board.at("remap_banks"),
                   board.at("video_clock_mhz")};
  profile.nvlink = NvlinkFrom(json.at("nvlink"));
  if (json.contains("rates")) profile.rated = RatedFrom(json.at("rates"));
  return profile;
}

}  // namespace

uint32_t GpuProfile::tpcs() const {
  return std::accumulate(tpcs_per_gpc.begin(), tpcs_per_gpc.end(), 0u);
}

absl::StatusOr<GpuProfile> ParseGpuProfile(const std::string& text) {
  // The JSON library reports by exception; none leaves this function.
  try {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/true,
                                  /*ignore_comments=*/true);
    RequireWholeNumbers(json, std::numeric_limits<int32_t>::max(), {"rates"});
    return FromJson(json);
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("GPU personality: ", error.what()));
  }
}

std::vector<std::string> GpuProfileNames() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : EmbeddedData()) {
    absl::string_view name(file.name.data(), file.name.size());
    if (absl::ConsumePrefix(&name, kDirectory) && absl::ConsumeSuffix(&name, kFile)) {
      names.emplace_back(name);
    }
  }
  return names;
}

absl::StatusOr<GpuProfile> FindGpuProfile(const std::string& name) {
  if (absl::StrContains(name, "/") || absl::EndsWith(name, ".json")) {
    std::ifstream file(name);
    if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", name));
    std::stringstream text;
    text << file.rdbuf();
    return ParseGpuProfile(text.str());
  }
  const std::string wanted = absl::StrCat(kDirectory, name, kFile);
  for (const EmbeddedFile& file : EmbeddedData()) {
    if (file.name == wanted) return ParseGpuProfile(std::string(file.content));
  }
  return absl::NotFoundError(absl::StrCat("there is no GPU named ", name, "; known are ",
                                          absl::StrJoin(GpuProfileNames(), ", "),
                                          ", or give a file"));
}

}  // namespace phantora
