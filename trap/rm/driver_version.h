// Which driver's interface is spoken.
#ifndef PHANTORA_TRAP_RM_DRIVER_VERSION_H_
#define PHANTORA_TRAP_RM_DRIVER_VERSION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace phantora {

// Interfaces that differ, oldest first. Tables are written for the oldest, with
// what later ones changed.
enum class DriverAbi { k535, k550 };

struct DriverVersion {
  std::string text;  // "550.163.01", as the libraries report it
  DriverAbi abi;
};

// Bytes from node to node in the tables of libcuda's graph scheduling kernels
// (trap/gpu/kernels/graph_fork.h).
constexpr uint64_t GraphNodeBytes(DriverAbi abi) { return abi >= DriverAbi::k550 ? 72 : 48; }

// The interface of the library version `text`. Versions that are not tested are
// refused, unless `force`: then the nearest older interface is used.
absl::StatusOr<DriverVersion> ResolveDriverVersion(const std::string& text, bool force);

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_DRIVER_VERSION_H_
