#include "trap/uvm/va_ranges.h"

#include <algorithm>
#include <iterator>

namespace phantora {

VaRanges::Ranges::iterator VaRanges::EndingAfter(uint64_t address) {
  auto it = ranges_.upper_bound(address);
  if (it != ranges_.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second.length > address) return before;
  }
  return it;
}

VaRanges::Outcome VaRanges::Add(uint64_t base, uint64_t length, Kind kind) {
  const auto next = EndingAfter(base);
  if (next != ranges_.end() && next->first < base + length) return Outcome::kInUse;
  if (ranges_.size() >= most_) return Outcome::kFull;
  ranges_[base] = {length, kind};
  return Outcome::kDone;
}

VaRanges::Outcome VaRanges::Replace(uint64_t base, uint64_t length, std::vector<Piece>* ended) {
  const Range* pool = At(base);
  if (pool != nullptr && pool->kind == Kind::kSemaphorePool && pool->length == length) {
    return Outcome::kDone;
  }
  const uint64_t end = base + length;
  const auto first = EndingAfter(base);
  auto last = first;
  for (; last != ranges_.end() && last->first < end; ++last) {
    if (last->second.kind != Kind::kManaged) return Outcome::kInUse;
  }
  // With a part before, one behind, and the new one.
  if (ranges_.size() + 2 > most_) return Outcome::kFull;
  const std::vector<std::pair<uint64_t, Range>> old(first, last);
  ranges_.erase(first, last);
  for (const auto& [old_base, range] : old) {
    const uint64_t old_end = old_base + range.length;
    const uint64_t begin = std::max(old_base, base);
    ended->emplace_back(begin, std::min(old_end, end) - begin);
    if (old_base < base) ranges_[old_base] = {base - old_base, range.kind};
    if (old_end > end) ranges_[end] = {old_end - end, range.kind};
  }
  ranges_[base] = {length, Kind::kManaged};
  return Outcome::kDone;
}

const VaRanges::Range* VaRanges::Around(uint64_t base, uint64_t length) const {
  auto it = ranges_.upper_bound(base);
  if (it == ranges_.begin()) return nullptr;
  --it;
  const uint64_t into = base - it->first;
  if (into >= it->second.length || length > it->second.length - into) return nullptr;
  return &it->second;
}

const VaRanges::Range* VaRanges::At(uint64_t base) const {
  const auto it = ranges_.find(base);
  return it == ranges_.end() ? nullptr : &it->second;
}

}  // namespace phantora
