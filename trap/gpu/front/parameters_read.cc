#include "trap/gpu/front/parameters_read.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/hash/hash.h"

namespace phantora {
namespace {

constexpr uint32_t kWord = 4, kPointerBytes = 8;
// As often launches with another number must have written the same.
constexpr uint8_t kEnough = 2;
// Of numbers with a point that programs pass to kernels, and no size, stride or address as an
// integer of four bytes below half a billion is.
constexpr int kLargestExponent = 40;

bool IsNumber(uint64_t bits, int exponent_bits, int mantissa_bits) {
  const uint64_t mask = (uint64_t{1} << exponent_bits) - 1;
  const auto exponent = static_cast<int>(bits >> mantissa_bits & mask);
  const int bias = static_cast<int>(mask >> 1);
  return exponent >= bias - kLargestExponent && exponent <= bias + kLargestExponent;
}

}  // namespace

bool HasPointer(const ByteRanges& ranges, uint32_t at) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), std::pair(at, ~uint32_t{0}));
  return after != ranges.begin() && at + kPointerBytes <= std::prev(after)->second;
}

ParametersRead::ParametersRead(ByteRanges ranges) : ranges_(std::move(ranges)) {
  for (const auto& [begin, end] : ranges_) {
    for (uint32_t byte = begin; byte < end; ++byte) {
      const uint32_t at = byte / kWord * kWord;
      if (words_.empty() || words_.back().at != at) words_.push_back({.at = at});
      words_.back().mask |= uint32_t{0xff} << (byte - at) * 8;
    }
  }
}

std::vector<uint64_t> ParametersRead::ValuesOf(absl::Span<const uint8_t> parameters,
                                               absl::Span<const uint32_t> pointers) const {
  std::vector<uint64_t> values;
  values.reserve(words_.size());
  auto pointer = pointers.begin();
  for (const Word& word : words_) {
    while (pointer != pointers.end() && *pointer + kPointerBytes <= word.at) ++pointer;
    if (pointer != pointers.end() && *pointer <= word.at && HasPointer(ranges_, *pointer)) {
      values.push_back(kPointer);
      continue;
    }
    uint32_t value = 0;
    const size_t left = parameters.size() - std::min<size_t>(parameters.size(), word.at);
    if (left > 0) std::memcpy(&value, &parameters[word.at], std::min<size_t>(left, kWord));
    values.push_back(value & word.mask);
  }
  return values;
}

uint64_t ParametersRead::HashOf(absl::Span<const uint8_t> parameters,
                                absl::Span<const uint32_t> pointers) const {
  std::vector<uint64_t> values = ValuesOf(parameters, pointers);
  for (size_t i = 0; i < values.size(); ++i) {
    if (words_[i].is_number) values[i] = 0;
  }
  return absl::HashOf(ranges_, values);
}

bool ParametersRead::MayBeNumber(absl::Span<const uint64_t> values, size_t index) const {
  const uint64_t value = values[index];
  if (value == 0 || IsNumber(value, 8, 23)) return true;
  // Either half of a double.
  const uint32_t at = words_[index].at;
  if (at % 8 != 0) return IsNumber(value, 11, 20);
  return index + 1 < words_.size() && words_[index + 1].at == at + kWord &&
         IsNumber(values[index + 1], 11, 20);
}

void ParametersRead::Learn(const GridAndBlock& shape, absl::Span<const uint8_t> parameters,
                           absl::Span<const uint32_t> pointers, const LaunchOutputs& outputs) {
  Seen seen = {shape, ValuesOf(parameters, pointers), outputs};
  if (last_ && last_->shape == shape) {
    std::vector<size_t> differ;
    bool only_numbers = true;
    for (size_t i = 0; i < words_.size(); ++i) {
      if (seen.values[i] == last_->values[i]) continue;
      differ.push_back(i);
      only_numbers &= seen.values[i] != kPointer && last_->values[i] != kPointer &&
                      MayBeNumber(seen.values, i) && MayBeNumber(last_->values, i);
    }
    for (const size_t i : only_numbers ? differ : std::vector<size_t>()) {
      Word& word = words_[i];
      if (outputs == last_->outputs) {
        word.same = static_cast<uint8_t>(std::min<int>(word.same + 1, kEnough));
      } else {
        word.tells = true;
      }
      word.is_number = word.same >= kEnough && !word.tells;
    }
  }
  last_ = std::move(seen);
}

}  // namespace phantora
