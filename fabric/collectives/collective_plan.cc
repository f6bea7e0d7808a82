#include "fabric/collectives/collective_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "fabric/collectives/nccl_timing.h"
#include "fabric/collectives/nccl_trees.h"

namespace phantora {
namespace {

using Algorithm = NcclAlgorithm;
using Collective = NcclCollective;

constexpr double kPicosecondsPerUs = 1e6;
// A small copy in a GPU's own memory.
constexpr double kCopyUs = 5;

VirtualSpan Span(double us) {
  return VirtualSpan::Picoseconds(static_cast<int64_t>(std::llround(us * kPicosecondsPerUs)));
}
double Microseconds(VirtualSpan span) {
  return static_cast<double>(span.picoseconds()) / kPicosecondsPerUs;
}

// Ranks of one machine, in their order.
struct Machine {
  int host = 0;
  std::vector<int> gpus;
};

// In the order of their first ranks, as NCCL numbers its nodes.
std::vector<Machine> MachinesOf(absl::Span<const GpuPlace> ranks) {
  std::vector<Machine> machines;
  absl::flat_hash_map<int, size_t> known;
  for (const GpuPlace& place : ranks) {
    const auto [it, fresh] = known.try_emplace(place.host, machines.size());
    if (fresh) machines.push_back({place.host, {}});
    machines[it->second].gpus.push_back(place.gpu);
  }
  return machines;
}

// A channel's ends in a machine: its interface, and the GPU next to it that takes part.
struct Port {
  GpuPlace gpu;
  int nic = 0;
};

// Ports of a machine, one for each interface next to its ranks, by number.
std::vector<Port> PortsOf(const ClusterFabric& fabric, const Machine& machine) {
  std::map<int, int> gpu_of;
  for (const int gpu : machine.gpus) {
    for (const int nic : fabric.NicsOf(gpu)) gpu_of.try_emplace(nic, gpu);
  }
  std::vector<Port> ports;
  for (const auto& [nic, gpu] : gpu_of) ports.push_back({{machine.host, gpu}, nic});
  return ports;
}

// What each byte of the collective is on links, by algorithm.
struct Loads {
  double peer_out = 0, peer_in = 0;  // of every GPU, to and from others of its machine
};

Loads PeerLoads(Collective collective, Algorithm algorithm, double ranks, double per_node,
                bool one_node) {
  if (per_node < 2) return {};
  const bool all_reduce = collective == Collective::kAllReduce;
  const bool chain = collective == Collective::kBroadcast || collective == Collective::kReduce;
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kPat: {
      // Of several machines a channel leaves each by the network instead.
      const double hops = one_node ? 1 : (per_node - 1) / per_node;
      const double load = (chain ? 1 : (all_reduce ? 2 : 1) * (ranks - 1) / ranks) * hops;
      return {load, load};
    }
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree: {
      // The switch reads everyone's part of everything and writes one result, and back.
      const double load = 1 + 1 / per_node;
      if (all_reduce) return {load, load};
      if (collective == Collective::kAllGather) return {1 / per_node, 1};
      return {1, 1 / per_node};
    }
    default: {
      // A chain: up and down, at its ends only one of them. The busiest counts.
      const double load = per_node > 2 ? 2 : 1;
      return {load, load};
    }
  }
}

// A byte of the collective between two machines, in one part's channel.
struct NetworkEdge {
  size_t from = 0, to = 0;  // machines
  double load = 0;
};

std::vector<NetworkEdge> NetworkEdges(Collective collective, Algorithm algorithm, double ranks,
                                      size_t machines) {
  std::vector<NetworkEdge> edges;
  if (machines < 2) return edges;
  const bool all_reduce = collective == Collective::kAllReduce;
  switch (algorithm) {
    case Algorithm::kTree:
    case Algorithm::kNvlsTree: {
      const auto trees = DoubleBinaryTree(static_cast<int>(machines));
      for (const auto& parents : trees) {
        for (size_t i = 0; i < parents.size(); ++i) {
          if (parents[i] < 0) continue;
          const auto up = static_cast<size_t>(parents[i]);
          edges.push_back({i, up, 0.5});
          edges.push_back({up, i, 0.5});
        }
      }
      break;
    }
    case Algorithm::kRing:
    case Algorithm::kPat: {
      // PAT's steps go to distances of powers of two; as much leaves and enters every machine.
      const bool chain = collective == Collective::kBroadcast || collective == Collective::kReduce;
      const double load = chain ? 1 : (all_reduce ? 2 : 1) * (ranks - 1) / ranks;
      for (size_t i = 0; i + (chain ? 1 : 0) < machines; ++i) {
        edges.push_back({i, (i + 1) % machines, load});
      }
      break;
    }
    default:
      // The switches reduce: everything goes up once and comes back once. Any neighbour stands for
      // the tree's switches.
      for (size_t i = 0; i < machines; ++i) edges.push_back({i, (i + 1) % machines, 1});
      break;
  }
  return edges;
}

// What a rank's memory sees for each byte of the collective. Rings: of what passes by, the staging
// buffer is read, the own part read or the result written, and the next one's buffer written. NVLS:
// copied in, read by the switch, written by it, copied out.
double MemoryLoad(Collective collective, Algorithm algorithm, double ranks) {
  const bool all_reduce = collective == Collective::kAllReduce;
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kPat:
      return 3 * (all_reduce ? 2 : 1) * (ranks - 1) / ranks;
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree:
      return all_reduce ? 6 : 3;
    default:
      return 6;
  }
}

