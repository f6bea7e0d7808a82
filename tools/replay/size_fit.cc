#include "tools/replay/size_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// x + y/n through two points.
class Line {
 public:
  Line(int size_a, int size_b, int n) {
    const double a = 1.0 / size_a, b = 1.0 / size_b;
    // How far n is on the way from a to b.
    weight_ = (1.0 / n - a) / (b - a);
  }
  int64_t At(int64_t a, int64_t b) const {
    if (a == b) return a;
    const double value =
        static_cast<double>(a) + weight_ * (static_cast<double>(b) - static_cast<double>(a));
    constexpr auto kMost = static_cast<double>(int64_t{1} << 60);
    return static_cast<int64_t>(std::llround(std::clamp(value, 0.0, kMost)));
  }

 private:
  double weight_;
};

// The nodes of each channel, by when it was first used.
std::vector<std::vector<uint32_t>> ChannelsOf(const StepRecord::Role& role) {
  std::map<uint32_t, std::vector<uint32_t>> channels;
  for (uint32_t i = 0; i < role.nodes.size(); ++i) channels[role.nodes[i].channel].push_back(i);
  std::vector<std::vector<uint32_t>> nodes;
  for (auto& [channel, of_channel] : channels) nodes.push_back(std::move(of_channel));
  return nodes;
}

std::string NameOf(const StepRecord& record, const StepRecord::Node& node) {
  if (node.operation != StepRecord::kNoOperation) return "an NCCL operation";
  if (node.name == StepRecord::kNoName) return "a copy";
  return record.names[static_cast<size_t>(node.name)];
}

// Work of one name that follows itself in a channel; of NCCL one operation.
struct NodeRun {
  std::string name;
  std::vector<uint32_t> nodes;
};

std::vector<NodeRun> RunsOf(const StepRecord& record, const StepRecord::Role& role,
                            const std::vector<uint32_t>& channel) {
  std::vector<NodeRun> runs;
  for (const uint32_t index : channel) {
    const StepRecord::Node& node = role.nodes[index];
    std::string name = NameOf(record, node);
    const bool is_kernel = node.operation == StepRecord::kNoOperation;
    if (runs.empty() || !is_kernel || runs.back().name != name) {
      runs.push_back({std::move(name), {}});
    }
    runs.back().nodes.push_back(index);
  }
  return runs;
}

VirtualSpan AllOf(const StepRecord::Role& role, const NodeRun& run) {
  VirtualSpan all;
  for (const uint32_t node : run.nodes) all = all + role.nodes[node].alone;
  return all;
}

class Fitter {
 public:
  Fitter(const StepRecord& a, const StepRecord& b, const Line& line)
      : a_(a), b_(b), line_(line), fitted_(a) {}

  // From the end of each channel back to node `first` of the role of `a`: a start may take its time
  // in another way.
  absl::Status FitRole(uint32_t role_a, uint32_t first, uint32_t role_b) {
    const StepRecord::Role &a = a_.roles[role_a], &b = b_.roles[role_b];
    const auto channels_a = ChannelsOf(a), channels_b = ChannelsOf(b);
    for (size_t channel = 0; channel < channels_a.size(); ++channel) {
      const auto of_a = RunsOf(a_, a, channels_a[channel]);
      const auto of_b =
          channel < channels_b.size() ? RunsOf(b_, b, channels_b[channel]) : std::vector<NodeRun>();
      for (size_t back = 1; back <= of_a.size(); ++back) {
        const NodeRun& run = of_a[of_a.size() - back];
        if (run.nodes[0] < first) break;
        auto status =
            back > of_b.size()
                ? absl::InvalidArgumentError(absl::StrCat("did ", run.name, " and nothing"))
                : FitRun(a, run, b, of_b[of_b.size() - back], fitted_.roles[role_a]);
        if (!status.ok()) {
          return absl::InvalidArgumentError(absl::StrCat(std::string(status.message()),
                                                         " in channel ", channel, ", ", back,
                                                         " kinds of work before its end"));
        }
      }
    }
    return absl::OkStatus();
  }
  void FitMemory(size_t rank_a, size_t rank_b) {
    fitted_.ranks[rank_a].memory = line_.At(a_.ranks[rank_a].memory, b_.ranks[rank_b].memory);
  }
  StepRecord Take() { return std::move(fitted_); }

