#include "trap/quiet_successes.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"

namespace phantora {

void QuietSuccesses::Count(std::string_view kind, uint64_t number, const char* name,
                           const char* reason) {
  std::lock_guard lock(mutex_);
  ++calls_.try_emplace({number, kind}, Entry{name, reason}).first->second.times;
}

std::string QuietSuccesses::Report() const {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (const auto& [call, entry] : calls_) {
    const auto& [number, kind] = call;
    lines.emplace_back(entry.times,
                       absl::StrFormat("  %s %s (0x%x): %d times; %s\n", kind,
                                       entry.name == nullptr ? "without public name" : entry.name,
                                       number, entry.times, entry.reason));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string report;
  for (const auto& [times, line] : lines) report += line;
  return report;
}

}  // namespace phantora
