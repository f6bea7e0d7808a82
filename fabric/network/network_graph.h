// Switches, network interfaces and the links between them; and the ways through.
#ifndef PHANTORA_FABRIC_NETWORK_NETWORK_GRAPH_H_
#define PHANTORA_FABRIC_NETWORK_NETWORK_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "clock/virtual_time.h"
#include "fabric/network/flow_network.h"

namespace phantora {

using NodeId = uint32_t;

// How traffic is spread over ways of equal length.
enum class Multipath {
  kEcmp,      // a hash of the flow picks one; flows collide
  kSplit,     // the same, of several equal parts of the flow
  kAdaptive,  // the one with most room, when the flow starts
  kSpray,     // every packet takes another: all are used alike
};

// A way through the network: what a flow does to its links, and how long its first byte takes.
struct Route {
  std::vector<LinkUse> uses;
  VirtualSpan latency;
  bool exists = false;
};

// Nodes and links are added first, then routes are asked for; a link that fails is told to
// both this and the FlowNetwork. Ways are the shortest, by number of links. Not thread-safe.
class NetworkGraph {
 public:
  explicit NetworkGraph(FlowNetwork* network) : network_(network) {}

  NodeId AddNode(std::string name);
  // Congestion control acts on links that begin at this node, a switch.
  void Control(NodeId from);
  // Both ways, each of its own. Returns the first of the two links; the other follows it.
  LinkId Connect(NodeId a, NodeId b, double bytes_per_s, VirtualSpan latency);
  // Neither way of this link is used by later routes, or both are again. `why` goes on from the
  // link's name: "failed at 3 ms".
  void SetUp(LinkId first, bool up, std::string why = "is down");
  bool IsUp(LinkId link) const;
  bool HasLink(LinkId link) const { return edges_.contains(link); }
  // The same link the other way.
  LinkId BackOf(LinkId link) const { return edges_.at(link).back; }

  // With kEcmp and kSplit, `hash` picks the way at each node: equal hashes go the same way; `paths`
  // equal parts are hashed apart. With kAdaptive, each node takes the link with most room for a
  // flow of this weight, as far as it can see: on it, and on the best that follows. What was chosen
  // since BeginChoices() counts as if it were there; `hash` decides between equals. Does not exist
  // between nodes that are not connected. To itself it is empty.
  Route RouteBetween(NodeId from, NodeId to, Multipath multipath, uint64_t hash = 0, int paths = 1,
                     double weight = 1);
  void BeginChoices() { chosen_.clear(); }

  // Why there is no way, in words: "leaf 3 to spine 1 failed at 3 ms"; empty if there is one, or no
  // failure is the reason.
  std::string WhyNoWay(NodeId from, NodeId to) const;

  // Links of this name, or of the node of this name, by the first of each two; capitals do not
  // matter, nor which end of a link is named first. Errors: there is none; says which names are
  // near.
  absl::StatusOr<std::vector<LinkId>> FindLinks(const std::string& name) const;
  absl::StatusOr<NodeId> FindNode(const std::string& name) const;

  size_t nodes() const { return nodes_.size(); }
  const std::string& NameOf(NodeId node) const { return nodes_[node].name; }
  // "leaf 3 to spine 1".
  std::string NameOfLink(LinkId link) const;

 private:
  struct Edge {
    NodeId from = 0, to = 0;
    VirtualSpan latency;
    LinkId back = 0;  // the other way
    bool up = true;
    std::string why_down = {};
  };
  struct Node {
    std::string name;
    std::vector<LinkId> out;
  };
  // Links from each node to `to`, one per hop; kNowhere where there is no way.
  const std::vector<uint32_t>& DistancesTo(NodeId to);
  std::vector<LinkId> NextHops(NodeId at, const std::vector<uint32_t>& distances) const;
  Route HashedRoute(NodeId from, NodeId to, const std::vector<uint32_t>& distances,
                    uint64_t hash) const;
  Route AdaptiveRoute(NodeId from, NodeId to, const std::vector<uint32_t>& distances, uint64_t hash,
                      double weight);
  Route SprayedRoute(NodeId from, NodeId to, const std::vector<uint32_t>& distances) const;
  double RoomOn(LinkId link, double weight) const;
  std::vector<bool> ReachedFrom(NodeId from) const;
  // First links, in order.
  std::vector<LinkId> Links() const;
  absl::Status NoSuchName(const std::string& name, bool links) const;

  FlowNetwork* const network_;
  std::vector<Node> nodes_;
  absl::flat_hash_map<LinkId, Edge> edges_;
  absl::flat_hash_map<NodeId, std::vector<uint32_t>> distances_;  // by destination
  absl::flat_hash_map<LinkId, double> chosen_;                    // weights; see BeginChoices()
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_NETWORK_NETWORK_GRAPH_H_
