// The links of a cluster that traffic between GPUs crosses: NVLink and PCIe in the machines, their
// network interfaces, and the network between.
#ifndef PHANTORA_FABRIC_CLUSTER_CLUSTER_FABRIC_H_
#define PHANTORA_FABRIC_CLUSTER_CLUSTER_FABRIC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fabric/cluster/cluster.h"
#include "fabric/cluster/gpu_place.h"
#include "fabric/collectives/nccl_cost.h"
#include "fabric/network/flow_network.h"
#include "fabric/network/network_events.h"
#include "fabric/network/network_graph.h"

namespace phantora {

// What the links are, by technology. Speeds are of payload, one way, in bytes/s.
struct FabricFacts {
  GpuGeneration generation = GpuGeneration::kHopper;
  int nvlinks = 0;          // per GPU
  int pcie_generation = 0;  // of the GPU's slot
  double nvlink_bytes_per_s = 0;
  double pcie_bytes_per_s = 0;
  double network_efficiency = 1;   // payload per byte that an interface can send
  double network_software_us = 0;  // per message, on top of what NCCL's model has and of the wires
};

// Not thread-safe.
class ClusterFabric {
 public:
  // Errors: no such GPU, numbers of the network that do not fit together, or events of links that
  // it has not.
  static absl::StatusOr<std::unique_ptr<ClusterFabric>> Create(const Cluster& cluster);

  const Cluster& cluster() const { return cluster_; }
  const FabricFacts& facts() const { return facts_; }
  FlowNetwork& network() { return network_; }
  const FlowNetwork& network() const { return network_; }
  NetworkGraph& graph() { return graph_; }
  NetworkEvents& events() { return events_; }
  // Else it is an interface's message rate.
  bool CarriesBytes(LinkId link) const {
    return message_rates_.empty() || link < message_rates_.front() || link > message_rates_.back();
  }
  // "host 0 NIC 3 to leaf 1", "host 0 GPU 3 to NVLink"; empty for what carries no bytes.
  std::string NameOfLink(LinkId link) const;
  // Else it is in a machine.
  bool IsInNetwork(LinkId link) const { return graph_.HasLink(link); }
  bool Has(GpuPlace place) const {
    return place.host >= 0 && place.host < cluster_.hosts && place.gpu >= 0 &&
           place.gpu < cluster_.host.gpus;
  }

  // Between GPUs of a machine: NVLink into the switch and out of it, or PCIe. `place` must exist.
  LinkId PeerEgress(GpuPlace place) const { return Of(place).peer_egress; }
  LinkId PeerIngress(GpuPlace place) const { return Of(place).peer_ingress; }

  // Interfaces next to a GPU, at least one if the machine has any; and the GPU next to one.
  std::vector<int> NicsOf(int gpu) const;
  int GpuOf(int nic) const { return nic * cluster_.host.gpus / cluster_.host.nics; }

  // What the messages are that a flow consists of, where that matters.
  struct Messages {
    double bytes = 0;     // of each; 0: so large that the interface can always send more of them
    int queue_pairs = 1;  // of a connection; each is hashed to ways of its own
    double weight = 1;    // bytes for each of the plan's; see NetworkGraph::RouteBetween
  };

  // From a GPU over two interfaces of different machines to another. Weights are bytes on the
  // wire for each of payload.
  Route RouteOverNics(GpuPlace from, int from_nic, GpuPlace to, int to_nic, uint64_t hash,
                      const Messages& messages);
  // Messages/s that an interface sends, as a link.
  LinkId MessageRate(int host, int nic) const {
    return message_rates_[static_cast<size_t>(host * cluster_.host.nics + nic)];
  }

  // Why there is no way from an interface to another, in words: "host 0 NIC 2 to leaf 0 failed at 3
  // ms"; empty if there is one.
  std::string WhyNoWay(int from_host, int from_nic, int to_host, int to_nic) const;
  // The same of RouteBetween().
  std::string WhyNoWay(GpuPlace from, GpuPlace to) const;

  // Of one message. Between machines it arrives by the interfaces next to `to`, all alike, and
  // with NVLink leaves by those of the same numbers, through the GPUs next to them (NCCL's PXN:
  // in a network of rails traffic then stays below the leaf). Empty from a GPU to itself.
  Route RouteBetween(GpuPlace from, GpuPlace to, uint64_t hash, const Messages& messages);
  Route RouteBetween(GpuPlace from, GpuPlace to, uint64_t hash) {
    return RouteBetween(from, to, hash, Messages());
  }

 private:
  struct Gpu {
    LinkId peer_egress = 0, peer_ingress = 0, pcie_egress = 0, pcie_ingress = 0;
  };
  explicit ClusterFabric(const Cluster& cluster)
      : cluster_(cluster),
        graph_(&network_),
        events_({.graph = &graph_,
                 .network = &network_,
                 .multipath = cluster.network.multipath,
                 .paths = cluster.network.paths,
                 .reroute = cluster.network.reroute}) {}
  const Gpu& Of(GpuPlace place) const {
    return gpus_[static_cast<size_t>(place.host * cluster_.host.gpus + place.gpu)];
  }

  const Cluster cluster_;
  FabricFacts facts_;
  FlowNetwork network_;
  NetworkGraph graph_;
  NetworkEvents events_;
  std::vector<std::vector<NodeId>> nics_;  // by host and number
  std::vector<LinkId> message_rates_;      // the same
  std::vector<Gpu> gpus_;                  // by host and number
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_CLUSTER_CLUSTER_FABRIC_H_
