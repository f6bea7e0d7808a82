#include "fabric/network/flow_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>

#include "fabric/network/congestion.h"

namespace phantora {
namespace {

constexpr double kPicosecondsPerSecond = 1e12;
// What rounding leaves of a flow.
constexpr double kNothing = 1e-6;
// The share of a link's capacity that is left when it counts as full.
constexpr double kFull = 1e-9;
// More than anybody asks for.
constexpr double kMuchRoom = 1000;
// Less than one more of twenty senders.
constexpr double kMore = 1.04;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

double Seconds(VirtualSpan span) {
  return static_cast<double>(span.picoseconds()) / kPicosecondsPerSecond;
}

// Rounded up: nothing is over before its time.
VirtualTime After(VirtualTime start, double seconds) {
  const double picoseconds = std::ceil(seconds * kPicosecondsPerSecond);
  const auto most = static_cast<double>((VirtualTime::Infinity() - start).picoseconds());
  if (!(picoseconds < most)) return VirtualTime::Infinity();
  return start + VirtualSpan::Picoseconds(static_cast<int64_t>(picoseconds));
}

double Sane(double value) { return value > 0 ? value : 0; }  // also of NaN

}  // namespace

LinkId FlowNetwork::AddLink(double bytes_per_s) {
  Link& link = links_.emplace_back();
  link.capacity = link.first_capacity = Sane(bytes_per_s);
  return static_cast<LinkId>(links_.size() - 1);
}

void FlowNetwork::SetCapacity(LinkId link, double bytes_per_s, VirtualTime now) {
  if (link >= links_.size()) return;
  Touch({{link, 1}}, now);
  links_[link].capacity = Sane(bytes_per_s);
}

void FlowNetwork::Control(LinkId link) {
  if (link < links_.size()) links_[link].controlled = true;
}

FlowId FlowNetwork::Start(VirtualTime now, absl::Span<const LinkUse> uses, double bytes,
                          double most_bytes_per_s) {
  Touch({}, now);
  if (usage_ != nullptr) usage_->Begin(now);
  const FlowId id = next_++;
  Flow& flow = flows_[id];
  flow.left = Sane(bytes);
  flow.most = most_bytes_per_s > 0 ? most_bytes_per_s : kUnbounded;
  flow.since = now;
  for (const LinkUse& use : uses) {
    if (use.link < links_.size() && use.weight > 0) flow.uses.push_back(use);
  }
  std::sort(flow.uses.begin(), flow.uses.end(),
            [](const LinkUse& a, const LinkUse& b) { return a.link < b.link; });
  size_t kept = 0;
  for (const LinkUse& use : flow.uses) {
    if (kept > 0 && flow.uses[kept - 1].link == use.link) {
      flow.uses[kept - 1].weight += use.weight;
    } else {
      flow.uses[kept++] = use;
      links_[use.link].flows.push_back(id);
    }
  }
  flow.uses.resize(kept);
  if (flow.left <= kNothing || (flow.uses.empty() && flow.most == kUnbounded)) {
    flow.left = 0;
    flow.end = now;
    ends_.emplace(now, id);
    return id;
  }
  if (flow.uses.empty()) {
    flow.rate = flow.most;
    SetEnd(id, flow, now);
  } else {
    Touch(flow.uses, now);
  }
  return id;
}

void FlowNetwork::Cancel(FlowId flow, VirtualTime now) {
  if (flows_.contains(flow)) Remove(flow, now);
}

std::vector<FlowId> FlowNetwork::Ended(VirtualTime now) {
  std::vector<FlowId> ended;
  for (VirtualTime end; (end = NextEnd()) <= now && end != VirtualTime::Infinity();) {
    if (!steps_.empty() && steps_.begin()->first == end) {
      const LinkId link = steps_.begin()->second;
      steps_.erase(steps_.begin());
      links_[link].step = VirtualTime::Infinity();
      Touch({{link, 1}}, end);
      continue;
    }
    while (!ends_.empty() && ends_.begin()->first == end) {
      ended.push_back(ends_.begin()->second);
      Remove(ended.back(), end);
    }
  }
  return ended;
}

double FlowNetwork::LeftOf(FlowId id, VirtualTime now) {
  Settle();
  const auto it = flows_.find(id);
  if (it == flows_.end()) return 0;
  const Flow& flow = it->second;
  return std::max(0.0, flow.left - flow.rate * Seconds(std::max(now, flow.since) - flow.since));
}

double FlowNetwork::RoomOn(LinkId id, double weight, double expected) const {
  if (id >= links_.size() || !(weight > 0)) return 0;
  const Link& link = links_[id];
  double moving = 0;
  for (const FlowId flow_id : link.flows) {
    const Flow& flow = flows_.at(flow_id);
    const auto use = std::lower_bound(flow.uses.begin(), flow.uses.end(), id,
                                      [](const LinkUse& a, LinkId b) { return a.link < b; });
    // One that has just started has no rate yet.
    (flow.rate > 0 ? moving : expected) += use->weight;
  }
  const double free = std::max(0.0, link.capacity - link.rate);
  return std::max(free * weight / (expected + weight),
                  link.capacity * weight / (moving + expected + weight));
}

double FlowNetwork::CarriedBy(LinkId link, VirtualTime now) {
  if (link >= links_.size()) return 0;
  Settle();
  const Link& of = links_[link];
  return of.carried + of.rate * Seconds(std::max(now, of.since) - of.since);
}

void FlowNetwork::Book(Flow& flow, VirtualTime now) {
  if (now > flow.since) {
    flow.left = std::max(0.0, flow.left - flow.rate * Seconds(now - flow.since));
    flow.since = now;
  }
}

void FlowNetwork::Book(LinkId id, VirtualTime now) {
  Link& link = links_[id];
  if (now <= link.since) return;
  const double bytes = link.rate * Seconds(now - link.since);
  link.carried += bytes;
  if (usage_ != nullptr && bytes > 0) usage_->Add(id, link.since, now, bytes);
  link.since = now;
}

void FlowNetwork::CatchUp(VirtualTime now) {
  Settle();
  for (LinkId id = 0; id < links_.size(); ++id) Book(id, now);
}

void FlowNetwork::SetEnd(FlowId id, Flow& flow, VirtualTime now) {
  ends_.erase({flow.end, id});
  flow.end = flow.left <= kNothing ? now
             : flow.rate > 0       ? After(now, flow.left / flow.rate)
                                   : VirtualTime::Infinity();
  if (flow.end != VirtualTime::Infinity()) ends_.emplace(flow.end, id);
}

void FlowNetwork::Remove(FlowId id, VirtualTime now) {
  Touch({}, now);  // what was before is divided with it
  auto node = flows_.extract(id);
  const Flow& flow = node.mapped();
  ends_.erase({flow.end, id});
  for (const LinkUse& use : flow.uses) std::erase(links_[use.link].flows, id);
  Touch(flow.uses, now);
}

void FlowNetwork::Touch(const std::vector<LinkUse>& uses, VirtualTime now) {
  if (now != touched_at_) Settle();
  touched_at_ = now;
  for (const LinkUse& use : uses) touched_.push_back(use.link);
}

void FlowNetwork::Settle() {
  if (touched_.empty()) return;
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  Divide(std::exchange(touched_, {}), touched_at_);
}

void FlowNetwork::Divide(std::vector<LinkId> links, VirtualTime now) {
  // Everything that is connected with these links, by flows over both.
  ++visit_;
  std::vector<FlowId> flows;
  for (const LinkId link : links) links_[link].visited = visit_;
  for (size_t i = 0; i < links.size(); ++i) {
    for (const FlowId id : links_[links[i]].flows) {
      Flow& flow = flows_.at(id);
      if (flow.visited == visit_) continue;
      flow.visited = visit_;
      flows.push_back(id);
      for (const LinkUse& use : flow.uses) {
        if (links_[use.link].visited == visit_) continue;
        links_[use.link].visited = visit_;
        links.push_back(use.link);
      }
    }
  }
  // In the same order whatever led here.
  std::sort(flows.begin(), flows.end());
  std::vector<double> before;
  for (const FlowId id : flows) before.push_back(flows_.at(id).rate);
  for (const LinkId id : links) {
    Book(id, now);
    links_[id].usable = links_[id].capacity;
  }
  Fill(links, flows);
  if (Congest(links, flows, now)) Fill(links, flows);
  for (const LinkId id : links) links_[id].rate = 0;
  for (size_t i = 0; i < flows.size(); ++i) {
    Flow& flow = flows_.at(flows[i]);
    for (const LinkUse& use : flow.uses) links_[use.link].rate += flow.rate * use.weight;
    if (flow.rate == before[i] && flow.end != VirtualTime::Infinity()) continue;  // as it was
    const double rate = flow.rate;
    flow.rate = before[i];
    Book(flow, now);
    flow.rate = rate;
    SetEnd(flows[i], flow, now);
  }
}

bool FlowNetwork::Congest(const std::vector<LinkId>& links, const std::vector<FlowId>& flows,
                          VirtualTime now) {
  std::vector<LinkId> full;
  for (const LinkId id : links) {
    const Link& link = links_[id];
    if (!link.controlled) continue;
    if (link.capacity > 0 && link.free <= link.capacity * kFull) {
      full.push_back(id);
    } else {
      SetCongestion(id, 0, now);
    }
  }
  if (full.empty()) return false;
  // What would come if they had room for it.
  for (const LinkId id : full) links_[id].usable = links_[id].capacity * kMuchRoom;
  Fill(links, flows);
  for (const LinkId id : full) {
    Link& link = links_[id];
    SetCongestion(id, (link.usable - link.free) / link.capacity, now);
    const VirtualSpan since = link.congested_since ? now - *link.congested_since : VirtualSpan();
    const CongestionControl::Present present = CongestionControl::At(link.asked, since);
    link.usable = link.capacity * present.share;
    if (!present.until) continue;
    link.step = *link.congested_since + *present.until;
    steps_.emplace(link.step, id);
  }
  return true;
}

void FlowNetwork::SetCongestion(LinkId id, double asked, VirtualTime now) {
  Link& link = links_[id];
  if (link.step != VirtualTime::Infinity()) steps_.erase({link.step, id});
  link.step = VirtualTime::Infinity();
  if (!CongestionControl::IsCongested(asked)) {
    link.congested_since.reset();
    link.asked = 0;
    return;
  }
  // Others who come begin at full speed.
  if (!link.congested_since || asked > link.asked * kMore) link.congested_since = now;
  link.asked = asked;
}

// Progressive filling: the rate of all rises until a link is full, or a flow as fast as it can
// be; those have their rates, and the others go on (Bertsekas and Gallager, Data Networks, 6.5.2).
void FlowNetwork::Fill(const std::vector<LinkId>& links, const std::vector<FlowId>& flows) {
  for (const LinkId id : links) {
    links_[id].free = links_[id].usable;
    links_[id].waiting = 0;
  }
  // Rates at which a link would be full, or a flow at its own bound; those of links only rise
  // as flows get their rates, so one that has risen is put back.
  using Full = std::pair<double, std::pair<int, uint64_t>>;  // rate, (0 link or 1 flow, id)
  std::priority_queue<Full, std::vector<Full>, std::greater<>> next;
  for (const FlowId id : flows) {
    Flow& flow = flows_.at(id);
    flow.rate = -1;
    if (flow.most < kUnbounded) next.push({flow.most, {1, id}});
    for (const LinkUse& use : flow.uses) links_[use.link].waiting += use.weight;
  }
  const auto level = [](const Link& link) { return std::max(0.0, link.free) / link.waiting; };
  for (const LinkId id : links) {
    if (links_[id].waiting > 0) next.push({level(links_[id]), {0, id}});
  }
  const auto give = [this](Flow& flow, double rate) {
    flow.rate = rate;
    for (const LinkUse& use : flow.uses) {
      Link& link = links_[use.link];
      link.free -= rate * use.weight;
      link.waiting -= use.weight;
    }
  };
  while (!next.empty()) {
    const auto [rate, what] = next.top();
    next.pop();
    if (what.first == 1) {
      Flow& flow = flows_.at(what.second);
      if (flow.rate < 0) give(flow, rate);
      continue;
    }
    Link& link = links_[what.second];
    std::vector<Flow*> waiting;
    for (const FlowId id : link.flows) {
      Flow& flow = flows_.at(id);
      if (flow.rate < 0) waiting.push_back(&flow);
    }
    if (waiting.empty()) continue;
    if (const double now = level(link); now > rate * (1 + 1e-12)) {
      next.push({now, what});
      continue;
    }
    for (Flow* flow : waiting) give(*flow, rate);
  }
}

}  // namespace phantora
