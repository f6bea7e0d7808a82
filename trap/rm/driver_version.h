// Which driver's interface is spoken.
#ifndef PHANTORA_TRAP_RM_DRIVER_VERSION_H_
#define PHANTORA_TRAP_RM_DRIVER_VERSION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace phantora {

// Interfaces that differ, oldest first. Tables are written for the oldest, with
// what later ones changed.
enum class DriverAbi { k535, k550, k580 };

struct DriverVersion {
  std::string text;  // "550.163.01", as the libraries report it
  DriverAbi abi;
};

// Bytes from node to node in the tables of libcuda's graph scheduling kernels
// (trap/gpu/kernels/graph_fork.h).
constexpr uint64_t GraphNodeBytes(DriverAbi abi) {
  return abi >= DriverAbi::k580 ? 64 : abi >= DriverAbi::k550 ? 72 : 48;
}

// The interface known that is nearest to that of a driver of this branch. None is exact for
// 570, 575 and 590: of the calls that libcuda makes at its start, 590 has two of other sizes than
// 580, and 570 and 575, which are on the way from 550 to 580, more.
DriverAbi NearestAbi(int branch);

// The interface of the library version `text`. Versions that were not recorded on a real
// GPU are refused, unless `force`: then the nearest interface is used.
absl::StatusOr<DriverVersion> ResolveDriverVersion(const std::string& text, bool force);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_DRIVER_VERSION_H_
