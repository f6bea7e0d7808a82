// A cluster as a file describes it: fabric/data/clusters/*.yaml, or the user's own
// (docs/cluster_schema.md).
#ifndef PHANTORA_FABRIC_CLUSTER_CLUSTER_H_
#define PHANTORA_FABRIC_CLUSTER_CLUSTER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fabric/network/network_event.h"
#include "fabric/network/network_graph.h"
#include "fabric/network/network_shapes.h"

namespace phantora {

struct Cluster {
  enum class Transport { kInfiniband, kRoce, kEthernet };
  enum class Shape { kRails, kLeafSpine, kClos, kDragonflyPlus, kTorus, kGraph };

  std::string name, about;
  int hosts = 1;

  struct Host {
    std::string gpu;  // personality
    int gpus = 8;
    bool nvlink = true;  // else PCIe
    bool amd_cpu = false;
    int cores = 1, memory_gib = 1;
    int nics = 0;  // GPU g is nearest to NICs g * nics / gpus and those that follow
  } host;

  struct Nic {
    Transport transport = Transport::kInfiniband;
    double bytes_per_s = 0;  // one way
    double messages_per_s = 0;
  } nic;

  struct Network {
    Shape shape = Shape::kRails;
    int hosts_per_group = 0, hosts_per_leaf = 0, spines = 0, uplinks = 0;
    int leaves_per_pod = 0, spines_per_pod = 0, cores_per_plane = 0;
    std::vector<int> torus;  // sizes
    SwitchGraph graph;
    double core_bytes_per_s = 0;
    VirtualSpan edge_latency, core_latency;
    int mtu = 0;
    bool dcqcn = false;  // RoCE's congestion control, see CongestionControl
    Multipath multipath = Multipath::kEcmp;
    int paths = 1;        // of each queue pair, with kSplit
    VirtualSpan reroute;  // from when a link fails or comes back until switches know
  } network;

  std::vector<NetworkEvent> events;  // as in the file; often none

  int gpus() const { return hosts * host.gpus; }
};

// From the text of a file called `file`. Errors say where and what: "my.yaml:12: host has no key
// \"gpu_count\"; its keys are gpu, gpus, ...".
absl::StatusOr<Cluster> ParseCluster(const std::string& file, const std::string& text);

// "dgx-h100", "dgx-h100:16" for sixteen hosts, or a file (with a slash, or ending in .yaml), also
// with a number. Errors list what there is.
absl::StatusOr<Cluster> FindCluster(const std::string& name);

// Names of those that need no file, sorted.
std::vector<std::string> ClusterNames();

// Builds the cluster's network; the network interfaces, by host and number. Errors name the
// number that does not fit.
absl::StatusOr<std::vector<std::vector<NodeId>>> BuildNetwork(const Cluster& cluster,
                                                              NetworkGraph& graph);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_CLUSTER_CLUSTER_H_
