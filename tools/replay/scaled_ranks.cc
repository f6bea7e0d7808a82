#include "tools/replay/scaled_ranks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fabric/collectives/nccl_operation.h"

namespace phantora {
namespace {

constexpr int kMostRanks = 1 << 17;

}  // namespace

absl::StatusOr<ScaledRanks> ScaledRanks::Create(const StepRecord& record, const RankAxes& axes,
                                                const std::map<std::string, int>& to, int gpus,
                                                bool fitted) {
  const auto members = MembersOf(record);
  if (!members.ok()) return members.status();
  std::vector<RankAxis> scaled = axes.all();
  int64_t ranks = 1;
  for (const auto& [name, size] : to) {
    const int axis = axes.Find(name);
    if (axis < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no axis ", name, ": they are ", axes.Text()));
    }
    if (size < 1) return absl::InvalidArgumentError(absl::StrCat(name, " of ", size, " ranks"));
    scaled[static_cast<size_t>(axis)].size = size;
  }
  for (const RankAxis& axis : scaled) ranks = std::min<int64_t>(ranks * axis.size, kMostRanks + 1);
  if (ranks > kMostRanks) {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMostRanks, " ranks"));
  }
  ScaledRanks result(&record, axes, RankAxes(std::move(scaled)), gpus, fitted);
  for (size_t axis = 0; axis < axes.all().size(); ++axis) {
    if (!result.IsScaled(axis)) continue;
    if (auto status = result.CheckAxis(axis); !status.ok()) return status;
  }
  if (auto status = result.CheckCommunicators(*members); !status.ok()) return status;
  if (auto status = result.CheckMessages(*members); !status.ok()) return status;
  result.members_ = *members;
  result.Build(*members);
  return result;
}

double ScaledRanks::factor() const {
  return static_cast<double>(axes_.ranks()) / static_cast<double>(recorded_.ranks());
}

absl::Status ScaledRanks::CheckAxis(size_t axis) const {
  const RankAxis& scaled = recorded_.all()[axis];
  if (!absl::StartsWith(scaled.name, "dp")) {
    return absl::InvalidArgumentError(absl::StrCat(
        scaled.name,
        " cannot be scaled: with another size each rank computes something else. "
        "Record a run that has it (the axes are ",
        recorded_.Text(), "; if that is a wrong guess, say what they are with --axes)"));
  }
  if (scaled.size < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(scaled.name, " was 1: record a run in which it is 2 at least"));
  }
  for (int rank = 0; rank < recorded_.ranks(); ++rank) {
    auto coordinates = recorded_.CoordinatesOf(rank);
    if (coordinates[axis] < 2) continue;
    coordinates[axis] = 1;
    const int other = recorded_.RankOf(coordinates);
    const auto role = [this](int of) { return record_->ranks[static_cast<size_t>(of)].role; };
    if (role(rank) == role(other)) continue;
    const bool truncated = record_->roles[role(rank)].truncated;
    return absl::InvalidArgumentError(
        absl::StrCat(scaled.name, " cannot be scaled: ranks ", other, " and ", rank,
                     " differ along it only, and did not do the same",
                     truncated ? "; the recording ends before the run: record fewer steps" : ""));
  }
  return absl::OkStatus();
}

