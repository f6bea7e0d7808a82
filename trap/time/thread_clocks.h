// The clocks of a process's threads, where each has its own.
#ifndef PHANTORA_TRAP_TIME_THREAD_CLOCKS_H_
#define PHANTORA_TRAP_TIME_THREAD_CLOCKS_H_

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "clock/virtual_time.h"

namespace phantora {

// Knows when each thread is, as it was when it stopped or was let go last, and which of them run.
// Not thread-safe.
class ThreadClocks {
 public:
  // `begin`: when the process has begun, and its first thread.
  explicit ThreadClocks(VirtualTime begin = VirtualTime()) : begin_(begin) {}

  // A thread is made by one whose time is `now`. It is the next that Begins(), though its maker may
  // be about to make others by then.
  void Makes(VirtualTime now) {
    if (to_begin_.size() >= kMostToBegin) to_begin_.pop_front();  // which could not be made
    to_begin_.push_back(now);
  }
  // A thread has been heard of.
  void Begins(pid_t thread) {
    if (times_.contains(thread) || to_begin_.empty()) return;
    times_[thread] = to_begin_.front();
    to_begin_.pop_front();
  }

  VirtualTime Of(pid_t thread) const {
    const auto found = times_.find(thread);
    return found == times_.end() ? begin_ : found->second;
  }
  // It has been answered and runs from `now` on; or stands in a call since.
  void Goes(pid_t thread, VirtualTime now) {
    times_[thread] = now;
    running_.insert(thread);
  }
  void Stands(pid_t thread, VirtualTime now) {
    times_[thread] = now;
    running_.erase(thread);
  }
  // It is not earlier than `time`.
  void Raise(pid_t thread, VirtualTime time) { times_[thread] = std::max(Of(thread), time); }
  void RaiseRunning(VirtualTime time) {
    for (const pid_t thread : running_) Raise(thread, time);
  }
  // All that run sleep in calls that are not seen.
  void FoundAsleep() { running_.clear(); }
  void Ends(pid_t thread) {
    times_.erase(thread);
    running_.erase(thread);
  }

  // Of those that run; nullopt if none does.
  std::optional<VirtualTime> Earliest() const {
    std::optional<VirtualTime> earliest;
    for (const pid_t thread : running_) {
      const VirtualTime time = Of(thread);
      if (!earliest || time < *earliest) earliest = time;
    }
    return earliest;
  }

 private:
  static constexpr size_t kMostToBegin = 2;

  VirtualTime begin_;
  std::deque<VirtualTime> to_begin_;
  absl::flat_hash_map<pid_t, VirtualTime> times_;
  absl::flat_hash_set<pid_t> running_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_THREAD_CLOCKS_H_
