// A network at the level of flows: bytes move at rates, which all who share a link share fairly.
#ifndef PHANTORA_FABRIC_NETWORK_FLOW_NETWORK_H_
#define PHANTORA_FABRIC_NETWORK_FLOW_NETWORK_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "clock/virtual_time.h"
#include "fabric/network/link_usage.h"

namespace phantora {

using LinkId = uint32_t;
using FlowId = uint64_t;

// What a flow does to a link.
struct LinkUse {
  LinkId link = 0;
  double weight = 1;  // bytes that cross it for each byte of the flow
};

// Divides links among flows max-min fairly: everyone gets the same rate, unless it can do with
// less, and what that leaves goes to the others. A flow is whatever moves at one rate: a message
// along its path, or all hops of a pipelined collective, which are as fast as the slowest.
//
// Links that are controlled carry less where senders ask for more than they have
// (CongestionControl).
//
// Rates change when a flow comes or goes or a link changes, and only of those that are connected
// with it by links that they share; what happens at one time changes them once. Times are exact to
// the picosecond for flows whose rate does not change; a change costs less than a picosecond. The
// same calls give the same times. Not thread-safe.
class FlowNetwork {
 public:
  // Bytes per second, one way; at least 0 (the link is down).
  LinkId AddLink(double bytes_per_s);
  size_t links() const { return links_.size(); }

  // From `now` on, which is never before an earlier one. Flows over it change their rates.
  void SetCapacity(LinkId link, double bytes_per_s, VirtualTime now);
  double CapacityOf(LinkId link) const { return link < links_.size() ? links_[link].capacity : 0; }
  // Congestion control holds senders back where they ask this link for more than it has.
  void Control(LinkId link);
  // When it was added.
  double FirstCapacityOf(LinkId link) const {
    return link < links_.size() ? links_[link].first_capacity : 0;
  }

  // A flow of `bytes`, at most `most_bytes_per_s` fast, from `now` on. Uses of one link add up;
  // links that do not exist are ignored. With no link and no bound it is over at once.
  FlowId Start(VirtualTime now, absl::Span<const LinkUse> uses, double bytes,
               double most_bytes_per_s);
  // Ends it early. Nothing happens if it is over.
  void Cancel(FlowId flow, VirtualTime now);

  // When the next flow is over if nothing comes or goes, or congestion control changes rates before
  // that; Infinity if there is none, or all that are left cannot move.
  VirtualTime NextEnd() {
    Settle();
    return std::min(ends_.empty() ? VirtualTime::Infinity() : ends_.begin()->first,
                    steps_.empty() ? VirtualTime::Infinity() : steps_.begin()->first);
  }
  // The flows that are over by `now`, in the order of their ends, perhaps none; times past the
  // first of them may change others, so go from NextEnd to NextEnd.
  std::vector<FlowId> Ended(VirtualTime now);

  // Bytes that it still has to move; 0 for one that is over.
  double LeftOf(FlowId flow, VirtualTime now);
  size_t flows() const { return flows_.size(); }
  // The rate, in bytes/s of the link, that one more flow with this weight may expect there, beside
  // others of weight `expected` that are not there yet; by what was divided last.
  double RoomOn(LinkId link, double weight, double expected) const;
  // Bytes that have crossed the link until `now`.
  double CarriedBy(LinkId link, VirtualTime now);
  // Is told what links carry from then on: of each link when flows change that have to do with it,
  // and of all in CatchUp().
  void Watch(LinkUsage* usage) { usage_ = usage; }
  void CatchUp(VirtualTime now);

 private:
  struct Flow {
    std::vector<LinkUse> uses;
    double left = 0, rate = 0, most = 0;  // bytes, bytes/s
    VirtualTime since;                    // `left` is of then
    VirtualTime end = VirtualTime::Infinity();
    uint64_t visited = 0;
  };
  struct Link {
    double capacity = 0, rate = 0;  // of all flows over it
    double first_capacity = 0;
    double carried = 0;  // until `since`
    VirtualTime since;
    std::vector<FlowId> flows;
    uint64_t visited = 0;
    // While rates are found: what may be used of it, what is left of that, and the weights of flows
    // without a rate.
    double usable = 0, free = 0, waiting = 0;
    bool controlled = false;
    // Since when more is asked of it than it has, how many times as much, and when what may be used
    // of it changes next.
    std::optional<VirtualTime> congested_since;
    double asked = 0;
    VirtualTime step = VirtualTime::Infinity();
  };

  // These links are to be divided anew; what happens at one time is divided once.
  void Touch(const std::vector<LinkUse>& uses, VirtualTime now);
  void Settle();
  // Divides anew what is connected with these links.
  void Divide(std::vector<LinkId> links, VirtualTime now);
  void Fill(const std::vector<LinkId>& links, const std::vector<FlowId>& flows);
  // Finds what may be used of controlled links, after a Fill() with all of them; then flows have to
  // be divided anew, or false.
  bool Congest(const std::vector<LinkId>& links, const std::vector<FlowId>& flows, VirtualTime now);
  void SetCongestion(LinkId id, double asked, VirtualTime now);
  void Book(Flow& flow, VirtualTime now);
  void Book(LinkId id, VirtualTime now);
  void SetEnd(FlowId id, Flow& flow, VirtualTime now);
  void Remove(FlowId id, VirtualTime now);

  LinkUsage* usage_ = nullptr;
  std::vector<Link> links_;
  absl::flat_hash_map<FlowId, Flow> flows_;
  std::set<std::pair<VirtualTime, FlowId>> ends_;
  std::set<std::pair<VirtualTime, LinkId>> steps_;  // of links' congestion
  FlowId next_ = 1;
  uint64_t visit_ = 0;
  std::vector<LinkId> touched_;
  VirtualTime touched_at_;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_NETWORK_FLOW_NETWORK_H_
