#include "tools/replay/step_period.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// Every pair of them is compared.
constexpr size_t kMostOperations = 20000;
// Of kernels between two operations: which channel is first may differ from step to step.
constexpr uint32_t kSlack = 16;

struct Point {
  uint32_t node = 0;
  int operation = 0;
  uint32_t kernels = 0;  // since the one before
};

bool SameKernels(const Point& a, const Point& b) {
  const uint32_t more = std::max(a.kernels, b.kernels), less = std::min(a.kernels, b.kernels);
  return more - less <= kSlack + more / 4;
}

// The longest run of points that are like those `period` later: its length, and its last point. At
// one of them, kernels may differ: an optimizer makes its state in the first step.
std::pair<size_t, size_t> LongestRun(const std::vector<Point>& points, size_t period) {
  std::pair<size_t, size_t> longest;
  size_t length = 0, since = 0;  // the point where kernels differed
  for (size_t i = 0; i + period < points.size(); ++i) {
    const Point &a = points[i], &b = points[i + period];
    if (a.operation != b.operation) {
      length = since = 0;
    } else if (SameKernels(a, b)) {
      ++length, ++since;
    } else {
      length = since + 1;
      since = 0;
    }
    if (length >= longest.first) longest = {length, i};
  }
  return longest;
}

}  // namespace

absl::StatusOr<StepPeriod> FindSteps(const StepRecord::Role& role, size_t operations) {
  std::vector<Point> points;
  uint32_t kernels = 0;
  for (uint32_t i = 0; i < role.nodes.size(); ++i) {
    if (role.nodes[i].operation == StepRecord::kNoOperation) {
      ++kernels;
    } else {
      points.push_back({i, role.nodes[i].operation, kernels});
      kernels = 0;
    }
  }
  if (points.size() > kMostOperations) {
    points.erase(points.begin(), points.end() - kMostOperations);
  }
  size_t best = operations;
  std::pair<size_t, size_t> run = {0, 0};
  if (operations > 0) {
    if (operations < points.size()) run = LongestRun(points, operations);
  } else {
    for (size_t period = 1; period <= points.size() / 2; ++period) {
      const auto found = LongestRun(points, period);
      // Whole steps: layers of one may repeat too.
      if (found.first >= period && found.first > run.first) {
        run = found;
        best = period;
      }
    }
  }
  if (run.first == 0) {
    return absl::NotFoundError(
        operations > 0 ? absl::StrCat("its NCCL operations do not repeat after ", operations)
                       : "its NCCL operations do not repeat: record three steps or more");
  }
  StepPeriod period;
  period.operations = best;
  const size_t last = run.second + best, first = run.second + 1 - run.first;
  for (size_t i = last; i >= first; i -= best) {
    period.ends.push_back(points[i].node);
    if (i < best) break;
  }
  std::reverse(period.ends.begin(), period.ends.end());
  return period;
}

}  // namespace phantora
