// The union of intervals of time that come in any order: when a GPU was busy with at least
// one of several things.
#ifndef PHANTORA_TOOLS_OBSERVE_INTERVAL_UNION_H_
#define PHANTORA_TOOLS_OBSERVE_INTERVAL_UNION_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

#include "clock/virtual_time.h"

namespace phantora {

class IntervalUnion {
 public:
  // Remembers at most `most` gaps. When there are more, the older half is taken for covered,
  // without being counted: what comes so late that it would fall into one of these is lost.
  explicit IntervalUnion(size_t most = 1 << 14) : most_(most) {}

  // Adds [start, end). Calls `covered(from, to)` for every part that was not covered before,
  // the earliest first.
  template <typename Covered>
  void Add(VirtualTime start, VirtualTime end, Covered covered) {
    if (end <= start) return;
    auto it = intervals_.upper_bound(start);
    if (it != intervals_.begin() && std::prev(it)->second >= start) --it;
    VirtualTime at = start, merged_start = start, merged_end = end;
    while (it != intervals_.end() && it->first <= end) {
      if (it->first > at) Cover(at, it->first, covered);
      at = std::max(at, it->second);
      merged_start = std::min(merged_start, it->first);
      merged_end = std::max(merged_end, it->second);
      it = intervals_.erase(it);
    }
    if (at < end) Cover(at, end, covered);
    intervals_.emplace_hint(it, merged_start, merged_end);
    if (intervals_.size() > most_) ForgetOldGaps();
  }
  void Add(VirtualTime start, VirtualTime end) {
    Add(start, end, [](VirtualTime, VirtualTime) {});
  }

  // Nothing more comes: keeps the total alone.
  void Finish() { intervals_.clear(); }

  VirtualSpan total() const { return total_; }
  size_t size() const { return intervals_.size(); }

 private:
  template <typename Covered>
  void Cover(VirtualTime from, VirtualTime to, Covered& covered) {
    total_ = total_ + (to - from);
    covered(from, to);
  }
  void ForgetOldGaps() {
    const auto middle = std::next(intervals_.begin(), intervals_.size() / 2);
    intervals_.begin()->second = std::prev(middle)->second;
    intervals_.erase(std::next(intervals_.begin()), middle);
  }

  const size_t most_;
  std::map<VirtualTime, VirtualTime> intervals_;  // start to end; disjoint
  VirtualSpan total_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_INTERVAL_UNION_H_