absl::Status NoWay(int from, int to, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("host ", from, " has no way to host ", to, why.empty() ? "" : " since ", why));
}

// What the proxy hands to an interface at once: a step of the connection's buffer.
double StepBytes(NcclProtocol protocol) {
  constexpr double kKib = 1024;
  return (protocol == NcclProtocol::kLl ? 16 : protocol == NcclProtocol::kLl128 ? 576 : 512) * kKib;
}

// Messages that the parts' interfaces send: of small operations more than one can, perhaps.
void AddMessages(const ClusterFabric& fabric, const std::vector<std::vector<Port>>& ports,
                 const std::vector<NetworkEdge>& edges, double message_bytes,
                 std::vector<Plan::Part>& parts) {
  for (size_t part = 0; part < parts.size(); ++part) {
    for (const NetworkEdge& edge : edges) {
      const auto& out = ports[edge.from];
      const Port& from = out[part % out.size()];
      parts[part].uses.push_back(
          {fabric.MessageRate(from.gpu.host, from.nic), edge.load / message_bytes});
    }
  }
}

// Uses of all parts between machines; the mean latency of the ways.
absl::Status AddNetwork(ClusterFabric& fabric, const std::vector<std::vector<Port>>& ports,
                        const std::vector<NetworkEdge>& edges, double share, int channels,
                        int queue_pairs, uint64_t seed, std::vector<Plan::Part>& parts,
                        double& mean_us) {
  // Channels of one interface have connections of their own, which hashes spread; all ways
  // together are what spraying is. More than a few tell nothing.
  const bool hashed = fabric.cluster().network.multipath != Multipath::kSpray;
  const int ways = hashed ? std::clamp(channels / static_cast<int>(parts.size()), 1, 4) : 1;
  double sum_us = 0, routes = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    auto& uses = parts[part].uses;
    for (size_t e = 0; e < edges.size(); ++e) {
      const NetworkEdge& edge = edges[e];
      const auto& out = ports[edge.from];
      const auto& in = ports[edge.to];
      const Port &from = out[part % out.size()], &to = in[part % in.size()];
      for (int way = 0; way < ways; ++way) {
        const uint64_t hash =
            seed * 0x9e3779b97f4a7c15 + (part * edges.size() + e) * 64 + static_cast<uint64_t>(way);
        const Route route =
            fabric.RouteOverNics(from.gpu, from.nic, to.gpu, to.nic, hash,
                                 {.queue_pairs = queue_pairs, .weight = edge.load / ways / share});
        if (!route.exists) {
          return NoWay(from.gpu.host, to.gpu.host,
                       fabric.WhyNoWay(from.gpu.host, from.nic, to.gpu.host, to.nic));
        }
        for (const LinkUse& use : route.uses) {
          uses.push_back({use.link, use.weight * edge.load / ways / share});
        }
        sum_us += Microseconds(route.latency);
        routes += 1;
      }
    }
  }
  if (routes > 0) mean_us = sum_us / routes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> PlanCollective(ClusterFabric& fabric, const NcclTopology& topology,
                                    absl::Span<const GpuPlace> ranks, Collective collective,
                                    int64_t bytes, const NcclLimits& limits, uint64_t seed) {
  Plan plan;
  if (bytes <= 0) return plan;  // no kernel is launched
  if (ranks.size() < 2) {
    // A copy, or nothing where it is in place.
    plan.latency = Span(kCopyUs);
    plan.memory_bytes = 2 * static_cast<double>(bytes);
    return plan;
  }
  const NcclAllowed& allowed = limits.allowed[static_cast<size_t>(collective)];
  auto choice = Choose(topology, collective, bytes, allowed);
  // A list for all-reduce only leaves nothing for a collective that only has rings: those are used.
  if (!choice) {
    NcclAllowed any = {.protocol = allowed.protocol};
    any.algorithm[static_cast<size_t>(Algorithm::kNvls)] = limits.nvls;
    any.algorithm[static_cast<size_t>(Algorithm::kNvlsTree)] = limits.nvls;
    choice = Choose(topology, collective, bytes, any);
  }
  if (!choice) return absl::InvalidArgumentError("NCCL_PROTO allows none that this collective has");
  plan.algorithm = choice->algorithm;
  plan.protocol = choice->protocol;

  const auto machines = MachinesOf(ranks);
  std::vector<std::vector<Port>> ports;
  size_t most_ports = 1;
  if (machines.size() > 1) {
    for (const Machine& machine : machines) {
      ports.push_back(PortsOf(fabric, machine));
      if (ports.back().empty()) return NoWay(machine.host, machine.host, "");
      most_ports = std::max(most_ports, ports.back().size());
    }
  }
  const WireShares shares = SharesOf(topology.generation, plan.algorithm, plan.protocol);
  const auto all_ranks = static_cast<double>(ranks.size());
  plan.parts.resize(most_ports);
  double wire_us = 0;
  fabric.graph().BeginChoices();
  const auto edges = NetworkEdges(collective, plan.algorithm, all_ranks, machines.size());
  if (auto status = AddNetwork(fabric, ports, edges, shares.network, topology.channels,
                               limits.queue_pairs, seed, plan.parts, wire_us);
      !status.ok()) {
    return status;
  }
  const NcclTiming timing =
      TimingOf(topology, fabric.facts(), collective, plan.algorithm, plan.protocol, bytes, wire_us);
  plan.channels = timing.channels;
  plan.latency = Span(timing.latency_us);
  // A ring's ranks have a piece each, in turn.
  const bool pieces = plan.algorithm == Algorithm::kRing || plan.algorithm == Algorithm::kPat;
  const double piece = static_cast<double>(bytes) / (plan.channels * (pieces ? all_ranks : 1));
  AddMessages(fabric, ports, edges, std::clamp(piece, 1.0, StepBytes(plan.protocol)), plan.parts);
  const double share = 1 / static_cast<double>(plan.parts.size());
  for (Plan::Part& part : plan.parts) {
    part.bytes = static_cast<double>(bytes) * share;
    part.most_bytes_per_s = timing.bytes_per_s * share;
    for (const Machine& machine : machines) {
      const Loads loads = PeerLoads(collective, plan.algorithm, all_ranks,
                                    static_cast<double>(machine.gpus.size()), machines.size() == 1);
      if (loads.peer_out == 0) continue;
      for (const int gpu : machine.gpus) {
        const GpuPlace place = {machine.host, gpu};
        part.uses.push_back({fabric.PeerEgress(place), loads.peer_out / shares.nvlink});
        part.uses.push_back({fabric.PeerIngress(place), loads.peer_in / shares.nvlink});
      }
    }
  }
  plan.memory_bytes =
      MemoryLoad(collective, plan.algorithm, all_ranks) * static_cast<double>(bytes);
  return plan;
}

