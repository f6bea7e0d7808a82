#include "trap/gpu/sass/tensor_sums.h"

#include <cmath>
#include <limits>

namespace phantora::sass {
namespace {

int ExponentOf(float value, int least) {
  if (value == 0) return kZeroExponent;
  return std::max(std::ilogb(value), least);
}

// What IEEE says of sums with NaNs and infinities; the NaN is the one that NVIDIA's GPUs make.
float SpecialSum(const float* a, const float* b, int pitch, int count, float addend) {
  float sum = std::isfinite(addend) ? 0 : addend;
  for (int k = 0; k < count; ++k) {
    const float x = a[k], y = b[k * pitch];
    if (std::isfinite(x) && std::isfinite(y)) continue;
    sum += x * y;
  }
  return std::isnan(sum) ? AsFloat(0x7fffffff) : sum;
}

}  // namespace

float TensorSum(const float* a, const float* b, int pitch, int count, float addend,
                const TensorRounding& rounding, bool halves) {
  // Of products no less than this: what is far below a float's least is lost (the same source).
  constexpr int kLeastLargest = -133;
  int largest = ExponentOf(addend, -126);
  bool special = !std::isfinite(addend);
  for (int k = 0; k < count; ++k) {
    const float x = a[k], y = b[k * pitch];
    special = special || !std::isfinite(x) || !std::isfinite(y);
    if (special) return SpecialSum(a, b, pitch, count, addend);
    if (x == 0 || y == 0) continue;
    largest =
        std::max(largest, ExponentOf(x, rounding.least_of_a) + ExponentOf(y, rounding.least_of_b));
  }
  if (special) return SpecialSum(a, b, pitch, count, addend);
  if (largest < kZeroExponent / 2) return 0;
  largest = std::max(largest, kLeastLargest);
  const auto cut = [&](double value) {
    return std::trunc(std::ldexp(value, rounding.fraction_bits - largest));
  };
  double sum = cut(addend);
  for (int k = 0; k < count; ++k) sum += cut(double{a[k]} * double{b[k * pitch]});
  const double value = std::ldexp(sum, largest - rounding.fraction_bits);
  if (halves) return HalfSum(value);
  if (std::abs(value) >= std::ldexp(1.0, 128)) {
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(value));
  }
  // Towards zero, subnormals too.
  if (std::abs(value) < std::ldexp(1.0, -126)) {
    return static_cast<float>(std::ldexp(std::trunc(std::ldexp(value, 149)), -149));
  }
  return CutSum(value, ResultBits(rounding));
}

}  // namespace phantora::sass
