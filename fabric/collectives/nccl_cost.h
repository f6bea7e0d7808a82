// NCCL's own estimate of what its collectives cost, by which it chooses among its algorithms
// and protocols. The same choice is made here; how long the chosen one takes is for the network
// to say.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_COST_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_COST_H_

#include <array>
#include <cstdint>
#include <optional>

namespace phantora {

enum class NcclCollective { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce };
// In NCCL's order, which decides between equal ones.
enum class NcclAlgorithm { kTree, kRing, kCollNetDirect, kCollNetChain, kNvls, kNvlsTree, kPat };
inline constexpr int kNcclAlgorithms = 7;
enum class NcclProtocol { kLl, kLl128, kSimple };
inline constexpr int kNcclProtocols = 3;
const char* Name(NcclAlgorithm algorithm);  // as in NCCL_ALGO: "Tree", "NVLSTree"
const char* Name(NcclProtocol protocol);    // as in NCCL_PROTO: "LL128"

enum class GpuGeneration { kVolta, kAmpere, kHopper, kBlackwell };

// What NCCL's search through the topology has found for an algorithm.
struct NcclGraph {
  int channels = 0;  // before they are doubled; 0: there is none
  // Per channel, in 1e9 bytes/s.
  double intra_gb_per_s = 0, inter_gb_per_s = 0;
};

// What the choice depends on in a communicator.
struct NcclTopology {
  int ranks = 1, nodes = 1;
  GpuGeneration generation = GpuGeneration::kHopper;
  bool nvlink = true;     // between the GPUs of a node; else PCIe
  bool amd_cpu = false;   // or a mixture
  bool ll128 = true;      // LL128 may be used: NVLink within nodes, the same GPUs everywhere
  bool coll_net = false;  // the network reduces (SHARP)
  // By algorithm: Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT.
  std::array<NcclGraph, kNcclAlgorithms> graphs;
  bool same_channels = true;      // all channels of a ring go the same way
  double network_latency_us = 0;  // that the network plug-in states; InfiniBand's states 0
  int channels = 1;               // of the communicator
};

struct NcclCost {
  double latency_us = 0;
  double gb_per_s = 0;  // 1e9 bytes of the collective per second
};

// nullopt: the algorithm does not exist for this collective, protocol or topology.
//
// Source: NVIDIA/nccl src/graph/tuning.cc (2.30.7), ncclTopoTuneModel.
std::optional<NcclCost> CostOf(const NcclTopology& topology, NcclCollective collective,
                               NcclAlgorithm algorithm, NcclProtocol protocol);

struct NcclChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
  NcclProtocol protocol = NcclProtocol::kSimple;
  double estimate_us = 0;  // NCCL's own
};

// What may be chosen: by NCCL_ALGO and NCCL_PROTO, all by default.
struct NcclAllowed {
  std::array<bool, kNcclAlgorithms> algorithm = {true, true, true, true, true, true, true};
  std::array<bool, kNcclProtocols> protocol = {true, true, true};
};

// `bytes` of the larger of what a rank sends and receives: of an all-gather the result, of a
// reduce-scatter the input. nullopt: nothing that is allowed exists.
//
// Source: ncclTopoGetAlgoTime and src/enqueue.cc, topoGetAlgoInfo.
std::optional<NcclChoice> Choose(const NcclTopology& topology, NcclCollective collective,
                                 int64_t bytes, const NcclAllowed& allowed = {});

// NCCL's estimate of one of them, in microseconds; nullopt if it does not exist.
std::optional<double> EstimateUs(const NcclTopology& topology, NcclCollective collective,
                                 NcclAlgorithm algorithm, NcclProtocol protocol, int64_t bytes);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_COST_H_
