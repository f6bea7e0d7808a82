#include "fabric/collectives/nccl_timing.h"

#include <algorithm>
#include <cmath>

namespace phantora {
namespace {

using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;
using Collective = NcclCollective;

constexpr double kKib = 1024;
constexpr double kUsPerS = 1e6;

// Of 4 MiB per channel and connection, an eighth: a step (NCCL_BUFFSIZE, NCCL_STEPS in
// src/include/device.h). A ring's chunk is four, in two slices (enqueue.cc).
constexpr double kStepBytes = 512 * kKib, kRingChunk = 4 * kStepBytes;
constexpr int kSlicesPerChunk = 2;

// All of a block's threads wait for each other and for the peer's flag before and after a slice.
// NCCL's latency of a Simple step over NVLink, 3.4 us, is that of Hopper's clock (1.98 GHz); an
// A100 has 1.41 GHz.
double ClockRatio(GpuGeneration generation) {
  return generation >= GpuGeneration::kHopper ? 1 : 1.98 / 1.41;
}
double SliceUs(GpuGeneration generation) { return 3.4 * ClockRatio(generation); }

// The same of NVLS, where a chunk goes in three stages (scatter, reduce and broadcast, gather).
// From 8 x H100 (NVIDIA/dgxc-benchmarking 841f546): chunks of 128 KiB take 61.1 us, of 64 KiB 32.6
// us and of 32 KiB 18.4 us, all channels and heads together.
constexpr double kNvlsChunkUs = 4.1;
// The first chunk's scatter and the last one's gather overlap with nothing; they stay in the
// GPU's own memory in part, so they take less than whole chunks.
constexpr double kNvlsFillChunks = 1.5;

// What one channel's SM copies to a peer when the links are idle. About 20 GB/s on A100, as p2p
// tests with few channels show; on Hopper as much more as its clock is higher (16 channels do carry
// 391 GB/s of rings between two machines, 24 each).
double ChannelBytesPerS(GpuGeneration generation) {
  return generation >= GpuGeneration::kHopper ? 28e9 : 20e9;
}

// Of LL, 8 bytes a thread and step: 512 threads of a channel move 4 KiB each 0.29 us on H100 (8 x
// H100 takes 18.7 to 19.7 us from 32 to 512 KiB, where NCCL adds a channel for every 32 KiB).
double LlChannelBytesPerS(GpuGeneration generation) {
  return generation >= GpuGeneration::kHopper ? 14e9 : 14e9 * 1.41 / 1.98;
}

// NCCL's unit of work per posted message, us: NCCL_NET_OVERHEAD in tuning.cc.
double PostUs(const NcclTopology& topology) { return topology.amd_cpu ? 2 : 1; }

// A group's work elements are fetched one after another. 8 x H20, all-to-all of 128 bytes to 2 KiB:
// 10.5 to 11.1 us (DeepEP issue 303).
constexpr double kWorkElementUs = 0.5;

bool Chains(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce;
}

// What a GPU sends to another of its machine, at most.
double LinkRate(const NcclTopology& topology, const FabricFacts& facts) {
  if (topology.nvlink) return facts.nvlink_bytes_per_s;
  // Over PCIe the way between sockets is slower, which NCCL's search knows.
  const NcclGraph& ring = topology.graphs[static_cast<size_t>(Algorithm::kRing)];
  return topology.nodes > 1
             ? facts.pcie_bytes_per_s
             : std::min(facts.pcie_bytes_per_s, ring.channels * ring.intra_gb_per_s * 1e9);
}

// What NCCL does not add channels for (enqueue.cc, getAlgoInfo): less than so many bytes for each
// thread.
int ChannelsFor(const NcclTopology& topology, Algorithm algorithm, Protocol protocol,
                int64_t bytes) {
  if (algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree) {
    return std::min(topology.generation >= GpuGeneration::kBlackwell ? 24 : 16, topology.channels);
  }
  const int threads = protocol == Protocol::kLl128 ? 640 : 512;
  int threshold = protocol == Protocol::kSimple ? 64 : 8;
  if (protocol == Protocol::kLl && algorithm == Algorithm::kRing) threshold *= topology.ranks;
  const int64_t each = int64_t{threads} * threshold;
  return static_cast<int>(std::clamp<int64_t>(bytes / each, 1, topology.channels));
}

// On the critical path, between machines.
double NetworkHops(const NcclTopology& topology, Collective collective, Algorithm algorithm) {
  const int nodes = topology.nodes;
  if (nodes == 1) return 0;
  const double levels = std::floor(std::log2(nodes));
  switch (algorithm) {
    case Algorithm::kRing:
      return (collective == Collective::kAllReduce ? 2 : 1) * (nodes - 1.0);
    case Algorithm::kTree:
    case Algorithm::kNvlsTree:
      return 2 * levels;
    case Algorithm::kPat:
      return levels;
    default:
      return 2;  // to the switch that reduces, and back
  }
}

double TrafficOf(const NcclTopology& topology, Collective collective) {
  const double ranks = topology.ranks;
  return Chains(collective) ? 1
                            : (collective == Collective::kAllReduce ? 2 : 1) * (ranks - 1) / ranks;
}

// A ring's channels take their parts around in chunks, of one in each rank's turn.
void TimeRing(const NcclTopology& topology, const FabricFacts& facts, Collective collective,
              Protocol protocol, double bytes, double model_rate, NcclTiming& timing) {
  const double ranks = topology.ranks, channels = timing.channels;
  const double traffic = TrafficOf(topology, collective), link = LinkRate(topology, facts);
  const double steps = traffic * ranks;
  const double share = SharesOf(topology.generation, Algorithm::kRing, protocol).nvlink;
  const double by_channels = channels * ChannelBytesPerS(topology.generation);
  double rate = std::min(link * share, by_channels) / traffic;
  if (protocol == Protocol::kLl) {
    // Few channels have fewer threads than the links could feed.
    rate =
        std::min({rate, model_rate, channels * LlChannelBytesPerS(topology.generation) / traffic});
  } else if (protocol == Protocol::kLl128) {
    rate = std::min(rate, model_rate);
  } else if (Chains(collective)) {
    const double slices = std::ceil(bytes / channels / kStepBytes);
    const double per_us = SliceUs(topology.generation);
    if (topology.nodes == 1) rate = bytes / (bytes / rate + (slices - 1) * per_us / kUsPerS);
  } else {
    const double piece = bytes / (channels * ranks), chunk = std::min(piece, kRingChunk);
    const double slice = chunk / kSlicesPerChunk;
    timing.latency_us +=
        slice / ChannelBytesPerS(topology.generation) * kUsPerS;  // the last one's copy
    if (topology.nodes == 1) {
      // The model's latency has a slice for each step of the first turn. Between machines the
      // network is slower, and this is hidden behind it.
      const double turns = std::ceil(piece / chunk);
      const double slices = (turns * kSlicesPerChunk - 1) * steps;
      rate = bytes / (bytes / rate + slices * SliceUs(topology.generation) / kUsPerS);
    } else {
      rate *= ranks / std::max(1.0, ranks - topology.nodes);  // not over NVLink at every step
    }
  }
  if (Chains(collective)) {
    // A chain of all ranks, one chunk behind the other (16 KiB and 576 KiB are LL's, LL128's).
    const double most = protocol == Protocol::kLl      ? 16 * kKib
                        : protocol == Protocol::kLl128 ? 576 * kKib
                                                       : kStepBytes;
    const double chunk = std::min(bytes / channels, most);
    const auto model_hop = protocol == Protocol::kLl      ? 0.6
                           : protocol == Protocol::kLl128 ? 1.9
                                                          : SliceUs(topology.generation);
    timing.latency_us +=
        (ranks - 2) * (model_hop + chunk / ChannelBytesPerS(topology.generation) * kUsPerS);
  }
  timing.bytes_per_s = rate;
}

// Up to the root and down again, in chunks of a step at most.
void TimeTree(const NcclTopology& topology, const FabricFacts& facts, Protocol protocol,
              double bytes, double estimate_us, double model_latency_us, double model_rate,
              NcclTiming& timing) {
  const double link_rate =
      std::min(LinkRate(topology, facts) *
                   SharesOf(topology.generation, Algorithm::kTree, protocol).nvlink,
               timing.channels * ChannelBytesPerS(topology.generation)) /
      (topology.ranks == topology.nodes ? 1 : 2);  // everything goes up and down each link
  if (protocol != Protocol::kSimple) {
    // NCCL's own correction, by size, is what its authors measured.
    const double us = std::max(estimate_us - model_latency_us, 1e-3);
    timing.bytes_per_s = std::min(link_rate, bytes / us * kUsPerS);
    return;
  }
  const NcclGraph& graph = topology.graphs[static_cast<size_t>(Algorithm::kTree)];
  const double uncapped =
      graph.channels * (topology.nodes <= 2 ? graph.intra_gb_per_s : graph.inter_gb_per_s) * 1e9;
  // 0.92 is the model's allowance for all that links lose; here links are what they achieve.
  constexpr double kAllowance = 0.92;
  const bool capped = model_rate < 0.999 * kAllowance * uncapped / 2;
  timing.bytes_per_s = std::min(link_rate, capped ? model_rate : model_rate / kAllowance);
  const double chunk = std::min(bytes / timing.channels, kStepBytes);
  const double depth = 2 * (static_cast<double>(topology.ranks) / topology.nodes - 1 +
                            std::floor(std::log2(topology.nodes)));
  timing.latency_us += depth * chunk / ChannelBytesPerS(topology.generation) * kUsPerS;
}

// Every GPU is the head of a part, which NVSwitch reduces and sends back to all.
void TimeNvls(const NcclTopology& topology, const FabricFacts& facts, Collective collective,
              Algorithm algorithm, double bytes, double model_rate, double nic_bytes_per_s,
              NcclTiming& timing) {
  const double heads = static_cast<double>(topology.ranks) / topology.nodes;
  const bool tree = algorithm == Algorithm::kNvlsTree;
  const double at_once = timing.channels * heads;  // chunks
  double chunk = (tree && topology.nodes >= 4 ? 64 : 128) * kKib;
  if (tree) {
    if (bytes < 4 * at_once * chunk) chunk = std::min(chunk, 64 * kKib);
    if (bytes < at_once * chunk) chunk = std::min(chunk, 32 * kKib);
  } else {
    if (bytes < 64 * at_once * chunk) chunk = std::min(chunk, 64 * kKib);
    if (bytes < 8 * at_once * chunk) chunk = std::min(chunk, 32 * kKib);
    if (bytes < 2 * at_once * chunk) chunk = std::min(chunk, 16 * kKib);
  }
  // Everyone's link: its own part is reduced once more as the head's.
  const double wire = std::min(SharesOf(topology.generation, algorithm, Protocol::kSimple).nvlink *
                                   facts.nvlink_bytes_per_s,
                               timing.channels * ChannelBytesPerS(topology.generation)) /
                      (1 + 1 / heads);
  const double together = at_once * chunk;
  double rate = together / (together / wire + kNvlsChunkUs / kUsPerS);
  if (tree || collective != Collective::kAllReduce) rate = std::min(rate, model_rate);
  timing.bytes_per_s = rate;
  const double first = std::min(together, bytes);
  timing.latency_us += kNvlsFillChunks * first / wire * kUsPerS;
  // And one chunk through the network, a head's part by each interface.
  if (topology.nodes > 1) timing.latency_us += first / heads / nic_bytes_per_s * kUsPerS;
}

}  // namespace

WireShares SharesOf(GpuGeneration generation, NcclAlgorithm algorithm, NcclProtocol protocol) {
  // Loads and stores to multicast addresses: 480 GB/s of bus bandwidth on 8 x H100, which is
  // 1.125 x 275 on every link; NCCL's own efficiency of NVLS, too (nccl_cost.cc).
  if (algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree) {
    return {generation >= GpuGeneration::kBlackwell ? 0.74 : 0.85, 1};
  }
  switch (protocol) {
    case Protocol::kLl:
      return {0.5, 0.5};  // a flag for every four bytes
    case Protocol::kLl128:
      // 120 of 128 bytes. Over NVLink stores of whole warps also wait for each other, and in a ring
      // the same threads receive, add and send: from 8 to 32 MiB 8 x A100 moves 85 to 95 GB/s, 150
      // to 165 of bus bandwidth (Azure, SuperBench). A tree's go up and down by threads of their
      // own: 89 GB/s, twice on every link (2 x 8 x A100 at OCI, 64 to 512 MiB). There is no such
      // measurement of Hopper; NCCL's own limit of a channel is 36.7 of 48 GB/s.
      if (generation >= GpuGeneration::kHopper) return {0.76, 120.0 / 128};
      return {algorithm == Algorithm::kTree ? 0.70 : 0.60, 120.0 / 128};
    case Protocol::kSimple:
      return {1, 1};
  }
  return {};
}

WireShares MessageSharesOf(GpuGeneration generation, NcclProtocol protocol) {
  if (protocol == Protocol::kLl) return {0.5, 0.5};
  // Chunks of messages have one slice, and each costs a hand-shake: 8 x A100 sendrecv 195 GB/s
  // (li-plus/playground b85070f) of 247, 4 x H100 all-to-all 335 GB/s (NVIDIA/nccl issue 2169) of
  // 390.
  return {generation >= GpuGeneration::kHopper ? 0.87 : 0.79, 1};
}

NcclTiming TimingOf(const NcclTopology& topology, const FabricFacts& facts, Collective collective,
                    Algorithm algorithm, Protocol protocol, int64_t bytes, double wire_us) {
  NcclTiming timing;
  const auto cost = CostOf(topology, collective, algorithm, protocol);
  if (!cost) return timing;
  timing.channels = ChannelsFor(topology, algorithm, protocol, bytes);
  timing.latency_us = cost->latency_us + NetworkHops(topology, collective, algorithm) *
                                             (facts.network_software_us + wire_us);
  const auto size = static_cast<double>(std::max<int64_t>(bytes, 1));
  const double model_rate = cost->gb_per_s * 1e9;
  switch (algorithm) {
    case Algorithm::kRing:
      TimeRing(topology, facts, collective, protocol, size, model_rate, timing);
      break;
    case Algorithm::kTree:
      TimeTree(topology, facts, protocol, size,
               EstimateUs(topology, collective, algorithm, protocol, bytes).value_or(0),
               cost->latency_us, model_rate, timing);
      break;
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree: {
      const auto& graph = topology.graphs[static_cast<size_t>(algorithm)];
      TimeNvls(topology, facts, collective, algorithm, size, model_rate, graph.inter_gb_per_s * 1e9,
               timing);
      break;
    }
    default:  // nothing published to do better than NCCL's own model
      timing.bytes_per_s = model_rate;
      break;
  }
  return timing;
}

namespace {

// Per peer: by NVLink twice as many as links, by network for each 14 GB/s (src/init.cc and
// paths.cc, ncclTopoComputeP2pChannels), at most those that the communicator has.
int MostMessageChannels(const NcclTopology& topology, const FabricFacts& facts, bool between_nodes,
                        double nic_bytes_per_s) {
  const int most = between_nodes     ? static_cast<int>(std::ceil(nic_bytes_per_s / 14e9))
                   : topology.nvlink ? 2 * std::max(1, facts.nvlinks)
                                     : 2;
  int power = 1, all = 1;
  while (power < most) power *= 2;
  while (all < topology.channels) all *= 2;
  return std::min(power, all);
}

}  // namespace

Protocol MessageProtocol(const NcclTopology& topology, const FabricFacts& facts, bool between_nodes,
                         int64_t bytes, double nic_bytes_per_s) {
  // NCCL_P2P_LL_THRESHOLD.
  const int channels = MostMessageChannels(topology, facts, between_nodes, nic_bytes_per_s);
  return bytes <= channels * int64_t{16 * 1024} ? Protocol::kLl : Protocol::kSimple;
}

NcclTiming MessageTimingOf(const NcclTopology& topology, const FabricFacts& facts,
                           bool between_nodes, Protocol protocol, int64_t bytes, int messages,
                           double nic_bytes_per_s, double wire_us) {
  NcclTiming timing;
  // 64 KiB each at least.
  timing.channels = static_cast<int>(
      std::clamp<int64_t>(bytes / (64 * 1024), 1,
                          MostMessageChannels(topology, facts, between_nodes, nic_bytes_per_s)));
  const bool ll = protocol == Protocol::kLl;
  // A ring's start and a hop, in NCCL's model.
  constexpr double kBaseUs = 6.6;
  const double size = static_cast<double>(bytes);
  // In a host all of it is the GPUs' own doing: from 512 B to 4 KiB an all-to-all of 2 x A100 takes
  // 10.5 to 10.9 us, of 2 x H100 6.3 to 6.6 (fabric/data/in_a_host).
  const double clock = between_nodes ? 1 : ClockRatio(topology.generation);
  timing.latency_us = (kBaseUs + kWorkElementUs * messages) * clock;
  if (between_nodes) {
    // Whoever sends also receives: both are posted by the one proxy thread.
    timing.latency_us += (ll ? 5.0 : 14.0) + facts.network_software_us + wire_us +
                         2 * PostUs(topology) * (messages - 1);
    timing.bytes_per_s = nic_bytes_per_s;
    return timing;
  }
  timing.latency_us += ll ? 0.6 * clock : SliceUs(topology.generation);
  const double link = LinkRate(topology, facts);
  timing.bytes_per_s = std::min(link * MessageSharesOf(topology.generation, protocol).nvlink,
                                timing.channels * (ll ? LlChannelBytesPerS(topology.generation)
                                                      : ChannelBytesPerS(topology.generation)));
  if (!ll) {
    const double chunk = std::min(size / timing.channels, kStepBytes);
    timing.latency_us += chunk / ChannelBytesPerS(topology.generation) * kUsPerS;
  }
  return timing;
}

}  // namespace phantora
