// Carries out what a cluster's file says will happen to its network.
#ifndef PHANTORA_FABRIC_NETWORK_NETWORK_EVENTS_H_
#define PHANTORA_FABRIC_NETWORK_NETWORK_EVENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "clock/virtual_time.h"
#include "fabric/network/flow_network.h"
#include "fabric/network/network_event.h"
#include "fabric/network/network_graph.h"

namespace phantora {

// A link that fails carries nothing from then on, and what moves over it stands still. Switches
// know of it some time later; then routes avoid it, and traffic of others goes another way. When
// it comes back it carries at once, and is chosen by new routes after that same time. Not
// thread-safe.
class NetworkEvents {
 public:
  struct Options {
    NetworkGraph* graph;
    FlowNetwork* network;
    Multipath multipath = Multipath::kEcmp;  // of others' traffic
    int paths = 1;                           // with kSplit
    VirtualSpan reroute;
  };
  explicit NetworkEvents(const Options& options) : options_(options) {}

  // Once, before the first Apply(). Errors, with the event's place: there is no such link or
  // interface (and which names are near), a link fails that has failed, or comes back that has
  // not.
  absl::Status Add(absl::Span<const NetworkEvent> events);
  // Their times count from then on.
  void SetStart(VirtualTime start) { start_ = start; }

  // When something happens; Infinity for never again.
  VirtualTime Next() const {
    return next_ == steps_.size() ? VirtualTime::Infinity() : start_ + steps_[next_].at;
  }
  // What happens at Next(), which is the network's present. Are there other routes now?
  bool Apply();

  bool IsDown(LinkId link) const;

  // Events that have happened, in words, a line each: "leaf 3 to spine 1 failed at 12 ms".
  const std::vector<std::string>& happened() const { return happened_; }
  // Events that have not.
  size_t ahead() const { return ahead_; }

 private:
  enum class What { kDown, kUp, kCapacity, kTraffic, kTrafficEnds, kRoutes };
  struct Step {
    VirtualSpan at;
    What what;
    size_t event;
  };
  // An event, with its names looked up.
  struct Known {
    NetworkEvent event;
    std::vector<LinkId> links;  // the first of each two
    NodeId from = 0, to = 0;
    FlowId flow = 0;  // traffic under way
    bool under_way = false;
    std::vector<LinkUse> uses;
  };
  struct Link {
    double bytes_per_s = 0;  // at first
    double share = 1;
    int failures = 0;  // events that keep it down: it fails with its switch, too
    std::string why;
  };

  absl::Status LookUp(Known& known) const;
  void SetCapacity(LinkId first, VirtualTime now);
  bool LearnRoutes(const Known& known);
  void StartTraffic(size_t event, VirtualTime now);
  void RerouteTraffic(VirtualTime now);

  const Options options_;
  VirtualTime start_;
  std::vector<Known> events_;
  std::vector<Step> steps_;  // in their order
  size_t next_ = 0, ahead_ = 0;
  absl::flat_hash_map<LinkId, Link> links_;  // that events change, by the first of two
  std::vector<std::string> happened_;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_NETWORK_NETWORK_EVENTS_H_
