// How tensor cores add: exactly as the hardware does, bit by bit.
//
// A block of products and what they are added to are aligned to the largest exponent among them (of
// a product: the sum of its factors' exponents, which may be one less than its own), cut off a few
// bits below a float's last, added exactly, and the sum is cut off (floats) or rounded to the
// nearest (halves). The next block adds to that. Source: F. A. Khattak and M. Mikaitis, "Accurate
// Models of NVIDIA Tensor Cores" (arXiv 2512.07004), whose models of A100, Ada and H100 are found
// bit by bit on these; that of H100 was found again on one with the programs of test/kernels
// (tools/real_gpu).
#ifndef PHANTORA_TRAP_GPU_SASS_TENSOR_SUMS_H_
#define PHANTORA_TRAP_GPU_SASS_TENSOR_SUMS_H_

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "trap/gpu/sass/float_math.h"
#include "trap/gpu/sass/matrix_math.h"

namespace phantora::sass {

struct TensorRounding {
  int block;                   // products that are added at once
  int fraction_bits;           // that are kept below the largest exponent
  int least_of_a, least_of_b;  // exponents of factors: their subnormals have no smaller one
};

// What is kept of a sum as a float: of eight-bit factors no more than of their products.
constexpr int ResultBits(const TensorRounding& rounding) {
  constexpr int kFraction = 23;
  return std::min(kFraction, rounding.fraction_bits);
}

constexpr int LeastExponent(Element element) {
  if (element == Element::kE4m3) return -6;
  return element == Element::kE5m2 || element == Element::kHalf ? -14 : -126;
}

template <Element of_a, Element of_b = of_a>
constexpr TensorRounding RoundingOf(int architecture, int depth) {
  constexpr bool kEight = of_a == Element::kE4m3 || of_a == Element::kE5m2;
  constexpr int kBlockBefore90 = kEight ? 16 : of_a == Element::kTf32 ? 4 : 8;
  const bool hopper = architecture >= 90;
  return {hopper ? depth : std::min(depth, kBlockBefore90),
          kEight   ? 13
          : hopper ? 25
                   : 24,
          LeastExponent(of_a), LeastExponent(of_b)};
}

// Exponents that stand for zero, and for what is no number or infinite.
inline constexpr int kZeroExponent = -4000, kSpecialExponent = 4000;

inline __m256i ExponentsOf(__m256 values, int least) {
  const __m256i field =
      _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(values), 23), _mm256_set1_epi32(0xff));
  __m256i exponents = _mm256_max_epi32(_mm256_sub_epi32(field, _mm256_set1_epi32(127)),
                                       _mm256_set1_epi32(std::max(least, -126)));
  exponents = _mm256_blendv_epi8(exponents, _mm256_set1_epi32(kSpecialExponent),
                                 _mm256_cmpeq_epi32(field, _mm256_set1_epi32(0xff)));
  const __m256 zero = _mm256_cmp_ps(values, _mm256_setzero_ps(), _CMP_EQ_OQ);
  return _mm256_blendv_epi8(exponents, _mm256_set1_epi32(kZeroExponent), _mm256_castps_si256(zero));
}

// One sum, of whatever numbers: `a` and `b` (b[k * pitch]) of `count` factors, and `addend`.
// `halves`: the result is one, also between blocks.
float TensorSum(const float* a, const float* b, int pitch, int count, float addend,
                const TensorRounding& rounding, bool halves);

// What a sum, which is exact, becomes: a half, or so many bits of a normal float.
inline float HalfSum(double value) { return HalfToFloat(FloatToHalf(RoundedToOdd(value))); }
inline float CutSum(double value, int result_bits) {
  return static_cast<float>(
      std::bit_cast<double>(std::bit_cast<uint64_t>(value) & ~uint64_t{0} << (52 - result_bits)));
}

// Four sums, exact: `low` and `high` count units of 2^(largest - fraction_bits). Two counts, as 16
// products of up to 2^27 would not fit into one.
template <bool halves>
inline void StoreSums(__m128i low, __m128i high, __m128i largest, const TensorRounding& rounding,
                      float* to) {
  const __m128i unit = _mm_add_epi32(largest, _mm_set1_epi32(1023 - rounding.fraction_bits));
  __m256d sum = _mm256_add_pd(_mm256_cvtepi32_pd(low), _mm256_cvtepi32_pd(high));
  sum = _mm256_mul_pd(sum, _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_cvtepi32_epi64(unit), 52)));
  if constexpr (halves) {
    alignas(32) double values[4];
    _mm256_store_pd(values, sum);
    for (int i = 0; i < 4; ++i) to[i] = HalfSum(values[i]);
  } else {
    sum = _mm256_and_pd(sum, _mm256_castsi256_pd(_mm256_set1_epi64x(static_cast<int64_t>(
                                 ~uint64_t{0} << (52 - ResultBits(rounding))))));
    _mm_store_ps(to, _mm256_cvtpd_ps(sum));
  }
}

// Exponents of all rows of A, and of B.
template <int depth>
struct FactorExponents {
  alignas(64) int32_t a[kRows][depth < 8 ? 8 : depth];
  alignas(64) int32_t b[depth][8];
};

