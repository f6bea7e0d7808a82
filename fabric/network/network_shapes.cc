#include "fabric/network/network_shapes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

using Interfaces = std::vector<std::vector<NodeId>>;

constexpr int kMostSwitches = 1 << 20;

int Groups(int things, int each) { return (things + each - 1) / each; }

absl::Status Check(std::initializer_list<std::pair<const char*, int>> numbers) {
  for (const auto& [name, number] : numbers) {
    if (number < 1) return absl::InvalidArgumentError(absl::StrCat(name, " must be at least 1"));
    if (number > kMostSwitches) {
      return absl::InvalidArgumentError(absl::StrCat(name, " must be at most ", kMostSwitches));
    }
  }
  return absl::OkStatus();
}

std::vector<NodeId> AddSwitches(NetworkGraph& graph, const std::string& name, int count) {
  std::vector<NodeId> switches;
  for (int i = 0; i < count; ++i) switches.push_back(graph.AddNode(absl::StrCat(name, " ", i)));
  return switches;
}

// A leaf's uplinks, dealt out to the spines in turn.
void ConnectUp(NetworkGraph& graph, NodeId leaf, const std::vector<NodeId>& spines, int uplinks,
               const LinkSpeeds& speeds) {
  // Several to one spine are one wide link: flows between the same two switches share them.
  const int count = static_cast<int>(spines.size());
  for (int i = 0; i < count && i < uplinks; ++i) {
    const int width = uplinks / count + (i < uplinks % count ? 1 : 0);
    graph.Connect(leaf, spines[static_cast<size_t>(i)], speeds.core_bytes_per_s * width,
                  speeds.core_latency);
  }
}

void ConnectInterface(NetworkGraph& graph, Interfaces& made, int host, int interface, NodeId at,
                      const LinkSpeeds& speeds) {
  const NodeId node = graph.AddNode(absl::StrCat("host ", host, " NIC ", interface));
  made[static_cast<size_t>(host)].push_back(node);
  graph.Connect(node, at, speeds.edge_bytes_per_s, speeds.edge_latency);
}

// Hosts at the leaves in order, all interfaces of one at the same.
void ConnectHosts(NetworkGraph& graph, Interfaces& made, int interfaces, int hosts_per_leaf,
                  const std::vector<NodeId>& leaves, const LinkSpeeds& speeds) {
  for (int host = 0; host < static_cast<int>(made.size()); ++host) {
    const NodeId leaf = leaves[static_cast<size_t>(host / hosts_per_leaf)];
    for (int i = 0; i < interfaces; ++i) ConnectInterface(graph, made, host, i, leaf, speeds);
  }
}

}  // namespace

absl::StatusOr<Interfaces> BuildLeafSpine(NetworkGraph& graph, int hosts, int interfaces,
                                          int hosts_per_leaf, int spines, int uplinks,
                                          const LinkSpeeds& speeds) {
  if (auto status = Check({{"hosts", hosts},
                           {"interfaces", interfaces},
                           {"hosts per leaf", hosts_per_leaf},
                           {"spines", spines},
                           {"uplinks", uplinks}});
      !status.ok()) {
    return status;
  }
  Interfaces made(static_cast<size_t>(hosts));
  const auto leaf = AddSwitches(graph, "leaf", Groups(hosts, hosts_per_leaf));
  const auto spine = AddSwitches(graph, "spine", spines);
  for (const NodeId each : leaf) ConnectUp(graph, each, spine, uplinks, speeds);
  ConnectHosts(graph, made, interfaces, hosts_per_leaf, leaf, speeds);
  return made;
}

