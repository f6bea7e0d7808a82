#include "fabric/collectives/nccl_world.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phantora {
namespace {

using nccl::Entry;

constexpr struct {
  const char* name;
  int64_t bytes;
} kTypes[] = {{"int8", 1},    {"uint8", 1},    {"int32", 4},      {"uint32", 4},
              {"int64", 8},   {"uint64", 8},   {"float16", 2},    {"float32", 4},
              {"float64", 8}, {"bfloat16", 2}, {"float8e4m3", 1}, {"float8e5m2", 1}};
constexpr const char* kReductions[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
constexpr const char* kOperationNames[nccl::kOperations] = {
    "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "Send", "Recv"};
// A message that would wrap addresses is none.
constexpr uint64_t kMostBytes = uint64_t{1} << 48;
constexpr int kMostDescribed = 8, kMostRanksNamed = 16;

bool IsMessage(const Entry& entry) {
  return entry.operation == nccl::Operation::kSend || entry.operation == nccl::Operation::kReceive;
}
bool HasRoot(const Entry& entry) {
  return entry.operation == nccl::Operation::kBroadcast ||
         entry.operation == nccl::Operation::kReduce;
}
bool Reduces(const Entry& entry) {
  return entry.operation == nccl::Operation::kReduce ||
         entry.operation == nccl::Operation::kReduceScatter ||
         entry.operation == nccl::Operation::kAllReduce;
}
bool Agree(const Entry& a, const Entry& b) {
  return a.operation == b.operation && a.type == b.type && a.count == b.count &&
         (!HasRoot(a) || a.peer == b.peer) && (!Reduces(a) || a.reduction == b.reduction);
}

bool OneMachine(const Communicator& communicator, int a, int b) {
  return communicator.places[static_cast<size_t>(a)].host ==
         communicator.places[static_cast<size_t>(b)].host;
}

std::string RankList(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size() && i < kMostRanksNamed; ++i) {
    absl::StrAppend(&text, " ", ranks[i]);
  }
  if (ranks.size() > kMostRanksNamed) absl::StrAppend(&text, " ... (", ranks.size(), " of them)");
  return text;
}

}  // namespace

int64_t NcclTypeBytes(uint8_t type) { return type < std::size(kTypes) ? kTypes[type].bytes : 0; }

int64_t OperationBytes(const Entry& entry, int ranks) {
  const bool all = entry.operation == nccl::Operation::kAllGather ||
                   entry.operation == nccl::Operation::kReduceScatter;
  return static_cast<int64_t>(entry.count) * NcclTypeBytes(entry.type) * (all ? ranks : 1);
}

const char* NameOf(nccl::Operation operation) {
  return kOperationNames[static_cast<int>(operation)];
}

std::string Describe(const Entry& entry) {
  std::string text =
      absl::StrFormat("%s of %d %s", NameOf(entry.operation), entry.count, kTypes[entry.type].name);
  if (Reduces(entry)) absl::StrAppend(&text, ", ", kReductions[entry.reduction]);
  if (HasRoot(entry)) absl::StrAppend(&text, ", root ", entry.peer);
  if (entry.operation == nccl::Operation::kSend) absl::StrAppend(&text, " to rank ", entry.peer);
  if (entry.operation == nccl::Operation::kReceive) {
    absl::StrAppend(&text, " from rank ", entry.peer);
  }
  return text;
}

std::string NcclWorld::Check(const NcclEndpoint& endpoint, absl::Span<const Entry> entries) {
  if (endpoint.communicator == nullptr) return "the communicator is not ready";
  return Check(endpoint.communicator->ranks(), entries);
}

std::string NcclWorld::Check(int count, absl::Span<const Entry> entries) {
  const auto ranks = static_cast<uint64_t>(count);
  for (const Entry& entry : entries) {
    if (static_cast<int>(entry.operation) >= nccl::kOperations) return "no such operation";
    const auto size = static_cast<uint64_t>(NcclTypeBytes(entry.type));
    if (size == 0) return "no such type";
    if (entry.count > kMostBytes / size / ranks) return "too many elements";
    if (Reduces(entry) && entry.reduction >= std::size(kReductions)) return "no such reduction";
    if ((HasRoot(entry) || IsMessage(entry)) &&
        (entry.peer < 0 || static_cast<uint64_t>(entry.peer) >= ranks)) {
      return "no such rank";
    }
  }
  return "";
}

NcclWorld::Sends NcclWorld::SendsOf(const NcclEndpoint& endpoint, absl::Span<const Entry> entries) {
  Sends sends;
  for (const Entry& entry : entries) {
    if (entry.operation != nccl::Operation::kSend || entry.peer == endpoint.rank) continue;
    ++(OneMachine(*endpoint.communicator, endpoint.rank, entry.peer) ? sends.near : sends.far);
  }
  return sends;
}

NcclWorld::Occupancy NcclWorld::OccupancyOf(const NcclEndpoint& endpoint,
                                            absl::Span<const Entry> entries,
                                            absl::Span<const NcclGiven> given) {
  const Communicator& communicator = *endpoint.communicator;
  const Sends sends = SendsOf(endpoint, entries);
  Occupancy most;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    const int64_t bytes = OperationBytes(entry, communicator.ranks());
    const auto plan =
        IsMessage(entry)
            ? options_.planner->Message(
                  communicator, endpoint.rank, entry.peer, bytes,
                  sends.Beside(OneMachine(communicator, endpoint.rank, entry.peer)), false)
        : i < given.size()
            ? options_.planner->Given(communicator, entry.operation, bytes, given[i], false)
            : options_.planner->Collective(communicator, entry.operation, bytes, false);
    most.sms = std::max(most.sms, plan->sms);
    most.memory_share = std::max(most.memory_share, plan->memory_share);
  }
  return most;
}

