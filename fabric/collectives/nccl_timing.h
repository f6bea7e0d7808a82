// How long an NCCL operation takes that has its links to itself.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_TIMING_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_TIMING_H_

#include <cstdint>

#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/nccl_cost.h"

namespace phantora {

// Of what carries payload through one kind of link, a share: the rest is flags and short packets.
struct WireShares {
  double nvlink = 1, network = 1;
};
WireShares SharesOf(GpuGeneration generation, NcclAlgorithm algorithm, NcclProtocol protocol);

struct NcclTiming {
  double latency_us = 0;   // until the bytes flow, and after them
  double bytes_per_s = 0;  // of the collective, as far as the GPUs are concerned
  int channels = 1;        // that take part, each on an SM
};

// `wire_us` is the latency of the network's own links on one hop between machines. NCCL's model
// (CostOf) has latencies and rates by which NCCL chooses; this has what measurements show beyond
// it: chunks that wait for each other, pipelines that fill, processors that post messages. The
// algorithm must exist.
//
// Error against published measurements: fabric/collective_table.
NcclTiming TimingOf(const NcclTopology& topology, const FabricFacts& facts,
                    NcclCollective collective, NcclAlgorithm algorithm, NcclProtocol protocol,
                    int64_t bytes, double wire_us);

// The shares of a send and its receive.
WireShares MessageSharesOf(GpuGeneration generation, NcclProtocol protocol);

// One message, among `messages` that its sender has in a group, all within its machine or all
// between machines.
NcclTiming MessageTimingOf(const NcclTopology& topology, const FabricFacts& facts,
                           bool between_nodes, NcclProtocol protocol, int64_t bytes, int messages,
                           double nic_bytes_per_s, double wire_us);
// LL for small messages.
NcclProtocol MessageProtocol(const NcclTopology& topology, const FabricFacts& facts,
                             bool between_nodes, int64_t bytes, double nic_bytes_per_s);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_TIMING_H_
