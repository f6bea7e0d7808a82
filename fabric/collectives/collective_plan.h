// An NCCL operation as flows: which algorithm NCCL chooses, how long until bytes move, and what
// they do to the cluster's links.
#ifndef PHANTORA_FABRIC_COLLECTIVES_COLLECTIVE_PLAN_H_
#define PHANTORA_FABRIC_COLLECTIVES_COLLECTIVE_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "clock/virtual_time.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/nccl_cost.h"
#include "fabric/collectives/nccl_limits.h"

namespace phantora {

struct Plan {
  bool message = false;  // a send and its receive: no algorithm
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
  NcclProtocol protocol = NcclProtocol::kSimple;
  int channels = 1;  // each takes an SM of every rank while the operation runs

  // From the moment when all ranks are there. Then all parts start, to be given to
  // FlowNetwork::Start; the operation is over when they are, or after the latency if there is none.
  VirtualSpan latency;
  struct Part {
    std::vector<LinkUse> uses;
    double bytes = 0;
    double most_bytes_per_s = 0;
  };
  std::vector<Part> parts;

  // What a rank reads and writes in its own memory meanwhile, staging buffers included.
  double memory_bytes = 0;
};

// All ranks' places must exist in the fabric; topology is TopologyOf of the same ranks. `bytes` of
// the larger of what a rank sends and receives, as Choose takes them; `seed` tells communicators
// apart where switches pick ways by hash. Does not change with what else runs, so it may be kept
// for the same arguments until a link of the network fails or comes back; but with kAdaptive, its
// links are those that have room now.
//
// One part for each network interface that NCCL's channels leave a machine by, one for all on a
// single machine: NCCL gives channels equal shares beforehand, so the slowest decides.
//
// Errors: `limits` allow nothing that exists (NCCL fails too), or machines have no way to each
// other (Unavailable, and says why).
absl::StatusOr<Plan> PlanCollective(ClusterFabric& fabric, const NcclTopology& topology,
                                    absl::Span<const GpuPlace> ranks, NcclCollective collective,
                                    int64_t bytes, const NcclLimits& limits, uint64_t seed);

// One message of a group; `messages` its sender has in the group to GPUs of its own machine, or
// to other machines, whichever this one is. Those of a group start at one time and share links.
// Errors: no way there (Unavailable).
absl::StatusOr<Plan> PlanSend(ClusterFabric& fabric, const NcclTopology& topology, GpuPlace from,
                              GpuPlace to, int64_t bytes, int messages, uint64_t seed,
                              int queue_pairs = 1);

// Runs plans on a network where nothing else runs, all ready at `start`, which no earlier call
// may lie behind. How long each took. For tools and tests.
std::vector<VirtualSpan> RunAlone(FlowNetwork& network, absl::Span<const Plan> plans,
                                  VirtualTime start);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_COLLECTIVE_PLAN_H_