NcclTicket NcclWorld::Start(NcclEndpoint& endpoint, std::vector<Entry> entries, uint64_t sequence,
                            VirtualTime at, std::vector<NcclGiven> given) {
  const NcclTicket id = next_ticket_++;
  Ticket& ticket = tickets_[id];
  ticket.handle = endpoint.handle;
  ticket.process = endpoint.caller.process;
  ticket.sequence = sequence;
  ticket.sends = SendsOf(endpoint, entries);
  // Messages come last.
  std::stable_partition(entries.begin(), entries.end(),
                        [](const Entry& entry) { return !IsMessage(entry); });
  ticket.entries = std::move(entries);
  ticket.given = std::move(given);
  ticket.arrives = std::max(at, now_);
  ++endpoint.unfinished;
  events_.emplace(ticket.arrives, std::pair(id, OperationId{0}));
  return id;
}

VirtualTime NcclWorld::EndOf(NcclTicket ticket) const {
  auto it = tickets_.find(ticket);
  return it == tickets_.end() ? now_ : it->second.end;
}

void NcclWorld::Forget(NcclTicket id) {
  auto it = tickets_.find(id);
  if (it == tickets_.end()) return;
  if (it->second.end == VirtualTime::Infinity()) {
    if (NcclEndpoint* endpoint = communicators_.Find(it->second.handle)) --endpoint->unfinished;
  }
  tickets_.erase(it);
}

const Communicator* NcclWorld::CommunicatorOf(nccl::Handle handle) const {
  const NcclEndpoint* endpoint = communicators_.Find(handle);
  return endpoint == nullptr ? nullptr : endpoint->communicator;
}

const Communicator* NcclWorld::CommunicatorOf(const Operation& operation) const {
  for (const NcclShare& share : operation.shares) {
    const Ticket* ticket = UnfinishedTicket(share.ticket);
    if (ticket == nullptr) continue;
    if (const Communicator* communicator = CommunicatorOf(ticket->handle)) return communicator;
  }
  return nullptr;
}

const NcclWorld::Ticket* NcclWorld::UnfinishedTicket(NcclTicket id) const {
  auto it = tickets_.find(id);
  return it == tickets_.end() || it->second.end != VirtualTime::Infinity() ? nullptr : &it->second;
}

