#include "tools/replay/step_replay.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clock/time_source.h"
#include "fabric/cluster/cluster_fabric.h"
#include "tools/replay/replayed_nccl.h"
#include "tools/replay/replayed_rank.h"

namespace phantora {
namespace {

// For each rank the one that is replayed in its place: itself, unless that would be too much.
std::vector<int> RanksToReplay(const StepRecord& record, const ScaledRanks& ranks, size_t most) {
  size_t nodes = 0;
  for (const ScaledRanks::Rank& rank : ranks.ranks()) {
    nodes += record.roles[record.ranks[static_cast<size_t>(rank.recorded)].role].nodes.size();
  }
  std::vector<int> replayed;
  std::map<int, int> first;  // by the recorded rank
  for (size_t rank = 0; rank < ranks.ranks().size(); ++rank) {
    const auto number = static_cast<int>(rank);
    const auto it = first.try_emplace(ranks.ranks()[rank].recorded, number).first;
    replayed.push_back(nodes <= most ? number : it->second);
  }
  return replayed;
}

// By name: does it work on a rank's part?
std::vector<bool> WhichAreSharded(const StepRecord& record, absl::Span<const std::string> sharded) {
  std::vector<bool> which;
  for (const std::string& name : record.names) {
    which.push_back(std::any_of(sharded.begin(), sharded.end(), [&](const std::string& part) {
      return absl::StrContains(name, part);
    }));
  }
  return which;
}

class Replayer {
 public:
  Replayer(const StepRecord& record, const ScaledRanks& ranks, ClusterFabric* fabric,
           const ReplayOptions& options)
      : record_(record),
        ranks_(ranks),
        replayed_(
            RanksToReplay(record, ranks, options.paces.even() ? options.most_nodes : SIZE_MAX)),
        paces_(options.paces),
        nccl_(&record, &ranks, replayed_, fabric) {
    const std::vector<bool> is_sharded = WhichAreSharded(record, options.sharded);
    for (const StepRecord::Role& role : record.roles) {
      graphs_.push_back(std::make_unique<RoleGraph>(role, [&](const StepRecord::Node& node) {
        const bool sharded =
            node.name != StepRecord::kNoName && is_sharded[static_cast<size_t>(node.name)];
        return sharded ? PartOf(node.alone) : node.alone;
      }));
    }
    for (size_t rank = 0; rank < replayed_.size(); ++rank) {
      auto& own = all_.emplace_back();
      const auto number = static_cast<int>(rank);
      if (replayed_[rank] != number) continue;
      const RoleGraph* graph = graphs_[RoleOf(number)].get();
      const auto node = [graph](uint32_t index) -> const StepRecord::Node& {
        return graph->role->nodes[index];
      };
      own = std::make_unique<ReplayedRank>(
          graph, clock_,
          [this, number](uint32_t index, VirtualSpan alone) {
            return paces_.Of(number, index, alone);
          },
          ReplayedRank::Nccl{
              .need = [this, number,
                       node](uint32_t index) { return nccl_.NeedOf(number, node(index)); },
              .start =
                  [this, number, node](uint32_t index) {
                    nccl_.Start(number, index, node(index), clock_->Now());
                  }});
    }
  }

  absl::Status Run() {
    if (auto status = nccl_.Prepare(); !status.ok()) return status;
    std::set<int> due;
    for (size_t rank = 0; rank < all_.size(); ++rank) {
      if (all_[rank] != nullptr) due.insert(static_cast<int>(rank));
    }
    next_.assign(all_.size(), VirtualTime::Infinity());
    for (;;) {
      for (const int rank : due) {
        ReplayedRank& own = *all_[static_cast<size_t>(rank)];
        own.Settle();
        SetNext(rank, own.Next());
      }
      if (!nccl_.error().empty()) return absl::FailedPreconditionError(nccl_.error());
      due.clear();
      const VirtualTime own = by_time_.empty() ? VirtualTime::Infinity() : by_time_.begin()->first;
      const VirtualTime next = std::min(own, nccl_.Next());
      if (next == VirtualTime::Infinity()) break;
      clock_->AdvanceTo(next);
      nccl_.Advance(clock_->Now(), [&](int rank, uint32_t node) {
        all_[static_cast<size_t>(rank)]->EndOperation(node);
        due.insert(rank);
      });
      for (auto it = by_time_.begin(); it != by_time_.end() && it->first <= clock_->Now(); ++it) {
        due.insert(it->second);
      }
    }
    for (size_t rank = 0; rank < all_.size(); ++rank) {
      if (all_[rank] == nullptr || all_[rank]->unfinished() == 0) continue;
      return absl::InternalError(absl::StrCat("rank ", rank, " waits in vain: of its ",
                                              graphs_[RoleOf(static_cast<int>(rank))]->alone.size(),
                                              " nodes ", all_[rank]->unfinished(), " never end"));
    }
    return absl::OkStatus();
  }

  uint32_t RoleOf(int rank) const {
    const auto recorded = static_cast<size_t>(ranks_.ranks()[static_cast<size_t>(rank)].recorded);
    return record_.ranks[recorded].role;
  }
  // The rank that is replayed in the place of this one.
  const ReplayedRank& Of(int rank) const {
    return *all_[static_cast<size_t>(replayed_[static_cast<size_t>(rank)])];
  }
  int replayed() const {
    return static_cast<int>(
        std::count_if(all_.begin(), all_.end(), [](const auto& own) { return own != nullptr; }));
  }

