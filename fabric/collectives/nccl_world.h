// All NCCL operations of a run: who takes part in which, when it can begin, and how long it takes
// beside all others.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_WORLD_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_WORLD_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "clock/virtual_time.h"
#include "fabric/collectives/collective_work.h"
#include "fabric/collectives/communicators.h"
#include "fabric/collectives/nccl_cost.h"
#include "fabric/collectives/nccl_operation.h"
#include "fabric/library/wire.h"
#include "fabric/network/flow_network.h"
#include "fabric/network/network_events.h"

namespace phantora {

// How an operation crosses the network.
struct TransferPlan {
  struct Part {
    std::vector<LinkUse> uses;
    double bytes = 0;
    double most_bytes_per_s = 0;
  };
  std::string name;  // "Ring LL128", for the trace
  VirtualSpan latency;
  std::vector<Part> parts;  // under way at once after `latency`; it is over when all are
  int sms = 1;              // that its kernel keeps busy on each GPU
  double memory_share = 0;  // of each GPU's memory bandwidth, 0 to 1
  bool adaptive = false;    // the parts' ways are to be chosen when it starts to move

  // Why it cannot cross the network at present, in words; empty if it can. Then NCCL gives up after
  // `patience`, as `lost` says.
  std::string no_way;
  VirtualSpan patience;
  std::string lost;
};

class TransferPlanner {
 public:
  virtual ~TransferPlanner() = default;
  // All that begin in one communicator at once are planned one by one. `now`: it starts to move,
  // and ways that depend on what the network carries are to be chosen; else a plan will do that was
  // made before.
  virtual std::shared_ptr<const TransferPlan> Collective(const Communicator& communicator,
                                                         const CollectiveWork& work, bool now) = 0;
  virtual std::shared_ptr<const TransferPlan> Message(const Communicator& communicator,
                                                      const MessageWork& work, bool now) = 0;
  // The network has other routes than before.
  virtual void Forget() {}
};

using NcclTicket = uint64_t;  // of what one rank has started with one launch; 0 is none

// What a rank brings to an operation.
struct NcclShare {
  NcclTicket ticket = 0;
  int rank = 0;
  nccl::Entry entry;
};

// Carries out what operations do to the GPUs' memory.
class PayloadMover {
 public:
  virtual ~PayloadMover() = default;
  // `shares` by rank. They agree in everything that has to.
  virtual void Collective(absl::Span<const NcclShare> shares) = 0;
  virtual void Message(const NcclShare& send, const NcclShare& receive) = 0;
};

// Time only passes in Advance(), which nobody calls before all who could still start something
// earlier have been heard. Not thread-safe.
class NcclWorld {
 public:
  struct Options {
    FlowNetwork* network;
    TransferPlanner* planner;
    PayloadMover* payload;
    // What happens to the network, whose time is this one's; null for nothing.
    NetworkEvents* events = nullptr;
    // An operation can never end; in words, several lines.
    std::function<void(const std::string&)> failed;
    // An operation is over.
    struct Ended {
      const Communicator* communicator;
      nccl::Entry entry;  // of its first rank
      std::string plan;
      VirtualTime first, all, end;  // when its first rank came, its last, and its end
    };
    std::function<void(const Ended&)> ended = {};
  };
  explicit NcclWorld(Options options) : options_(std::move(options)) {}

  Communicators& communicators() { return communicators_; }

  // Are these entries ones that the endpoint can carry out? Else why not.
  static std::string Check(const NcclEndpoint& endpoint, absl::Span<const nccl::Entry> entries);
  // The same in a communicator of so many ranks.
  static std::string Check(int ranks, absl::Span<const nccl::Entry> entries);

  struct Occupancy {
    int sms = 1;
    double memory_share = 0;
  };
  Occupancy OccupancyOf(const NcclEndpoint& endpoint, absl::Span<const nccl::Entry> entries,
                        absl::Span<const NcclGiven> given = {});

  // A rank comes to these operations (which Check() likes) at `at`, or now if that is later. Its
  // collectives take place one after the other, then all its messages at once. `sequence` is the
  // caller's count of calls. `given`: of the first entries, the collectives, if NCCL's choice is
  // known.
  NcclTicket Start(NcclEndpoint& endpoint, std::vector<nccl::Entry> entries, uint64_t sequence,
                   VirtualTime at, std::vector<NcclGiven> given = {});
  // When all of it is over; Infinity while that is not known. It has happened by then.
  VirtualTime EndOf(NcclTicket ticket) const;
  // Nobody waits for it any more. If it is not over, it never will be.
  void Forget(NcclTicket ticket);

  // Operations under way of the endpoint end at once, as far as it is concerned.
  void GiveUp(NcclEndpoint& endpoint);
  // Leaves a communicator; with `abort`, gives up first.
  void Leave(NcclEndpoint& endpoint, bool abort);
  void ProcessDied(uint64_t process);

  VirtualTime now() const { return now_; }
  // When something happens next; Infinity for never.
  VirtualTime NextEvent();
  void Advance(VirtualTime to);
  // Processes for whom a ticket has ended since the last call.
  std::vector<uint64_t> TakeChanged();