absl::Status ScaledRanks::CheckCommunicators(const std::vector<std::vector<int>>& members) const {
  for (size_t axis = 0; axis < axes_.all().size(); ++axis) {
    if (!IsScaled(axis)) continue;
    const int size = recorded_.all()[axis].size;
    for (size_t i = 0; i < members.size(); ++i) {
      // By the other coordinates: those along this axis.
      std::map<std::vector<int>, std::set<int>> along;
      std::set<int> all;
      for (const int rank : members[i]) {
        auto coordinates = recorded_.CoordinatesOf(rank);
        const int here = std::exchange(coordinates[axis], 0);
        along[coordinates].insert(here);
        all.insert(here);
      }
      const bool whole = std::all_of(along.begin(), along.end(), [size](const auto& item) {
        return static_cast<int>(item.second.size()) == size;
      });
      if (all.size() > 1 && !whole) {
        return absl::InvalidArgumentError(
            absl::StrCat("communicator ", record_->communicators[i].number, " of ",
                         members[i].size(), " ranks has some of those along ",
                         axes_.all()[axis].name, ", neither one nor all: it cannot be scaled"));
      }
      if (whole && !std::is_sorted(members[i].begin(), members[i].end())) {
        return absl::InvalidArgumentError(
            absl::StrCat("communicator ", record_->communicators[i].number,
                         " has its ranks in an order of its own: it cannot be scaled"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ScaledRanks::CheckMessages(const std::vector<std::vector<int>>& members) const {
  for (size_t i = 0; i < record_->ranks.size(); ++i) {
    const StepRecord::Rank& rank = record_->ranks[i];
    const auto own = recorded_.CoordinatesOf(static_cast<int>(i));
    std::set<int> done;
    for (const StepRecord::Node& node : record_->roles[rank.role].nodes) {
      if (node.operation == StepRecord::kNoOperation || !done.insert(node.operation).second) {
        continue;
      }
      const auto& operation = record_->operations[static_cast<size_t>(node.operation)];
      const StepRecord::Member& member = rank.communicators[operation.communicator];
      const auto& of = members[member.communicator];
      for (const StepRecord::Entry& entry : operation.entries) {
        const nccl::Entry made = EntryOf(entry, member.rank, static_cast<int>(of.size()));
        if (!IsMessage(made)) continue;
        const auto peer = recorded_.CoordinatesOf(of[static_cast<size_t>(made.peer)]);
        for (size_t axis = 0; axis < own.size(); ++axis) {
          if (!IsScaled(axis) || own[axis] == peer[axis]) continue;
          return absl::InvalidArgumentError(absl::StrCat(
              axes_.all()[axis].name, " cannot be scaled: ranks send along it, as rank ", i,
              " does to rank ", of[static_cast<size_t>(made.peer)]));
        }
      }
    }
  }
  return absl::OkStatus();
}

int ScaledRanks::RecordedOf(int rank) const {
  auto coordinates = axes_.CoordinatesOf(rank);
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    const int size = recorded_.all()[axis].size;
    if (coordinates[axis] >= size) coordinates[axis] = std::min(1, size - 1);
  }
  return recorded_.RankOf(coordinates);
}

void ScaledRanks::Build(const std::vector<std::vector<int>>& members) {
  const int count = axes_.ranks();
  const bool as_it_was = axes_.all() == recorded_.all() && gpus_ == record_->gpus;
  // Along which axes each recorded communicator has all ranks.
  std::vector<std::vector<bool>> spans;
  for (const auto& of : members) {
    auto& along = spans.emplace_back(axes_.all().size());
    for (size_t axis = 0; axis < along.size(); ++axis) {
      const int first = recorded_.CoordinatesOf(of[0])[axis];
      for (const int rank : of) {
        if (recorded_.CoordinatesOf(rank)[axis] != first) along[axis] = true;
      }
    }
  }
  std::map<std::pair<uint32_t, std::vector<int>>, uint32_t> made;
  for (int rank = 0; rank < count; ++rank) {
    Rank& scaled = ranks_.emplace_back();
    scaled.recorded = RecordedOf(rank);
    const StepRecord::Rank& recorded = record_->ranks[static_cast<size_t>(scaled.recorded)];
    scaled.place = as_it_was ? recorded.place : GpuPlace{rank / gpus_, rank % gpus_};
    for (const StepRecord::Member& member : recorded.communicators) {
      // Ranks at one place along the axes that it does not span have it together.
      std::vector<int> at;
      const auto coordinates = axes_.CoordinatesOf(rank);
      for (size_t axis = 0; axis < coordinates.size(); ++axis) {
        const bool apart = IsScaled(axis) && !spans[member.communicator][axis];
        at.push_back(apart ? coordinates[axis] : -1);
      }
      const auto [it, fresh] = made.try_emplace({member.communicator, std::move(at)},
                                                static_cast<uint32_t>(communicators_.size()));
      if (fresh) {
        Communicator& communicator = communicators_.emplace_back();
        communicator.settings = record_->communicators[member.communicator].settings;
        communicator.recorded = member.communicator;
        communicator.spans = spans[member.communicator];
      }
      Communicator& communicator = communicators_[it->second];
      scaled.communicators.push_back({it->second, static_cast<int>(communicator.members.size())});
      communicator.members.push_back(rank);
    }
  }
  // Ranks that kept their number keep their place in it, and others theirs by number.
  for (uint32_t i = 0; i < communicators_.size(); ++i) {
    Communicator& communicator = communicators_[i];
    const auto& of = members[communicator.recorded];
    if (communicator.members.size() == of.size()) {
      std::stable_sort(communicator.members.begin(), communicator.members.end(), [&](int a, int b) {
        const auto place = [&](int rank) {
          return std::find(of.begin(), of.end(), RecordedOf(rank)) - of.begin();
        };
        return place(a) < place(b);
      });
    }
    for (size_t rank = 0; rank < communicator.members.size(); ++rank) {
      for (auto& member : ranks_[static_cast<size_t>(communicator.members[rank])].communicators) {
        if (member.communicator == i) member.rank = static_cast<int>(rank);
      }
    }
  }
  // Numbers decide between equal ways: in the order of the recorded ones, with copies behind them.
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < communicators_.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto number = [&](uint32_t i) {
      return record_->communicators[communicators_[i].recorded].number;
    };
    return number(a) < number(b);
  });
  int number = 0;
  for (const uint32_t i : order) communicators_[i].number = ++number;
}

int ScaledRanks::PeerOf(int rank, const Communicator& communicator, int peer) const {
  auto coordinates = recorded_.CoordinatesOf(peer);
  const auto own = axes_.CoordinatesOf(rank);
  const auto recorded = recorded_.CoordinatesOf(ranks_[static_cast<size_t>(rank)].recorded);
  for (size_t axis = 0; axis < own.size(); ++axis) {
    if (IsScaled(axis) && coordinates[axis] == recorded[axis]) coordinates[axis] = own[axis];
  }
  return IndexOf(communicator, coordinates);
}

int ScaledRanks::RootOf(const Communicator& communicator, int root) const {
  auto coordinates = recorded_.CoordinatesOf(root);
  const auto any = axes_.CoordinatesOf(communicator.members[0]);
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    if (!IsScaled(axis)) continue;
    coordinates[axis] = communicator.spans[axis]
                            ? std::min(coordinates[axis], axes_.all()[axis].size - 1)
                            : any[axis];
  }
  return IndexOf(communicator, coordinates);
}

int ScaledRanks::IndexOf(const Communicator& communicator,
                         absl::Span<const int> coordinates) const {
  const auto& members = communicator.members;
  const int rank = axes_.RankOf(coordinates);
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

std::vector<nccl::Entry> ScaledRanks::EntriesOf(int rank, int index) const {
  const Rank& scaled = ranks_[static_cast<size_t>(rank)];
  const auto& operation = record_->operations[static_cast<size_t>(index)];
  const StepRecord::Member& recorded_member =
      record_->ranks[static_cast<size_t>(scaled.recorded)].communicators[operation.communicator];
  const StepRecord::Member& member = scaled.communicators[operation.communicator];
  const Communicator& communicator = communicators_[member.communicator];
  const auto& of = members_[communicator.recorded];
  const auto before = static_cast<uint64_t>(of.size()), now = communicator.members.size();
  std::vector<nccl::Entry> entries;
  for (const StepRecord::Entry& recorded : operation.entries) {
    nccl::Entry entry = EntryOf(recorded, recorded_member.rank, static_cast<int>(before));
    if (IsMessage(entry) || (HasRoot(entry) && static_cast<size_t>(entry.peer) < of.size())) {
      const int peer = of[static_cast<size_t>(entry.peer)];
      // A root is one rank for all.
      entry.peer = IsMessage(entry) ? PeerOf(rank, communicator, peer) : RootOf(communicator, peer);
    }
    const bool in_all = entry.operation == nccl::Operation::kAllGather ||
                        entry.operation == nccl::Operation::kReduceScatter;
    if (in_all && now != before && !fitted_) entry.count = (entry.count * before + now - 1) / now;
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace phantora
