#include "tools/observe/run_summary.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace phantora {
namespace {

// More than these become one line.
constexpr size_t kMostRanks = 8;
constexpr size_t kKernelsOnALine = 3;
// Of the peak.
constexpr double kWorthTelling = 0.001;

// What a line of the table says; sums over ranks but for times, which are the largest.
struct Line {
  std::string name;
  VirtualSpan elapsed, busy, waited;
  uint64_t kernels = 0, copies = 0;
  int64_t peak_memory = 0;
  TimeBySource by_source{};
  double error = 0;
};

double Seconds(VirtualSpan span) { return static_cast<double>(span.picoseconds()) / 1e12; }

double Percent(VirtualSpan part, VirtualSpan whole) {
  if (whole <= VirtualSpan()) return 0;
  return 100.0 * static_cast<double>(part.picoseconds()) / static_cast<double>(whole.picoseconds());
}

Line LineOf(const RunRecorder::Rank& rank) {
  const RankStatistics& statistics = rank.statistics;
  return {.name = absl::StrCat(rank.name, " (", rank.process, ")"),
          .elapsed = statistics.elapsed(),
          .busy = statistics.busy(),
          .waited = statistics.waited(),
          .kernels = statistics.kernels(),
          .copies = statistics.all_copies().count,
          .peak_memory = statistics.peak_memory(),
          .by_source = statistics.by_source(),
          .error = statistics.error()};
}

void Merge(const Line& more, Line& line) {
  line.elapsed = std::max(line.elapsed, more.elapsed);
  line.busy = std::max(line.busy, more.busy);
  line.waited = std::max(line.waited, more.waited);
  line.kernels += more.kernels;
  line.copies += more.copies;
  line.peak_memory = std::max(line.peak_memory, more.peak_memory);
  line.error = std::max(line.error, more.error);
  for (int i = 0; i < kPriceSources; ++i) {
    line.by_source[i] = line.by_source[i] + more.by_source[i];
  }
}

std::string Format(const Line& line, size_t name_width) {
  const VirtualSpan all = Total(line.by_source);
  const auto share = [&](std::initializer_list<PriceSource> sources) {
    VirtualSpan sum;
    for (const PriceSource source : sources) sum = sum + line.by_source[static_cast<int>(source)];
    return Percent(sum, all);
  };
  return absl::StrFormat(
      "%-*s %12.6f s %12.6f s %5.1f%% %12.6f s %9d %7d %9.1f MiB  %3.0f/%.0f/%.0f %% +-%.0f %%",
      static_cast<int>(name_width), line.name, Seconds(line.elapsed), Seconds(line.busy),
      Percent(line.busy, line.elapsed), Seconds(line.waited), line.kernels, line.copies,
      static_cast<double>(line.peak_memory) / 1048576.0,
      share({PriceSource::kMeasured, PriceSource::kInterpolated}), share({PriceSource::kModelled}),
      share({PriceSource::kEstimated, PriceSource::kPlaceholder}), 100 * line.error);
}

void AddKernels(const RunRecorder::Rank& rank, size_t most, std::vector<std::string>& lines) {
  const auto& statistics = rank.statistics;
  const auto largest = Largest(statistics.kernel_sums(), most);
  if (largest.empty()) return;
  if (most <= kKernelsOnALine) {
    lines.push_back(absl::StrCat(
        "  largest: ",
        absl::StrJoin(largest, ", ", [&statistics](std::string* out, const KernelSums& kernel) {
          absl::StrAppendFormat(out, "%s %.1f%% (%d)", kernel.name,
                                Percent(kernel.time, statistics.kernel_time()), kernel.count);
        })));
    return;
  }
  for (const KernelSums& kernel : largest) {
    lines.push_back(absl::StrFormat("  %5.1f%% %12.6f s %9d x %s",
                                    Percent(kernel.time, statistics.kernel_time()),
                                    Seconds(kernel.time), kernel.count, kernel.name));
  }
}

std::string StepLine(const StepView::Steps& steps, const StepView::Terms& terms) {
  const StepView::Step& step = steps.median();
  std::string line = absl::StrFormat(
      "  steps: %d of %d kernels, median %.3f ms: kernels %.1f%%, exposed communication %.1f%% (of "
      "%.1f%%), idle %.1f%%",
      steps.steps.size(), steps.kernels, 1e3 * Seconds(step.time), Percent(step.compute, step.time),
      Percent(step.exposed, step.time), Percent(step.communication, step.time),
      Percent(step.idle, step.time));
  const double peak = terms.peak_flops_per_s * Seconds(step.time);
  if (const double share = peak > 0 ? step.flops / peak : 0; share >= kWorthTelling) {
    absl::StrAppendFormat(&line, "; %.1f%% of bf16's peak", 100 * share);
  }
  if (terms.tokens > 0) {
    absl::StrAppendFormat(&line, "; %.0f tokens/s", terms.tokens / Seconds(step.time));
  }
  return line;
}

}  // namespace

std::vector<std::string> Summary(const RunRecorder& recorder, size_t largest,
                                 const StepView::Terms& terms) {
  const auto ranks = recorder.ranks();
  if (ranks.empty()) return {};
  std::vector<Line> table;
  for (const auto* rank : ranks) table.push_back(LineOf(*rank));
  Line rest;
  rest.name = absl::StrFormat("%d more", std::max(ranks.size(), kMostRanks) - kMostRanks);
  size_t name_width = rest.name.size();
  for (size_t i = 0; i < table.size(); ++i) {
    if (i >= kMostRanks) Merge(table[i], rest);
    if (i < kMostRanks) name_width = std::max(name_width, table[i].name.size());
  }
  std::vector<std::string> lines = {
      absl::StrFormat("%-*s %14s %14s %6s %14s %9s %7s %13s  %s", static_cast<int>(name_width), "",
                      "simulated", "GPU busy", "", "exposed wait", "kernels", "copies",
                      "peak memory", "measured/modelled/estimated")};
  for (size_t i = 0; i < table.size() && i < kMostRanks; ++i) {
    lines.push_back(Format(table[i], name_width));
    if (ranks[i]->steps) lines.push_back(StepLine(*ranks[i]->steps, terms));
    AddKernels(*ranks[i], largest, lines);
  }
  if (table.size() > kMostRanks) {
    lines.push_back(Format(rest, name_width) + " (the most of any; kernels and copies of all)");
  }
  return lines;
}

}  // namespace phantora
