// A GPU personality: what a card of one kind says of itself. Data, in
// profiles/data/*/personality.json; a new GPU is a new folder.
#ifndef PHANTORA_PROFILES_GPU_GPU_PROFILE_H_
#define PHANTORA_PROFILES_GPU_GPU_PROFILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/work/kernel_work.h"

namespace phantora {

struct GpuProfile {
  enum class Architecture { kAmpere, kHopper };
  enum class MemoryType { kHbm2, kHbm3 };

  std::string name;        // as on the command line
  std::string product;     // as nvidia-smi prints it
  std::string short_name;  // of the chip
  Architecture architecture;
  int compute_major, compute_minor;

  struct Pci {
    uint32_t device, subsystem, revision;
    int generation, width;
    uint64_t bar1_mib;
  } pci;

  std::vector<uint32_t> tpcs_per_gpc;
  // Sizes of the chip as designed, floorswept parts included.
  struct Litter {
    uint32_t gpcs, tpcs_per_gpc, fbps, fbpas, ltcs;
  } litter;
  uint32_t cores_per_sm;

  struct Memory {
    MemoryType type;
    uint64_t total_mib;   // what the board has
    uint64_t usable_mib;  // what all contexts together can allocate
    uint32_t bus_width_bits;
    uint64_t l2_bytes;
    uint32_t clock_mhz;
  } memory;

  uint32_t sm_clock_mhz;  // the highest
  uint32_t power_limit_watts;
  uint32_t copy_engines;

  struct Nvlink {
    uint32_t links;
    uint32_t version;  // NV2080_CTRL_NVLINK_STATUS_NVLINK_VERSION_*
    uint32_t line_rate_mbps, data_rate_kib_per_s, clock_mhz, lanes;
    uint32_t switches, switch_device;
  } nvlink;

  struct Version {
    uint8_t major, minor;
  };
  // What nvidia-smi -q shows of such boards.
  struct Board {
    Version inforom_oem, inforom_ecc;
    std::string chip_sku;  // of the part number; "" if not known
    uint32_t remap_banks;  // memory banks with spare rows
    uint32_t video_clock_mhz;
  } board;

  // Of a GPU that was not measured: what its prices are made from (profiles/gpu/rate_transfer.h).
  struct Rated {
    bool given = false;
    std::string from;  // the measured GPU; "" for the nearest
    // The data sheet's, dense; 0 where it is to be told from SMs and clocks.
    std::array<double, kMathPrecisions> peak_flops_per_s{};
    double memory_bytes_per_s = 0;
  } rated;

  uint32_t tpcs() const;
  uint32_t sms() const { return tpcs() * 2; }
  // 80 for compute capability 8.0.
  int sm_architecture() const { return compute_major * 10 + compute_minor; }
};

// Reads a personality from its JSON text (// comments are allowed). Errors name
// the missing or wrong field.
absl::StatusOr<GpuProfile> ParseGpuProfile(const std::string& json);

// A personality by name, or from a file if `name` contains a slash or ends in
// .json. Errors list the names there are.
absl::StatusOr<GpuProfile> FindGpuProfile(const std::string& name);

std::vector<std::string> GpuProfileNames();

}  // namespace phantora

#endif  // PHANTORA_PROFILES_GPU_GPU_PROFILE_H_
