#include "tools/replay/rank_axes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace phantora {
namespace {

// Where the strides of axes begin and end: of 2 x 4 ranks 1, 2 and 8.
using Cuts = std::set<int>;

bool Divides(const Cuts& cuts) {
  int last = 1;
  for (const int cut : cuts) {
    if (cut % last != 0) return false;
    last = cut;
  }
  return true;
}

// The strides of ranks that are a lattice, and where each ends: of 0, 1, 4, 5 1, 2, 4 and 8. Empty
// if they are none.
std::vector<int> StridesOf(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<int> strides;
  size_t block = 1;  // ranks of which the lattice is known
  while (block < ranks.size()) {
    const int stride = ranks[block] - ranks[0];
    size_t count = 1;
    for (; (count + 1) * block <= ranks.size(); ++count) {
      bool same = true;
      for (size_t i = 0; i < block; ++i) {
        same = same && ranks[count * block + i] == ranks[i] + static_cast<int>(count) * stride;
      }
      if (!same) break;
    }
    if (count == 1 || ranks.size() % (block * count) != 0) return {};
    strides.push_back(stride);
    strides.push_back(stride * static_cast<int>(count));
    block *= count;
  }
  return strides;
}

// What goes on along an axis.
struct Use {
  size_t operations = 0;  // that rank 0 takes part in
  bool exchanges = false, sends = false;
};

// Along which axes ranks of a communicator differ.
std::vector<size_t> AxesOf(const RankAxes& axes, const std::vector<int>& members) {
  std::vector<size_t> found;
  const auto first = axes.CoordinatesOf(members[0]);
  for (size_t axis = 0; axis < axes.all().size(); ++axis) {
    const bool differs = std::any_of(members.begin(), members.end(), [&](int rank) {
      return axes.CoordinatesOf(rank)[axis] != first[axis];
    });
    if (differs) found.push_back(axis);
  }
  return found;
}

std::vector<Use> UsesOf(const StepRecord& record, const RankAxes& axes,
                        const std::vector<std::vector<int>>& members) {
  std::vector<Use> uses(axes.all().size());
  const StepRecord::Rank& rank = record.ranks[0];
  std::vector<size_t> count(record.operations.size());
  for (const StepRecord::Node& node : record.roles[rank.role].nodes) {
    if (node.operation != StepRecord::kNoOperation) ++count[static_cast<size_t>(node.operation)];
  }
  for (size_t i = 0; i < record.operations.size(); ++i) {
    const StepRecord::Operation& operation = record.operations[i];
    if (count[i] == 0) continue;
    const auto& of = members[rank.communicators[operation.communicator].communicator];
    std::set<int> sends_to;
    for (const StepRecord::Entry& entry : operation.entries) {
      if (IsMessage(entry)) sends_to.insert(entry.peer);
    }
    const bool to_all = of.size() > 1 && sends_to.size() == of.size();
    for (const size_t axis : AxesOf(axes, of)) {
      uses[axis].operations += count[i];
      uses[axis].exchanges |= to_all;
      uses[axis].sends |= !sends_to.empty() && !to_all;
    }
  }
  return uses;
}

// Do ranks that differ along it only do the same? The first may do more than the others.
bool IsSymmetric(const StepRecord& record, const RankAxes& axes, size_t axis) {
  for (int rank = 0; rank < axes.ranks(); ++rank) {
    auto coordinates = axes.CoordinatesOf(rank);
    if (coordinates[axis] < 2) continue;
    coordinates[axis] = 1;
    const auto other = static_cast<size_t>(axes.RankOf(coordinates));
    if (record.ranks[static_cast<size_t>(rank)].role != record.ranks[other].role) return false;
  }
  if (axes.all()[axis].size > 2) return true;
  for (int rank = 0; rank < axes.ranks(); ++rank) {
    auto coordinates = axes.CoordinatesOf(rank);
    coordinates[axis] = 0;
    const auto other = static_cast<size_t>(axes.RankOf(coordinates));
    if (record.ranks[static_cast<size_t>(rank)].role != record.ranks[other].role) return false;
  }
  return true;
}

std::vector<std::string> NamesOf(const StepRecord& record, const RankAxes& axes,
                                 const std::vector<Use>& uses) {
  std::vector<std::string> names(uses.size());
  std::vector<size_t> rest;
  std::map<std::string, int> taken;
  const auto name = [&](size_t axis, const std::string& base) {
    const int number = ++taken[base];
    names[axis] = number == 1 ? base : absl::StrCat(base, number);
  };
  for (size_t axis = 0; axis < uses.size(); ++axis) {
    const Use& use = uses[axis];
    if (use.sends && !IsSymmetric(record, axes, axis)) {
      name(axis, "pp");
    } else if (use.exchanges) {
      name(axis, "ep");
    } else if (use.sends) {
      name(axis, "cp");
    } else if (use.operations == 0) {
      name(axis, "x");
    } else {
      rest.push_back(axis);
    }
  }
  // The slowest of equals.
  const auto fewest = std::min_element(rest.rbegin(), rest.rend(), [&](size_t a, size_t b) {
    return uses[a].operations < uses[b].operations;
  });
  for (const size_t axis : rest) name(axis, axis == *fewest ? "dp" : "tp");
  return names;
}

}  // namespace

