#include "trap/gpu/sass/float_math.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

constexpr Meaning kF = Meaning::kFloat;

// What arithmetic does beyond rounding to nearest.
struct FloatMode {
  int rounding;
  bool flush, saturate;
  explicit FloatMode(const Instruction& i)
      : rounding(static_cast<int>(i.Bits(78, 2))), flush(i.Bit(80)), saturate(i.Bit(77)) {}
  bool plain() const { return rounding == 0 && !flush && !saturate; }
};

const Source& SecondOf(const Instruction& i) { return i.b.kind != Source::Kind::kNone ? i.b : i.c; }

// x86 gives the first NaN with its payload, a GPU a canonical one: that only shows to who looks at
// a NaN's bits, and costs two operations of eight.
template <bool flush, typename Result>
inline void StoreFloat(Warp& warp, int destination, Result result) {
  Store(warp, destination, [&](int lane) {
    const float value = result(lane);
    const uint32_t bits = value == value ? AsBits(value) : kNaN;
    return flush ? FlushedBits(bits) : bits;
  });
}

template <bool flush>
inline float In(uint32_t bits) {
  return AsFloat(flush ? FlushedBits(bits) : bits);
}

template <bool flush>
void AddFloat(Warp& warp, const Instruction& i) {
  With<kF>(warp, i.a, [&](auto a) {
    With<kF>(warp, SecondOf(i), [&](auto b) {
      StoreFloat<flush>(warp, i.destination,
                        [&](int lane) { return In<flush>(a[lane]) + In<flush>(b[lane]); });
    });
  });
}
// What is flushed is what was too small before it was rounded (seen on an H100). `exact` says so
// well enough.
inline float NotTiny(float value, double exact) {
  constexpr uint32_t kSmallestNormal = 0x00800000;
  if ((AsBits(value) & 0x7fffffff) != kSmallestNormal) return value;
  return std::fabs(exact) < 0x1p-126 ? std::copysign(0.0f, value) : value;
}

template <bool flush>
void MultiplyFloat(Warp& warp, const Instruction& i) {
  With<kF>(warp, i.a, [&](auto a) {
    With<kF>(warp, i.b, [&](auto b) {
      StoreFloat<flush>(warp, i.destination, [&](int lane) {
        const float x = In<flush>(a[lane]), y = In<flush>(b[lane]);
        const float value = x * y;
        return flush ? NotTiny(value, double{x} * y) : value;
      });
    });
  });
}
template <bool flush>
void FusedMultiplyAdd(Warp& warp, const Instruction& i) {
  With<kF>(warp, i.a, [&](auto a) {
    With<kF>(warp, i.b, [&](auto b) {
      With<kF>(warp, i.c, [&](auto c) {
        StoreFloat<flush>(warp, i.destination, [&](int lane) {
          const float x = In<flush>(a[lane]), y = In<flush>(b[lane]), z = In<flush>(c[lane]);
          const float value = __builtin_fmaf(x, y, z);
          return flush ? NotTiny(value, double{x} * y + z) : value;
        });
      });
    });
  });
}

// The rest: lane by lane, in a rounding mode.
template <typename Operation>
void InMode(Warp& warp, const Instruction& i, Operation operation) {
  const FloatMode mode(i);
  alignas(64) uint32_t scratch[3][kLanes], result[kLanes];
  const uint32_t* const a = RowOf<kF>(warp, i.a, scratch[0]);
  const uint32_t* const b = RowOf<kF>(warp, i.b, scratch[1]);
  const uint32_t* const c = RowOf<kF>(warp, i.c, scratch[2]);
  {
    const Rounding rounding(mode.rounding);
    for (int lane = 0; lane < kLanes; ++lane) {
      float x = AsFloat(a[lane]), y = AsFloat(b[lane]), z = AsFloat(c[lane]);
      if (mode.flush) x = Flushed(x), y = Flushed(y), z = Flushed(z);
      float value = Opaque(operation(Opaque(x), Opaque(y), Opaque(z)));
      if (mode.flush) value = Flushed(value);
      if (mode.saturate) value = Saturated(value);
      result[lane] = Canonical(value);
    }
  }
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
}
void AddFloatInMode(Warp& warp, const Instruction& i) {
  const bool third = i.b.kind == Source::Kind::kNone;
  InMode(warp, i, [third](float a, float b, float c) { return a + (third ? c : b); });
}
void MultiplyFloatInMode(Warp& warp, const Instruction& i) {
  InMode(warp, i, [](float a, float b, float) { return a * b; });
}
void FusedMultiplyAddInMode(Warp& warp, const Instruction& i) {
  InMode(warp, i, [](float a, float b, float c) { return __builtin_fmaf(a, b, c); });
}

