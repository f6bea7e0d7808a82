// What a planner needs to know of a collective, or of a message.
#ifndef PHANTORA_FABRIC_COLLECTIVES_COLLECTIVE_WORK_H_
#define PHANTORA_FABRIC_COLLECTIVES_COLLECTIVE_WORK_H_

#include <compare>
#include <cstdint>
#include <optional>

#include "clock/virtual_time.h"
#include "fabric/collectives/nccl_cost.h"
#include "fabric/library/wire.h"

namespace phantora {

// What NCCL itself has chosen for a collective, where it is the program's own.
struct NcclGiven {
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
  NcclProtocol protocol = NcclProtocol::kSimple;
  // If it is no operation of NCCL's: what it takes from when its last rank comes, whatever else is
  // on the links.
  VirtualSpan takes = {};
  auto operator<=>(const NcclGiven&) const = default;
};

struct CollectiveWork {
  nccl::Operation operation = nccl::Operation::kAllReduce;
  int64_t bytes = 0;  // of the larger of what a rank sends and receives
  bool nvls = true;   // NvlsCombines(): NVLS and NVLSTree are among what NCCL chooses from
  std::optional<NcclGiven> given = std::nullopt;
  auto operator<=>(const CollectiveWork&) const = default;
};

// From one rank to another; several of a group start at once.
struct MessageWork {
  int from = 0, to = 0;
  int64_t bytes = 0;
  // That the sender sends at once to GPUs of its own machine, or of others, whichever this one goes
  // to; and whether to itself as well, as in an all-to-all.
  int messages = 1;
  bool is_exchange = false;
  auto operator<=>(const MessageWork&) const = default;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_COLLECTIVE_WORK_H_
