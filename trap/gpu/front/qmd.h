// The queue meta data: the descriptor of one kernel launch.
#ifndef PHANTORA_TRAP_GPU_FRONT_QMD_H_
#define PHANTORA_TRAP_GPU_FRONT_QMD_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace phantora {

// The largest of the versions known here, in bytes; smaller ones are 256.
inline constexpr size_t kQmdBytes = 384;
inline constexpr size_t kQmdBytesBeforeHopper = 256;

// Offset in constant bank 0 of the first kernel parameter: a property of the ABI of each
// architecture (80 for sm_80), stated by every cubin (EIATTR_PARAM_CBANK).
constexpr uint32_t ParametersAt(int architecture) { return architecture >= 90 ? 0x210 : 0x160; }

struct Qmd {
  enum class Type { kQueue, kNull, kGrid };
  struct Dims {
    uint32_t x = 0, y = 0, z = 0;
    uint64_t count() const { return uint64_t{x} * y * z; }
  };
  struct ConstantBuffer {
    bool valid = false;
    uint64_t address = 0;
    uint32_t bytes = 0;
  };
  struct Release {
    bool enabled = false;
    uint64_t address = 0;
    uint64_t payload = 0;
    bool payload_64bit = false;
    bool with_timestamp = false;
    bool reduce = false;
    uint32_t reduction = 0;  // in the compute class's numbering
    bool reduction_signed = false;
    bool interrupt = false;
  };
  struct Dependent {
    bool enabled = false;
    uint64_t address = 0;
    uint32_t action = 0;  // DEPENDENT_QMD_ACTION_*
  };
  enum DependentAction : uint32_t {
    kIncrementPut = 0,
    kSchedule = 1,
    kInvalidateCopySchedule = 3,
    kDecrementDependence = 4,
  };

  uint32_t major = 0, minor = 0;
  Type type = Type::kGrid;
  bool requires_pcas = false;
  uint32_t dependence_counter = 0;
  Dims grid;     // in thread blocks, also for cluster launches
  Dims block;    // in threads
  Dims cluster;  // in thread blocks; zero when the launch has none
  uint32_t registers = 0;
  uint32_t shared_bytes = 0;
  uint32_t barriers = 0;
  // QMD_GROUP_ID: the level at which the work distributor schedules it. The headers do not
  // say more; libcuda's streams of priority 0, -1, ..., -5 use 63, 37, 11, 10, 9, 8, so a
  // lower one goes first.
  uint32_t group = 63;
  uint64_t program = 0;
  std::array<ConstantBuffer, 8> constants;
  std::array<Release, 3> releases;
  std::array<Dependent, 2> dependents;

  uint32_t parameter_offset() const { return ParametersAt(major >= 4 ? 90 : 80); }
};

// Decodes versions 2.2 to 2.4 and 3.0 (Ampere; clc6c0qmd.h) and 4.0 (Hopper;
// clcbc0qmd.h). `bytes` holds at least kQmdBytesBeforeHopper. nullopt: a version
// that is not known.
std::optional<Qmd> DecodeQmd(absl::Span<const uint8_t> bytes);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_QMD_H_
