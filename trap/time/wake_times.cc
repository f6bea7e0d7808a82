#include "trap/time/wake_times.h"

#include <algorithm>
#include <utility>

namespace phantora {
namespace {

constexpr size_t kMostWakes = 4096;

}  // namespace

void WakeTimes::Woken(std::vector<pid_t> threads, uint64_t count, VirtualTime now) {
  if (threads.empty() || count == 0) return;
  wakes_.push_back({std::move(threads), count, now});
  if (wakes_.size() > kMostWakes) wakes_.pop_front();
}

VirtualTime WakeTimes::Heard(pid_t thread) {
  VirtualTime time;
  bool found = false;
  for (auto it = wakes_.begin(); it != wakes_.end();) {
    const auto wake = it++;
    const auto woken = std::find(wake->threads.begin(), wake->threads.end(), thread);
    if (woken == wake->threads.end()) continue;
    // One wake ends its wait. It is not there for those that came after.
    wake->threads.erase(woken);
    if (!std::exchange(found, true)) {
      time = wake->time;
      --wake->count;
    }
    if (wake->count == 0 || wake->threads.empty()) wakes_.erase(wake);
  }
  return time;
}

}  // namespace phantora