void NcclWorld::Arrive(NcclTicket id, VirtualTime now) {
  if (UnfinishedTicket(id) != nullptr) Continue(id, now);
}

void NcclWorld::Continue(NcclTicket id, VirtualTime now) {
  Ticket& ticket = tickets_.at(id);
  if (CommunicatorOf(ticket.handle) == nullptr) return EndTicket(id, ticket, now);
  if (ticket.next < ticket.entries.size() && !IsMessage(ticket.entries[ticket.next])) {
    const Entry entry = ticket.entries[ticket.next++];
    ++ticket.under_way;
    return JoinCollective(id, entry, now);
  }
  if (ticket.next == ticket.entries.size()) return EndTicket(id, ticket, now);
  const std::vector<Entry> messages(ticket.entries.begin() + static_cast<ptrdiff_t>(ticket.next),
                                    ticket.entries.end());
  ticket.next = ticket.entries.size();
  ticket.under_way += static_cast<int>(messages.size());
  for (const Entry& message : messages) JoinMessage(id, message, now);
}

void NcclWorld::JoinCollective(NcclTicket id, const Entry& entry, VirtualTime now) {
  const Ticket& ticket = tickets_.at(id);
  const NcclEndpoint& endpoint = *communicators_.Find(ticket.handle);
  const Communicator& communicator = *endpoint.communicator;
  const uint64_t number = ++collectives_[ticket.handle];
  auto [waiting, first] = waiting_.try_emplace({communicator.number, number}, next_operation_);
  const OperationId operation_id = waiting->second;
  Operation& operation = operations_[operation_id];
  if (first) {
    ++next_operation_;
    operation.communicator = communicator.number;
    operation.number = number;
    operation.first = now;
    // The entry at hand is the one before the next.
    if (ticket.next <= ticket.given.size()) operation.given = ticket.given[ticket.next - 1];
  }
  const NcclShare share = {id, endpoint.rank, entry};
  if (!first && !Agree(operation.shares[0].entry, entry)) {
    return Mismatch(communicator, operation, share);
  }
  operation.shares.push_back(share);
  if (static_cast<int>(operation.shares.size()) < communicator.ranks()) return;
  waiting_.erase(waiting);
  std::sort(operation.shares.begin(), operation.shares.end(),
            [](const NcclShare& a, const NcclShare& b) { return a.rank < b.rank; });
  Begin(operation_id, operation, communicator, now);
}

void NcclWorld::JoinMessage(NcclTicket id, const Entry& entry, VirtualTime now) {
  const Ticket& ticket = tickets_.at(id);
  const NcclEndpoint& endpoint = *communicators_.Find(ticket.handle);
  const Communicator& communicator = *endpoint.communicator;
  const bool sends = entry.operation == nccl::Operation::kSend;
  const NcclShare share = {id, endpoint.rank, entry};
  const Pair pair = {communicator.number, sends ? endpoint.rank : entry.peer,
                     sends ? entry.peer : endpoint.rank};
  Unmatched& unmatched = unmatched_[pair];
  auto& partners = sends ? unmatched.receives : unmatched.sends;
  if (partners.empty()) {
    (sends ? unmatched.sends : unmatched.receives).emplace_back(share, now);
    return;
  }
  const auto [partner, since] = partners.front();
  partners.pop_front();
  if (unmatched.sends.empty() && unmatched.receives.empty()) unmatched_.erase(pair);
  const OperationId operation_id = next_operation_++;
  Operation& operation = operations_[operation_id];
  operation.communicator = communicator.number;
  operation.first = since;
  operation.is_message = true;
  operation.shares = sends ? std::vector{share, partner} : std::vector{partner, share};
  const Entry& send = operation.shares[0].entry;
  const Entry& receive = operation.shares[1].entry;
  if (OperationBytes(send, 1) > OperationBytes(receive, 1))
    return Mismatch(communicator, operation, share);
  Begin(operation_id, operation, communicator, now);
}

void NcclWorld::Begin(OperationId id, Operation& operation, const Communicator& communicator,
                      VirtualTime now) {
  operation.all = now;
  MakePlan(operation, communicator, false);
  events_.emplace(now + operation.plan->latency, std::pair(NcclTicket{0}, id));
}

