#include "trap/time/timers/timer_queue.h"

#include <iterator>

namespace phantora {

void TimerQueue::Set(const TimerKey& key, pid_t process, VirtualTime deadline) {
  Remove(key);
  entries_[key] = {process, deadline};
  ++counts_[process];
  if (deadline == VirtualTime::Infinity()) return;
  deadlines_.emplace(deadline, key);
  running_[process].emplace(deadline, key);
}

void TimerQueue::Remove(const TimerKey& key) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return;
  const auto [process, deadline] = entry->second;
  entries_.erase(entry);
  if (const auto count = counts_.find(process); --count->second == 0) counts_.erase(count);
  if (deadlines_.erase({deadline, key}) == 0) return;
  const auto running = running_.find(process);
  running->second.erase({deadline, key});
  if (running->second.empty()) running_.erase(running);
}

TimerQueue::Due TimerQueue::Earliest() const {
  if (deadlines_.empty()) return {};
  const auto& [deadline, key] = *deadlines_.begin();
  return {deadline, entries_.at(key).process};
}

std::vector<TimerKey> TimerQueue::DueOf(pid_t process, VirtualTime now) const {
  std::vector<TimerKey> due;
  const auto running = running_.find(process);
  if (running == running_.end()) return due;
  for (const auto& [deadline, key] : running->second) {
    if (deadline > now) break;
    due.push_back(key);
  }
  return due;
}

std::vector<pid_t> TimerQueue::Processes() const {
  std::vector<pid_t> processes;
  for (const auto& [process, deadlines] : running_) processes.push_back(process);
  return processes;
}

size_t TimerQueue::CountOf(pid_t process) const {
  const auto count = counts_.find(process);
  return count == counts_.end() ? 0 : count->second;
}

}  // namespace phantora
