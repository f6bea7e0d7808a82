#include "fabric/collectives/nccl_cost.h"

#include <algorithm>
#include <cmath>

namespace phantora {
namespace {

using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;
using Collective = NcclCollective;
using ByProtocol = std::array<double, kNcclProtocols>;  // LL, LL128, Simple
using ByNodes = std::array<double, 3>;                  // one node, two, more
using ByGeneration = std::array<ByNodes, 4>;            // Volta to Blackwell

// Microseconds.
constexpr std::array<ByProtocol, kNcclAlgorithms> kBaseLatency = {
    {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, {}, {}, {}, {}, {8, 8, 8}}};
// Latency of a hop, us, by link: NVLink, PCIe, network.
constexpr int kNvlink = 0, kPcie = 1, kNetwork = 2;
constexpr std::array<std::array<ByProtocol, kNcclAlgorithms>, 3> kHopLatency = {{
    {{{0.6, 1.25, 4.0},
      {0.6, 1.9, 3.4},
      {0, 0, 3.7},
      {0, 0, 2.8},
      {0, 0, 25},
      {0, 0, 25},
      {0, 0, 4.0}}},
    {{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {}, {}, {0, 0, 4.0}}},
    {{{5.0, 8.5, 14},
      {2.7, 4.0, 14},
      {0, 0, 31},
      {0, 0, 30},
      {0, 0, 18},
      {0, 0, 20.9},
      {0, 0, 14}}},
}};

// 1e9 bytes/s: LL of all channels together, the others per channel.
constexpr ByGeneration kMostLl = {{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr ByGeneration kMostRingLl128 = {
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}};
constexpr ByGeneration kMostTreeLl128 = {
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20}}};
constexpr ByGeneration kMostTree = {
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
constexpr ByGeneration kMostNvlsTree = {
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}}};
constexpr std::array<double, 4> kNvlsEfficiency = {0, 0, 0.85, 0.74};

