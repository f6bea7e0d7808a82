#include "fabric/network_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();
// Of distances to destinations that are remembered.
constexpr size_t kMostRemembered = size_t{1} << 26;

// SplitMix64: a hash of each switch's own, as switches have seeds of their own.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace

NodeId NetworkGraph::AddNode(std::string name) {
  nodes_.push_back({std::move(name), {}});
  distances_.clear();
  return static_cast<NodeId>(nodes_.size() - 1);
}

LinkId NetworkGraph::Connect(NodeId a, NodeId b, double bytes_per_s, VirtualSpan latency) {
  const LinkId first = network_->AddLink(bytes_per_s), second = network_->AddLink(bytes_per_s);
  edges_[first] = {a, b, latency, second, true};
  edges_[second] = {b, a, latency, first, true};
  nodes_[a].out.push_back(first);
  nodes_[b].out.push_back(second);
  distances_.clear();
  return first;
}

void NetworkGraph::SetUp(LinkId first, bool up) {
  for (const LinkId link : {first, first + 1}) {
    if (auto edge = edges_.find(link); edge != edges_.end()) edge->second.up = up;
  }
  distances_.clear();
}

std::string NetworkGraph::NameOfLink(LinkId link) const {
  const auto edge = edges_.find(link);
  return edge == edges_.end()
             ? absl::StrCat("link ", link)
             : absl::StrCat(nodes_[edge->second.from].name, " to ", nodes_[edge->second.to].name);
}

const std::vector<uint32_t>& NetworkGraph::DistancesTo(NodeId to) {
  if (distances_.size() * nodes_.size() > kMostRemembered) distances_.clear();
  auto& distances = distances_[to];
  if (!distances.empty()) return distances;
  distances.assign(nodes_.size(), kNowhere);
  distances[to] = 0;
  std::vector<NodeId> reached = {to};
  for (size_t i = 0; i < reached.size(); ++i) {
    // Links come in pairs, so those out of a node are those into it.
    for (const LinkId link : nodes_[reached[i]].out) {
      const Edge& edge = edges_.at(link);
      if (!edge.up || distances[edge.to] != kNowhere) continue;
      distances[edge.to] = distances[reached[i]] + 1;
      reached.push_back(edge.to);
    }
  }
  return distances;
}

std::vector<LinkId> NetworkGraph::NextHops(NodeId at,
                                           const std::vector<uint32_t>& distances) const {
  std::vector<LinkId> hops;
  for (const LinkId link : nodes_[at].out) {
    const Edge& edge = edges_.at(link);
    if (edge.up && distances[edge.to] != kNowhere && distances[edge.to] + 1 == distances[at]) {
      hops.push_back(link);
    }
  }
  return hops;
}

Route NetworkGraph::RouteBetween(NodeId from, NodeId to, Multipath multipath, uint64_t hash) {
  Route route;
  // An interface has one link: ways to it are ways to its switch, found once for all that are
  // there.
  if (from != to && nodes_[to].out.size() == 1) {
    const Edge& out = edges_.at(nodes_[to].out[0]);
    if (!out.up) return route;
    route = RouteBetween(from, out.to, multipath, hash);
    if (!route.exists) return route;
    route.uses.push_back({out.back, 1});
    route.latency = route.latency + edges_.at(out.back).latency;
    return route;
  }
  const auto& distances = DistancesTo(to);
  if (distances[from] == kNowhere) return route;
  route.exists = true;
  if (multipath == Multipath::kEcmp) {
    for (NodeId at = from; at != to;) {
      const auto hops = NextHops(at, distances);
      const LinkId link = hops[Mix(hash ^ Mix(at)) % hops.size()];
      route.uses.push_back({link, 1});
      route.latency = route.latency + edges_.at(link).latency;
      at = edges_.at(link).to;
    }
    return route;
  }
  // What arrives at a node goes on in equal parts; nearer nodes come later. All ways are of
  // equal length, and their latencies differ by little: the longest counts.
  std::map<std::pair<uint32_t, NodeId>, std::pair<double, VirtualSpan>, std::greater<>> parts;
  parts[{distances[from], from}] = {1.0, VirtualSpan()};
  while (!parts.empty()) {
    const auto [key, part] = *parts.begin();
    parts.erase(parts.begin());
    if (key.second == to) {
      route.latency = std::max(route.latency, part.second);
      continue;
    }
    const auto hops = NextHops(key.second, distances);
    for (const LinkId link : hops) {
      const Edge& edge = edges_.at(link);
      const double share = part.first / static_cast<double>(hops.size());
      route.uses.push_back({link, share});
      auto& next = parts[{distances[edge.to], edge.to}];
      next.first += share;
      next.second = std::max(next.second, part.second + edge.latency);
    }
  }
  return route;
}

uint64_t NetworkGraph::WaysBetween(NodeId from, NodeId to) {
  const auto& distances = DistancesTo(to);
  if (distances[from] == kNowhere) return 0;
  std::map<std::pair<uint32_t, NodeId>, uint64_t, std::greater<>> ways;
  ways[{distances[from], from}] = 1;
  for (;;) {
    const auto [key, count] = *ways.begin();
    ways.erase(ways.begin());
    if (key.second == to) return count;
    for (const LinkId link : NextHops(key.second, distances)) {
      const NodeId next = edges_.at(link).to;
      uint64_t& sum = ways[{distances[next], next}];
      sum = sum > std::numeric_limits<uint64_t>::max() - count
                ? std::numeric_limits<uint64_t>::max()
                : sum + count;
    }
  }
}

}  // namespace phantora
