// What products of matrices by one warp and by four have in common. How they are added:
// tensor_sums.h.
#ifndef PHANTORA_TRAP_GPU_SASS_MATRIX_MATH_H_
#define PHANTORA_TRAP_GPU_SASS_MATRIX_MATH_H_

#include <immintrin.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "trap/gpu/sass/float_math.h"
#include "trap/gpu/sass/lanes.h"

namespace phantora::sass {

inline constexpr int kRows = 16;   // of a warp
inline constexpr int kChunk = 16;  // bytes that lie together in whatever layout

enum class Element { kHalf, kBfloat, kTf32, kE4m3, kE5m2 };

// Floats of eight bits: a table of all. E4M3 has no infinities, and NaN only as all ones.
inline std::array<float, 256> TableOf(int exponent_bits) {
  std::array<float, 256> table;
  const int mantissa_bits = 7 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const auto exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const bool largest = exponent == (1 << exponent_bits) - 1;
    float value = std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
    if (exponent > 0) {
      value = std::ldexp(static_cast<float>(mantissa | 1u << mantissa_bits),
                         exponent - bias - mantissa_bits);
    }
    if (exponent_bits == 5 && largest)
      value = mantissa == 0 ? AsFloat(0x7f800000) : AsFloat(0x7fffffff);
    if (exponent_bits == 4 && largest && mantissa == 7) value = AsFloat(0x7fffffff);
    table[bits] = (bits & 0x80) != 0 ? -value : value;
  }
  return table;
}
inline const float* E4m3() {
  static const std::array<float, 256> table = TableOf(4);
  return table.data();
}
inline const float* E5m2() {
  static const std::array<float, 256> table = TableOf(5);
  return table.data();
}

template <Element element>
constexpr int kDepth = element == Element::kTf32                                  ? 8
                       : element == Element::kHalf || element == Element::kBfloat ? 16
                                                                                  : 32;
// Elements of a chunk.
template <Element element>
constexpr int kOfChunk = kDepth<element> / 2;

template <Element element>
inline void Expand(const uint8_t* from, float* to) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  if constexpr (element == Element::kHalf) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(bits));
  } else if constexpr (element == Element::kBfloat) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  } else if constexpr (element == Element::kTf32) {
    // The lowest bits of a tf32 are not looked at.
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_and_si128(bits, _mm_set1_epi32(static_cast<int>(0xffffe000))));
  } else {
    const float* const table = element == Element::kE4m3 ? E4m3() : E5m2();
    for (int i = 0; i < kChunk; ++i) to[i] = table[from[i]];
  }
}

inline void Transpose8(const float* from, size_t pitch, float* to, size_t to_pitch) {
  __m256 r[8], s[8];
  for (size_t i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * pitch);
  for (size_t i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (size_t i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
  for (size_t i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_pitch, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_pitch, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

// What a warp's registers of eight columns hold: each thread has two neighbours of a row, and of
// the row eight below. Rows of registers, null for zeros.
inline void FloatAddends(const uint32_t (*from)[kLanes], float (*sums)[8]) {
  for (int row = 0; row < kRows; row += 2) {
    if (from == nullptr) {
      _mm256_store_ps(sums[row], _mm256_setzero_ps());
      _mm256_store_ps(sums[row + 1], _mm256_setzero_ps());
      continue;
    }
    const int r = row / 8 * 2, at = row % 8 * 4;
    const __m256 even = _mm256_load_ps(reinterpret_cast<const float*>(&from[r][at]));
    const __m256 odd = _mm256_load_ps(reinterpret_cast<const float*>(&from[r + 1][at]));
    const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
    _mm256_store_ps(sums[row], _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_store_ps(sums[row + 1], _mm256_permute2f128_ps(low, high, 0x31));
  }
}
inline void HalfAddends(const uint32_t (*from)[kLanes], float (*sums)[8]) {
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < 8; column += 2) {
      const uint32_t both = from == nullptr ? 0 : from[row / 8][row % 8 * 4 + column / 2];
      sums[row][column] = HalfToFloat(both & 0xffff);
      sums[row][column + 1] = HalfToFloat(both >> 16);
    }
  }
}

// The other way round.
inline void FloatResults(const float (*sums)[8], uint32_t (*to)[kLanes]) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  for (int r = 0; r < 4; ++r) {
    for (int row = 0; row < 8; row += 2) {
      const __m256 even = _mm256_load_ps(sums[row + 8 * (r / 2)]);
      const __m256 odd = _mm256_load_ps(sums[row + 1 + 8 * (r / 2)]);
      const __m256 both =
          r % 2 == 0 ? _mm256_shuffle_ps(even, odd, 0x88) : _mm256_shuffle_ps(even, odd, 0xdd);
      __m256 value = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(both), 0b11'01'10'00));
      value = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
      _mm256_store_ps(reinterpret_cast<float*>(&to[r][4 * row]), value);
    }
  }
}
inline void HalfResults(const float (*sums)[8], uint32_t (*to)[kLanes]) {
  for (int r = 0; r < 2; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float* const from = &sums[lane / 4 + 8 * r][lane % 4 * 2];
      to[r][lane] = FloatToHalf(from[0]) | FloatToHalf(from[1]) << 16;
    }
  }
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_MATRIX_MATH_H_
