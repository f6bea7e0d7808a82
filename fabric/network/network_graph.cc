#include "fabric/network/network_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace phantora {
namespace {

constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();
// Distances to destinations that are remembered at most.
constexpr size_t kMostRemembered = size_t{1} << 26;

// SplitMix64: a hash of each switch's own, as switches have seeds of their own.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// Changes of letters that make one word of another (Levenshtein).
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

constexpr size_t kNamesToldOf = 4;

}  // namespace

NodeId NetworkGraph::AddNode(std::string name) {
  nodes_.push_back({std::move(name), {}});
  distances_.clear();
  return static_cast<NodeId>(nodes_.size() - 1);
}

void NetworkGraph::Control(NodeId from) {
  for (const LinkId link : nodes_[from].out) network_->Control(link);
}

LinkId NetworkGraph::Connect(NodeId a, NodeId b, double bytes_per_s, VirtualSpan latency) {
  const LinkId first = network_->AddLink(bytes_per_s), second = network_->AddLink(bytes_per_s);
  edges_[first] = {a, b, latency, second};
  edges_[second] = {b, a, latency, first};
  nodes_[a].out.push_back(first);
  nodes_[b].out.push_back(second);
  distances_.clear();
  return first;
}

void NetworkGraph::SetUp(LinkId first, bool up, std::string why) {
  for (const LinkId link : {first, first + 1}) {
    auto edge = edges_.find(link);
    if (edge == edges_.end()) continue;
    edge->second.up = up;
    edge->second.why_down = up ? "" : why;
  }
  distances_.clear();
}

bool NetworkGraph::IsUp(LinkId link) const {
  const auto edge = edges_.find(link);
  return edge == edges_.end() || edge->second.up;
}

std::vector<bool> NetworkGraph::ReachedFrom(NodeId from) const {
  std::vector<bool> reached(nodes_.size());
  std::vector<NodeId> to_visit = {from};
  reached[from] = true;
  while (!to_visit.empty()) {
    const NodeId at = to_visit.back();
    to_visit.pop_back();
    for (const LinkId link : nodes_[at].out) {
      const Edge& edge = edges_.at(link);
      if (!edge.up || reached[edge.to]) continue;
      reached[edge.to] = true;
      to_visit.push_back(edge.to);
    }
  }
  return reached;
}

std::string NetworkGraph::WhyNoWay(NodeId from, NodeId to) const {
  const std::vector<bool> near = ReachedFrom(from), far = ReachedFrom(to);
  if (near[to]) return "";
  // Links that would connect the two sides; or, where more than one on each way is down, those
  // that lead out of the first.
  std::vector<std::string> cut, leading_out;
  for (const LinkId link : Links()) {
    const Edge& edge = edges_.at(link);
    if (edge.up || near[edge.from] == near[edge.to]) continue;
    std::string text = absl::StrCat(NameOfLink(link), " ", edge.why_down);
    if (far[near[edge.from] ? edge.to : edge.from]) cut.push_back(text);
    leading_out.push_back(std::move(text));
  }
  auto& told = cut.empty() ? leading_out : cut;
  const size_t more = told.size() > kNamesToldOf ? told.size() - kNamesToldOf : 0;
  told.resize(told.size() - more);
  std::string text = absl::StrJoin(told, ", ");
  if (more > 0) absl::StrAppend(&text, ", and ", more, " more");
  return text;
}

std::vector<LinkId> NetworkGraph::Links() const {
  std::vector<LinkId> links;
  for (const auto& [link, edge] : edges_) {
    if (link < edge.back) links.push_back(link);
  }
  std::sort(links.begin(), links.end());
  return links;
}

absl::Status NetworkGraph::NoSuchName(const std::string& name, bool links) const {
  const std::string wanted = absl::AsciiStrToLower(name);
  std::vector<std::string> names;
  for (const Node& node : nodes_) names.push_back(node.name);
  if (links) {
    for (const LinkId link : Links()) names.push_back(NameOfLink(link));
  }
  std::vector<std::pair<size_t, size_t>> near;
  for (size_t i = 0; i < names.size(); ++i) {
    near.emplace_back(EditDistance(absl::AsciiStrToLower(names[i]), wanted), i);
  }
  const size_t told = std::min(near.size(), kNamesToldOf);
  std::partial_sort(near.begin(), near.begin() + static_cast<ptrdiff_t>(told), near.end());
  near.resize(told);
  return absl::NotFoundError(
      absl::StrCat("the network has nothing called \"", name, "\"; near are ",
                   absl::StrJoin(near, ", ", [&](std::string* out, const auto& item) {
                     absl::StrAppend(out, "\"", names[item.second], "\"");
                   })));
}

