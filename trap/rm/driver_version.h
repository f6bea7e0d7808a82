// Which driver's interface is spoken.
#ifndef PHANTORA_TRAP_RM_DRIVER_VERSION_H_
#define PHANTORA_TRAP_RM_DRIVER_VERSION_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"

namespace phantora {

// Interfaces that differ, by the branch of the driver that brought them, oldest first. Tables are
// written for the oldest, with what later ones changed.
enum class DriverAbi : int {
  k535 = 535,
  k545 = 545,
  k550 = 550,
  k555 = 555,
  k560 = 560,
  k565 = 565,
  k570 = 570,
  k575 = 575,
  k580 = 580,
  k590 = 590,
  k595 = 595,
};
inline constexpr DriverAbi kDriverAbis[] = {DriverAbi::k535, DriverAbi::k545, DriverAbi::k550,
                                            DriverAbi::k555, DriverAbi::k560, DriverAbi::k565,
                                            DriverAbi::k570, DriverAbi::k575, DriverAbi::k580,
                                            DriverAbi::k590, DriverAbi::k595};

// Among kDriverAbis; of a branch between two, the older one's.
constexpr size_t IndexOf(DriverAbi abi) {
  size_t index = 0;
  while (index + 1 < std::size(kDriverAbis) && kDriverAbis[index + 1] <= abi) ++index;
  return index;
}

// How it is known what libraries of a branch say to the driver.
enum class DriverEvidence {
  kRecorded,  // recorded on a real GPU
  kRun,       // the libraries' calls here, and the published headers
  kHeaders,   // the published headers alone: no libraries of it were ever run
};

struct DriverVersion {
  std::string text;  // "550.163.01", as the libraries report it
  DriverAbi abi;
  DriverEvidence evidence = DriverEvidence::kRecorded;
  // Structures and numbers of which this release's headers have others than those that its branch
  // is served by, with commas; empty for none.
  std::string differs = {};
  bool compared = false;  // were its headers?
};

// Bytes from node to node in the tables of libcuda's graph scheduling kernels
// (trap/gpu/kernels/graph_fork.h).
constexpr uint64_t GraphNodeBytes(DriverAbi abi) {
  return abi >= DriverAbi::k570 ? 64 : abi >= DriverAbi::k545 ? 72 : 48;
}

// The newest interface known that is not newer than that of a driver of this branch.
DriverAbi NearestAbi(int branch);

// The interface of the library version `text`. Releases of a branch have the same (see
// trap/abi/generated/releases.inc), but for what DriverVersion::differs says. Branches that are not
// known are refused, unless `force`: then the nearest interface is used.
absl::StatusOr<DriverVersion> ResolveDriverVersion(const std::string& text, bool force);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_DRIVER_VERSION_H_
