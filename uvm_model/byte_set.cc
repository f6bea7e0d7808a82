#include "uvm_model/byte_set.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace phantora {

void ByteSet::Add(uint64_t offset, uint64_t length) {
  if (length == 0) return;
  uint64_t begin = offset / grain_ * grain_;
  uint64_t end = (offset + length + grain_ - 1) / grain_ * grain_;
  auto it = ranges_.upper_bound(begin);
  if (it != ranges_.begin() && std::prev(it)->second >= begin) {
    --it;
    if (it->second >= end) return;
    begin = it->first;
  }
  while (it != ranges_.end() && it->first <= end) {
    end = std::max(end, it->second);
    it = ranges_.erase(it);
  }
  ranges_.emplace(begin, end);
  Bound();
}

void ByteSet::Remove(uint64_t offset, uint64_t length) {
  const uint64_t begin = (offset + grain_ - 1) / grain_ * grain_;
  const uint64_t end = (offset + length) / grain_ * grain_;
  if (ranges_.empty() || begin >= end) return;
  auto it = ranges_.upper_bound(begin);
  if (it != ranges_.begin() && std::prev(it)->second > begin) --it;
  while (it != ranges_.end() && it->first < end) {
    const auto [first, last] = *it;
    it = ranges_.erase(it);
    if (first < begin) ranges_.emplace(first, begin);
    if (last > end) ranges_.emplace(end, last);
  }
  if (ranges_.empty()) grain_ = 1;
  Bound();
}

bool ByteSet::Any(uint64_t offset, uint64_t length) const {
  const auto it = ranges_.lower_bound(offset + length);
  return length > 0 && it != ranges_.begin() && std::prev(it)->second > offset;
}

bool ByteSet::All(uint64_t offset, uint64_t length) const {
  const auto it = ranges_.upper_bound(offset);
  return length == 0 || (it != ranges_.begin() && std::prev(it)->second >= offset + length);
}

void ByteSet::Copy(uint64_t offset, const ByteSet* from, uint64_t from_offset, uint64_t length) {
  std::vector<std::pair<uint64_t, uint64_t>> copied;  // `from` may be this
  if (from != nullptr) {
    const uint64_t from_end = from_offset + length;
    auto it = from->ranges_.upper_bound(from_offset);
    if (it != from->ranges_.begin()) --it;
    for (; it != from->ranges_.end() && it->first < from_end; ++it) {
      const uint64_t begin = std::max(it->first, from_offset);
      const uint64_t end = std::min(it->second, from_end);
      if (begin < end) copied.emplace_back(begin, end);
    }
  }
  Remove(offset, length);
  for (const auto& [begin, end] : copied) Add(begin - from_offset + offset, end - begin);
}

void ByteSet::Bound() {
  if (ranges_.size() <= kMostRanges) return;
  if (beyond_ == Beyond::kForgotten) return ranges_.clear();
  while (ranges_.size() > kMostRanges) Coarsen();
}

void ByteSet::Coarsen() {
  grain_ *= 16;
  std::map<uint64_t, uint64_t> ranges = std::exchange(ranges_, {});
  // In order, so that each only meets the one before it.
  for (auto& [first, last] : ranges) {
    const uint64_t begin = first / grain_ * grain_, end = (last + grain_ - 1) / grain_ * grain_;
    if (!ranges_.empty() && ranges_.rbegin()->second >= begin) {
      ranges_.rbegin()->second = std::max(ranges_.rbegin()->second, end);
    } else {
      ranges_.emplace_hint(ranges_.end(), begin, end);
    }
  }
}

}  // namespace phantora