// Products `first` to `first + block` of two rows and eight columns, added to what sums[0] and
// sums[1] hold.
template <int depth, int block, int pitch, bool halves>
inline void AddBlock(const float (*a)[depth], const float* b, int row, int first,
                     const FactorExponents<depth>& exponents, const TensorRounding& rounding,
                     float (*sums)[8]) {
  // Beyond these the scaled products would leave a float's range: one by one, and rarely.
  constexpr int kLow = -100, kHigh = 120, kTogether = 2;
  __m256i largest[kTogether], low[kTogether], high[kTogether];
  __m256 scale[kTogether];
#pragma GCC unroll 2
  for (int r = 0; r < kTogether; ++r) largest[r] = ExponentsOf(_mm256_load_ps(sums[row + r]), -126);
#pragma GCC unroll 32
  for (int k = 0; k < block; ++k) {
    const __m256i of_b =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(exponents.b[first + k]));
#pragma GCC unroll 2
    for (int r = 0; r < kTogether; ++r) {
      largest[r] = _mm256_max_epi32(
          largest[r], _mm256_add_epi32(_mm256_set1_epi32(exponents.a[row + r][first + k]), of_b));
    }
  }
  int beyond = 0;
#pragma GCC unroll 2
  for (int r = 0; r < kTogether; ++r) {
    const __m256i nothing = _mm256_cmpgt_epi32(_mm256_set1_epi32(kZeroExponent / 2), largest[r]);
    largest[r] = _mm256_andnot_si256(nothing, largest[r]);
    beyond |= _mm256_movemask_epi8(
        _mm256_or_si256(_mm256_cmpgt_epi32(largest[r], _mm256_set1_epi32(kHigh)),
                        _mm256_cmpgt_epi32(_mm256_set1_epi32(kLow), largest[r])));
    scale[r] = _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_sub_epi32(_mm256_set1_epi32(rounding.fraction_bits + 127), largest[r]), 23));
    low[r] = _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_load_ps(sums[row + r]), scale[r]));
    high[r] = _mm256_setzero_si256();
  }
  if (beyond != 0) {
    for (int r = 0; r < kTogether; ++r) {
      for (int column = 0; column < 8; ++column) {
        float& sum = sums[row + r][column];
        sum = TensorSum(&a[row + r][first], b + first * pitch + column, pitch, block, sum, rounding,
                        halves);
      }
    }
    return;
  }
#pragma GCC unroll 32
  for (int k = 0; k < block; ++k) {
    const __m256 of_b = _mm256_load_ps(b + (first + k) * pitch);
#pragma GCC unroll 2
    for (int r = 0; r < kTogether; ++r) {
      const __m256 product = _mm256_mul_ps(_mm256_broadcast_ss(&a[row + r][first + k]), of_b);
      __m256i& sum = k % 2 == 0 ? low[r] : high[r];
      sum = _mm256_add_epi32(sum, _mm256_cvttps_epi32(_mm256_mul_ps(product, scale[r])));
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < kTogether; ++r) {
    StoreSums<halves>(_mm256_castsi256_si128(low[r]), _mm256_castsi256_si128(high[r]),
                      _mm256_castsi256_si128(largest[r]), rounding, sums[row + r]);
    StoreSums<halves>(_mm256_extracti128_si256(low[r], 1), _mm256_extracti128_si256(high[r], 1),
                      _mm256_extracti128_si256(largest[r], 1), rounding, sums[row + r] + 4);
  }
}

// sums[row][column] of eight columns and all rows, which hold what is added to. b[k * pitch] is
// eight values long, and aligned to them.
template <int depth, int pitch, bool halves>
void AddProducts8(const float (*a)[depth], const float* b, const TensorRounding& rounding,
                  float (*sums)[8]) {
  FactorExponents<depth> exponents;
  for (int row = 0; row < kRows; ++row) {
    if constexpr (depth < 8) {
      alignas(32) float values[8] = {};
      std::copy_n(a[row], depth, values);
      _mm256_store_si256(reinterpret_cast<__m256i*>(exponents.a[row]),
                         ExponentsOf(_mm256_load_ps(values), rounding.least_of_a));
    } else {
      for (int k = 0; k < depth; k += 8) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(&exponents.a[row][k]),
                           ExponentsOf(_mm256_loadu_ps(&a[row][k]), rounding.least_of_a));
      }
    }
  }
  for (int k = 0; k < depth; ++k) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(exponents.b[k]),
                       ExponentsOf(_mm256_load_ps(b + k * pitch), rounding.least_of_b));
  }
  for (int row = 0; row < kRows; row += 2) {
    if (rounding.block == depth) {
      AddBlock<depth, depth, pitch, halves>(a, b, row, 0, exponents, rounding, sums);
    } else {
      constexpr int kBlock = depth > 4 ? depth / 2 : depth;
      for (int first = 0; first < depth; first += kBlock) {
        AddBlock<depth, kBlock, pitch, halves>(a, b, row, first, exponents, rounding, sums);
      }
    }
  }
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_TENSOR_SUMS_H_