void NcclWorld::MakePlan(Operation& operation, const Communicator& communicator, bool now) {
  operation.routes = routes_;
  const Entry& entry = operation.shares[0].entry;
  const int64_t bytes = OperationBytes(entry, communicator.ranks());
  if (operation.is_message) {
    auto sender = tickets_.find(operation.shares[0].ticket);
    const int from = operation.shares[0].rank, to = operation.shares[1].rank;
    operation.plan = options_.planner->Message(
        communicator, from, to, bytes,
        sender == tickets_.end() ? 1
                                 : sender->second.sends.Beside(OneMachine(communicator, from, to)),
        now);
  } else if (operation.given) {
    operation.plan =
        options_.planner->Given(communicator, entry.operation, bytes, *operation.given, now);
  } else {
    operation.plan = options_.planner->Collective(communicator, entry.operation, bytes, now);
  }
}

void NcclWorld::StartFlows(OperationId id, VirtualTime now) {
  auto it = operations_.find(id);
  if (it == operations_.end()) return;
  Operation& operation = it->second;
  const Communicator* communicator = CommunicatorOf(operation);
  if ((operation.routes != routes_ || operation.plan->adaptive) && communicator != nullptr) {
    MakePlan(operation, *communicator, true);
  }
  if (!operation.plan->no_way.empty()) return Strand(id, now);
  stranded_.erase(id);
  for (size_t part = 0; part < operation.plan->parts.size(); ++part) {
    StartPart(id, operation, part, operation.plan->parts[part].bytes, now);
  }
  if (operation.flows.empty()) Complete(id, now);
}

void NcclWorld::StartPart(OperationId id, Operation& operation, size_t part, double bytes,
                          VirtualTime now) {
  if (bytes <= 0 || part >= operation.plan->parts.size()) return;
  const TransferPlan::Part& planned = operation.plan->parts[part];
  const FlowId flow = options_.network->Start(now, planned.uses, bytes, planned.most_bytes_per_s);
  flows_[flow] = id;
  operation.flows.push_back(
      {flow, part, options_.events == nullptr ? std::vector<LinkUse>() : planned.uses});
}

void NcclWorld::Complete(OperationId id, VirtualTime now) {
  const auto node = operations_.extract(id);
  stranded_.erase(id);
  ++completed_;
  const Operation& operation = node.mapped();
  const bool all_there =
      std::all_of(operation.shares.begin(), operation.shares.end(),
                  [this](const NcclShare& share) { return tickets_.contains(share.ticket); });
  if (!all_there) {
    // Whose memory is it now?
  } else if (operation.is_message) {
    options_.payload->Message(operation.shares[0], operation.shares[1]);
  } else {
    options_.payload->Collective(operation.shares);
  }
  if (options_.ended) {
    auto ticket = tickets_.find(operation.shares[0].ticket);
    options_.ended({ticket == tickets_.end() ? nullptr : CommunicatorOf(ticket->second.handle),
                    operation.shares[0].entry, operation.plan->name, operation.first, operation.all,
                    now});
  }
  for (const NcclShare& share : operation.shares) {
    auto ticket = tickets_.find(share.ticket);
    if (ticket == tickets_.end() || ticket->second.end != VirtualTime::Infinity()) continue;
    if (--ticket->second.under_way == 0) Continue(share.ticket, now);
  }
}

void NcclWorld::EndTicket(NcclTicket id, Ticket& ticket, VirtualTime now) {
  ticket.end = now;
  changed_.push_back(ticket.process);
  if (NcclEndpoint* endpoint = communicators_.Find(ticket.handle)) --endpoint->unfinished;
}

void NcclWorld::GiveUp(NcclEndpoint& endpoint) {
  for (auto& [id, ticket] : tickets_) {
    if (ticket.handle == endpoint.handle && ticket.end == VirtualTime::Infinity()) {
      EndTicket(id, ticket, std::max(now_, ticket.arrives));
    }
  }
  // What nobody waits for any more needs no end.
  std::erase_if(stranded_, [this](const auto& item) {
    const auto operation = operations_.find(item.first);
    return operation == operations_.end() || CommunicatorOf(operation->second) == nullptr;
  });
}

