// Integer operations of one value, for the lanes of a warp and for the uniform datapath.
#ifndef PHANTORA_TRAP_GPU_SASS_INTEGER_MATH_H_
#define PHANTORA_TRAP_GPU_SASS_INTEGER_MATH_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace phantora::sass {

// Comparisons by number: F, LT, EQ, LE, GT, NE, GE, T.
template <typename T>
constexpr bool Compare(int comparison, T a, T b) {
  switch (comparison) {
    case 0:
      return false;
    case 1:
      return a < b;
    case 2:
      return a == b;
    case 3:
      return a <= b;
    case 4:
      return a > b;
    case 5:
      return a != b;
    case 6:
      return a >= b;
    default:
      return true;
  }
}
inline bool CompareWords(int comparison, bool is_signed, uint32_t a, uint32_t b) {
  return is_signed ? Compare(comparison, static_cast<int32_t>(a), static_cast<int32_t>(b))
                   : Compare(comparison, a, b);
}
// Of numbers of 64 bits, whose upper halves are a and b and whose lower ones compare as `low`.
inline bool CompareUpper(int comparison, bool is_signed, uint32_t a, uint32_t b, bool low) {
  if (comparison == 0 || comparison == 7) return comparison == 7;
  return a == b ? low : CompareWords(comparison, is_signed, a, b);
}

// SHF: of high:low. Counts beyond the type's width are that width, or wrap.
struct ShiftKind {
  bool right, wide, is_signed, wrap, upper;
};
inline uint32_t ShiftFunnel(ShiftKind kind, uint32_t low, uint32_t count, uint32_t high) {
  const uint64_t value = low | uint64_t{high} << 32;
  const uint32_t bits = kind.wide ? 64 : 32;
  const uint32_t by = kind.wrap ? count & (bits - 1) : std::min(count, bits);
  uint64_t result;
  if (kind.right && kind.is_signed) {
    result = static_cast<uint64_t>(static_cast<int64_t>(value) >> std::min(by, 63u));
  } else if (by == 64) {
    result = 0;
  } else {
    result = kind.right ? value >> by : value << by;
  }
  return static_cast<uint32_t>(kind.upper ? result >> 32 : result);
}

// PRMT: bytes 0 to 3 of a, 4 to 7 of c; `mode` as in bits 72 to 74.
inline uint32_t Permute(int mode, uint32_t a, uint32_t selector, uint32_t c) {
  const uint64_t bytes = a | uint64_t{c} << 32;
  if (mode == 0) {
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const uint32_t nibble = selector >> (4 * i) & 15;
      uint32_t byte = bytes >> (8 * (nibble & 7)) & 0xff;
      if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
  // From the PTX ISA's table of prmt, lowest byte first.
  static constexpr uint8_t kModes[7][4][4] = {
      {},
      {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}},
      {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}},
      {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}},
      {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}},
      {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}},
      {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}},
  };
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<uint32_t>(bytes >> (8 * kModes[mode][selector & 3][i]) & 0xff) << (8 * i);
  }
  return result;
}

// LEA: ((high:a) << shift) + b, or its upper word of the first; carries of it and of negation.
struct EffectiveAddress {
  bool upper, extend, carries, negate_a, negate_b;
  int shift;
};
inline uint32_t ComputeAddress(const EffectiveAddress& how, uint32_t a, uint32_t b, uint32_t high,
                               bool carry_in, bool* carry_out) {
  if (how.extend) high = static_cast<uint32_t>(static_cast<int32_t>(a) >> 31);
  uint32_t shifted = a << how.shift;
  if (how.upper) {
    shifted = static_cast<uint32_t>((a | uint64_t{high} << 32) >> (32 - how.shift));
  }
  uint64_t sum = how.negate_a ? uint64_t{~shifted} : shifted;
  bool carry = false;
  if (how.negate_a && !how.carries) {
    sum = uint64_t{~shifted} + 1;
    carry |= sum >> 32 != 0;
    sum &= 0xffffffff;
  }
  uint64_t addend = how.negate_b ? uint64_t{~b} : b;
  if (how.negate_b && !how.carries) {
    addend += 1;
    carry |= addend >> 32 != 0;
    addend &= 0xffffffff;
  }
  sum += addend + (how.carries && carry_in ? 1 : 0);
  carry |= sum >> 32 != 0;
  *carry_out = carry;
  return static_cast<uint32_t>(sum);
}

// FLO: the place of the highest one, or of the highest bit that is not the sign; all ones if there
// is none.
inline uint32_t LeadingOne(uint32_t value, bool is_signed, bool as_shift) {
  if (is_signed && static_cast<int32_t>(value) < 0) value = ~value;
  if (value == 0) return ~0u;
  const int zeros = std::countl_zero(value);
  return static_cast<uint32_t>(as_shift ? zeros : 31 - zeros);
}

inline uint32_t Reversed(uint32_t value) {
  value = (value >> 1 & 0x55555555) | (value & 0x55555555) << 1;
  value = (value >> 2 & 0x33333333) | (value & 0x33333333) << 2;
  value = (value >> 4 & 0x0f0f0f0f) | (value & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(value);
}

inline uint32_t Extended(uint32_t value, uint32_t bits, bool is_signed, bool wrap) {
  if (wrap) bits &= 31;
  if (bits >= 32) return value;
  if (bits == 0) return 0;
  const int by = 32 - static_cast<int>(bits);
  return is_signed ? static_cast<uint32_t>(static_cast<int32_t>(value << by) >> by)
                   : value << by >> by;
}

inline uint32_t MaskOfBits(uint32_t at, uint32_t width, bool wrap) {
  if (wrap) at &= 31, width &= 31;
  if (at >= 32) return 0;
  const uint64_t ones = (uint64_t{1} << std::min(width, 32u)) - 1;
  return static_cast<uint32_t>(ones << at);
}

inline uint32_t MinMax(bool is_signed, bool minimum, uint32_t a, uint32_t b) {
  const bool less = is_signed ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
  return less == minimum ? a : b;
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_INTEGER_MATH_H_