absl::StatusOr<NodeId> NetworkGraph::FindNode(const std::string& name) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (absl::EqualsIgnoreCase(nodes_[i].name, name)) return static_cast<NodeId>(i);
  }
  return NoSuchName(name, false);
}

absl::StatusOr<std::vector<LinkId>> NetworkGraph::FindLinks(const std::string& name) const {
  std::vector<LinkId> links;
  for (const Node& node : nodes_) {
    if (!absl::EqualsIgnoreCase(node.name, name)) continue;
    for (const LinkId link : node.out) links.push_back(std::min(link, edges_.at(link).back));
    return links;
  }
  for (const LinkId link : Links()) {
    if (absl::EqualsIgnoreCase(NameOfLink(link), name) ||
        absl::EqualsIgnoreCase(NameOfLink(link + 1), name)) {
      links.push_back(link);
    }
  }
  if (links.empty()) return NoSuchName(name, true);
  return links;
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

Route NetworkGraph::RouteBetween(NodeId from, NodeId to, Multipath multipath, uint64_t hash,
                                 int paths, double weight) {
  Route route;
  // An interface has one link: ways to it are ways to its switch, found once for all that are
  // there.
  if (from != to && nodes_[to].out.size() == 1) {
    const Edge& out = edges_.at(nodes_[to].out[0]);
    if (!out.up) return route;
    route = RouteBetween(from, out.to, multipath, hash, paths, weight);
    if (!route.exists) return route;
    route.uses.push_back({out.back, 1});
    route.latency = route.latency + edges_.at(out.back).latency;
    return route;
  }
  const auto& distances = DistancesTo(to);
  if (distances[from] == kNowhere) return route;
  switch (multipath) {
    case Multipath::kAdaptive:
      return AdaptiveRoute(from, to, distances, hash, weight);
    case Multipath::kSpray:
      return SprayedRoute(from, to, distances);
    case Multipath::kEcmp:
    case Multipath::kSplit:
      break;
  }
  route.exists = true;
  for (int path = 0; path < paths; ++path) {
    const uint64_t own = path == 0 ? hash : Mix(hash + static_cast<uint64_t>(path));
    const Route part = HashedRoute(from, to, distances, own);
    for (const LinkUse& use : part.uses) route.uses.push_back({use.link, use.weight / paths});
    route.latency = std::max(route.latency, part.latency);
  }
  return route;
}

Route NetworkGraph::HashedRoute(NodeId from, NodeId to, const std::vector<uint32_t>& distances,
                                uint64_t hash) const {
  Route route;
  route.exists = true;
  for (NodeId at = from; at != to;) {
    const auto hops = NextHops(at, distances);
    const LinkId link = hops[Mix(hash ^ Mix(at)) % hops.size()];
    route.uses.push_back({link, 1});
    route.latency = route.latency + edges_.at(link).latency;
    at = edges_.at(link).to;
  }
  return route;
}

double NetworkGraph::RoomOn(LinkId link, double weight) const {
  const auto chosen = chosen_.find(link);
  return network_->RoomOn(link, weight, chosen == chosen_.end() ? 0 : chosen->second);
}

Route NetworkGraph::AdaptiveRoute(NodeId from, NodeId to, const std::vector<uint32_t>& distances,
                                  uint64_t hash, double weight) {
  constexpr double kEqual = 1 - 1e-9;
  Route route;
  route.exists = true;
  for (NodeId at = from; at != to;) {
    auto hops = NextHops(at, distances);
    if (hops.size() > 1) {
      std::vector<double> rooms;
      for (const LinkId link : hops) {
        const NodeId next = edges_.at(link).to;
        double following = next == to ? std::numeric_limits<double>::infinity() : 0;
        if (next != to) {
          for (const LinkId after : NextHops(next, distances)) {
            following = std::max(following, RoomOn(after, weight));
          }
        }
        rooms.push_back(std::min(RoomOn(link, weight), following));
      }
      const double most = *std::max_element(rooms.begin(), rooms.end());
      std::vector<LinkId> best;
      for (size_t i = 0; i < hops.size(); ++i) {
        if (rooms[i] >= most * kEqual) best.push_back(hops[i]);
      }
      hops = std::move(best);
    }
    const LinkId link = hops[Mix(hash ^ Mix(at)) % hops.size()];
    chosen_[link] += weight;
    route.uses.push_back({link, 1});
    route.latency = route.latency + edges_.at(link).latency;
    at = edges_.at(link).to;
  }
  return route;
}

// What arrives at a node goes on in equal parts; nearer nodes come later. All ways are of equal
// length, and their latencies differ by little: the longest counts.
Route NetworkGraph::SprayedRoute(NodeId from, NodeId to,
                                 const std::vector<uint32_t>& distances) const {
  Route route;
  route.exists = true;
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

}  // namespace phantora