// By which trees are slower than their model, by the power of two of bytes / 64.
constexpr std::array<std::array<double, 23>, kNcclProtocols> kTreeCorrection = {{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

constexpr size_t Index(auto value) { return static_cast<size_t>(value); }

bool Exists(const NcclTopology& topology, Collective collective, Algorithm algorithm,
            Protocol protocol) {
  const bool all_reduce = collective == Collective::kAllReduce,
             gathers =
                 collective == Collective::kAllGather || collective == Collective::kReduceScatter;
  if (topology.graphs[Index(algorithm)].channels < 1) return false;
  if (protocol == Protocol::kLl128 && !topology.ll128) return false;
  switch (algorithm) {
    case Algorithm::kRing:
      return true;
    case Algorithm::kTree:
      return all_reduce;
    case Algorithm::kPat:
      return gathers && protocol == Protocol::kSimple && topology.nodes == topology.ranks;
    case Algorithm::kNvls:
      return (all_reduce || gathers) && protocol == Protocol::kSimple &&
             topology.graphs[Index(algorithm)].channels >= 2 &&
             (topology.nodes == 1 || topology.coll_net);
    case Algorithm::kNvlsTree:
      return all_reduce && protocol == Protocol::kSimple &&
             topology.graphs[Index(algorithm)].channels >= 2 && topology.nodes > 1;
    case Algorithm::kCollNetDirect:
      return (all_reduce || gathers) && protocol == Protocol::kSimple && topology.coll_net;
    case Algorithm::kCollNetChain:
      return all_reduce && protocol == Protocol::kSimple && topology.coll_net;
  }
  return false;
}

// Steps of a ring: how often everything goes around, times ranks.
double StepsOf(const NcclTopology& topology, Collective collective) {
  const double ranks = topology.ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (ranks - 1);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return ranks - 1;
    default:
      return ranks;
  }
}

double BandwidthOf(const NcclTopology& topology, Collective collective, Algorithm algorithm,
                   Protocol protocol) {
  const bool all_reduce = collective == Collective::kAllReduce;
  const NcclGraph& graph = topology.graphs[Index(algorithm)];
  const size_t nodes = Index(std::min(topology.nodes, 3) - 1), row = Index(topology.generation);
  const double channels = graph.channels,
               per_node = static_cast<double>(topology.ranks) / topology.nodes;
  const bool collnet =
      algorithm == Algorithm::kCollNetDirect || algorithm == Algorithm::kCollNetChain;
  double each = topology.nodes <= 2 || collnet ? graph.intra_gb_per_s : graph.inter_gb_per_s;
  if (algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree) {
    const bool tree = algorithm == Algorithm::kNvlsTree;
    double intra = graph.intra_gb_per_s * kNvlsEfficiency[row] * (channels - 1) / channels;
    intra *= all_reduce ? 2 : (per_node - 1) / per_node;
    const double inter = graph.inter_gb_per_s * (tree && topology.nodes <= 2 ? 2 : 1);
    each = std::min(intra, inter);
    if (tree) each = std::min(each, kMostNvlsTree[row][nodes]);
  }
  double all = channels * each;
  const double most_ll = kMostLl[topology.nodes == 1 ? row : topology.amd_cpu ? 1 : 0][nodes];
  switch (algorithm) {
    case Algorithm::kRing:
      if (protocol == Protocol::kLl) all = std::min(most_ll, all * 0.5);
      if (protocol == Protocol::kLl128) {
        all = std::min(0.92 * all, channels * kMostRingLl128[row][nodes]);
      }
      break;
    case Algorithm::kTree:
      all = std::min(0.92 * all, channels * kMostTree[row][nodes]);
      if (protocol == Protocol::kLl) all = std::min(all / 3.8, most_ll);
      if (protocol == Protocol::kLl128) {
        all = std::min(all * (topology.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                       channels * kMostTreeLl128[row][nodes]);
      }
      break;
    case Algorithm::kPat:
      all *= 0.75;
      break;
    case Algorithm::kCollNetDirect:
      if (all_reduce) {
        double factor = per_node / channels;
        factor -= (factor - 1) / 2;
        all /= factor;
        if (topology.generation >= GpuGeneration::kHopper) all *= 0.85;
      } else {
        all = per_node * std::min(graph.intra_gb_per_s, 0.9 * graph.inter_gb_per_s);
      }
      break;
    default:
      break;
  }
  // From what a link carries to what the collective moves.
  const bool by_steps = algorithm == Algorithm::kRing || algorithm == Algorithm::kNvls ||
                        algorithm == Algorithm::kNvlsTree;
  if (!all_reduce) {
    return algorithm == Algorithm::kRing ? all * topology.ranks / StepsOf(topology, collective)
                                         : all;
  }
  return by_steps ? all * topology.ranks / StepsOf(topology, collective) : all * 0.5;
}

double LatencyOf(const NcclTopology& topology, Collective collective, Algorithm algorithm,
                 Protocol protocol) {
  const auto a = Index(algorithm), p = Index(protocol);
  const auto& intra_row = kHopLatency[topology.nvlink ? kNvlink : kPcie];
  const int per_node = topology.ranks / topology.nodes;
  const double levels = std::floor(std::log2(topology.nodes));
  double intra = intra_row[a][p];
  // A ring of one rank per node goes over the network as a tree does.
  double inter = kHopLatency[kNetwork][per_node == 1 ? Index(Algorithm::kTree) : a][p] +
                 topology.network_latency_us;
  if (protocol == Protocol::kSimple) inter += topology.network_latency_us;  // the flush
  double latency = kBaseLatency[a][p];
  switch (algorithm) {
    case Algorithm::kRing: {
      const double steps = StepsOf(topology, collective);
      if (collective == Collective::kBroadcast || collective == Collective::kReduce) {
        const auto& row = topology.nodes > 1 ? kHopLatency[kNetwork] : intra_row;
        if (topology.same_channels) return latency + row[a][p];
        const size_t of = protocol == Protocol::kSimple ? Index(Algorithm::kTree) : a;
        return latency + steps * row[of][p];
      }
      // Posting a step to the network costs processor time.
      const double overhead = topology.nodes == 1 ? 0
                                                  : (topology.amd_cpu ? 2.0 : 1.0) *
                                                        (protocol == Protocol::kSimple ? 3 : 1);
      intra = std::max(intra, overhead);
      const double between = topology.nodes == 1 ? 0
                                                 : (collective == Collective::kAllReduce ? 2 : 1) *
                                                       (topology.nodes - 1.0);
      return latency + (steps - between) * intra + between * inter;
    }
    case Algorithm::kTree:
      return latency + 2 * ((per_node - 1) * intra + levels * inter);
    case Algorithm::kCollNetDirect:
      return latency + 2 * (std::min(1, per_node - 1) * intra + (per_node - 1) * 0.4) + inter;
    case Algorithm::kCollNetChain:
      return latency + 2 * (per_node - 1) * intra + inter;
    case Algorithm::kNvls:
      return intra + (topology.nodes > 1 ? inter : 0);
    case Algorithm::kNvlsTree:
      return latency + intra + 2 * levels * inter;
    case Algorithm::kPat:
      return latency + levels * inter / 3.5 + 2.8 * topology.ranks;
  }
  return latency;
}

}  // namespace

const char* Name(NcclAlgorithm algorithm) {
  constexpr const char* kNames[kNcclAlgorithms] = {
      "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
  return kNames[Index(algorithm)];
}

const char* Name(NcclProtocol protocol) {
  constexpr const char* kNames[kNcclProtocols] = {"LL", "LL128", "Simple"};
  return kNames[Index(protocol)];
}

std::optional<NcclCost> CostOf(const NcclTopology& topology, NcclCollective collective,
                               NcclAlgorithm algorithm, NcclProtocol protocol) {
  if (topology.ranks < 2 || topology.nodes < 1 || topology.nodes > topology.ranks ||
      !Exists(topology, collective, algorithm, protocol)) {
    return std::nullopt;
  }
  const NcclCost cost = {LatencyOf(topology, collective, algorithm, protocol),
                         BandwidthOf(topology, collective, algorithm, protocol)};
  if (!(cost.gb_per_s > 0)) return std::nullopt;
  return cost;
}

std::optional<double> EstimateUs(const NcclTopology& topology, NcclCollective collective,
                                 NcclAlgorithm algorithm, NcclProtocol protocol, int64_t bytes) {
  auto cost = CostOf(topology, collective, algorithm, protocol);
  if (!cost) return std::nullopt;
  if (algorithm == NcclAlgorithm::kTree) {
    const double power = bytes < 64 ? 0 : std::floor(std::log2(static_cast<double>(bytes) / 64));
    const auto& correction = kTreeCorrection[Index(protocol)];
    if (power < static_cast<double>(correction.size())) {
      cost->gb_per_s *= correction[static_cast<size_t>(power)];
    }
  }
  if (algorithm == NcclAlgorithm::kRing && protocol == NcclProtocol::kSimple &&
      collective == NcclCollective::kAllReduce && topology.nodes > 1 &&
      bytes / (int64_t{topology.channels} * topology.ranks) >= 64) {
    cost->latency_us *= topology.generation == GpuGeneration::kVolta ? 1.9 : 1.4;
  }
  return cost->latency_us + static_cast<double>(bytes) / (1000 * cost->gb_per_s);
}

std::optional<NcclChoice> Choose(const NcclTopology& topology, NcclCollective collective,
                                 int64_t bytes, const NcclAllowed& allowed) {
  std::optional<NcclChoice> best;
  for (int a = 0; a < kNcclAlgorithms; ++a) {
    for (int p = 0; p < kNcclProtocols; ++p) {
      if (!allowed.algorithm[Index(a)] || !allowed.protocol[Index(p)]) continue;
      const auto algorithm = static_cast<NcclAlgorithm>(a);
      const auto protocol = static_cast<NcclProtocol>(p);
      const auto estimate = EstimateUs(topology, collective, algorithm, protocol, bytes);
      if (estimate && (!best || *estimate < best->estimate_us)) {
        best = {algorithm, protocol, *estimate};
      }
    }
  }
  return best;
}

}  // namespace phantora
