#include "tools/replay/replayed_nccl.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace phantora {

ReplayedNccl::ReplayedNccl(const StepRecord* record, const ScaledRanks* ranks,
                           std::vector<int> replayed, ClusterFabric* fabric)
    : record_(record),
      ranks_(ranks),
      replayed_(std::move(replayed)),
      in_place_of_(replayed_.size()),
      planner_(fabric, record->memory_bytes_per_s,
               [this](const std::string& what) {
                 if (error_.empty()) error_ = what;
               }),
      world_({.network = &fabric->network(),
              .planner = &planner_,
              .payload = &payload_,
              .failed =
                  [this](const std::string& what) {
                    if (error_.empty()) error_ = what;
                  }}),
      under_way_(replayed_.size()) {
  for (size_t rank = 0; rank < replayed_.size(); ++rank) {
    in_place_of_[static_cast<size_t>(replayed_[rank])].push_back(static_cast<int>(rank));
    hosts_.insert(HostOf(replayed_[rank]));
  }
}

absl::Status ReplayedNccl::Prepare() {
  for (const ScaledRanks::Rank& rank : ranks_->ranks()) {
    handles_.emplace_back(rank.communicators.size());
  }
  std::vector<uint32_t> order;  // they get numbers as they are made
  for (uint32_t i = 0; i < ranks_->communicators().size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    return ranks_->communicators()[a].number < ranks_->communicators()[b].number;
  });
  for (const uint32_t i : order) {
    const ScaledRanks::Communicator& communicator = ranks_->communicators()[i];
    nccl::Join join{};
    std::memcpy(join.id, &i, sizeof i);
    join.ranks = static_cast<int32_t>(communicator.members.size());
    join.settings = communicator.settings;
    for (join.rank = 0; join.rank < join.ranks; ++join.rank) {
      const int member = communicator.members[static_cast<size_t>(join.rank)];
      const ScaledRanks::Rank& rank = ranks_->ranks()[static_cast<size_t>(member)];
      const nccl::Handle handle =
          world_.communicators().Join({static_cast<uint64_t>(member), rank.place}, join);
      for (size_t own = 0; own < rank.communicators.size(); ++own) {
        if (rank.communicators[own].communicator == i) {
          handles_[static_cast<size_t>(member)][own] = handle;
        }
      }
      if (handle == 0) return absl::ResourceExhaustedError("too many communicators");
    }
  }
  // A call each, as a program's own.
  for (size_t rank = 0; rank < handles_.size(); ++rank) {
    for (const nccl::Handle handle : handles_[rank]) {
      const NcclEndpoint* endpoint = world_.communicators().Find(handle);
      if (endpoint == nullptr || endpoint->communicator == nullptr) {
        return absl::InternalError(
            absl::StrCat("a communicator of rank ", rank, " could not be made",
                         endpoint == nullptr || endpoint->message.empty() ? "" : ": ",
                         endpoint == nullptr ? "" : endpoint->message));
      }
    }
  }
  return absl::OkStatus();
}

NcclEndpoint* ReplayedNccl::EndpointOf(int rank, uint32_t communicator) {
  return world_.communicators().Find(handles_[static_cast<size_t>(rank)][communicator]);
}

bool ReplayedNccl::IsElsewhere(int rank, uint32_t communicator) const {
  const int host = HostOf(rank);
  if (hosts_.contains(host)) return false;
  const auto index = ranks_->ranks()[static_cast<size_t>(rank)].communicators[communicator];
  const auto& members = ranks_->communicators()[index.communicator].members;
  return std::all_of(members.begin(), members.end(),
                     [&](int member) { return HostOf(member) == host; });
}

EngineWork::Need ReplayedNccl::NeedOf(int rank, const StepRecord::Node& node) {
  const auto& operation = record_->operations[static_cast<size_t>(node.operation)];
  const NcclEndpoint& endpoint = *EndpointOf(rank, operation.communicator);
  const auto entries = ranks_->EntriesOf(rank, node.operation);
  if (const std::string wrong = NcclWorld::Check(endpoint, entries); !wrong.empty()) {
    if (error_.empty()) error_ = absl::StrCat("an operation of rank ", rank, " has ", wrong);
    return NeedWithoutEnd(1, record_->sms, 0, node.level);
  }
  const auto occupancy = world_.OccupancyOf(endpoint, entries);
  return NeedWithoutEnd(occupancy.sms, record_->sms, occupancy.memory_share, node.level);
}

void ReplayedNccl::Start(int rank, uint32_t node, const StepRecord::Node& what, VirtualTime now) {
  const auto& operation = record_->operations[static_cast<size_t>(what.operation)];
  size_t& left = left_[{rank, node}];
  for (const int other : in_place_of_[static_cast<size_t>(rank)]) {
    if (other != rank && IsElsewhere(other, operation.communicator)) continue;
    NcclEndpoint& endpoint = *EndpointOf(other, operation.communicator);
    auto entries = ranks_->EntriesOf(other, what.operation);
    if (!NcclWorld::Check(endpoint, entries).empty()) continue;  // NeedOf() has said so
    const NcclTicket ticket = world_.Start(endpoint, std::move(entries), node, now);
    under_way_[static_cast<size_t>(other)].push_back({ticket, node});
    ++left;
  }
}

void ReplayedNccl::Advance(VirtualTime to,
                           const std::function<void(int rank, uint32_t node)>& ended) {
  world_.Advance(to);
  for (const uint64_t process : world_.TakeChanged()) {
    const int replayed = replayed_[process];
    std::erase_if(under_way_[process], [&](const UnderWay& under_way) {
      if (world_.EndOf(under_way.ticket) == VirtualTime::Infinity()) return false;
      world_.Forget(under_way.ticket);
      const auto left = left_.find({replayed, under_way.node});
      if (--left->second == 0) {
        left_.erase(left);
        ended(replayed, under_way.node);
      }
      return true;
    });
  }
}

}  // namespace phantora
