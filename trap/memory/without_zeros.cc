#include "trap/memory/without_zeros.h"

#include <algorithm>
#include <utility>

namespace phantora {

void WithoutZeros::Begin(bool forget) {
  known_ = std::exchange(found_, {});
  if (forget) known_.clear();
  next_ = 0;
}

WithoutZeros::Part WithoutZeros::FirstOf(uint64_t begin, uint64_t end) {
  while (next_ < known_.size() && known_[next_].end <= begin) ++next_;
  if (next_ == known_.size()) return {end - begin, false};
  const Range& known = known_[next_];
  if (known.begin > begin) return {std::min(end, known.begin) - begin, false};
  return {std::min(end, known.end) - begin, true};
}

void WithoutZeros::Note(uint64_t begin, uint64_t end) {
  if (!found_.empty() && found_.back().end == begin) {
    found_.back().end = end;
  } else {
    found_.push_back({begin, end});
  }
}

}  // namespace phantora
