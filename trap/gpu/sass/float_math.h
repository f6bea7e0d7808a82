// Floating point as a GPU has it: rounding modes, and what x86 does otherwise.
#ifndef PHANTORA_TRAP_GPU_SASS_FLOAT_MATH_H_
#define PHANTORA_TRAP_GPU_SASS_FLOAT_MATH_H_

#include <immintrin.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

#include "trap/gpu/sass/lanes.h"

namespace phantora::sass {

inline constexpr uint32_t kNaN = 0x7fffffff;  // what arithmetic on floats gives
inline constexpr uint32_t kHalfNaN = 0x7fff;  // of float16 and bfloat16

// Rounding modes by number: to nearest even, down, up, to zero.
class Rounding {
 public:
  explicit Rounding(int mode) : changed_(mode != 0) {
    static constexpr int kModes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    if (changed_) std::fesetround(kModes[mode]);
  }
  ~Rounding() {
    if (changed_) std::fesetround(FE_TONEAREST);
  }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  const bool changed_;
};
// Keeps the compiler from moving arithmetic out of the reach of a Rounding.
template <typename T>
inline T Opaque(T value) {
  asm volatile("" : "+x"(value));
  return value;
}

inline float Flushed(float value) {
  return (AsBits(value) & 0x7f800000) == 0 ? AsFloat(AsBits(value) & 0x80000000) : value;
}
inline uint32_t FlushedBits(uint32_t bits) {
  return (bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits;
}
inline float Saturated(float value) { return value > 0 ? (value < 1 ? value : 1.0f) : 0.0f; }
// x86 keeps payloads and makes NaNs with a sign.
inline uint32_t Canonical(float value) { return value != value ? kNaN : AsBits(value); }

inline float HalfToFloat(uint32_t half) { return _cvtsh_ss(static_cast<unsigned short>(half)); }
inline uint32_t FloatToHalf(float value) {
  return value != value ? kHalfNaN : static_cast<uint16_t>(_cvtss_sh(value, 0));
}
inline float BfloatToFloat(uint32_t bits) { return AsFloat(bits << 16); }
inline uint32_t FloatToBfloat(float value) {
  const uint32_t bits = AsBits(value);
  if (value != value) return kHalfNaN;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// A double as the float with the lowest bit set if anything was lost: rounded once more, to fewer
// bits, it is what the double would be.
// A float with the ten bits of a tf32, to the nearest, to even of two.
inline uint32_t RoundedToTf32(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffffff;
  return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
}

inline float RoundedToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || value != value || std::isinf(nearest)) {
    return nearest;
  }
  uint32_t bits = AsBits(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return AsFloat(bits | 1);
}

// In any rounding mode.
inline uint32_t FloatToHalfIn(int mode, float value) {
  if (value != value) return kHalfNaN;
  switch (mode) {
    case 1:
      return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEG_INF));
    case 2:
      return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_POS_INF));
    case 3:
      return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_ZERO));
    default:
      return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
  }
}
inline uint32_t FloatToBfloatIn(int mode, float value) {
  if (mode == 0 || value != value) return FloatToBfloat(value);
  const uint32_t bits = AsBits(value);
  const bool negative = bits >> 31 != 0, inexact = (bits & 0xffff) != 0;
  const bool away = inexact && ((mode == 1 && negative) || (mode == 2 && !negative));
  return (bits >> 16) + (away ? 1 : 0);
}

// To an integral value, in any mode.
template <typename T>
inline T ToIntegral(int mode, T value) {
  switch (mode) {
    case 0:
      return std::nearbyint(value);
    case 1:
      return std::floor(value);
    case 2:
      return std::ceil(value);
    default:
      return std::trunc(value);
  }
}

// Comparisons by number, see the encodings of FSETP. Whether neither is NaN decides first.
template <typename T>
inline bool CompareFloat(int comparison, T a, T b) {
  const bool ordered = a == a && b == b;
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
      return ordered && a != b;
    case 6:
      return a >= b;
    case 7:
      return ordered;
    case 8:
      return !ordered;
    case 9:
      return !(a >= b);
    case 10:
      return !ordered || a == b;
    case 11:
      return !(a > b);
    case 12:
      return !(a <= b);
    case 13:
      return a != b;
    case 14:
      return !(a < b);
    default:
      return true;
  }
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_FLOAT_MATH_H_
