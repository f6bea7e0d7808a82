// Finds the cubins in a library: in fat binaries, compressed in its data, or as they are.
#ifndef PHANTORA_PROFILES_KERNELS_FAT_BINARY_H_
#define PHANTORA_PROFILES_KERNELS_FAT_BINARY_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace phantora {

// One or several cubins, as they lie in a file.
struct PackedCubin {
  enum class Packing { kNone, kLz4, kZstd };
  absl::Span<const uint8_t> bytes;
  Packing packing = Packing::kNone;
  uint64_t unpacked_bytes = 0;
  // The machine code's, 90 for sm_90; 0 if only the cubin itself tells.
  int architecture = 0;
};

// What may hold code for `architecture` in `file`, a whole ELF file:
// - entries of fat binaries (sections .nv_fatbin and __nv_relfatbin; the container's layout
//   as cuobjdump lists it);
// - zstd frames in its data (libcublasLt keeps its kernels there);
// - cubins that lie in a file without fat binaries as they are (libcuda).
// The bytes are untrusted; what is malformed is left out.
std::vector<PackedCubin> FindPackedCubins(absl::Span<const uint8_t> file, int architecture);

// The bytes of `packed`, in `buffer` if they are compressed; nullopt if they are malformed or
// larger than kLargestCubin.
std::optional<absl::Span<const uint8_t>> Unpack(const PackedCubin& packed,
                                                std::vector<uint8_t>& buffer);
inline constexpr uint64_t kLargestCubin = uint64_t{512} << 20;

// Where a PackedCubin lies in its file, in bytes; plain data.
struct CubinPlace {
  uint64_t offset = 0, bytes = 0, unpacked_bytes = 0;
  uint64_t packing = 0;  // PackedCubin::Packing
};
CubinPlace PlaceOf(const PackedCubin& packed, absl::Span<const uint8_t> file);

// The cubin that has the kernel of this name, of what PlaceOf() found at `place` of a file; `bytes`
// are those at the place, and untrusted. nullopt: it is not there.
std::optional<std::vector<uint8_t>> CubinAt(const CubinPlace& place,
                                            absl::Span<const uint8_t> bytes,
                                            std::string_view kernel);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_FAT_BINARY_H_
