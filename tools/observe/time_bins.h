// Values over time in a bounded number of bins, for plots. Bins start at multiples of their
// width, which doubles when they become too many, so that the bins of several series have
// common edges.
#ifndef PHANTORA_TOOLS_OBSERVE_TIME_BINS_H_
#define PHANTORA_TOOLS_OBSERVE_TIME_BINS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"

namespace phantora {

class TimeBins {
 public:
  static constexpr size_t kMostBins = 512;

  // Times are told since the start of the run; none is negative.
  VirtualSpan width() const { return VirtualSpan::Picoseconds(width_); }
  // The start of the first bin.
  VirtualSpan start() const { return VirtualSpan::Picoseconds(first_ * width_); }
  const std::vector<int64_t>& values() const { return values_; }
  bool empty() const { return values_.empty(); }

 protected:
  TimeBins() = default;
  ~TimeBins() = default;

  // Makes bins for `time`, new ones with `fill`. `merge` is given two neighbours that become
  // one.
  template <typename Merge>
  void Cover(VirtualSpan time, int64_t fill, Merge merge) {
    int64_t index = Index(time);
    if (values_.empty()) first_ = index;
    int64_t end = first_ + static_cast<int64_t>(values_.size());
    while (std::max(index + 1, end) - std::min(index, first_) > static_cast<int64_t>(kMostBins)) {
      Coarsen(merge);
      index = Index(time);
      end = first_ + static_cast<int64_t>(values_.size());
    }
    if (index < first_) {
      values_.insert(values_.begin(), first_ - index, fill);
      first_ = index;
    } else if (index >= end) {
      values_.resize(index + 1 - first_, fill);
    }
  }
  int64_t Index(VirtualSpan time) const {
    return std::max<int64_t>(time.picoseconds(), 0) / width_;
  }
  int64_t& At(int64_t index) { return values_[index - first_]; }

  int64_t width_ = 1'000'000;  // ps

 private:
  template <typename Merge>
  void Coarsen(Merge merge) {
    width_ *= 2;
    const int64_t first = first_ / 2;
    std::vector<int64_t> merged((first_ + values_.size() - 1) / 2 - first + 1);
    bool had = false;
    for (size_t i = 0; i < values_.size(); ++i) {
      const bool second = (first_ + i) % 2 == 1;
      int64_t& into = merged[(first_ + i) / 2 - first];
      into = second && had ? merge(into, values_[i]) : values_[i];
      had = true;
    }
    values_ = std::move(merged);
    first_ = first;
  }

  int64_t first_ = 0;  // in widths
  std::vector<int64_t> values_;
};

// How much of each bin something took, in picoseconds.
class BusyBins : public TimeBins {
 public:
  void Add(VirtualSpan from, VirtualSpan to) {
    if (to <= from) return;
    Cover(from, 0, std::plus<int64_t>());
    // The instant of the end belongs to the next bin.
    Cover(VirtualSpan::Picoseconds(to.picoseconds() - 1), 0, std::plus<int64_t>());
    int64_t at = std::max<int64_t>(from.picoseconds(), 0);
    while (at < to.picoseconds()) {
      const int64_t index = at / width_;
      const int64_t until = std::min(to.picoseconds(), (index + 1) * width_);
      At(index) += until - at;
      at = until;
    }
  }
};

// The highest level in each bin of something that stays at a level until it is set to
// another. Times do not decrease.
class LevelBins : public TimeBins {
 public:
  void Set(VirtualSpan time, int64_t level) {
    // Bins in between keep the level before.
    Cover(time, level_, [](int64_t a, int64_t b) { return std::max(a, b); });
    int64_t& bin = At(Index(time));
    bin = std::max(bin, level);
    level_ = level;
  }
  int64_t level() const { return level_; }

 private:
  int64_t level_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_TIME_BINS_H_
