#include "fabric/collectives/nccl_topology.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace phantora {
namespace {

using Speeds = std::vector<double>;
constexpr int kMostChannels = 64;              // of a communicator
constexpr int kMostFound = kMostChannels / 2;  // by the search: they are doubled later
// All in 1e9 bytes/s, as NCCL has them.

// Speeds of a channel that the search tries, descending.
const Speeds& TriedSpeeds(GpuGeneration generation, bool one_node) {
  static const auto* const kOne = new Speeds{40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  static const auto* const kOneHopper = new Speeds{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  static const auto* const kOneBlackwell =
      new Speeds{90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
  static const auto* const kMore =
      new Speeds{48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12};
  static const auto* const kMoreHopper =
      new Speeds{48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12};
  static const auto* const kMoreBlackwell = new Speeds{
      96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12};
  switch (generation) {
    case GpuGeneration::kHopper:
      return one_node ? *kOneHopper : *kMoreHopper;
    case GpuGeneration::kBlackwell:
      return one_node ? *kOneBlackwell : *kMoreBlackwell;
    default:
      return one_node ? *kOne : *kMore;
  }
}

// The fastest that is not above `most`; the slowest if all are.
double Fastest(const Speeds& tried, double most) {
  for (const double speed : tried) {
    if (speed <= most) return speed;
  }
  return tried.back();
}

struct Machine {
  GpuGeneration generation;
  bool nvlink;
  int gpus;           // of the communicator
  int nics;           // next to them
  double nvlink_all;  // of a GPU
  double pcie;        // between two GPUs, or a GPU and an interface
  double nic;
};

Machine MachineOf(const ClusterFabric& fabric, int gpus, int nics) {
  const FabricFacts& facts = fabric.facts();
  // LINK_BW in topo.h.
  const double link = facts.generation == GpuGeneration::kBlackwell ? 40.1
                      : facts.generation == GpuGeneration::kHopper  ? 20.6
                                                                    : 20;
  const double slot = 12 << std::clamp(facts.pcie_generation - 3, 0, 3);
  // Between sockets: AMD_BW, SRP_BW; a machine with GPUs of the generation before has the
  // processors of then (SKL_BW).
  const double sockets = fabric.cluster().host.amd_cpu                ? 16
                         : facts.generation >= GpuGeneration::kHopper ? 22
                                                                      : 10;
  Machine machine{.generation = facts.generation,
                  .nvlink = facts.nvlinks > 0,
                  .gpus = gpus,
                  .nics = nics,
                  .nvlink_all = link * facts.nvlinks,
                  .pcie = slot,
                  .nic = fabric.cluster().nic.bytes_per_s / 1e9};
  if (!machine.nvlink) machine.pcie = std::min(slot, gpus > 1 ? sockets : slot);
  return machine;
}

// Twice as many channels of half the speed, where that helps the latency.
void Duplicate(const Machine& machine, NcclGraph& graph) {
  if (graph.intra_gb_per_s < 25) return;
  if (machine.generation >= GpuGeneration::kHopper && graph.intra_gb_per_s < 50 &&
      graph.channels > 4) {
    return;
  }
  const int most = std::min(2 * graph.channels, kMostFound);
  const double scale = static_cast<double>(graph.channels) / most;
  graph = {most, graph.intra_gb_per_s * scale, graph.inter_gb_per_s * scale};
}

// On one machine every channel of a ring or tree passes every GPU. The search stops at half of
// the first speed; more channels and speed together are better, then the first found.
NcclGraph RingOnNode(const Machine& machine) {
  const auto& tried = TriedSpeeds(machine.generation, true);
  const double all = machine.nvlink ? machine.nvlink_all : machine.pcie;
  NcclGraph best;
  double first = 0;
  for (const double speed : tried) {
    if (speed > all) continue;
    if (first == 0) first = speed;
    if (speed <= 0.49 * first) break;
    const int channels = std::min(static_cast<int>(all / speed), kMostFound);
    if (channels * speed > best.channels * best.intra_gb_per_s) best = {channels, speed, speed};
  }
  if (best.channels == 0) best = {1, tried.back(), tried.back()};
  Duplicate(machine, best);
  return best;
}

// Between machines a channel enters by an interface and leaves by one, and takes every GPU's
// NVLink but the last one's.
bool Fits(const Machine& machine, int channels, double speed) {
  if (machine.gpus < 2) return true;
  const double all = machine.nvlink ? machine.nvlink_all : machine.pcie * machine.nics;
  return channels * speed * (machine.gpus - 1) / machine.gpus <= all;
}

NcclGraph RingBetweenNodes(const Machine& machine) {
  const auto& tried = TriedSpeeds(machine.generation, false);
  const double most = std::min(machine.nic, machine.pcie);
  const int channels = std::min(std::max(machine.nics, 1), kMostFound);
  double speed = tried.back();
  for (const double each : tried) {
    if (each <= most && Fits(machine, channels, each)) {
      speed = each;
      break;
    }
  }
  return {channels, speed, speed};
}

// The search's second pass: a tree's chain in the machine may be faster than its network, up to
// twice as fast.
NcclGraph TreeBetweenNodes(const Machine& machine, NcclGraph graph) {
  const auto& tried = TriedSpeeds(machine.generation, false);
  const double path = machine.nvlink ? machine.nvlink_all : machine.pcie;
  for (size_t i = tried.size(); i-- > 0;) {
    if (tried[i] <= graph.intra_gb_per_s) continue;
    if (machine.gpus < 2 || graph.intra_gb_per_s >= 2 * graph.inter_gb_per_s || tried[i] > path ||
        !Fits(machine, graph.channels, tried[i])) {
      break;
    }
    graph.intra_gb_per_s = tried[i];
  }
  return graph;
}

// A channel per GPU, which is its head: the head's link carries twice what the others' do.
NcclGraph Nvls(const Machine& machine, bool one_node) {
  if (machine.generation < GpuGeneration::kHopper || !machine.nvlink || machine.gpus < 2) return {};
  const auto& tried = TriedSpeeds(machine.generation, one_node);
  const double intra = Fastest(tried, machine.nvlink_all / (machine.gpus + 1));
  if (!one_node) {
    return {machine.gpus, intra, Fastest(tried, machine.nic * machine.nics / machine.gpus)};
  }
  // The second pass raises what the network would carry while that is below twice the rest.
  double inter = intra;
  for (size_t i = tried.size(); i-- > 0;) {
    if (tried[i] > inter && inter < 2 * intra) inter = tried[i];
  }
  return {machine.gpus, intra, inter};
}

int ChannelsOf(const NcclTopology& topology, const NcclLimits& limits) {
  const NcclGraph& ring = topology.graphs[static_cast<size_t>(NcclAlgorithm::kRing)];
  int channels = 2 * ring.channels;
  if (topology.generation >= GpuGeneration::kHopper && topology.nodes > 1 &&
      ring.intra_gb_per_s > 45 && channels < 16) {
    channels *= 2;
  }
  if (topology.coll_net) channels += channels / 2;
  if (limits.max_channels > 0) channels = std::min(channels, limits.max_channels);
  if (limits.min_channels > 0) channels = std::max(channels, limits.min_channels);
  return std::clamp(channels, 1, kMostChannels);
}

}  // namespace

NcclTopology TopologyOf(const ClusterFabric& fabric, absl::Span<const GpuPlace> ranks,
                        const NcclLimits& limits) {
  NcclTopology topology;
  std::map<int, int> per_host;
  for (const GpuPlace& place : ranks) ++per_host[place.host];
  int gpus = static_cast<int>(ranks.size());
  for (const auto& [host, count] : per_host) gpus = std::min(gpus, count);
  std::set<int> nics;
  for (const GpuPlace& place : ranks) {
    if (place.host != ranks[0].host) continue;
    for (const int nic : fabric.NicsOf(place.gpu)) nics.insert(nic);
  }
  const Machine machine = MachineOf(fabric, gpus, static_cast<int>(nics.size()));
  topology.ranks = static_cast<int>(ranks.size());
  topology.nodes = static_cast<int>(per_host.size());
  topology.generation = machine.generation;
  topology.nvlink = machine.nvlink;
  topology.amd_cpu = fabric.cluster().host.amd_cpu;
  topology.ll128 = machine.nvlink || gpus == 1;
  topology.coll_net = limits.coll_net && topology.nodes > 1;
  const bool one_node = topology.nodes == 1;
  NcclGraph ring = one_node ? RingOnNode(machine) : RingBetweenNodes(machine);
  if (!one_node) Duplicate(machine, ring);
  const NcclGraph tree = one_node ? ring : TreeBetweenNodes(machine, ring);
  const NcclGraph nvls = limits.nvls ? Nvls(machine, one_node) : NcclGraph();
  const NcclGraph coll_net = topology.coll_net && gpus <= 8 ? tree : NcclGraph();
  topology.graphs = {tree, ring, machine.nvlink ? coll_net : NcclGraph(), coll_net, nvls,
                     nvls, ring};
  topology.channels = ChannelsOf(topology, limits);
  return topology;
}

}  // namespace phantora