 private:
  void SetNext(int rank, VirtualTime next) {
    VirtualTime& known = next_[static_cast<size_t>(rank)];
    if (known == next) return;
    by_time_.erase({known, rank});
    known = next;
    if (next != VirtualTime::Infinity()) by_time_.insert({next, rank});
  }
  VirtualSpan PartOf(VirtualSpan alone) const {
    // On fewer ranks it may be longer than there is time.
    const double part = static_cast<double>(alone.picoseconds()) / ranks_.factor();
    constexpr auto kMost = static_cast<double>(int64_t{1} << 60);
    return VirtualSpan::Picoseconds(static_cast<int64_t>(std::min(part, kMost)));
  }

  const StepRecord& record_;
  const ScaledRanks& ranks_;
  const std::vector<int> replayed_;
  const RankPaces paces_;
  const std::shared_ptr<ManualTimeSource> clock_ = std::make_shared<ManualTimeSource>();
  ReplayedNccl nccl_;
  std::vector<std::unique_ptr<RoleGraph>> graphs_;  // by role
  std::vector<std::unique_ptr<ReplayedRank>> all_;  // null: another is in its place
  std::vector<VirtualTime> next_;                   // what each has to do next
  std::set<std::pair<VirtualTime, int>> by_time_;
};

absl::Status Check(const StepRecord& record, const ScaledRanks& ranks, const Cluster& cluster,
                   const ReplayOptions& options) {
  if (cluster.host.gpu != record.gpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("its GPUs are ", cluster.host.gpu, ", the recording is of ", record.gpu));
  }
  if (cluster.host.gpus < ranks.gpus()) {
    return absl::InvalidArgumentError(absl::StrCat("its hosts have ", cluster.host.gpus,
                                                   " GPUs, for ", ranks.gpus(), " ranks of each"));
  }
  for (const int rank : options.shown) {
    if (rank >= 0 && static_cast<size_t>(rank) < ranks.ranks().size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no rank ", rank, ": it has ", ranks.ranks().size()));
  }
  for (const ScaledRanks::Rank& rank : ranks.ranks()) {
    if (rank.place.host < cluster.hosts) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(ranks.ranks().size(), " ranks (", ranks.axes().Text(), "), ", ranks.gpus(),
                     " to a host, need more than its ", cluster.hosts, " hosts"));
  }
  if (!cluster.events.empty()) {
    return absl::UnimplementedError("events of the network are not replayed");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayedStep> Replay(const StepRecord& record, absl::Span<const StepPeriod> periods,
                                    const ScaledRanks& ranks, const Cluster& cluster,
                                    const ReplayOptions& options) {
  if (auto status = Check(record, ranks, cluster, options); !status.ok()) return status;
  auto fabric = ClusterFabric::Create(cluster);
  if (!fabric.ok()) return fabric.status();
  Replayer replayer(record, ranks, fabric->get(), options);
  if (auto status = replayer.Run(); !status.ok()) return status;
  ReplayedStep step;
  step.gpus = static_cast<int>(ranks.ranks().size());
  step.replayed = replayer.replayed();
  for (int rank = 0; rank < step.gpus; ++rank) {
    const uint32_t role = replayer.RoleOf(rank);
    auto it = std::find_if(step.roles.begin(), step.roles.end(),
                           [role](const auto& known) { return known.role == role; });
    if (it == step.roles.end()) {
      const ReplayedRank& of = replayer.Of(rank);
      ReplayedStep::Role made = {.role = role, .first = rank};
      const StepPeriod& period = periods[role];
      const auto since_start = [](VirtualSpan span) { return VirtualTime() + span; };
      made.time = StepTime(period, [&](uint32_t node) { return of.EndOf(node); });
      made.communication =
          StepTime(period, [&](uint32_t node) { return since_start(of.CommunicationTo(node)); });
      made.exposed =
          StepTime(period, [&](uint32_t node) { return since_start(of.ExposedTo(node)); });
      it = step.roles.insert(step.roles.end(), made);
    }
    ++it->ranks;
    const auto recorded = static_cast<size_t>(ranks.ranks()[static_cast<size_t>(rank)].recorded);
    it->memory = std::max(it->memory, record.ranks[recorded].memory);
  }
  std::vector<int> shown = options.shown;
  if (options.show_roles) {
    for (const ReplayedStep::Role& role : step.roles) shown.push_back(role.first);
  }
  for (const int rank : shown) {
    const ReplayedRank& of = replayer.Of(rank);
    ReplayedStep::Timeline& timeline =
        step.timelines.emplace_back(ReplayedStep::Timeline{rank, replayer.RoleOf(rank), {}});
    const auto nodes = static_cast<uint32_t>(record.roles[timeline.role].nodes.size());
    for (uint32_t i = 0; i < nodes; ++i) timeline.nodes.emplace_back(of.BeginOf(i), of.EndOf(i));
  }
  const ReplayedRank& first = replayer.Of(0);
  for (uint32_t i = 0; i < record.roles[replayer.RoleOf(0)].nodes.size(); ++i) {
    step.ends.push_back(first.EndOf(i));
  }
  return step;
}

}  // namespace phantora
