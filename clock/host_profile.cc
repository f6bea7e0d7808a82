#include "clock/host_profile.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace phantora {
namespace {

constexpr char kHeader[] = "phantora host profile 1";
constexpr char kColumns[] = "key\tsamples\tnanoseconds\tsubmissions";
constexpr size_t kShortStops = 3, kBoundingStops = 2;
// Occurrences are told apart as the first, the second, the next two, four, ... and all from the
// 33rd on.
constexpr int kLastOccurrence = 6;
// No sum of a file's or of learned samples wraps.
constexpr uint64_t kMostSum = uint64_t{1} << 62;

uint64_t WithStops(uint64_t key, const HostSegment& segment, size_t stops) {
  for (size_t i = 0; i < stops; ++i) key = HostProfile::Mix(key, segment.stops[i]);
  return HostProfile::Mix(key, stops);
}

uint64_t FullKey(const HostSegment& segment) {
  const int occurrence = std::min<int>(std::bit_width(segment.occurrence), kLastOccurrence);
  return HostProfile::Mix(HostProfile::Mix(HostProfile::Way(segment), segment.submissions),
                          static_cast<uint64_t>(occurrence));
}
uint64_t ShortKey(const HostSegment& segment) {
  return WithStops(segment.role, segment, kShortStops);
}
// Whoever runs.
uint64_t BoundsKey(const HostSegment& segment) { return WithStops(0, segment, kBoundingStops); }

}  // namespace

uint64_t HostProfile::Mix(uint64_t with, uint64_t what) {
  // The finalizer of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
  // generators", 2014): the same on every machine and in every run.
  uint64_t mixed = with * 0x9e3779b97f4a7c15 + what + 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

uint64_t HostProfile::Mix(uint64_t with, std::string_view what) {
  for (const char c : what) with = Mix(with, static_cast<unsigned char>(c));
  return Mix(with, what.size());
}

uint64_t HostProfile::Way(const HostSegment& segment) {
  return WithStops(segment.role, segment, HostSegment::kStops);
}

void HostProfile::Learn(const HostSegment& segment, int64_t nanoseconds) {
  const auto cost = static_cast<uint64_t>(std::max<int64_t>(nanoseconds, 0));
  for (const uint64_t key : {FullKey(segment), ShortKey(segment), BoundsKey(segment)}) {
    if (is_full() && !entries_.contains(key)) continue;
    Entry& entry = entries_[key];
    if (cost >= kMostSum - entry.nanoseconds) continue;
    ++entry.samples;
    entry.nanoseconds += cost;
    entry.submissions += segment.submissions;
  }
}

const HostProfile::Entry* HostProfile::Find(uint64_t key, uint64_t repeats) const {
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || entry->second.samples < std::max<uint64_t>(repeats, 1)) {
    return nullptr;
  }
  return &entry->second;
}

HostProfile::Cost HostProfile::RepeatedCostOf(const HostSegment& segment, uint64_t repeats) const {
  const Entry* full = Find(FullKey(segment), repeats);
  if (full == nullptr) return {};
  return {static_cast<int64_t>(full->nanoseconds / full->samples), Detail::kFull};
}

HostProfile::Cost HostProfile::CostOf(const HostSegment& segment, uint64_t repeats) const {
  if (const Cost full = RepeatedCostOf(segment, repeats); full.detail == Detail::kFull) return full;
  for (const auto& [key, detail] : {std::pair(ShortKey(segment), Detail::kShort),
                                    std::pair(BoundsKey(segment), Detail::kBounds)}) {
    const Entry* entry = Find(key, repeats);
    if (entry == nullptr) continue;
    // Of whole numbers, so that it is the same everywhere.
    const unsigned __int128 cost = static_cast<unsigned __int128>(entry->nanoseconds) *
                                   (uint64_t{segment.submissions} + 1) /
                                   (entry->submissions + entry->samples);
    constexpr auto kMost = static_cast<unsigned __int128>(std::numeric_limits<int64_t>::max());
    return {static_cast<int64_t>(std::min(cost, kMost)), detail};
  }
  return {};
}

std::string HostProfile::Text() const {
  std::vector<std::pair<uint64_t, Entry>> sorted(entries_.begin(), entries_.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text = absl::StrCat(kHeader, "\n", kColumns, "\n");
  for (const auto& [key, entry] : sorted) {
    absl::StrAppend(&text, absl::Hex(key, absl::kZeroPad16), "\t", entry.samples, "\t",
                    entry.nanoseconds, "\t", entry.submissions, "\n");
  }
  return text;
}

absl::StatusOr<HostProfile> HostProfile::Parse(std::string_view text) {
  HostProfile profile;
  size_t number = 0;
  const auto error = [&](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", what...));
  };
  const absl::string_view lines(text.data(), text.size());
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    ++number;
    if (number == 1 && line != kHeader) {
      return error("a host profile begins with \"", kHeader, "\"");
    }
    if (number == 2 && line != kColumns) return error("the columns are ", kColumns);
    if (number <= 2 || absl::StripAsciiWhitespace(line).empty()) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
    uint64_t key = 0;
    Entry entry;
    if (fields.size() != 4) return error(fields.size(), " fields for 4");
    if (!absl::SimpleHexAtoi(fields[0], &key)) return error("no key: ", fields[0]);
    const std::pair<const char*, uint64_t*> numbers[] = {{"samples", &entry.samples},
                                                         {"nanoseconds", &entry.nanoseconds},
                                                         {"submissions", &entry.submissions}};
    for (size_t i = 0; i < std::size(numbers); ++i) {
      const auto& [name, value] = numbers[i];
      if (!absl::SimpleAtoi(fields[i + 1], value) || *value >= kMostSum) {
        return error("no ", name, ": ", fields[i + 1]);
      }
    }
    if (entry.samples == 0) return error("a key without samples");
    if (!profile.entries_.emplace(key, entry).second) return error("a key that is there already");
    if (profile.entries_.size() > kMostKeys) return error("more than ", kMostKeys, " keys");
  }
  if (number < 2) return absl::InvalidArgumentError("line 2: no columns");
  return profile;
}

}  // namespace phantora