void NcclWorld::Leave(NcclEndpoint& endpoint, bool abort) {
  if (abort) GiveUp(endpoint);
  collectives_.erase(endpoint.handle);
  if (endpoint.communicator != nullptr &&
      endpoint.communicator->left + 1 == endpoint.communicator->ranks()) {
    const int number = endpoint.communicator->number;
    std::erase_if(waiting_, [&](const auto& item) {
      if (item.first.first != number) return false;
      operations_.erase(item.second);
      return true;
    });
    std::erase_if(unmatched_, [&](const auto& item) { return std::get<0>(item.first) == number; });
  }
  communicators_.Leave(endpoint);
}

void NcclWorld::ProcessDied(uint64_t process) {
  for (const nccl::Handle handle : communicators_.EndpointsOf(process)) {
    Leave(*communicators_.Find(handle), true);
  }
}

VirtualTime NcclWorld::NextEvent() {
  VirtualTime event = events_.empty() ? VirtualTime::Infinity() : events_.begin()->first;
  for (const auto& [id, stranded] : stranded_) event = std::min(event, stranded.until);
  // Nobody notices what happens to a network that is not used; it is caught up with in Advance().
  const bool used = !flows_.empty() || !stranded_.empty();
  if (used && options_.events != nullptr) event = std::min(event, options_.events->Next());
  return std::min(event, options_.network->NextEnd());
}

void NcclWorld::Advance(VirtualTime to) {
  const VirtualTime never = VirtualTime::Infinity();
  for (;;) {
    const VirtualTime event = options_.events == nullptr ? never : options_.events->Next();
    VirtualTime next = NextEvent();
    // With nothing else to come, the network's future is left to it.
    if (next == never && to == never) break;
    next = std::min(next, event);
    if (next > to || next == never) break;
    now_ = std::max(now_, next);
    for (const FlowId flow : options_.network->Ended(next)) {
      auto it = flows_.find(flow);
      if (it == flows_.end()) continue;
      const OperationId id = it->second;
      flows_.erase(it);
      auto operation = operations_.find(id);
      if (operation == operations_.end()) continue;
      std::erase_if(operation->second.flows,
                    [flow](const Moving& moving) { return moving.flow == flow; });
      if (operation->second.flows.empty()) Complete(id, now_);
    }
    while (!events_.empty() && events_.begin()->first <= next) {
      const auto [ticket, operation] = events_.begin()->second;
      events_.erase(events_.begin());
      if (ticket != 0) {
        Arrive(ticket, now_);
      } else {
        StartFlows(operation, now_);
      }
    }
    while (options_.events != nullptr && options_.events->Next() <= next) ApplyNetworkEvent();
    std::vector<OperationId> given_up;
    for (const auto& [id, stranded] : stranded_) {
      if (stranded.until <= next) given_up.push_back(id);
    }
    for (const OperationId id : given_up) GiveUpStranded(id);
  }
  if (to != VirtualTime::Infinity()) now_ = std::max(now_, to);
}

// --- A network that changes -------------------------------------------------------------

void NcclWorld::ApplyNetworkEvent() {
  if (!options_.events->Apply()) return;
  ++routes_;
  options_.planner->Forget();
  std::vector<OperationId> under_way;
  for (const auto& [flow, id] : flows_) under_way.push_back(id);
  for (const auto& [id, stranded] : stranded_) under_way.push_back(id);
  std::sort(under_way.begin(), under_way.end());
  under_way.erase(std::unique(under_way.begin(), under_way.end()), under_way.end());
  for (const OperationId id : under_way) Reroute(id, now_);
}

bool NcclWorld::StandsStill(const Operation& operation) const {
  if (operation.flows.empty()) return true;
  return std::any_of(operation.flows.begin(), operation.flows.end(), [this](const Moving& moving) {
    return std::any_of(moving.uses.begin(), moving.uses.end(),
                       [this](const LinkUse& use) { return options_.events->IsDown(use.link); });
  });
}

