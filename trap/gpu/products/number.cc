#include "trap/gpu/products/number.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "trap/gpu/sass/float_math.h"

namespace phantora {
namespace {

template <typename T>
T Read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The lowest bits of a tf32 are not looked at.
constexpr uint32_t kTf32Bits = 0xffffe000, kTf32Half = 0x1000, kInfinity = 0x7f800000;

uint32_t ToTf32(Number number, uint32_t bits) {
  const bool is_finite = (bits & kInfinity) != kInfinity;
  if (number == Number::kTf32Even && is_finite) {
    bits += kTf32Half - 1 + (bits >> 13 & 1);
  } else if (number == Number::kTf32Away && is_finite) {
    bits += kTf32Half;
  }
  return bits & kTf32Bits;
}

}  // namespace

std::optional<Number> FactorsOf(MathPrecision precision) {
  switch (precision) {
    case MathPrecision::kFp16:
      return Number::kHalf;
    case MathPrecision::kBf16:
      return Number::kBfloat;
    case MathPrecision::kTf32:
      return Number::kTf32;
    case MathPrecision::kFp32:
      return Number::kFloat;
    case MathPrecision::kFp64:
      return Number::kDouble;
    default:
      return std::nullopt;
  }
}

double RoundingOf(Number number) {
  switch (number) {
    case Number::kHalf:
      return std::ldexp(1, -11);
    case Number::kBfloat:
      return std::ldexp(1, -8);
    case Number::kDouble:
      return std::ldexp(1, -53);
    default:
      return std::ldexp(1, -24);
  }
}

double ToDouble(Number number, const uint8_t* from) {
  if (number == Number::kDouble) return Read<double>(from);
  float value;
  ToFloats(number, from, 1, &value);
  return value;
}

void ToFloats(Number number, const uint8_t* from, size_t count, float* to) {
  switch (number) {
    case Number::kHalf:
      for (size_t i = 0; i < count; ++i) to[i] = sass::HalfToFloat(Read<uint16_t>(from + 2 * i));
      return;
    case Number::kBfloat:
      for (size_t i = 0; i < count; ++i) to[i] = sass::BfloatToFloat(Read<uint16_t>(from + 2 * i));
      return;
    case Number::kTf32:
    case Number::kTf32Even:
    case Number::kTf32Away:
      for (size_t i = 0; i < count; ++i) {
        to[i] = std::bit_cast<float>(ToTf32(number, Read<uint32_t>(from + 4 * i)));
      }
      return;
    default:
      std::memcpy(to, from, 4 * count);
      return;
  }
}

void FromFloats(Number number, const float* from, size_t count, uint8_t* to) {
  for (size_t i = 0; i < count; ++i) {
    if (BytesOf(number) == 2) {
      const auto bits = static_cast<uint16_t>(
          number == Number::kHalf ? sass::FloatToHalf(from[i]) : sass::FloatToBfloat(from[i]));
      std::memcpy(to + 2 * i, &bits, sizeof bits);
    } else {
      const uint32_t bits = sass::Canonical(from[i]);
      std::memcpy(to + 4 * i, &bits, sizeof bits);
    }
  }
}

}  // namespace phantora
