// What users are told of NCCL operations that wait, strand or do not agree.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "fabric/collectives/nccl_world.h"

namespace phantora {
namespace {

using nccl::Entry;

constexpr int kMostDescribed = 8, kMostRanksNamed = 16;

std::string RankList(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size() && i < kMostRanksNamed; ++i) {
    absl::StrAppend(&text, " ", ranks[i]);
  }
  if (ranks.size() > kMostRanksNamed) absl::StrAppend(&text, " ... (", ranks.size(), " of them)");
  return text;
}

}  // namespace

void NcclWorld::ReportMismatch(const Communicator& communicator, const Operation& operation,
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
