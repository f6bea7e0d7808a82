#include "fabric/cluster/cluster_fabric.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "profiles/gpu/gpu_profile.h"

namespace phantora {
namespace {

GpuGeneration GenerationOf(const GpuProfile& gpu) {
  const int architecture = gpu.sm_architecture();
  return architecture < 80    ? GpuGeneration::kVolta
         : architecture < 90  ? GpuGeneration::kAmpere
         : architecture < 100 ? GpuGeneration::kHopper
                              : GpuGeneration::kBlackwell;
}

// What SMs that store into a peer's memory reach through one NVLink, in bytes/s.
//  Ampere: 12 links. nccl-tests' all-reduce on 8 x A100 (microsoft/superbench-results 5e77aa7,
//    Azure/AI-benchmarking-guide 8fd0c6e) ends at 232 to 236 GB/s of bus bandwidth, its
//    chunks' overhead (nccl_timing.cc) included; copy engines reach 271 to 277 (nvbandwidth).
//  Hopper: 18 links. Rings reach 367 to 370 (nccl-tests issue 212; stas00/ml-engineering 744d01e),
//    chunks' overhead included; copy engines 376 to 396.
//  Volta and Blackwell: no measurement; the same share of the rate as Hopper's (25, 50 GB/s).
double NvlinkBytesPerS(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kVolta:
      return 21.7e9;
    case GpuGeneration::kAmpere:
      return 247e9 / 12;
    case GpuGeneration::kHopper:
      return 390e9 / 18;
    case GpuGeneration::kBlackwell:
      return 43.3e9;
  }
  return 0;
}

// Of sixteen lanes: pinned copies reach 26 GB/s by PCIe 4 and 55 by PCIe 5 (SuperBench,
// nvbandwidth).
double PcieBytesPerS(int generation) {
  return generation <= 3 ? 13e9 : generation == 4 ? 26e9 : generation == 5 ? 55e9 : 110e9;
}

// InfiniBand: a ring over eight 400G interfaces ends at 391.4 GB/s (wutz's mpi-operator guide),
// 48.9 of 50 each. RoCE: bidirectional writes of 16 KiB and more reach 773 to 779 of 800 Gbit/s
// (AMD Pollara 400G), and an all-to-all 48.5 of 50 GB/s. TCP: headers and what the host makes of
// it; no measurement.
double NetworkEfficiency(Cluster::Transport transport) {
  switch (transport) {
    case Cluster::Transport::kInfiniband:
      return 0.978;
    case Cluster::Transport::kRoce:
      return 0.968;
    case Cluster::Transport::kEthernet:
      return 0.9;
  }
  return 1;
}

// NCCL's constants are of a hop as the GPU sees it, tuned for choosing. Small all-reduces over two
// machines take 39 us (H100 over InfiniBand) and 35 to 41 us (A100 over RoCE), where its model
// says 25: 6 us more for each of two hops, beside the wires (1.2 and 2 us): the GPU's flag is read
// by the proxy thread over PCIe, it posts the send, and the receiver's polls the completion.
// TCP: system calls and a copy at both ends; no measurement.
double NetworkSoftwareUs(Cluster::Transport transport) {
  return transport == Cluster::Transport::kEthernet ? 30 : 6;
}

void Append(const Route& part, double share, Route& whole) {
  for (const LinkUse& use : part.uses) whole.uses.push_back({use.link, use.weight * share});
  whole.latency = std::max(whole.latency, part.latency);
  whole.exists = whole.exists && part.exists;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterFabric>> ClusterFabric::Create(const Cluster& cluster) {
  auto gpu = FindGpuProfile(cluster.host.gpu);
  if (!gpu.ok()) return gpu.status();
  std::unique_ptr<ClusterFabric> fabric(new ClusterFabric(cluster));
  FabricFacts& facts = fabric->facts_;
  facts.generation = GenerationOf(*gpu);
  facts.nvlinks = cluster.host.nvlink ? static_cast<int>(gpu->nvlink.links) : 0;
  facts.nvlink_bytes_per_s = NvlinkBytesPerS(facts.generation) * facts.nvlinks;
  facts.pcie_generation = gpu->pci.generation;
  facts.pcie_bytes_per_s = PcieBytesPerS(facts.pcie_generation);
  facts.network_efficiency = NetworkEfficiency(cluster.nic.transport);
  facts.network_software_us = NetworkSoftwareUs(cluster.nic.transport);
  // A machine alone may have no interfaces.
  if (cluster.host.nics > 0 || cluster.hosts > 1) {
    auto nics = BuildNetwork(cluster, fabric->graph_);
    if (!nics.ok()) return nics.status();
    fabric->nics_ = *std::move(nics);
    std::set<NodeId> senders;
    for (const auto& host : fabric->nics_) senders.insert(host.begin(), host.end());
    for (NodeId node = 0; cluster.network.dcqcn && node < fabric->graph_.nodes(); ++node) {
      if (!senders.contains(node)) fabric->graph_.Control(node);
    }
  }
  if (auto status = fabric->events_.Add(cluster.events); !status.ok()) return status;
  FlowNetwork& network = fabric->network_;
  for (int i = 0; i < cluster.hosts * cluster.host.nics; ++i) {
    fabric->message_rates_.push_back(network.AddLink(cluster.nic.messages_per_s));
  }
  for (int i = 0; i < cluster.gpus(); ++i) {
    Gpu links;
    links.pcie_egress = network.AddLink(facts.pcie_bytes_per_s);
    links.pcie_ingress = network.AddLink(facts.pcie_bytes_per_s);
    const bool nvlink = facts.nvlinks > 0;
    links.peer_egress = nvlink ? network.AddLink(facts.nvlink_bytes_per_s) : links.pcie_egress;
    links.peer_ingress = nvlink ? network.AddLink(facts.nvlink_bytes_per_s) : links.pcie_ingress;
    fabric->gpus_.push_back(links);
  }
  return fabric;
}

std::string ClusterFabric::NameOfLink(LinkId link) const {
  if (graph_.HasLink(link)) return graph_.NameOfLink(link);
  for (size_t i = 0; i < gpus_.size(); ++i) {
    const Gpu& gpu = gpus_[i];
    const int each = cluster_.host.gpus, number = static_cast<int>(i);
    const std::string name = absl::StrCat("host ", number / each, " GPU ", number % each);
    if (link == gpu.pcie_egress) return absl::StrCat(name, " to PCIe");
    if (link == gpu.pcie_ingress) return absl::StrCat("PCIe to ", name);
    if (link == gpu.peer_egress) return absl::StrCat(name, " to NVLink");
    if (link == gpu.peer_ingress) return absl::StrCat("NVLink to ", name);
  }
  return "";  // a rate of messages
}

std::vector<int> ClusterFabric::NicsOf(int gpu) const {
  const int nics = cluster_.host.nics, gpus = cluster_.host.gpus;
  std::vector<int> near;
  if (nics < 1) return near;
  const int first = gpu * nics / gpus;
  const int end = std::max(first + 1, (gpu + 1) * nics / gpus);
  for (int nic = first; nic < end; ++nic) near.push_back(nic);
  return near;
}

Route ClusterFabric::RouteOverNics(GpuPlace from, int from_nic, GpuPlace to, int to_nic,
                                   uint64_t hash, const Messages& messages) {
  const auto node = [this](int host, int nic) {
    return nics_[static_cast<size_t>(host)][static_cast<size_t>(nic)];
  };
  Route route = graph_.RouteBetween(node(from.host, from_nic), node(to.host, to_nic),
                                    cluster_.network.multipath, hash,
                                    cluster_.network.paths * messages.queue_pairs, messages.weight);
  for (LinkUse& use : route.uses) use.weight /= facts_.network_efficiency;
  route.uses.push_back({Of(from).pcie_egress, 1});
  route.uses.push_back({Of(to).pcie_ingress, 1});
  if (messages.bytes > 0) {
    route.uses.push_back({MessageRate(from.host, from_nic), 1 / messages.bytes});
  }
  return route;
}

std::string ClusterFabric::WhyNoWay(int from_host, int from_nic, int to_host, int to_nic) const {
  return graph_.WhyNoWay(nics_[static_cast<size_t>(from_host)][static_cast<size_t>(from_nic)],
                         nics_[static_cast<size_t>(to_host)][static_cast<size_t>(to_nic)]);
}

std::string ClusterFabric::WhyNoWay(GpuPlace from, GpuPlace to) const {
  const auto arrive = NicsOf(to.gpu), own = NicsOf(from.gpu);
  for (size_t i = 0; i < arrive.size(); ++i) {
    const int leave = facts_.nvlinks == 0 ? own[i % own.size()] : arrive[i];
    const std::string why = WhyNoWay(from.host, leave, to.host, arrive[i]);
    if (!why.empty()) return why;
  }
  return "";
}

Route ClusterFabric::RouteBetween(GpuPlace from, GpuPlace to, uint64_t hash,
                                  const Messages& messages) {
  Route route;
  route.exists = true;
  if (from == to) return route;
  if (from.host == to.host) {
    route.uses = {{PeerEgress(from), 1}, {PeerIngress(to), 1}};
    return route;
  }
  const auto arrive = NicsOf(to.gpu), own = NicsOf(from.gpu);
  if (arrive.empty()) return Route();
  const double share = 1.0 / static_cast<double>(arrive.size());
  for (size_t i = 0; i < arrive.size(); ++i) {
    if (facts_.nvlinks == 0) {
      Append(RouteOverNics(from, own[i % own.size()], to, arrive[i], hash + i, messages), share,
             route);
      continue;
    }
    const GpuPlace by = {from.host, GpuOf(arrive[i])};
    // With fewer interfaces than GPUs, `from` may share one with `by`.
    const bool near = std::find(own.begin(), own.end(), arrive[i]) != own.end();
    if (!near) {
      route.uses.push_back({PeerEgress(from), share});
      route.uses.push_back({PeerIngress(by), share});
    }
    Append(RouteOverNics(near ? from : by, arrive[i], to, arrive[i], hash + i, messages), share,
           route);
  }
  return route;
}

}  // namespace phantora
