// Two halves in a register: float16, or bfloat16.
#include "trap/gpu/sass/float_math.h"
#include "trap/gpu/sass/matrix_math.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

// One source, as floats: its lower and upper half, or one of them twice.
struct Halves {
  float low[kLanes], high[kLanes];
};

// `swizzle`: 0 both, 2 the lower twice, 3 the upper twice.
void FetchAs(const Warp& warp, const Source& source, int swizzle, bool bfloat, Halves& out) {
  alignas(64) uint32_t scratch[kLanes];
  Source plain = source;
  plain.negate = plain.absolute = false;
  const uint32_t* const row = RowOf<Meaning::kBits>(warp, plain, scratch);
  const uint32_t keep = source.absolute ? 0x7fff7fff : ~0u;
  const uint32_t flip = source.negate ? 0x80008000 : 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t bits = (row[lane] & keep) ^ flip;
    const uint32_t low = swizzle == 3 ? bits >> 16 : bits & 0xffff;
    const uint32_t high = swizzle == 2 ? bits & 0xffff : bits >> 16;
    out.low[lane] = bfloat ? BfloatToFloat(low) : HalfToFloat(low);
    out.high[lane] = bfloat ? BfloatToFloat(high) : HalfToFloat(high);
  }
}

// Without what is below the smallest normal number.
uint32_t FlushedHalf(uint32_t bits, bool bfloat) {
  return (bits & (bfloat ? 0x7f80 : 0x7c00)) == 0 ? bits & 0x8000 : bits;
}
void Flush(Halves& halves, bool bfloat) {
  const float smallest = bfloat ? 0x1p-126f : 0x1p-14f;
  for (auto* values : {&halves.low, &halves.high}) {
    for (float& value : *values) {
      if (std::fabs(value) < smallest) value = std::copysign(0.0f, value);
    }
  }
}

// The swizzle of a source lies where the source does: a's at 74, that at 32 has it at 60, that at
// 64 at 81. Immediates have none.
int SwizzleOf(const Instruction& i, const Source& source) {
  if (source.kind == Source::Kind::kImmediate || source.kind == Source::Kind::kNone) return 0;
  if (&source == &i.a) return static_cast<int>(i.Bits(74, 2));
  const int form = i.word.form();
  const bool third_is_free = form == 2 || form == 3 || form == 7;
  return static_cast<int>(i.Bits((&source == &i.c) == third_is_free ? 60 : 81, 2));
}

void Fetch(const Warp& warp, const Instruction& i, const Source& source, Halves& out) {
  FetchAs(warp, source, SwizzleOf(i, source), i.Bit(85), out);
  if (i.Bit(80)) Flush(out, i.Bit(85));
}

// x y + z, rounded to odd: the product is exact in double, the sum may not be.
double MultiplyAdd(double x, double y, double z) {
  const double product = x * y, sum = product + z;
  const double of_z = sum - product;
  const double lost = (product - (sum - of_z)) + (z - of_z);
  if (lost == 0 || lost != lost || (AsBits(sum) & 1) != 0) return sum;
  return std::nextafter(sum, lost > 0 ? HUGE_VAL : -HUGE_VAL);
}

// `operation` in double, which holds products of two and sums of two of these exactly enough.
template <typename Operation>
void OfHalves(Warp& warp, const Instruction& i, const Halves& a, const Halves& b, const Halves& c,
              Operation operation) {
  const bool bfloat = i.Bit(85), as_float = i.Bit(78), relu = i.Bit(79), saturate = i.Bit(77);
  const bool flush = i.Bit(80);
  const auto rounded = [&](double exact) {
    if (relu && !(exact > 0)) return exact != exact ? kHalfNaN : 0u;
    if (saturate) exact = exact > 0 ? (exact < 1 ? exact : 1) : 0;
    const float value = RoundedToOdd(exact);
    const uint32_t bits = bfloat ? FloatToBfloat(value) : FloatToHalf(value);
    return flush ? FlushedHalf(bits, bfloat) : bits;
  };
  Store(warp, i.destination, [&](int lane) {
    const double low = operation(static_cast<double>(a.low[lane]), static_cast<double>(b.low[lane]),
                                 static_cast<double>(c.low[lane]));
    if (as_float) return Canonical(static_cast<float>(low));
    const double high =
        operation(static_cast<double>(a.high[lane]), static_cast<double>(b.high[lane]),
                  static_cast<double>(c.high[lane]));
    return rounded(low) | rounded(high) << 16;
  });
}

}  // namespace

