#include "trap/unknowns.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "trap/log.h"

namespace phantora {
namespace {
constexpr size_t kMostDistinct = 10000;
// Past this many lines a user learns nothing more from the log.
constexpr size_t kMostLogged = 50;
constexpr size_t kMostReported = 200;
}  // namespace

void Unknowns::Count(std::string_view kind, uint64_t number, std::string_view detail) {
  std::lock_guard lock(mutex_);
  auto key = std::make_pair(std::string(kind), number);
  auto it = counts_.find(key);
  if (it != counts_.end()) {
    ++it->second;
    return;
  }
  if (counts_.size() >= kMostDistinct) {
    ++counts_[{"anything (too many distinct unknowns)", 0}];
    return;
  }
  counts_.emplace(std::move(key), 1);
  if (counts_.size() <= kMostLogged) {
    LogWarning(
        absl::StrFormat("unknown %s 0x%x: %s", std::string(kind), number, std::string(detail)));
  } else if (counts_.size() == kMostLogged + 1) {
    LogWarning("more unknown calls follow; they are counted, not logged");
  }
}

std::string Unknowns::Report() const {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (const auto& [key, count] : counts_) {
    lines.emplace_back(count, absl::StrFormat("  %s 0x%x: %d times", key.first, key.second, count));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string report;
  for (size_t i = 0; i < lines.size() && i < kMostReported; ++i) report += lines[i].second + "\n";
  if (lines.size() > kMostReported) {
    report += absl::StrFormat("  and %d more\n", lines.size() - kMostReported);
  }
  return report;
}

}  // namespace phantora