Handler ByMode(const Instruction& i, Handler plain, Handler flushed, Handler any) {
  const FloatMode mode(i);
  if (mode.plain()) return plain;
  return mode.rounding == 0 && !mode.saturate ? flushed : any;
}

uint32_t ComparisonMask(const Warp& warp, const Instruction& i, const Source& first,
                        const Source& second) {
  const int comparison = static_cast<int>(i.Bits(76, 4));
  const bool flush = i.Bit(80);
  uint32_t mask = 0;
  With<kF>(warp, first, [&](auto a) {
    With<kF>(warp, second, [&](auto b) {
      const auto compare = [&](auto holds) {
        mask = flush ? MaskOf([&](int lane) { return holds(In<true>(a[lane]), In<true>(b[lane])); })
                     : MaskOf([&](int lane) { return holds(AsFloat(a[lane]), AsFloat(b[lane])); });
      };
      switch (comparison) {
        case 1:
          compare([](float x, float y) { return x < y; });
          break;
        case 2:
          compare([](float x, float y) { return x == y; });
          break;
        case 3:
          compare([](float x, float y) { return x <= y; });
          break;
        case 4:
          compare([](float x, float y) { return x > y; });
          break;
        case 6:
          compare([](float x, float y) { return x >= y; });
          break;
        case 13:
          compare([](float x, float y) { return x != y; });
          break;
        default:
          compare([&](float x, float y) { return CompareFloat(comparison, x, y); });
          break;
      }
    });
  });
  return mask;
}

void SetFrom(Warp& warp, const Instruction& i, uint32_t result) {
  const uint32_t with = PredicateAt(warp, i, 87, 90);
  const int operation = static_cast<int>(i.Bits(74, 2));
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), Combined(operation, result, with));
  SetPredicate(warp, static_cast<int>(i.Bits(84, 3)), Combined(operation, ~result, with));
}

// The special functions. A GPU is off by one or two units in the last place, by tables that nobody
// has published; here they are rounded as well as it goes. Denormals are flushed, as by a GPU.
enum Function { kCos, kSin, kExp2, kLog2, kRcp, kRsq, kRcp64, kRsq64, kSqrt, kTanh };

template <int function>
inline float Evaluate(float x) {
  constexpr double kTurn = 6.283185307179586476925286766559;
  switch (function) {
    case kCos:
      return static_cast<float>(std::cos(static_cast<double>(x) * kTurn));
    case kSin:
      return static_cast<float>(std::sin(static_cast<double>(x) * kTurn));
    case kExp2:
      return std::exp2(x);
    case kLog2:
      return std::log2(x);
    case kRcp:
      return 1.0f / x;
    case kRsq:
      return 1.0f / std::sqrt(x);
    case kSqrt:
      return std::sqrt(x);
    default:
      return std::tanh(x);
  }
}
template <int function>
void Apply(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t result[kLanes];
  With<kF>(warp, i.b, [&](auto b) {
    // Lanes that nobody asked for may hold anything, on which the library may be slow.
    for (int lane = 0; lane < kLanes; ++lane) {
      if constexpr (function == kRcp || function == kRsq || function == kSqrt) {
        result[lane] = FlushedBits(Canonical(Evaluate<function>(In<true>(b[lane]))));
      } else {
        result[lane] = 0;
        if (!Has(warp.active, lane)) continue;
        result[lane] = FlushedBits(Canonical(Evaluate<function>(In<true>(b[lane]))));
      }
    }
  });
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
}
// Of the upper half of a double, the upper half of the result.
template <int function>
void ApplyToDouble(Warp& warp, const Instruction& i) {
  With<kF>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) {
      const double x = AsDouble(uint64_t{b[lane]} << 32);
      const double value = function == kRcp64 ? 1.0 / x : 1.0 / std::sqrt(x);
      return static_cast<uint32_t>(AsBits(value) >> 32);
    });
  });
}

}  // namespace

Handler SelectAddFloat(const Instruction& i) {
  return ByMode(i, &AddFloat<false>, &AddFloat<true>, &AddFloatInMode);
}
namespace {

// Times a power of two that is below one: rounded once.
void MultiplyFloatScaled(Warp& warp, const Instruction& i) {
  const double scale = std::ldexp(1.0, static_cast<int>(i.Bits(84, 3)) - 4);
  With<kF>(warp, i.a, [&](auto a) {
    With<kF>(warp, i.b, [&](auto b) {
      Store(warp, i.destination, [&](int lane) {
        const double product = static_cast<double>(AsFloat(a[lane])) * AsFloat(b[lane]);
        return Canonical(static_cast<float>(product * scale));
      });
    });
  });
}

}  // namespace