void AddHalves(Warp& warp, const Instruction& i) {
  Halves a, b;
  const Source& second = i.b.kind != Source::Kind::kNone ? i.b : i.c;
  Fetch(warp, i, i.a, a);
  Fetch(warp, i, second, b);
  OfHalves(warp, i, a, b, b, [](double x, double y, double) { return x + y; });
}

void MultiplyHalves(Warp& warp, const Instruction& i) {
  Halves a, b;
  Fetch(warp, i, i.a, a);
  Fetch(warp, i, i.b, b);
  OfHalves(warp, i, a, b, b, [](double x, double y, double) { return x * y; });
}

void FusedMultiplyAddHalves(Warp& warp, const Instruction& i) {
  Halves a, b, c;
  Fetch(warp, i, i.a, a);
  Fetch(warp, i, i.b, b);
  Fetch(warp, i, i.c, c);
  OfHalves(warp, i, a, b, c, &MultiplyAdd);
}
void ConjugateMultiplyAddHalves(Warp& warp, const Instruction& i) {
  Halves a, b, c;
  Fetch(warp, i, i.a, a);
  Fetch(warp, i, i.b, b);
  Fetch(warp, i, i.c, c);
  // .H0_NH1: the lower half above, and the upper one, negated, below.
  for (int lane = 0; lane < kLanes; ++lane) {
    const float upper = b.high[lane];
    b.high[lane] = b.low[lane];
    b.low[lane] = -upper;
  }
  OfHalves(warp, i, a, b, c, &MultiplyAdd);
}

namespace {

// Which lanes' lower and upper halves compare so, with the predicate that goes with them.
struct HalfMasks {
  uint32_t low, high;
};
HalfMasks Compared(const Warp& warp, const Instruction& i) {
  Halves a, b;
  const Source& second = i.b.kind != Source::Kind::kNone ? i.b : i.c;
  const bool bfloat = i.Bit(65);
  FetchAs(warp, i.a, SwizzleOf(i, i.a), bfloat, a);
  FetchAs(warp, second, SwizzleOf(i, second), bfloat, b);
  if (i.Bit(80)) Flush(a, bfloat), Flush(b, bfloat);
  const int comparison = static_cast<int>(i.Bits(76, 4)),
            operation = static_cast<int>(i.Bits(69, 2));
  const uint32_t with = PredicateAt(warp, i, 87, 90);
  const uint32_t low =
      MaskOf([&](int lane) { return CompareFloat(comparison, a.low[lane], b.low[lane]); });
  const uint32_t high =
      MaskOf([&](int lane) { return CompareFloat(comparison, a.high[lane], b.high[lane]); });
  return {Combined(operation, low, with), Combined(operation, high, with)};
}

}  // namespace

void CompareHalves(Warp& warp, const Instruction& i) {
  const HalfMasks masks = Compared(warp, i);
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), masks.low);
  SetPredicate(warp, static_cast<int>(i.Bits(84, 3)), masks.high);
}

void SetHalves(Warp& warp, const Instruction& i) {
  const HalfMasks masks = Compared(warp, i);
  const uint32_t one = !i.Bit(71) ? 0xffff : i.Bit(65) ? 0x3f80 : 0x3c00;
  Store(warp, i.destination, [&](int lane) {
    return (Has(masks.low, lane) ? one : 0) | (Has(masks.high, lane) ? one << 16 : 0);
  });
}

void MinMaxHalves(Warp& warp, const Instruction& i) {
  Halves a, b;
  Fetch(warp, i, i.a, a);
  Fetch(warp, i, i.b, b);
  const bool bfloat = i.Bit(85), keep_nan = i.Bit(81);
  const uint32_t minimum = PredicateAt(warp, i, 87, 90);
  const auto chosen = [&](float x, float y, bool min) {
    float value;
    if (x != x || y != y) {
      if (keep_nan || (x != x && y != y)) return kHalfNaN;
      value = x != x ? y : x;
    } else if (x == y) {
      value = std::signbit(x) == min ? x : y;
    } else {
      value = (x < y) == min ? x : y;
    }
    return bfloat ? FloatToBfloat(value) : FloatToHalf(value);
  };
  Store(warp, i.destination, [&](int lane) {
    const bool min = Has(minimum, lane);
    return chosen(a.low[lane], b.low[lane], min) | chosen(a.high[lane], b.high[lane], min) << 16;
  });
}

// To the nearest, or towards zero. (What PTX calls .rna takes two other instructions.)
void RoundToTf32(Warp& warp, const Instruction& i) {
  const bool truncates = i.Bits(79, 2) == 3, relu = i.Bit(75);
  With<Meaning::kFloat>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) -> uint32_t {
      const uint32_t bits = b[lane];
      const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
      if (relu && bits >> 31 != 0 && !is_nan) return 0;
      return truncates && !is_nan ? bits & 0xffffe000 : RoundedToTf32(bits);
    });
  });
}