absl::StatusOr<Plan> PlanSend(ClusterFabric& fabric, const NcclTopology& topology, GpuPlace from,
                              GpuPlace to, int64_t bytes, int messages, uint64_t seed,
                              int queue_pairs) {
  Plan plan;
  plan.message = true;
  if (bytes <= 0) return plan;
  const auto size = static_cast<double>(bytes);
  plan.memory_bytes = 3 * size;  // as a ring's, in the mean of sender and receiver
  if (from == to) {              // a copy, which never is what others wait for
    plan.latency = Span(kCopyUs);
    plan.memory_bytes = 2 * size;
    return plan;
  }
  const bool between = from.host != to.host;
  const Cluster& cluster = fabric.cluster();
  const double nic = cluster.nic.bytes_per_s * std::max(1, cluster.host.nics / cluster.host.gpus);
  plan.protocol = MessageProtocol(topology, fabric.facts(), between, bytes, nic);
  const WireShares shares = MessageSharesOf(topology.generation, plan.protocol);
  fabric.graph().BeginChoices();
  const Route route = fabric.RouteBetween(
      from, to,
      seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(from.host) * 1000003 +
          static_cast<uint64_t>(from.gpu) * 4099 + static_cast<uint64_t>(to.host) * 257 +
          static_cast<uint64_t>(to.gpu) * 16,
      {.bytes = std::min(size, StepBytes(plan.protocol)) / shares.network,
       .queue_pairs = queue_pairs});
  if (!route.exists) return NoWay(from.host, to.host, fabric.WhyNoWay(from, to));
  const NcclTiming timing =
      MessageTimingOf(topology, fabric.facts(), between, plan.protocol, bytes,
                      std::max(messages, 1), nic, Microseconds(route.latency));
  plan.channels = timing.channels;
  plan.latency = Span(timing.latency_us);
  Plan::Part& part = plan.parts.emplace_back();
  part.bytes = size;
  part.most_bytes_per_s = timing.bytes_per_s;
  for (const LinkUse& use : route.uses) {
    part.uses.push_back({use.link, use.weight / (between ? shares.network : shares.nvlink)});
  }
  return plan;
}