int RankAxes::ranks() const {
  int ranks = 1;
  for (const RankAxis& axis : axes_) ranks *= axis.size;
  return ranks;
}

std::vector<int> RankAxes::CoordinatesOf(int rank) const {
  std::vector<int> coordinates;
  for (const RankAxis& axis : axes_) {
    coordinates.push_back(rank % axis.size);
    rank /= axis.size;
  }
  return coordinates;
}

int RankAxes::RankOf(absl::Span<const int> coordinates) const {
  int rank = 0, stride = 1;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    rank += coordinates[axis] * stride;
    stride *= axes_[axis].size;
  }
  return rank;
}

int RankAxes::Find(absl::string_view name) const {
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axes_[axis].name == name) return static_cast<int>(axis);
  }
  return -1;
}

std::string RankAxes::Text() const {
  return absl::StrJoin(axes_, ",", [](std::string* out, const RankAxis& axis) {
    absl::StrAppend(out, axis.name, "=", axis.size);
  });
}

absl::StatusOr<std::vector<std::vector<int>>> MembersOf(const StepRecord& record) {
  std::map<GpuPlace, int> ranks;
  for (size_t i = 0; i < record.ranks.size(); ++i) {
    ranks[record.ranks[i].place] = static_cast<int>(i);
  }
  std::vector<std::vector<int>> members;
  for (const StepRecord::Communicator& communicator : record.communicators) {
    auto& of = members.emplace_back();
    for (const GpuPlace& place : communicator.places) {
      const auto it = ranks.find(place);
      if (it == ranks.end()) {
        return absl::InvalidArgumentError(absl::StrCat("communicator ", communicator.number,
                                                       " has a rank, GPU ", place.gpu, " of host ",
                                                       place.host, ", that was not recorded"));
      }
      of.push_back(it->second);
    }
  }
  return members;
}

absl::StatusOr<RankAxes> FindAxes(const StepRecord& record) {
  const auto members = MembersOf(record);
  if (!members.ok()) return members.status();
  const auto ranks = static_cast<int>(record.ranks.size());
  Cuts cuts = {ranks};
  std::vector<int> pairs;  // strides of communicators of two ranks
  for (size_t i = 0; i < members->size(); ++i) {
    const auto& of = (*members)[i];
    if (of.size() < 2) continue;
    const std::vector<int> strides = StridesOf(of);
    if (of.size() == 2) {
      pairs.push_back(strides[0]);
      continue;
    }
    if (strides.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("communicator ", record.communicators[i].number, " of ", of.size(),
                       " ranks has none that lie on axes: ranks ", absl::StrJoin(of, ", ")));
    }
    cuts.insert(strides.begin(), strides.end());
  }
  cuts.erase(1);
  if (!Divides(cuts)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its communicators fit to no axes: their strides are ", absl::StrJoin(cuts, ", ")));
  }
  // Two ranks may be all that there are along an axis, or a pipeline's neighbours, or its ends.
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  for (const int stride : pairs) {
    if (stride == 1) continue;
    Cuts more = cuts;
    more.insert(stride);
    if (Divides(more)) cuts = std::move(more);
  }
  for (const int stride : pairs) {
    // A group of two of its own, if an axis of two fits.
    Cuts more = cuts;
    more.insert(2 * stride);
    const bool is_cut = stride == 1 || cuts.contains(stride);
    if (is_cut && Divides(more) && stride * 2 <= ranks && more.size() > cuts.size()) {
      // Only if no communicator is cut: its neighbours would be, were it a pipeline.
      const bool two = std::none_of(members->begin(), members->end(), [&](const auto& of) {
        return of.size() == 2 && std::abs(of[1] - of[0]) == stride &&
               (std::min(of[0], of[1]) / stride) % 2 != 0;
      });
      if (two) cuts = std::move(more);
    }
  }
  std::vector<RankAxis> axes;
  int last = 1;
  for (const int cut : cuts) {
    if (cut == last) continue;
    axes.push_back({"", cut / last});
    last = cut;
  }
  if (axes.empty()) axes.push_back({"", 1});
  const RankAxes unnamed(axes);
  const auto names = NamesOf(record, unnamed, UsesOf(record, unnamed, *members));
  for (size_t axis = 0; axis < axes.size(); ++axis) axes[axis].name = names[axis];
  return RankAxes(std::move(axes));
}

absl::StatusOr<RankAxes> ParseAxes(absl::string_view text, int ranks) {
  std::vector<RankAxis> axes;
  std::set<std::string> names;
  int64_t all = 1;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> split =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    RankAxis axis = {std::string(split.first), 0};
    if (axis.name.empty() || !names.insert(axis.name).second ||
        !absl::SimpleAtoi(split.second, &axis.size) || axis.size < 1 || axis.size > 1 << 20) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part, "' is no axis: NAME=SIZE, as in tp=2,dp=4,pp=2"));
    }
    all = std::min<int64_t>(all * axis.size, int64_t{1} << 40);
    axes.push_back(std::move(axis));
  }
  if (all != ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, " are ", all, " ranks, and ", ranks, " were recorded"));
  }
  return RankAxes(std::move(axes));
}

}  // namespace phantora