void NcclWorld::Reroute(OperationId id, VirtualTime now) {
  auto it = operations_.find(id);
  if (it == operations_.end()) return;
  Operation& operation = it->second;
  if (operation.flows.empty()) return StartFlows(id, now);  // it could not begin
  if (!StandsStill(operation)) {
    stranded_.erase(id);
    return;
  }
  const Communicator* communicator = CommunicatorOf(operation);
  if (communicator == nullptr) return;  // nobody waits for it
  // The algorithm and the parts are the same: they depend on what the communicator is, not on the
  // network's state.
  MakePlan(operation, *communicator, true);
  if (!operation.plan->no_way.empty()) return Strand(id, now);
  stranded_.erase(id);
  ++rerouted_;
  // What is on its way by links that work stays there: connections keep their ways.
  for (const Moving& moving : std::exchange(operation.flows, {})) {
    const bool cut =
        std::any_of(moving.uses.begin(), moving.uses.end(),
                    [this](const LinkUse& use) { return options_.events->IsDown(use.link); });
    if (!cut) {
      operation.flows.push_back(moving);
      continue;
    }
    const double left = options_.network->LeftOf(moving.flow, now);
    options_.network->Cancel(moving.flow, now);
    flows_.erase(moving.flow);
    StartPart(id, operation, moving.part, left, now);
  }
  if (operation.flows.empty()) Complete(id, now);
}

void NcclWorld::Strand(OperationId id, VirtualTime now) {
  const Operation& operation = operations_.at(id);
  if (options_.events == nullptr) {
    options_.failed(absl::StrCat("NCCL: ", operation.plan->no_way));
    return;
  }
  stranded_.try_emplace(id, Stranded{now, now + operation.plan->patience});
}

void NcclWorld::GiveUpStranded(OperationId id) {
  const Stranded stranded = stranded_.extract(id).mapped();
  auto it = operations_.find(id);
  if (it == operations_.end()) return;
  const Operation& operation = it->second;
  const Communicator* communicator = CommunicatorOf(operation);
  // A link may have come back, of which switches do not know yet.
  if (communicator == nullptr || (!operation.flows.empty() && !StandsStill(operation))) return;
  options_.failed(DescribeStranded(*communicator, operation, stranded));
}

std::vector<uint64_t> NcclWorld::TakeChanged() {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  return std::exchange(changed_, {});
}

// --- In words -------------------------------------------------------------------------

void NcclWorld::Mismatch(const Communicator& communicator, const Operation& operation,
                         const NcclShare& share) {
  const auto call = [this](const NcclShare& one) {
    auto ticket = tickets_.find(one.ticket);
    return absl::StrFormat("  rank %d, call %d with this communicator: %s\n", one.rank,
                           ticket == tickets_.end() ? 0 : ticket->second.sequence + 1,
                           Describe(one.entry));
  };
  std::string text = absl::StrFormat("NCCL: ranks of %s do not agree%s:\n", communicator.Name(),
                                     operation.is_message
                                         ? " on a message"
                                         : absl::StrFormat(" on collective %d", operation.number));
  int described = 0;
  for (const NcclShare& other : operation.shares) {
    if (other.ticket == share.ticket || ++described > kMostDescribed) continue;
    absl::StrAppend(&text, call(other));
  }
  absl::StrAppend(&text, call(share),
                  "The real program would hang here, or compute nonsense. Look for ranks that take "
                  "another branch, or that have other sizes.");
  options_.failed(text);
}

