// What NCCL's search through a machine's topology finds: channels and their speeds.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_TOPOLOGY_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_TOPOLOGY_H_

#include "absl/types/span.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/nccl_cost.h"
#include "fabric/collectives/nccl_limits.h"

namespace phantora {

// For the communicator of these GPUs, by rank; at least one. The search is redone for machines
// whose GPUs are alike: all at an NVSwitch, or all over PCIe through the processors. Where machines
// have different numbers of ranks, all have as many as the one with the fewest, as for NCCL's
// rings.
//
// Source: NVIDIA/nccl 2.30.7, src/graph/search.cc (ncclTopoCompute), topo.h, connect.cc
// (ncclTopoPostset), transport/nvls.cc.
NcclTopology TopologyOf(const ClusterFabric& fabric, absl::Span<const GpuPlace> ranks,
                        const NcclLimits& limits = {});

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_TOPOLOGY_H_