  // Operations that some rank has come to and others have not, as far as that has been so since
  // `since` or longer: in words, empty if there is none.
  std::string DescribeWaiting(VirtualTime since) const;
  // Operations that are over.
  uint64_t completed() const { return completed_; }
  // Times that an operation under way went on by another way, because a link had failed.
  uint64_t rerouted() const { return rerouted_; }

 private:
  using OperationId = uint64_t;

  // What a rank sends with one launch to others: GPUs of its machine, and of other machines, which
  // take another way and wait for none of the former; and to itself.
  struct Sends {
    int near = 0, far = 0, own = 0;
    MessageWork Work(const Communicator& communicator, int from, int to, int64_t bytes) const;
  };
  static Sends SendsOf(const NcclEndpoint& endpoint, absl::Span<const nccl::Entry> entries);

  struct Ticket {
    nccl::Handle handle = 0;
    uint64_t process = 0;
    uint64_t sequence = 0;
    std::vector<nccl::Entry> entries;
    std::vector<NcclGiven> given;
    size_t next = 0;    // collective to start
    int under_way = 0;  // operations
    Sends sends;
    VirtualTime arrives;
    VirtualTime end = VirtualTime::Infinity();
  };
  // A part of an operation under way.
  struct Moving {
    FlowId flow = 0;
    size_t part = 0;
    std::vector<LinkUse> uses;
  };
  // An operation that stands still, for want of a way.
  struct Stranded {
    VirtualTime since, until;  // NCCL has given up then
  };
  struct Operation {
    int communicator = 0;
    uint64_t number = 0;  // in the communicator; of collectives
    std::vector<NcclShare> shares;
    VirtualTime first, all;
    std::optional<NcclGiven> given;
    bool is_message = false;                   // shares are the send and the receive
    std::shared_ptr<const TransferPlan> plan;  // under way
    uint64_t routes = 0;                       // routes_ when it was planned
    std::vector<Moving> flows;
  };
  // Sends and receives between two ranks that have found no partner.
  struct Unmatched {
    std::deque<std::pair<NcclShare, VirtualTime>> sends, receives;
  };
  using Pair = std::tuple<int, int, int>;  // communicator, sender, receiver

  void Arrive(NcclTicket ticket, VirtualTime now);
  // Goes on with the next of a ticket's entries, or ends it.
  void Continue(NcclTicket id, VirtualTime now);
  void JoinCollective(NcclTicket id, const nccl::Entry& entry, VirtualTime now);
  void JoinMessage(NcclTicket id, const nccl::Entry& entry, VirtualTime now);
  void Begin(OperationId id, Operation& operation, const Communicator& communicator,
             VirtualTime now);
  void StartFlows(OperationId id, VirtualTime now);
  void StartPart(OperationId id, Operation& operation, size_t part, double bytes, VirtualTime now);
  // For the network as it is now; see TransferPlanner for `now`.
  void MakePlan(Operation& operation, const Communicator& communicator, bool now);
  // What happens to the network at its next event.
  void ApplyNetworkEvent();
  // Parts that cross links that are down go another way, or strand.
  void Reroute(OperationId id, VirtualTime now);
  bool StandsStill(const Operation& operation) const;
  void Strand(OperationId id, VirtualTime now);
  // NCCL gives up what has stranded.
  void GiveUpStranded(OperationId id);
  void Complete(OperationId id, VirtualTime now);
  void EndTicket(NcclTicket id, Ticket& ticket, VirtualTime now);
  // `share` does not fit to what others do.
  void ReportMismatch(const Communicator& communicator, const Operation& operation,
                      const NcclShare& share);
  std::string DescribeStranded(const Communicator& communicator, const Operation& operation,
                               const Stranded& stranded) const;
  std::string DescribeMissing(const Communicator& communicator, const Operation& operation) const;
  const Communicator* CommunicatorOf(nccl::Handle handle) const;
  // The communicator of an operation that somebody still waits for; else nullptr.
  const Communicator* CommunicatorOf(const Operation& operation) const;
  // The ticket if it is not over, else nullptr.
  const Ticket* UnfinishedTicket(NcclTicket id) const;
  // What a rank's process waits in, in words; empty for nothing.
  std::string WaitsIn(const Communicator& communicator, int rank) const;

  const Options options_;
  mutable Communicators communicators_;
  VirtualTime now_;
  NcclTicket next_ticket_ = 1;
  OperationId next_operation_ = 1;
  absl::flat_hash_map<NcclTicket, Ticket> tickets_;
  uint64_t completed_ = 0;
  std::map<OperationId, Operation> operations_;
  // Collectives that wait for ranks, by communicator and number.
  std::map<std::pair<int, uint64_t>, OperationId> waiting_;
  absl::flat_hash_map<nccl::Handle, uint64_t> collectives_;  // that an endpoint has come to
  std::map<Pair, Unmatched> unmatched_;
  // Tickets that arrive (first) or operations whose flows start.
  std::multimap<VirtualTime, std::pair<NcclTicket, OperationId>> events_;
  absl::flat_hash_map<FlowId, OperationId> flows_;
  std::map<OperationId, Stranded> stranded_;
  uint64_t routes_ = 0;  // times that they have changed
  uint64_t rerouted_ = 0;
  std::vector<uint64_t> changed_;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_WORLD_H_
