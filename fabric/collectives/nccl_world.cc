#include "fabric/collectives/nccl_world.h"

#include <algorithm>
#include <utility>

namespace phantora {
namespace {

using nccl::Entry;

// A message that would wrap addresses is none.
constexpr uint64_t kMostBytes = uint64_t{1} << 48;

bool Agree(const Entry& a, const Entry& b) {
  return a.operation == b.operation && a.type == b.type && a.count == b.count &&
         (!HasRoot(a) || a.peer == b.peer) && (!Reduces(a) || a.reduction == b.reduction);
}

bool OneMachine(const Communicator& communicator, int a, int b) {
  return communicator.places[static_cast<size_t>(a)].host ==
         communicator.places[static_cast<size_t>(b)].host;
}

}  // namespace

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
    if (Reduces(entry) && entry.reduction > nccl::kPreMulSum) return "no such reduction";
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
    if (entry.operation != nccl::Operation::kSend) continue;
    ++(entry.peer == endpoint.rank                                     ? sends.own
       : OneMachine(*endpoint.communicator, endpoint.rank, entry.peer) ? sends.near
                                                                       : sends.far);
  }
  return sends;
}

MessageWork NcclWorld::Sends::Work(const Communicator& communicator, int from, int to,
                                   int64_t bytes) const {
  const int beside = OneMachine(communicator, from, to) ? near : far;
  return {from, to, bytes, std::max(beside, 1), own > 0};
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
                  communicator, sends.Work(communicator, endpoint.rank, entry.peer, bytes), false)
            : options_.planner->Collective(
                  communicator,
                  WorkOf(entry, communicator.ranks(),
                         i < given.size() ? std::optional(given[i]) : std::nullopt),
                  false);
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
    return ReportMismatch(communicator, operation, share);
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
    return ReportMismatch(communicator, operation, share);
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
    const Sends sends = sender == tickets_.end() ? Sends() : sender->second.sends;
    operation.plan =
        options_.planner->Message(communicator, sends.Work(communicator, from, to, bytes), now);
  } else {
    operation.plan = options_.planner->Collective(
        communicator, WorkOf(entry, communicator.ranks(), operation.given), now);
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

std::vector<uint64_t> NcclWorld::TakeChanged() {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  return std::exchange(changed_, {});
}

}  // namespace phantora