absl::StatusOr<Interfaces> BuildRails(NetworkGraph& graph, int hosts, int interfaces,
                                      int hosts_per_group, int spines, int uplinks,
                                      const LinkSpeeds& speeds) {
  if (auto status = Check({{"hosts", hosts},
                           {"interfaces", interfaces},
                           {"hosts per group", hosts_per_group},
                           {"spines", spines},
                           {"uplinks", uplinks}});
      !status.ok()) {
    return status;
  }
  Interfaces made(static_cast<size_t>(hosts));
  const auto spine = AddSwitches(graph, "spine", spines);
  std::vector<std::vector<NodeId>> leaves;  // by group and rail
  for (int group = 0; group < Groups(hosts, hosts_per_group); ++group) {
    leaves.push_back(AddSwitches(graph, absl::StrCat("group ", group, " rail"), interfaces));
    for (const NodeId leaf : leaves.back()) ConnectUp(graph, leaf, spine, uplinks, speeds);
  }
  for (int host = 0; host < hosts; ++host) {
    for (int i = 0; i < interfaces; ++i) {
      ConnectInterface(graph, made, host, i,
                       leaves[static_cast<size_t>(host / hosts_per_group)][static_cast<size_t>(i)],
                       speeds);
    }
  }
  return made;
}

absl::StatusOr<Interfaces> BuildClos(NetworkGraph& graph, int hosts, int interfaces,
                                     int hosts_per_leaf, int leaves_per_pod, int spines_per_pod,
                                     int cores, const LinkSpeeds& speeds) {
  if (auto status = Check({{"hosts", hosts},
                           {"interfaces", interfaces},
                           {"hosts per leaf", hosts_per_leaf},
                           {"leaves per pod", leaves_per_pod},
                           {"spines per pod", spines_per_pod},
                           {"cores per plane", cores}});
      !status.ok()) {
    return status;
  }
  Interfaces made(static_cast<size_t>(hosts));
  const int leaf_count = Groups(hosts, hosts_per_leaf);
  std::vector<std::vector<NodeId>> planes;
  for (int plane = 0; plane < spines_per_pod; ++plane) {
    planes.push_back(AddSwitches(graph, absl::StrCat("plane ", plane, " core"), cores));
  }
  std::vector<NodeId> leaves;
  for (int pod = 0; pod < Groups(leaf_count, leaves_per_pod); ++pod) {
    const auto spine = AddSwitches(graph, absl::StrCat("pod ", pod, " spine"), spines_per_pod);
    for (size_t i = 0; i < spine.size(); ++i) {
      for (const NodeId core : planes[i]) {
        graph.Connect(spine[i], core, speeds.core_bytes_per_s, speeds.core_latency);
      }
    }
    const auto leaf = AddSwitches(graph, absl::StrCat("pod ", pod, " leaf"), leaves_per_pod);
    for (const NodeId each : leaf) ConnectUp(graph, each, spine, spines_per_pod, speeds);
    leaves.insert(leaves.end(), leaf.begin(), leaf.end());
  }
  ConnectHosts(graph, made, interfaces, hosts_per_leaf, leaves, speeds);
  return made;
}

absl::StatusOr<Interfaces> BuildDragonflyPlus(NetworkGraph& graph, int hosts, int interfaces,
                                              int hosts_per_leaf, int leaves_per_group,
                                              int spines_per_group, const LinkSpeeds& speeds) {
  if (auto status = Check({{"hosts", hosts},
                           {"interfaces", interfaces},
                           {"hosts per leaf", hosts_per_leaf},
                           {"leaves per group", leaves_per_group},
                           {"spines per group", spines_per_group}});
      !status.ok()) {
    return status;
  }
  Interfaces made(static_cast<size_t>(hosts));
  const int groups = Groups(Groups(hosts, hosts_per_leaf), leaves_per_group);
  std::vector<std::vector<NodeId>> spines;
  std::vector<NodeId> leaves;
  for (int group = 0; group < groups; ++group) {
    spines.push_back(AddSwitches(graph, absl::StrCat("group ", group, " spine"), spines_per_group));
    const auto leaf = AddSwitches(graph, absl::StrCat("group ", group, " leaf"), leaves_per_group);
    for (const NodeId each : leaf) ConnectUp(graph, each, spines.back(), spines_per_group, speeds);
    leaves.insert(leaves.end(), leaf.begin(), leaf.end());
  }
  for (size_t a = 0; a < spines.size(); ++a) {
    for (size_t b = a + 1; b < spines.size(); ++b) {
      for (size_t i = 0; i < spines[a].size(); ++i) {
        graph.Connect(spines[a][i], spines[b][i], speeds.core_bytes_per_s, speeds.core_latency);
      }
    }
  }
  ConnectHosts(graph, made, interfaces, hosts_per_leaf, leaves, speeds);
  return made;
}