Handler SelectMultiplyFloat(const Instruction& i) {
  if (i.Bits(84, 3) != 4) return FloatMode(i).plain() ? &MultiplyFloatScaled : nullptr;
  return ByMode(i, &MultiplyFloat<false>, &MultiplyFloat<true>, &MultiplyFloatInMode);
}
Handler SelectFusedMultiplyAdd(const Instruction& i) {
  return ByMode(i, &FusedMultiplyAdd<false>, &FusedMultiplyAdd<true>, &FusedMultiplyAddInMode);
}

namespace {

// Of one half of a register, into the lower half of another.
template <int function>
void ApplyToHalf(Warp& warp, const Instruction& i) {
  // What says float16 before sm_90 says bfloat16 there.
  const bool bfloat = i.Bit(73) && warp.launch->architecture >= 90;
  alignas(64) uint32_t result[kLanes] = {};
  Source plain = i.b;
  plain.negate = plain.absolute = false;
  With<Meaning::kBits>(warp, plain, [&](auto b) {
    for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
      const int lane = First(rest);
      uint32_t bits = (i.Bit(60) ? b[lane] >> 16 : b[lane]) & 0xffff;
      if (i.b.absolute) bits &= 0x7fff;
      if (i.b.negate) bits ^= 0x8000;
      const float value = Evaluate<function>(bfloat ? AsFloat(bits << 16) : HalfToFloat(bits));
      result[lane] = bfloat ? FloatToBfloatIn(0, value) : FloatToHalf(value);
    }
  });
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
}

}  // namespace

Handler SelectHalfFunction(const Instruction& i) {
  return i.Bits(74, 6) == kExp2 ? &ApplyToHalf<kExp2> : &ApplyToHalf<kTanh>;
}

Handler SelectFunction(const Instruction& i) {
  switch (i.Bits(74, 6)) {
    case kCos:
      return &Apply<kCos>;
    case kSin:
      return &Apply<kSin>;
    case kExp2:
      return &Apply<kExp2>;
    case kLog2:
      return &Apply<kLog2>;
    case kRcp:
      return &Apply<kRcp>;
    case kRsq:
      return &Apply<kRsq>;
    case kRcp64:
      return &ApplyToDouble<kRcp64>;
    case kRsq64:
      return &ApplyToDouble<kRsq64>;
    case kSqrt:
      return &Apply<kSqrt>;
    case kTanh:
      return &Apply<kTanh>;
    default:
      return nullptr;
  }
}

void SelectFloat(Warp& warp, const Instruction& i) {
  const uint32_t first = PredicateAt(warp, i, 87, 90);
  With<kF>(warp, i.a, [&](auto a) {
    With<kF>(warp, i.b, [&](auto b) {
      Store(warp, i.destination, [&](int lane) { return Has(first, lane) ? a[lane] : b[lane]; });
    });
  });
}

namespace {

// .XORSIGN: of absolute values, with the sign of the product of both.
void MinMaxOfMagnitudes(Warp& warp, const Instruction& i, uint32_t minimum, bool keep_nan) {
  Source first = i.a, second = i.b;
  first.absolute = second.absolute = false;
  With<kF>(warp, first, [&](auto a) {
    With<kF>(warp, second, [&](auto b) {
      Store(warp, i.destination, [&](int lane) {
        const uint32_t p = i.Bit(80) ? FlushedBits(a[lane]) : a[lane];
        const uint32_t q = i.Bit(80) ? FlushedBits(b[lane]) : b[lane];
        const float x = AsFloat(p & 0x7fffffff), y = AsFloat(q & 0x7fffffff);
        const uint32_t sign = (p ^ q) & 0x80000000;
        if (x != x || y != y) {
          if (keep_nan || (x != x && y != y)) return kNaN;
          return AsBits(x != x ? y : x) | sign;
        }
        return AsBits((x < y) == Has(minimum, lane) ? x : y) | sign;
      });
    });
  });
}

}  // namespace

void MinMaxFloat(Warp& warp, const Instruction& i) {
  const uint32_t minimum = PredicateAt(warp, i, 87, 90);
  const bool flush = i.Bit(80), keep_nan = i.Bit(81);
  if (i.Bit(82)) {
    MinMaxOfMagnitudes(warp, i, minimum, keep_nan);
    return;
  }
  With<kF>(warp, i.a, [&](auto a) {
    With<kF>(warp, i.b, [&](auto b) {
      Store(warp, i.destination, [&](int lane) {
        const uint32_t p = flush ? FlushedBits(a[lane]) : a[lane];
        const uint32_t q = flush ? FlushedBits(b[lane]) : b[lane];
        const float x = AsFloat(p), y = AsFloat(q);
        const bool min = Has(minimum, lane);
        if (x != x || y != y) {
          if (keep_nan || (x != x && y != y)) return kNaN;
          return x != x ? q : p;
        }
        if (x == y) return min ? p | q : p & q;  // zeros of either sign
        return (x < y) == min ? p : q;
      });
    });
  });
}

