// Conversions between numbers of different kinds.
#include "trap/gpu/sass/float_math.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

// Sizes of fields: 0 a byte, 1 two, 2 four, 3 eight; 4 (of results) bfloat16.
constexpr int kHalf = 1, kFloat = 2, kDouble = 3, kBfloat = 4;

// The source's floats, which double holds exactly.
void SourceFloats(const Warp& warp, const Instruction& i, double* values) {
  const int size = static_cast<int>(i.Bits(84, 3));
  const bool flush = i.Bit(80);
  if (size == kDouble) {
    alignas(64) uint64_t bits[kLanes];
    WideRow<Wide::kHighHalf>(warp, i.b, bits);
    for (int lane = 0; lane < kLanes; ++lane) {
      values[lane] = AsDouble(bits[lane]);
      if (std::isnan(values[lane])) continue;  // which stays what it is
      if (i.b.absolute) bits[lane] &= ~(uint64_t{1} << 63);
      if (i.b.negate) bits[lane] ^= uint64_t{1} << 63;
      values[lane] = AsDouble(bits[lane]);
    }
    return;
  }
  alignas(64) uint32_t scratch[kLanes];
  if (size == kHalf || size == kBfloat) {
    Source plain = i.b;
    plain.negate = plain.absolute = false;
    const uint32_t* const row = RowOf<Meaning::kBits>(warp, plain, scratch);
    const int shift = i.b.kind == Source::Kind::kRegister && i.Bit(60) ? 16 : 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t half = row[lane] >> shift & 0xffff;
      double value = size == kHalf ? HalfToFloat(half) : AsFloat(half << 16);
      if (i.b.absolute) value = std::fabs(value);
      values[lane] = i.b.negate ? -value : value;
    }
    return;
  }
  const uint32_t* const row = RowOf<Meaning::kFloat>(warp, i.b, scratch);
  for (int lane = 0; lane < kLanes; ++lane) {
    values[lane] = AsFloat(flush ? FlushedBits(row[lane]) : row[lane]);
  }
}

// Of a double's NaN, the upper bits of what it carries (seen on an H100); of others, a canonical
// one.
uint64_t NanOfDouble(int size, double value) {
  const uint32_t bits = AsBits(static_cast<float>(value));
  if (size == kFloat) return bits;
  if (size == kBfloat) return bits >> 16;
  return (bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 0x3ff);
}

// A number that double holds exactly, as a result of this size.
uint64_t ResultOf(int size, int mode, double value) {
  switch (size) {
    case kHalf:
      return FloatToHalfIn(mode, RoundedToOdd(value));
    case kBfloat:
      return FloatToBfloatIn(mode, RoundedToOdd(value));
    case kFloat:
      return Canonical(static_cast<float>(value));
    default:
      return AsBits(value);
  }
}

void StoreResult(Warp& warp, const Instruction& i, int size, const uint64_t* result) {
  if (size == kDouble) {
    StoreWide(warp, i.destination, result);
  } else {
    Store(warp, i.destination, [&](int lane) { return static_cast<uint32_t>(result[lane]); });
  }
}

}  // namespace

void FloatToFloat(Warp& warp, const Instruction& i) {
  const int size = static_cast<int>(i.Bits(75, 3)), mode = static_cast<int>(i.Bits(78, 2));
  alignas(64) double values[kLanes];
  alignas(64) uint64_t result[kLanes];
  SourceFloats(warp, i, values);
  if (size == kFloat && mode != 0) {
    const Rounding rounding(mode);
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = Canonical(Opaque(static_cast<float>(Opaque(values[lane]))));
    }
  } else {
    for (int lane = 0; lane < kLanes; ++lane) result[lane] = ResultOf(size, mode, values[lane]);
  }
  if (size != kDouble && i.Bits(84, 3) == kDouble) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (std::isnan(values[lane])) result[lane] = NanOfDouble(size, values[lane]);
    }
  }
  if (size == kFloat && i.Bit(80)) {
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = FlushedBits(static_cast<uint32_t>(result[lane]));
    }
  }
  StoreResult(warp, i, size, result);
}