namespace {

// To one of eight bits, to the nearest, to even of two; what is too large becomes the largest.
// NaN has all ones but the sign.
uint32_t FloatToEight(bool e4m3, bool relu, float value) {
  const int exponent_bits = e4m3 ? 4 : 5, mantissa_bits = 7 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (value != value) return 0x7f;
  if (relu && !(value > 0)) return 0;
  const uint32_t sign = AsBits(value) >> 31 << 7;
  const double magnitude = std::fabs(static_cast<double>(value));
  const uint32_t largest = e4m3 ? 0x7e : 0x7b;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The exponent of the unit in the last place.
  const int unit = std::max(exponent - 1, 1 - bias) - mantissa_bits;
  const double units = std::nearbyint(std::ldexp(magnitude, -unit));
  if (!(units < 1 << 24)) return sign | largest;
  auto count = static_cast<uint32_t>(units);
  int field = unit + mantissa_bits + bias;  // of a number that is not subnormal
  if (count >> (mantissa_bits + 1) != 0) count >>= 1, ++field;
  const bool is_subnormal = count >> mantissa_bits == 0;
  const int bits = is_subnormal
                       ? static_cast<int>(count)
                       : (field << mantissa_bits) + static_cast<int>(count) - (1 << mantissa_bits);
  return sign | std::min(static_cast<uint32_t>(bits), largest);
}

}  // namespace

// Two numbers, of a and b or the halves of b, into the lower half; a half of c above.
void PackBytes(Warp& warp, const Instruction& i) {
  const bool e4m3 = i.Bit(76), from_floats = i.Bit(78), relu = i.Bit(75);
  alignas(64) uint32_t low[kLanes], high[kLanes], scratch[kLanes];
  if (from_floats) {
    const uint32_t* const a = RowOf<Meaning::kFloat>(warp, i.a, scratch);
    for (int lane = 0; lane < kLanes; ++lane) high[lane] = a[lane];
    const uint32_t* const b = RowOf<Meaning::kFloat>(warp, i.b, scratch);
    for (int lane = 0; lane < kLanes; ++lane) low[lane] = b[lane];
  } else {
    const uint32_t* const b = RowOf<Meaning::kBits>(warp, i.b, scratch);
    for (int lane = 0; lane < kLanes; ++lane) {
      low[lane] = AsBits(HalfToFloat(b[lane] & 0xffff));
      high[lane] = AsBits(HalfToFloat(b[lane] >> 16));
    }
  }
  const uint32_t* const c = RowOf<Meaning::kBits>(warp, i.c, scratch);
  Store(warp, i.destination, [&](int lane) {
    const uint32_t above = (i.Bit(72) ? c[lane] >> 16 : c[lane]) << 16;
    return above | FloatToEight(e4m3, relu, AsFloat(high[lane])) << 8 |
           FloatToEight(e4m3, relu, AsFloat(low[lane]));
  });
}

// Two numbers of eight bits become halves.
void UnpackBytes(Warp& warp, const Instruction& i) {
  const float* const table = i.Bit(73) ? E4m3() : E5m2();
  const bool relu = i.Bit(75);
  const auto half = [&](uint32_t bits) -> uint32_t {
    const float value = table[bits & 0xff];
    if (relu && !(value > 0) && value == value) return 0;
    return FloatToHalf(value);
  };
  With<Meaning::kBits>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) {
      const uint32_t bits = i.Bit(88) ? b[lane] >> 16 : b[lane];
      return half(bits) | half(bits >> 8) << 16;
    });
  });
}

void PackFloats(Warp& warp, const Instruction& i) {
  const bool bfloat = i.Bit(76), relu = i.Bit(75);
  const int mode = static_cast<int>(i.Bits(79, 2));
  const auto packed = [&](uint32_t bits) {
    const float value = AsFloat(bits);
    if (relu && !(value > 0)) return value != value ? kHalfNaN : 0u;
    return bfloat ? FloatToBfloatIn(mode, value) : FloatToHalfIn(mode, value);
  };
  With<Meaning::kFloat>(warp, i.a, [&](auto a) {
    With<Meaning::kFloat>(warp, i.b, [&](auto b) {
      Store(warp, i.destination, [&](int lane) { return packed(a[lane]) << 16 | packed(b[lane]); });
    });
  });
}

}  // namespace phantora::sass