 private:
  absl::Status FitRun(const StepRecord::Role& a, const NodeRun& run_a, const StepRecord::Role& b,
                      const NodeRun& run_b, StepRecord::Role& fitted) {
    if (run_a.name != run_b.name) {
      return absl::InvalidArgumentError(absl::StrCat("did ", run_a.name, " and ", run_b.name));
    }
    const StepRecord::Node& first = a.nodes[run_a.nodes[0]];
    if (first.operation != StepRecord::kNoOperation) {
      const auto operation = FitOperation(first.operation, b.nodes[run_b.nodes[0]].operation);
      if (!operation) return absl::InvalidArgumentError("did other NCCL operations");
      fitted.nodes[run_a.nodes[0]].operation = *operation;
      return absl::OkStatus();
    }
    if (run_a.nodes.size() == run_b.nodes.size()) {
      for (size_t i = 0; i < run_a.nodes.size(); ++i) {
        fitted.nodes[run_a.nodes[i]].alone =
            At(a.nodes[run_a.nodes[i]].alone, b.nodes[run_b.nodes[i]].alone);
      }
      return absl::OkStatus();
    }
    // More to do takes more launches of a kernel: all of them together.
    const VirtualSpan all_a = AllOf(a, run_a), fitted_all = At(all_a, AllOf(b, run_b));
    const double part = all_a == VirtualSpan() ? 0
                                               : static_cast<double>(fitted_all.picoseconds()) /
                                                     static_cast<double>(all_a.picoseconds());
    for (const uint32_t node : run_a.nodes) {
      VirtualSpan& alone = fitted.nodes[node].alone;
      alone =
          VirtualSpan::Picoseconds(std::llround(static_cast<double>(alone.picoseconds()) * part));
    }
    return absl::OkStatus();
  }
  VirtualSpan At(VirtualSpan a, VirtualSpan b) const {
    return VirtualSpan::Picoseconds(line_.At(a.picoseconds(), b.picoseconds()));
  }
  std::optional<int> FitOperation(int index_a, int index_b) {
    const auto known = operations_.find({index_a, index_b});
    if (known != operations_.end()) return known->second;
    const auto& a = a_.operations[static_cast<size_t>(index_a)];
    const auto& b = b_.operations[static_cast<size_t>(index_b)];
    if (a.communicator != b.communicator || a.entries.size() != b.entries.size()) {
      return std::nullopt;
    }
    StepRecord::Operation fitted = a;
    for (size_t i = 0; i < a.entries.size(); ++i) {
      const StepRecord::Entry &entry_a = a.entries[i], &entry_b = b.entries[i];
      if (entry_a.operation != entry_b.operation || entry_a.type != entry_b.type ||
          entry_a.reduction != entry_b.reduction) {
        return std::nullopt;
      }
      fitted.entries[i].count = static_cast<uint64_t>(
          line_.At(static_cast<int64_t>(entry_a.count), static_cast<int64_t>(entry_b.count)));
    }
    fitted_.operations.push_back(std::move(fitted));
    return operations_[{index_a, index_b}] = static_cast<int>(fitted_.operations.size()) - 1;
  }

  const StepRecord &a_, &b_;
  const Line line_;
  StepRecord fitted_;
  std::map<std::pair<int, int>, int> operations_;
};

}  // namespace

absl::StatusOr<size_t> AxisThatDiffers(const RankAxes& a, const RankAxes& b) {
  std::optional<size_t> differs;
  bool same = a.all().size() == b.all().size();
  for (size_t axis = 0; same && axis < a.all().size(); ++axis) {
    const RankAxis &of_a = a.all()[axis], &of_b = b.all()[axis];
    same = of_a.name == of_b.name && (of_a.size == of_b.size || !differs);
    if (of_a.size != of_b.size) differs = axis;
  }
  if (same && differs) return *differs;
  return absl::InvalidArgumentError(absl::StrCat("the axes of the two recordings are ", a.Text(),
                                                 " and ", b.Text(),
                                                 ": they are to differ in the size of one"));
}

absl::StatusOr<StepRecord> FitSizes(const StepRecord& a, const RankAxes& axes_of_a,
                                    absl::Span<const StepPeriod> steps_of_a, const StepRecord& b,
                                    const RankAxes& axes_of_b, int n) {
  const auto differs = AxisThatDiffers(axes_of_a, axes_of_b);
  if (!differs.ok()) return differs.status();
  Fitter fitter(a, b, Line(axes_of_a.all()[*differs].size, axes_of_b.all()[*differs].size, n));
  std::map<uint32_t, uint32_t> roles;  // of a, and the same of b
  for (int rank = 0; rank < axes_of_a.ranks(); ++rank) {
    auto coordinates = axes_of_a.CoordinatesOf(rank);
    const int size = axes_of_b.all()[*differs].size;
    // As in ScaledRanks.
    if (coordinates[*differs] >= size) coordinates[*differs] = std::min(1, size - 1);
    const int other = axes_of_b.RankOf(coordinates);
    const uint32_t role_a = a.ranks[static_cast<size_t>(rank)].role,
                   role_b = b.ranks[static_cast<size_t>(other)].role;
    fitter.FitMemory(static_cast<size_t>(rank), static_cast<size_t>(other));
    const auto [known, fresh] = roles.try_emplace(role_a, role_b);
    if (!fresh && known->second != role_b) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " did the same as another in one recording, and not in the other"));
    }
    if (!fresh) continue;
    if (auto status = fitter.FitRole(role_a, steps_of_a[role_a].ends[0], role_b); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, " of the one recording and rank ", other, " of the other ",
                       std::string(status.message())));
    }
  }
  return fitter.Take();
}

}  // namespace phantora
