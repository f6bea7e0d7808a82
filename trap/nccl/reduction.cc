#include "trap/nccl/reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fabric/collectives/nccl_operation.h"
#include "fabric/library/wire.h"

namespace phantora {
namespace {

// ncclDataType_t.
enum Type : uint8_t {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kHalf,
  kFloat,
  kDouble,
  kBfloat16,
  kE4m3,
  kE5m2
};

// A floating-point format of at most 16 bits, with IEEE 754's subnormals.
struct SmallFloat {
  int exponent_bits, mantissa_bits;
  bool infinity;  // else the largest exponent holds numbers too, and all ones is NaN
};
constexpr SmallFloat kHalfFormat = {5, 10, true}, kBfloat16Format = {8, 7, true},
                     kE4m3Format = {4, 3, false}, kE5m2Format = {5, 2, true};

float Decode(const SmallFloat& format, uint32_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const int exponent =
      static_cast<int>(bits >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
  const bool negative = (bits >> (format.exponent_bits + format.mantissa_bits) & 1) != 0;
  const int largest = (1 << format.exponent_bits) - 1;
  float value;
  if (format.infinity && exponent == largest) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (!format.infinity && exponent == largest &&
             mantissa == (1u << format.mantissa_bits) - 1) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - bias - format.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | 1u << format.mantissa_bits),
                       exponent - bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

// Rounds to nearest even. Beyond the largest number: infinity, or the largest number where eight
// bits are all there is (as CUDA's conversions to fp8 do by default).
uint32_t Encode(const SmallFloat& format, float value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t sign =
      std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  const uint32_t ones = (1u << (format.exponent_bits + format.mantissa_bits)) - 1;
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
  if (std::isnan(value)) return sign | ones;
  const uint32_t beyond = format.exponent_bits + format.mantissa_bits == 7
                              ? (format.infinity ? infinity - 1 : ones - 1)
                              : infinity;
  const float magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | beyond;
  int exponent;
  std::frexp(magnitude, &exponent);
  // The exponent of the last place; that of subnormals at least.
  const int place = std::max(exponent - 1, 1 - bias) - format.mantissa_bits;
  // Doubles hold the quotient exactly; nearbyint rounds to even.
  const auto units =
      static_cast<uint64_t>(std::nearbyint(std::ldexp(static_cast<double>(magnitude), -place)));
  // One unit in the last place is one more of the encoding, also from one exponent to the next.
  const uint64_t hidden = uint64_t{1} << format.mantissa_bits;
  const uint64_t base = static_cast<uint64_t>(place + format.mantissa_bits + bias)
                        << format.mantissa_bits;
  const uint64_t bits = units < hidden ? units : base + units - hidden;
  const uint64_t largest = format.infinity ? infinity - 1 : ones - 1;
  return sign | static_cast<uint32_t>(bits > largest ? beyond : bits);
}

const SmallFloat* SmallFormatOf(uint8_t type) {
  switch (type) {
    case kHalf:
      return &kHalfFormat;
    case kBfloat16:
      return &kBfloat16Format;
    case kE4m3:
      return &kE4m3Format;
    case kE5m2:
      return &kE5m2Format;
    default:
      return nullptr;
  }
}

uint64_t SizeOf(uint8_t type) { return static_cast<uint64_t>(NcclTypeBytes(type)); }

bool IsSigned(uint8_t type) { return type == kInt8 || type == kInt32 || type == kInt64; }

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float LoadFloat(uint8_t type, const uint8_t* from) {
  if (type == kFloat) return Load<float>(from);
  const SmallFloat& format = *SmallFormatOf(type);
  return Decode(format, SizeOf(type) == 2 ? Load<uint16_t>(from) : *from);
}

int64_t LoadInteger(uint8_t type, const uint8_t* from) {
  switch (type) {
    case kInt8:
      return Load<int8_t>(from);
    case kUint8:
      return *from;
    case kInt32:
      return Load<int32_t>(from);
    case kUint32:
      return Load<uint32_t>(from);
    default:
      return Load<int64_t>(from);
  }
}

float Max(float a, float b) { return std::fmax(a, b); }  // not of a NaN if there is a number
double Max(double a, double b) { return std::fmax(a, b); }
template <typename T>
T Max(T a, T b) {
  return std::max(a, b);
}
float Min(float a, float b) { return std::fmin(a, b); }
double Min(double a, double b) { return std::fmin(a, b); }
template <typename T>
T Min(T a, T b) {
  return std::min(a, b);
}

template <typename T>
T Combine(uint8_t operation, T a, T b) {
  switch (operation) {
    case nccl::kProd:
      return a * b;
    case nccl::kMax:
      return Max(a, b);
    case nccl::kMin:
      return Min(a, b);
    default:
      return a + b;
  }
}

// Wraps, as integers of the GPU do.
int64_t CombineIntegers(uint8_t operation, bool is_signed, int64_t a, int64_t b) {
  if (operation == nccl::kMax || operation == nccl::kMin) {
    if (is_signed) return Combine<int64_t>(operation, a, b);
    return static_cast<int64_t>(
        Combine<uint64_t>(operation, static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }
  return static_cast<int64_t>(
      Combine<uint64_t>(operation, static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}

}  // namespace

Reduction::Reduction(uint8_t type, uint8_t operation, uint64_t bytes)
    : type_(type), operation_(operation), elements_(bytes / SizeOf(type)) {
  if (type == kFloat || SmallFormatOf(type) != nullptr) {
    floats_.resize(elements_);
  } else if (type == kDouble) {
    doubles_.resize(elements_);
  } else {
    integers_.resize(elements_);
  }
}

void Reduction::Add(absl::Span<const uint8_t> contribution, uint64_t scalar) {
  const bool scales = operation_ == nccl::kPreMulSum;
  uint8_t factor[sizeof scalar];
  std::memcpy(factor, &scalar, sizeof scalar);
  const uint64_t size = SizeOf(type_);
  for (uint64_t i = 0; i < elements_; ++i) {
    const uint8_t* from = contribution.data() + i * size;
    if (!floats_.empty()) {
      float value = LoadFloat(type_, from);
      if (scales) value *= LoadFloat(type_, factor);
      floats_[i] = first_ ? value : Combine(operation_, floats_[i], value);
    } else if (!doubles_.empty()) {
      double value = Load<double>(from);
      if (scales) value *= Load<double>(factor);
      doubles_[i] = first_ ? value : Combine(operation_, doubles_[i], value);
    } else {
      int64_t value = LoadInteger(type_, from);
      if (scales) {
        value = CombineIntegers(nccl::kProd, IsSigned(type_), value, LoadInteger(type_, factor));
      }
      integers_[i] =
          first_ ? value : CombineIntegers(operation_, IsSigned(type_), integers_[i], value);
    }
  }
  first_ = false;
}

std::vector<uint8_t> Reduction::Result(int ranks) const {
  const bool averages = operation_ == nccl::kAvg;
  const uint64_t size = SizeOf(type_);
  std::vector<uint8_t> result(elements_ * size);
  for (uint64_t i = 0; i < elements_; ++i) {
    uint8_t* to = result.data() + i * size;
    if (!floats_.empty()) {
      const float value = averages ? floats_[i] / static_cast<float>(ranks) : floats_[i];
      const SmallFloat* format = SmallFormatOf(type_);
      const uint32_t bits =
          format == nullptr ? std::bit_cast<uint32_t>(value) : Encode(*format, value);
      std::memcpy(to, &bits, size);
    } else if (!doubles_.empty()) {
      const double value = averages ? doubles_[i] / ranks : doubles_[i];
      std::memcpy(to, &value, size);
    } else {
      int64_t value = integers_[i];
      if (averages) {
        // The sum wraps before it is divided.
        value = LoadInteger(type_, reinterpret_cast<const uint8_t*>(&value));
        value =
            IsSigned(type_)
                ? value / ranks
                : static_cast<int64_t>(static_cast<uint64_t>(value) / static_cast<uint64_t>(ranks));
      }
      std::memcpy(to, &value, size);
    }
  }
  return result;
}

}  // namespace phantora