absl::StatusOr<Interfaces> BuildTorus(NetworkGraph& graph, const std::vector<int>& sizes,
                                      int interfaces, const LinkSpeeds& speeds) {
  if (sizes.empty() || sizes.size() > 6) {
    return absl::InvalidArgumentError("a torus has one to six dimensions");
  }
  int64_t hosts = 1;
  for (const int size : sizes) {
    if (auto status = Check({{"the size of a dimension", size}, {"interfaces", interfaces}});
        !status.ok()) {
      return status;
    }
    hosts *= size;
    if (hosts > kMostSwitches) return absl::InvalidArgumentError("the torus is too large");
  }
  Interfaces made(static_cast<size_t>(hosts));
  const auto router = AddSwitches(graph, "router", static_cast<int>(hosts));
  int64_t stride = 1;
  for (const int size : sizes) {
    for (int64_t at = 0; at < hosts && size > 1; ++at) {
      const int64_t place = at / stride % size;
      if (size == 2 && place == 1) continue;  // both neighbours are the same
      const int64_t next = at + ((place + 1) % size - place) * stride;
      graph.Connect(router[static_cast<size_t>(at)], router[static_cast<size_t>(next)],
                    speeds.core_bytes_per_s, speeds.core_latency);
    }
    stride *= size;
  }
  ConnectHosts(graph, made, interfaces, 1, router, speeds);
  return made;
}

absl::StatusOr<Interfaces> BuildSwitchGraph(NetworkGraph& graph, int hosts, int interfaces,
                                            const SwitchGraph& switches, const LinkSpeeds& speeds) {
  const auto wrong = [](const std::string& where, auto... what) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", what...));
  };
  std::map<std::string, NodeId> nodes;
  const auto node = [&](const std::string& name) {
    const auto found = nodes.find(name);
    return found != nodes.end() ? found->second : nodes[name] = graph.AddNode(name);
  };
  struct Wide {
    double bytes_per_s = 0;
    VirtualSpan latency;
  };
  std::map<std::pair<NodeId, NodeId>, Wide> between;
  for (const SwitchGraph::Link& link : switches.links) {
    if (link.from == link.to) return wrong(link.where, link.from, " has a link to itself");
    Wide& wide = between[std::minmax({node(link.from), node(link.to)})];
    if (wide.bytes_per_s > 0 && wide.latency != link.latency) {
      return wrong(link.where, "links from ", link.from, " to ", link.to, " differ in latency");
    }
    wide = {wide.bytes_per_s + link.bytes_per_s, link.latency};
  }
  for (const auto& [ends, wide] : between) {
    graph.Connect(ends.first, ends.second, wide.bytes_per_s, wide.latency);
  }
  // By host and interface.
  std::vector<std::vector<const SwitchGraph::Attached*>> at(
      static_cast<size_t>(hosts),
      std::vector<const SwitchGraph::Attached*>(static_cast<size_t>(interfaces)));
  for (const SwitchGraph::Attached& attached : switches.attached) {
    if (attached.last_host >= hosts || attached.last_nic >= interfaces) {
      return wrong(attached.where, "there are ", hosts, " hosts with ", interfaces,
                   " interfaces each, numbered from 0");
    }
    for (int host = attached.first_host; host <= attached.last_host; ++host) {
      for (int nic = attached.first_nic; nic <= attached.last_nic; ++nic) {
        auto& place = at[static_cast<size_t>(host)][static_cast<size_t>(nic)];
        if (place != nullptr) {
          return wrong(attached.where, "host ", host, " nic ", nic, " is attached to ", place->to,
                       " already (", place->where, ")");
        }
        place = &attached;
      }
    }
  }
  Interfaces made(static_cast<size_t>(hosts));
  for (int host = 0; host < hosts; ++host) {
    for (int nic = 0; nic < interfaces; ++nic) {
      const auto* place = at[static_cast<size_t>(host)][static_cast<size_t>(nic)];
      if (place == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("host ", host, " nic ", nic, " is attached to no switch"));
      }
      ConnectInterface(graph, made, host, nic, node(place->to), speeds);
    }
  }
  return made;
}

}  // namespace phantora