std::string NcclWorld::DescribeStranded(const Communicator& communicator,
                                        const Operation& operation,
                                        const Stranded& stranded) const {
  const Entry& entry = operation.shares[0].entry;
  std::string text = absl::StrFormat("NCCL: the network does not connect the ranks of %s: %s\n",
                                     communicator.Name(), operation.plan->no_way);
  if (operation.is_message) {
    absl::StrAppendFormat(&text, "  rank %d: %s\n", operation.shares[0].rank, Describe(entry));
  } else {
    absl::StrAppendFormat(&text, "  collective %d: %s\n", operation.number, Describe(entry));
  }
  std::map<int, std::vector<int>> ranks;  // by host
  for (const NcclShare& share : operation.shares) {
    ranks[communicator.places[static_cast<size_t>(share.rank)].host].push_back(share.rank);
  }
  int described = 0;
  for (const auto& [host, list] : ranks) {
    if (++described > kMostDescribed) break;
    absl::StrAppendFormat(&text, "  host %d: %s\n", host, RankList(list));
  }
  absl::StrAppendFormat(&text, "It has stood still for %g s. %s.",
                        static_cast<double>((now_ - stranded.since).picoseconds()) * 1e-12,
                        operation.plan->lost);
  return text;
}

std::string NcclWorld::WaitsIn(const Communicator& communicator, int rank) const {
  const uint64_t process = communicator.processes[static_cast<size_t>(rank)];
  for (const auto& [key, id] : waiting_) {
    const Operation& operation = operations_.at(id);
    for (const NcclShare& share : operation.shares) {
      const Ticket* ticket = UnfinishedTicket(share.ticket);
      if (ticket == nullptr || ticket->process != process) continue;
      return absl::StrFormat("it waits in collective %d of communicator %d (%s)", operation.number,
                             operation.communicator, Describe(share.entry));
    }
  }
  for (const auto& [pair, unmatched] : unmatched_) {
    for (const auto* messages : {&unmatched.sends, &unmatched.receives}) {
      for (const auto& [share, since] : *messages) {
        const Ticket* ticket = UnfinishedTicket(share.ticket);
        if (ticket == nullptr || ticket->process != process) continue;
        return absl::StrFormat("it waits in a %s, in communicator %d", Describe(share.entry),
                               std::get<0>(pair));
      }
    }
  }
  return communicator.members[static_cast<size_t>(rank)] == 0
             ? "it has left the communicator, or ended"
             : "it has come to no operation that waits";
}

std::string NcclWorld::DescribeMissing(const Communicator& communicator,
                                       const Operation& operation) const {
  std::set<int> there;
  for (const NcclShare& share : operation.shares) there.insert(share.rank);
  std::vector<int> missing;
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    if (!there.contains(rank)) missing.push_back(rank);
  }
  std::string text =
      absl::StrFormat("  %s, collective %d (%s): %s came, %s did not\n", communicator.Name(),
                      operation.number, Describe(operation.shares[0].entry),
                      RankList({there.begin(), there.end()}), RankList(missing));
  for (size_t i = 0; i < missing.size() && i < kMostDescribed; ++i) {
    absl::StrAppendFormat(&text, "    rank %d: %s\n", missing[i],
                          WaitsIn(communicator, missing[i]));
  }
  return text;
}

std::string NcclWorld::DescribeWaiting(VirtualTime since) const {
  std::string text;
  int described = 0;
  for (const auto& [key, id] : waiting_) {
    const Operation& operation = operations_.at(id);
    if (operation.first > since || described == kMostDescribed) continue;
    const Communicator* communicator = CommunicatorOf(operation);
    if (communicator == nullptr) continue;
    ++described;
    absl::StrAppend(&text, DescribeMissing(*communicator, operation));
  }
  for (const auto& [pair, unmatched] : unmatched_) {
    for (const auto* messages : {&unmatched.sends, &unmatched.receives}) {
      if (messages->empty() || messages->front().second > since) continue;
      const NcclShare& share = messages->front().first;
      const Ticket* ticket = UnfinishedTicket(share.ticket);
      const Communicator* communicator =
          ticket == nullptr ? nullptr : CommunicatorOf(ticket->handle);
      if (communicator == nullptr || ++described > kMostDescribed) continue;
      absl::StrAppendFormat(&text, "  %s, rank %d: %s has no partner\n    rank %d: %s\n",
                            communicator->Name(), share.rank, Describe(share.entry),
                            share.entry.peer, WaitsIn(*communicator, share.entry.peer));
    }
  }
  return text;
}

}  // namespace phantora