void CompareFloats(Warp& warp, const Instruction& i) {
  SetFrom(warp, i, ComparisonMask(warp, i, i.a, i.b));
}

void SetFloat(Warp& warp, const Instruction& i) {
  const uint32_t result = Combined(static_cast<int>(i.Bits(74, 2)),
                                   ComparisonMask(warp, i, i.a, i.b), PredicateAt(warp, i, 87, 90));
  Store(warp, i.destination, [&](int lane) { return Has(result, lane) ? AsBits(1.0f) : 0; });
}

// Which divisions need care is not published; those that are safe without are taken to be fewer
// than they may be, which gives the same quotients.
void CheckDivision(Warp& warp, const Instruction& i) {
  With<kF>(warp, i.a, [&](auto a) {
    With<kF>(warp, i.b, [&](auto b) {
      SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), MaskOf([&](int lane) {
                     const int p = static_cast<int>(a[lane] >> 23 & 0xff);
                     const int q = static_cast<int>(b[lane] >> 23 & 0xff);
                     return q == 0 || q >= 253 || p == 255 || p <= 24 || p - q >= 126 ||
                            p - q <= -125;
                   }));
    });
  });
}

// --- Doubles ---

namespace {

void DoubleRow(const Warp& warp, const Source& source, double* values) {
  alignas(64) uint64_t bits[kLanes];
  WideRow<Wide::kHighHalf>(warp, source, bits);
  const uint64_t keep = source.absolute ? ~(uint64_t{1} << 63) : ~uint64_t{0};
  const uint64_t flip = source.negate ? uint64_t{1} << 63 : 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    // NaNs stay what they are (seen on an H100).
    const double value = AsDouble(bits[lane]);
    values[lane] = value != value ? value : AsDouble((bits[lane] & keep) ^ flip);
  }
}

template <typename Operation>
void OfDoubles(Warp& warp, const Instruction& i, Operation operation) {
  alignas(64) double a[kLanes], b[kLanes], c[kLanes];
  DoubleRow(warp, i.a, a);
  DoubleRow(warp, i.b, b);
  DoubleRow(warp, i.c, c);
  alignas(64) uint64_t result[kLanes];
  const int mode = static_cast<int>(i.Bits(78, 2));
  if (mode == 0) {
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = AsBits(operation(a[lane], b[lane], c[lane]));
    }
  } else {
    const Rounding rounding(mode);
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = AsBits(Opaque(operation(Opaque(a[lane]), Opaque(b[lane]), Opaque(c[lane]))));
    }
  }
  StoreWide(warp, i.destination, result);
}

}  // namespace

void MultiplyDouble(Warp& warp, const Instruction& i) {
  OfDoubles(warp, i, [](double a, double b, double) { return a * b; });
}
void AddDouble(Warp& warp, const Instruction& i) {
  OfDoubles(warp, i, [](double a, double, double c) { return a + c; });
}
void FusedMultiplyAddDouble(Warp& warp, const Instruction& i) {
  OfDoubles(warp, i, [](double a, double b, double c) { return __builtin_fma(a, b, c); });
}

void CompareDoubles(Warp& warp, const Instruction& i) {
  alignas(64) double a[kLanes], b[kLanes];
  DoubleRow(warp, i.a, a);
  DoubleRow(warp, SecondOf(i), b);
  const int comparison = static_cast<int>(i.Bits(76, 4));
  if (comparison != 0 && comparison != 15) {
    SetFrom(warp, i, MaskOf([&](int lane) { return CompareFloat(comparison, a[lane], b[lane]); }));
    return;
  }
  // Half of fmin or fmax: whether a is the result, and whether there is none, because both are NaN.
  // Compilers select by the first, and make a NaN of the second.
  const bool minimum = comparison == 0;
  const uint32_t first = MaskOf([&](int lane) {
    if (b[lane] != b[lane]) return a[lane] == a[lane];
    if (a[lane] == b[lane]) return std::signbit(a[lane]) == minimum;
    return minimum ? a[lane] < b[lane] : a[lane] > b[lane];
  });
  const uint32_t none = MaskOf([&](int lane) { return a[lane] != a[lane] && b[lane] != b[lane]; });
  const uint32_t with = PredicateAt(warp, i, 87, 90);
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), first & with);
  SetPredicate(warp, static_cast<int>(i.Bits(84, 3)), none & with);
}

}  // namespace phantora::sass
