#include "fabric/network/network_events.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phantora {
namespace {

using Kind = NetworkEvent::Kind;

// Of traffic that goes on until it is stopped; at any rate it takes longer than a run.
constexpr double kEndless = 1e30;

std::string Ms(VirtualSpan span) {
  return absl::StrFormat("%g ms", static_cast<double>(span.picoseconds()) * 1e-9);
}

std::string Describe(const NetworkEvent& event) {
  const std::string at = absl::StrCat(" at ", Ms(event.at), " (", event.where, ")");
  switch (event.kind) {
    case Kind::kDown:
      return absl::StrCat(event.what, " failed", at);
    case Kind::kUp:
      return absl::StrCat(event.what, " came back", at);
    case Kind::kCapacity:
      return absl::StrFormat("%s has %g %% of its capacity since %s (%s)", event.what,
                             event.share * 100, Ms(event.at), event.where);
    case Kind::kTraffic:
      return absl::StrFormat("others send %g Gbit/s from %s to %s from %s to %s (%s)",
                             event.bytes_per_s * 8e-9, event.from, event.to, Ms(event.at),
                             Ms(event.until), event.where);
  }
  return "";
}

}  // namespace

absl::Status NetworkEvents::LookUp(Known& known) const {
  const NetworkEvent& event = known.event;
  const NetworkGraph& graph = *options_.graph;
  const auto wrong = [&event](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat(event.where, ": ", std::string(status.message())));
  };
  if (event.kind != Kind::kTraffic) {
    auto links = graph.FindLinks(event.what);
    if (!links.ok()) return wrong(links.status());
    known.links = *std::move(links);
    return absl::OkStatus();
  }
  for (const auto& [name, node] : {std::pair(&event.from, &known.from), {&event.to, &known.to}}) {
    const auto found = graph.FindNode(*name);
    if (!found.ok()) return wrong(found.status());
    *node = *found;
  }
  if (known.from == known.to) {
    return wrong(absl::InvalidArgumentError("traffic goes from one place to another"));
  }
  return absl::OkStatus();
}

absl::Status NetworkEvents::Add(absl::Span<const NetworkEvent> events) {
  for (const NetworkEvent& event : events) {
    events_.push_back({.event = event, .links = {}, .uses = {}});
    if (auto status = LookUp(events_.back()); !status.ok()) return status;
  }
  for (size_t i = 0; i < events_.size(); ++i) {
    const NetworkEvent& event = events_[i].event;
    for (const LinkId link : events_[i].links) {
      links_[link].bytes_per_s = options_.network->CapacityOf(link);
    }
    switch (event.kind) {
      case Kind::kDown:
      case Kind::kUp:
        steps_.push_back({event.at, event.kind == Kind::kDown ? What::kDown : What::kUp, i});
        steps_.push_back({event.at + options_.reroute, What::kRoutes, i});
        break;
      case Kind::kCapacity:
        steps_.push_back({event.at, What::kCapacity, i});
        break;
      case Kind::kTraffic:
        steps_.push_back({event.at, What::kTraffic, i});
        steps_.push_back({event.until, What::kTrafficEnds, i});
        break;
    }
  }
  ahead_ = events_.size();
  std::stable_sort(steps_.begin(), steps_.end(),
                   [](const Step& a, const Step& b) { return a.at < b.at; });
  std::set<std::vector<LinkId>> failed;
  for (const Step& step : steps_) {
    const Known& known = events_[step.event];
    if (step.what == What::kDown && !failed.insert(known.links).second) {
      return absl::InvalidArgumentError(absl::StrCat(known.event.where, ": ", known.event.what,
                                                     " has failed already at that time"));
    }
    if (step.what == What::kUp && failed.erase(known.links) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(known.event.where, ": ", known.event.what, " has not failed at that time"));
    }
  }
  return absl::OkStatus();
}

bool NetworkEvents::IsDown(LinkId link) const {
  // Links come in pairs, of which either may be the one that is known.
  auto it = links_.find(link);
  if (it == links_.end() && link > 0) {
    it = links_.find(link - 1);
    if (it != links_.end() && options_.graph->BackOf(it->first) != link) return false;
  }
  return it != links_.end() && it->second.failures > 0;
}

void NetworkEvents::SetCapacity(LinkId first, VirtualTime now) {
  const Link& link = links_.at(first);
  const double bytes_per_s = link.failures > 0 ? 0 : link.bytes_per_s * link.share;
  options_.network->SetCapacity(first, bytes_per_s, now);
  options_.network->SetCapacity(options_.graph->BackOf(first), bytes_per_s, now);
}

bool NetworkEvents::Apply() {
  const VirtualTime now = Next();
  const Step step = steps_[next_++];
  Known& known = events_[step.event];
  const NetworkEvent& event = known.event;
  const std::string text = Describe(event);
  if (step.what != What::kRoutes && step.what != What::kTrafficEnds) {
    --ahead_;
    happened_.push_back(text);
  }
  switch (step.what) {
    case What::kDown:
    case What::kUp:
    case What::kCapacity:
      for (const LinkId first : known.links) {
        Link& link = links_.at(first);
        if (step.what == What::kCapacity) link.share = event.share;
        if (step.what == What::kUp) --link.failures;
        if (step.what == What::kDown && link.failures++ == 0) {
          link.why = absl::StrCat("failed at ", Ms(event.at), " (", event.where, ")");
        }
        SetCapacity(first, now);
      }
      return false;
    case What::kRoutes:
      if (!LearnRoutes(known)) return false;
      RerouteTraffic(now);
      return true;
    case What::kTraffic:
      known.under_way = true;
      StartTraffic(step.event, now);
      return false;
    case What::kTrafficEnds:
      known.under_way = false;
      options_.network->Cancel(std::exchange(known.flow, 0), now);
      return false;
  }
  return false;
}

// As the links are now: one that failed for less than that time is not missed.
bool NetworkEvents::LearnRoutes(const Known& known) {
  bool changed = false;
  for (const LinkId first : known.links) {
    const Link& link = links_.at(first);
    const bool up = link.failures == 0;
    if (options_.graph->IsUp(first) == up) continue;
    options_.graph->SetUp(first, up, link.why);
    changed = true;
  }
  return changed;
}

void NetworkEvents::StartTraffic(size_t event, VirtualTime now) {
  Known& known = events_[event];
  options_.graph->BeginChoices();
  Route route =
      options_.graph->RouteBetween(known.from, known.to, options_.multipath, event, options_.paths);
  if (!route.exists) return;  // until there is a way again
  known.uses = std::move(route.uses);
  known.flow = options_.network->Start(now, known.uses, kEndless, known.event.bytes_per_s);
}

void NetworkEvents::RerouteTraffic(VirtualTime now) {
  for (size_t i = 0; i < events_.size(); ++i) {
    Known& known = events_[i];
    if (!known.under_way) continue;
    const bool cut = std::any_of(known.uses.begin(), known.uses.end(),
                                 [this](const LinkUse& use) { return IsDown(use.link); });
    if (known.flow != 0 && !cut) continue;
    options_.network->Cancel(std::exchange(known.flow, 0), now);
    StartTraffic(i, now);
  }
}

}  // namespace phantora