void FloatToInteger(Warp& warp, const Instruction& i) {
  const int size = static_cast<int>(i.Bits(75, 2)), mode = static_cast<int>(i.Bits(78, 2));
  const bool is_signed = i.Bit(72), nan_is_zero = i.Bit(77);
  const int bits = 8 << size;
  alignas(64) double values[kLanes];
  alignas(64) uint64_t result[kLanes];
  SourceFloats(warp, i, values);
  const double top = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  for (int lane = 0; lane < kLanes; ++lane) {
    const double value = ToIntegral(mode, values[lane]);
    if (value != value) {
      result[lane] = nan_is_zero ? 0 : uint64_t{1} << (bits - 1);
    } else if (value >= top) {
      result[lane] = (is_signed    ? uint64_t{1} << (bits - 1)
                      : bits == 64 ? 0
                                   : uint64_t{1} << bits) -
                     1;
    } else if (is_signed) {
      result[lane] = value < -top ? uint64_t{0} - (uint64_t{1} << (bits - 1))
                                  : static_cast<uint64_t>(static_cast<int64_t>(value));
    } else {
      result[lane] = value <= 0 ? 0 : static_cast<uint64_t>(value);
    }
  }
  StoreResult(warp, i, size == 3 ? kDouble : kFloat, result);
}

void IntegerToFloat(Warp& warp, const Instruction& i) {
  const int size = static_cast<int>(i.Bits(75, 3)), mode = static_cast<int>(i.Bits(78, 2));
  const int from = static_cast<int>(i.Bits(84, 2));
  const bool is_signed = i.Bit(74);
  alignas(64) uint64_t sources[kLanes], result[kLanes];
  WideRow<Wide::kSignExtended>(warp, i.b, sources);
  const int part = static_cast<int>(i.Bits(60, 2));
  const bool has_part = i.b.kind == Source::Kind::kRegister && from < 2;
  const Rounding rounding(mode);
  for (int lane = 0; lane < kLanes; ++lane) {
    uint64_t bits = sources[lane];
    if (has_part) bits = bits >> (part * (from == 0 ? 8 : 16));
    int64_t value;
    switch (from) {
      case 0:
        value = is_signed ? static_cast<int8_t>(bits) : static_cast<uint8_t>(bits);
        break;
      case 1:
        value = is_signed ? static_cast<int16_t>(bits) : static_cast<uint16_t>(bits);
        break;
      case 2:
        value = is_signed ? static_cast<int32_t>(bits) : int64_t{static_cast<uint32_t>(bits)};
        break;
      default:
        value = static_cast<int64_t>(bits);
        break;
    }
    const bool unsigned64 = from == 3 && !is_signed;
    asm volatile("" : "+r"(value));
    if (size == kFloat) {
      result[lane] = AsBits(Opaque(unsigned64 ? static_cast<float>(static_cast<uint64_t>(value))
                                              : static_cast<float>(value)));
    } else if (size == kDouble) {
      result[lane] = AsBits(Opaque(unsigned64 ? static_cast<double>(static_cast<uint64_t>(value))
                                              : static_cast<double>(value)));
    } else {
      const double wide = Opaque(unsigned64 ? static_cast<double>(static_cast<uint64_t>(value))
                                            : static_cast<double>(value));
      result[lane] = ResultOf(size, mode, wide);
    }
  }
  StoreResult(warp, i, size, result);
}

void IntegerToFloat32(Warp& warp, const Instruction& i) { IntegerToFloat(warp, i); }

void RoundToIntegral(Warp& warp, const Instruction& i) {
  const int size = static_cast<int>(i.Bits(75, 3)), mode = static_cast<int>(i.Bits(78, 2));
  alignas(64) double values[kLanes];
  alignas(64) uint64_t result[kLanes];
  SourceFloats(warp, i, values);
  for (int lane = 0; lane < kLanes; ++lane) {
    result[lane] = ResultOf(size, 0, ToIntegral(mode, values[lane]));
  }
  StoreResult(warp, i, size, result);
}

// To a byte without a sign, NaN to zero.
void FloatToByte(Warp& warp, const Instruction& i) {
  const int mode = static_cast<int>(i.Bits(78, 2));
  With<Meaning::kFloat>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) -> uint32_t {
      const double value = ToIntegral(mode, AsFloat(b[lane]));
      return !(value > 0) ? 0 : value > 255 ? 255 : static_cast<uint32_t>(value);
    });
  });
}

void SaturateInteger(Warp& warp, const Instruction& i) {
  static constexpr int32_t kLeast[] = {0, -128, 0, -32768}, kMost[] = {255, 127, 65535, 32767};
  const uint32_t type = i.Bits(76, 2);
  With<Meaning::kInteger>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) {
      const auto value = static_cast<int32_t>(b[lane]);
      return static_cast<uint32_t>(value < kLeast[type]  ? kLeast[type]
                                   : value > kMost[type] ? kMost[type]
                                                         : value);
    });
  });
}

}  // namespace phantora::sass