std::vector<VirtualSpan> RunAlone(FlowNetwork& network, absl::Span<const Plan> plans,
                                  VirtualTime start) {
  std::vector<VirtualSpan> took;
  std::vector<std::pair<VirtualTime, size_t>> begins;
  for (size_t i = 0; i < plans.size(); ++i) {
    took.push_back(plans[i].latency);
    begins.emplace_back(start + plans[i].latency, i);
  }
  std::sort(begins.begin(), begins.end());
  absl::flat_hash_map<FlowId, size_t> plan_of;
  const auto run_to = [&](VirtualTime end) {
    while (network.NextEnd() <= end && network.NextEnd() != VirtualTime::Infinity()) {
      const VirtualTime now = network.NextEnd();
      for (const FlowId flow : network.Ended(now)) {
        if (const auto it = plan_of.find(flow); it != plan_of.end()) {
          took[it->second] = std::max(took[it->second], now - start);
        }
      }
    }
  };
  for (const auto& [begin, i] : begins) {
    run_to(begin);
    for (const Plan::Part& part : plans[i].parts) {
      plan_of[network.Start(begin, part.uses, part.bytes, part.most_bytes_per_s)] = i;
    }
  }
  run_to(VirtualTime::Infinity());
  return took;
}

}  // namespace phantora
