#include "tools/observe/step_view.h"

#include <algorithm>
#include <map>

namespace phantora {
namespace {

constexpr size_t kMostEntries = 1 << 16, kMostLevels = 1 << 14;
constexpr uint32_t kMostNames = 10000;
constexpr size_t kFewestSteps = 3;
// Of the launches that the best kernel's repetitions cover; a rarer one's may cover so few.
constexpr double kAboutAsMany = 0.9;

VirtualSpan Span(int64_t picoseconds) { return VirtualSpan::Picoseconds(picoseconds); }

// Disjoint intervals, in order.
using Intervals = std::vector<std::pair<int64_t, int64_t>>;

// `intervals` come in the order of their starts.
void Append(int64_t from, int64_t to, Intervals& intervals) {
  if (to <= from) return;
  if (!intervals.empty() && from <= intervals.back().second) {
    intervals.back().second = std::max(intervals.back().second, to);
  } else {
    intervals.emplace_back(from, to);
  }
}

int64_t Length(const Intervals& intervals) {
  int64_t length = 0;
  for (const auto& [from, to] : intervals) length += to - from;
  return length;
}

int64_t CommonLength(const Intervals& a, const Intervals& b) {
  int64_t length = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    length +=
        std::max<int64_t>(0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    a[i].second < b[j].second ? ++i : ++j;
  }
  return length;
}

}  // namespace

void StepView::Add(const Work& work, const std::string& name) {
  const auto known = names_.find(name);
  uint32_t number = kMostNames;  // of all that are too many: a hostile rank can make up names
  if (known != names_.end()) {
    number = known->second;
  } else if (names_.size() < kMostNames) {
    number = static_cast<uint32_t>(names_.size());
    names_.emplace(name, number);
  }
  if (entries_.size() >= kMostEntries) entries_.pop_front();
  entries_.push_back({(work.start - VirtualTime()).picoseconds(),
                      (work.end - VirtualTime()).picoseconds(), work.channel,
                      static_cast<float>(work.flops), number, work.kind});
}

void StepView::Memory(VirtualTime at, int64_t bytes) {
  if (memory_.size() >= kMostLevels) memory_.pop_front();
  memory_.emplace_back((at - VirtualTime()).picoseconds(), bytes);
}

StepView::Period StepView::FindPeriod(const std::vector<uint32_t>& names) {
  // Of any part of the sequence, from the hashes of what is before its ends.
  constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  std::vector<uint64_t> hashes(names.size() + 1), powers(names.size() + 1, 1);
  std::map<uint32_t, std::vector<size_t>> places;
  for (size_t i = 0; i < names.size(); ++i) {
    hashes[i + 1] = hashes[i] * kBase + names[i] + 1;
    powers[i + 1] = powers[i] * kBase;
    places[names[i]].push_back(i);
  }
  const auto hash_of = [&](size_t from, size_t to) {
    return hashes[to] - hashes[from] * powers[to - from];
  };
  std::vector<Period> found;
  size_t most = 0;
  for (const auto& [name, at] : places) {
    if (at.size() <= kFewestSteps) continue;
    std::map<std::pair<size_t, uint64_t>, size_t> counts;  // by length and hash
    for (size_t i = 0; i + 1 < at.size(); ++i) {
      ++counts[{at[i + 1] - at[i], hash_of(at[i], at[i + 1])}];
    }
    const auto covers = [](const auto& entry) { return entry.first.first * entry.second; };
    const auto best =
        std::max_element(counts.begin(), counts.end(),
                         [&](const auto& a, const auto& b) { return covers(a) < covers(b); });
    if (best->second < kFewestSteps) continue;
    Period period;
    period.length = best->first.first;
    for (size_t i = 0; i + 1 < at.size(); ++i) {
      if (at[i + 1] - at[i] == period.length && hash_of(at[i], at[i + 1]) == best->first.second) {
        period.steps.emplace_back(at[i], at[i + 1]);
      }
    }
    most = std::max(most, covers(*best));
    found.push_back(std::move(period));
  }
  Period longest;
  for (Period& period : found) {
    const bool covers = static_cast<double>(period.length * period.steps.size()) >=
                        kAboutAsMany * static_cast<double>(most);
    if (covers && period.length > longest.length) longest = std::move(period);
  }
  return longest;
}

int64_t StepView::PeakMemory(int64_t from, int64_t to, size_t* next) const {
  // The level at `from` is the last one before it.
  while (*next + 1 < memory_.size() && memory_[*next + 1].first <= from) ++*next;
  int64_t peak = 0;
  for (size_t i = *next; i < memory_.size() && memory_[i].first < to; ++i) {
    peak = memory_[i].first <= from ? memory_[i].second : std::max(peak, memory_[i].second);
  }
  return peak;
}

std::optional<StepView::Steps> StepView::Find() const {
  std::map<uint64_t, size_t> launches;  // of channels
  for (const Entry& entry : entries_) {
    if (entry.kind == Kind::kCompute) ++launches[entry.channel];
  }
  if (launches.empty()) return std::nullopt;
  const uint64_t channel =
      std::max_element(launches.begin(), launches.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  std::vector<uint32_t> names;
  std::vector<int64_t> starts;
  for (const Entry& entry : entries_) {
    if (entry.kind != Kind::kCompute || entry.channel != channel) continue;
    names.push_back(entry.name);
    starts.push_back(entry.start);
  }
  const Period period = FindPeriod(names);
  if (period.steps.empty()) return std::nullopt;

  std::vector<Entry> works(entries_.begin(), entries_.end());
  std::stable_sort(works.begin(), works.end(),
                   [](const Entry& a, const Entry& b) { return a.start < b.start; });
  Steps result = {.kernels = period.length, .steps = {}};
  size_t next = 0, next_level = 0;
  std::vector<Entry> under_way;  // by the end of the step, in order of their starts
  for (const auto& [begin, end] : period.steps) {
    const int64_t from = starts[begin], to = starts[end];
    if (to <= from) continue;
    for (; next < works.size() && works[next].start < to; ++next) under_way.push_back(works[next]);
    // Those that are over before it are over before all that follow.
    std::erase_if(under_way, [from](const Entry& work) { return work.end <= from; });
    Intervals compute, communication, all;
    double flops = 0;
    for (const Entry& work : under_way) {
      const int64_t since = std::max(work.start, from), until = std::min(work.end, to);
      if (work.start >= from) flops += work.flops;
      if (until <= since) continue;
      if (work.kind == Kind::kCompute) Append(since, until, compute);
      if (work.kind == Kind::kCommunication) Append(since, until, communication);
      Append(since, until, all);
    }
    const int64_t communicates = Length(communication);
    result.steps.push_back({.start = VirtualTime() + Span(from),
                            .time = Span(to - from),
                            .compute = Span(Length(compute)),
                            .communication = Span(communicates),
                            .exposed = Span(communicates - CommonLength(compute, communication)),
                            .idle = Span(to - from - Length(all)),
                            .flops = flops,
                            .peak_memory = PeakMemory(from, to, &next_level)});
  }
  if (result.steps.size() < kFewestSteps) return std::nullopt;
  return result;
}

const StepView::Step& StepView::Steps::median() const {
  std::vector<const Step*> ordered;
  for (const Step& step : steps) ordered.push_back(&step);
  const auto middle = ordered.begin() + static_cast<ptrdiff_t>(ordered.size() / 2);
  std::nth_element(ordered.begin(), middle, ordered.end(),
                   [](const Step* a, const Step* b) { return a->time < b->time; });
  return **middle;
}

}  // namespace phantora
