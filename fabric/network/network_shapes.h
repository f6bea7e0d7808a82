// The shapes that networks of clusters have.
#ifndef PHANTORA_FABRIC_NETWORK_NETWORK_SHAPES_H_
#define PHANTORA_FABRIC_NETWORK_NETWORK_SHAPES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clock/virtual_time.h"
#include "fabric/network/network_graph.h"

namespace phantora {

// Of every link: to a host's network interface, and between switches.
struct LinkSpeeds {
  double edge_bytes_per_s = 0, core_bytes_per_s = 0;
  VirtualSpan edge_latency, core_latency;  // the switch at its end included
};

// Each builds switches in `graph` and returns the nodes of the network interfaces, by host and
// interface. Errors say which number does not fit.

// Leaves of so many hosts, all interfaces of a host at one leaf, and every leaf at every spine.
// `uplinks` per leaf, dealt out to the spines in turn: oversubscription is hosts x interfaces x
// edge speed over uplinks x core speed.
absl::StatusOr<std::vector<std::vector<NodeId>>> BuildLeafSpine(NetworkGraph& graph, int hosts,
                                                                int interfaces, int hosts_per_leaf,
                                                                int spines, int uplinks,
                                                                const LinkSpeeds& speeds);

// Rail-optimised: interface i of every host of a group at the group's leaf i, so that GPUs of the
// same number meet at a leaf; every leaf at every spine, as above.
absl::StatusOr<std::vector<std::vector<NodeId>>> BuildRails(NetworkGraph& graph, int hosts,
                                                            int interfaces, int hosts_per_group,
                                                            int spines, int uplinks,
                                                            const LinkSpeeds& speeds);

// Three tiers: pods of a leaf-spine each, whose spines are connected by cores: spine i of every
// pod with the cores of plane i, `cores` of them.
absl::StatusOr<std::vector<std::vector<NodeId>>> BuildClos(NetworkGraph& graph, int hosts,
                                                           int interfaces, int hosts_per_leaf,
                                                           int leaves_per_pod, int spines_per_pod,
                                                           int cores, const LinkSpeeds& speeds);

// Dragonfly+: groups that are leaf-spines each; every spine has a link to a spine of every other
// group (Shpiner et al., Dragonfly+: Low Cost Topology for Scaling Datacenters, 2017).
absl::StatusOr<std::vector<std::vector<NodeId>>> BuildDragonflyPlus(
    NetworkGraph& graph, int hosts, int interfaces, int hosts_per_leaf, int leaves_per_group,
    int spines_per_group, const LinkSpeeds& speeds);

// A router per host, neighbours in each dimension connected, around the ends too.
absl::StatusOr<std::vector<std::vector<NodeId>>> BuildTorus(NetworkGraph& graph,
                                                            const std::vector<int>& sizes,
                                                            int interfaces,
                                                            const LinkSpeeds& speeds);

// Switches and links one by one. Switches are known by name.
struct SwitchGraph {
  struct Link {
    std::string from, to, where;  // `where` it stands, for errors: "my.yaml:12"
    double bytes_per_s = 0;
    VirtualSpan latency;
  };
  // Interfaces at a switch: all of these numbers of all of these hosts, both ends included.
  struct Attached {
    int first_host = 0, last_host = 0, first_nic = 0, last_nic = 0;
    std::string to, where;
  };
  std::vector<Link> links;
  std::vector<Attached> attached;
};
// Every interface must be attached once. Two switches may have several links: they are one that is
// as wide as all.
absl::StatusOr<std::vector<std::vector<NodeId>>> BuildSwitchGraph(NetworkGraph& graph, int hosts,
                                                                  int interfaces,
                                                                  const SwitchGraph& switches,
                                                                  const LinkSpeeds& speeds);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_NETWORK_NETWORK_SHAPES_H_
