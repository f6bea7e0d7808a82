#include "trap/gpu/sass/integer_math.h"
#include "trap/gpu/sass/lanes.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

constexpr Meaning kI = Meaning::kInteger;

void MoveRegister(Warp& warp, const Instruction& i) {
  const uint32_t* const from = warp.registers[i.b.index];
  Store(warp, i.destination, [&](int lane) { return from[lane]; });
}
void MoveScalar(Warp& warp, const Instruction& i) {
  const uint32_t value = ScalarOf(warp, i.b);
  Store(warp, i.destination, [&](int) { return value; });
}

// What a comparison gives, for instructions with a predicate to combine it with.
void SetFrom(Warp& warp, const Instruction& i, uint32_t result) {
  const uint32_t with = PredicateAt(warp, i, 87, 90);
  const int operation = static_cast<int>(i.Bits(74, 2));
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), Combined(operation, result, with));
  SetPredicate(warp, static_cast<int>(i.Bits(84, 3)), Combined(operation, ~result, with));
}

template <typename T, int comparison>
void CompareIntegers(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    SetFrom(warp, i, MaskOf([&](int lane) {
              return Compare<T>(comparison, static_cast<T>(a[lane]), static_cast<T>(b[lane]));
            }));
  });
}
void CompareUpperIntegers(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const int comparison = static_cast<int>(i.Bits(76, 3));
  const bool is_signed = i.Bit(73);
  const uint32_t low = PredicateAt(warp, i, 68, 71);
  With<kI>(warp, i.b, [&](auto b) {
    SetFrom(warp, i, MaskOf([&](int lane) {
              return CompareUpper(comparison, is_signed, a[lane], b[lane], Has(low, lane));
            }));
  });
}

void Add3(Warp& warp, const Instruction& i) {
  With<kI>(warp, i.a, [&](auto a) {
    With<kI>(warp, i.b, [&](auto b) {
      With<kI>(warp, i.c, [&](auto c) {
        Store(warp, i.destination, [&](int lane) { return a[lane] + b[lane] + c[lane]; });
      });
    });
  });
}
// With carries in (.X) or out.
void Add3Carry(Warp& warp, const Instruction& i) {
  const bool extended = i.Bit(74);
  alignas(64) uint32_t scratch[3][kLanes], result[kLanes];
  const uint32_t* const a = RowOf<Meaning::kBits>(warp, i.a, scratch[0]);
  const uint32_t* const b = RowOf<Meaning::kBits>(warp, i.b, scratch[1]);
  const uint32_t* const c = RowOf<Meaning::kBits>(warp, i.c, scratch[2]);
  const uint32_t ones = extended ? 0 : i.a.negate + i.b.negate + i.c.negate;
  const uint32_t carry0 = extended ? PredicateAt(warp, i, 87, 90) : 0;
  const uint32_t carry1 = extended ? PredicateAt(warp, i, 77, 80) : 0;
  uint32_t once = 0, twice = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t sum =
        uint64_t{a[lane]} + b[lane] + c[lane] + ones + Has(carry0, lane) + Has(carry1, lane);
    result[lane] = static_cast<uint32_t>(sum);
    const uint64_t carries = sum >> 32;
    once |= static_cast<uint32_t>(carries >= 1) << lane;
    twice |= static_cast<uint32_t>(carries >= 2) << lane;
  }
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), once);
  SetPredicate(warp, static_cast<int>(i.Bits(84, 3)), twice);
}

template <int table>
void LogicOf(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination,
            [&](int lane) { return Lookup3(a[lane], b[lane], c[lane], table); });
    });
  });
}
void Logic3(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const int table = static_cast<int>(i.Bits(72, 8));
  alignas(64) uint32_t result[kLanes];
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      for (int lane = 0; lane < kLanes; ++lane) {
        result[lane] = Lookup3(a[lane], b[lane], c[lane], table);
      }
    });
  });
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
  const int predicate = static_cast<int>(i.Bits(81, 3));
  if (predicate != kTrue) {
    const uint32_t any = MaskOf([&](int lane) { return result[lane] != 0; });
    const uint32_t with = PredicateAt(warp, i, 87, 90);
    SetPredicate(warp, predicate, i.Bit(80) ? any & with : any | with);
  }
}

void Shift(Warp& warp, const Instruction& i) {
  const ShiftKind kind = {.right = i.Bit(76),
                          .wide = i.Bits(73, 2) < 2,
                          .is_signed = (i.Bits(73, 2) & 1) == 0,
                          .wrap = i.Bit(75),
                          .upper = i.Bit(80)};
  With<kI>(warp, i.a, [&](auto a) {
    With<kI>(warp, i.b, [&](auto b) {
      With<kI>(warp, i.c, [&](auto c) {
        Store(warp, i.destination,
              [&](int lane) { return ShiftFunnel(kind, a[lane], b[lane], c[lane]); });
      });
    });
  });
}
// By a constant below 32: of one word to the left, or of the upper one to the right.
void ShiftLeft(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t by = i.b.value;
  Store(warp, i.destination, [&](int lane) { return a[lane] << by; });
}
template <typename T>
void ShiftRight(Warp& warp, const Instruction& i) {
  const uint32_t by = i.b.value;
  With<kI>(warp, i.c, [&](auto c) {
    Store(warp, i.destination,
          [&](int lane) { return static_cast<uint32_t>(static_cast<T>(c[lane]) >> by); });
  });
}

void MultiplyAdd(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination, [&](int lane) { return a[lane] * b[lane] + c[lane]; });
    });
  });
}
void MultiplyAddCarry(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t carry = PredicateAt(warp, i, 87, 90);
  With<kI>(warp, i.b, [&](auto b) {
    With<Meaning::kBits>(warp, i.c, [&](auto c) {
      Store(warp, i.destination,
            [&](int lane) { return a[lane] * b[lane] + c[lane] + (carry >> lane & 1); });
    });
  });
}

// Products of 64 bits of registers and a second source.
template <typename T>
void Products(const Warp& warp, const Instruction& i, uint64_t* products) {
  const uint32_t* const a = warp.registers[i.a.index];
  With<kI>(warp, i.b, [&](auto b) {
    for (int lane = 0; lane < kLanes; ++lane) {
      products[lane] = static_cast<uint64_t>(static_cast<T>(a[lane])) *
                       static_cast<uint64_t>(static_cast<T>(b[lane]));
    }
  });
}
template <typename T>
void MultiplyAddWide(Warp& warp, const Instruction& i) {
  alignas(64) uint64_t products[kLanes], c[kLanes];
  Products<T>(warp, i, products);
  WideRow<Wide::kSignExtended>(warp, i.c, c);
  if (i.c.negate) {
    for (int lane = 0; lane < kLanes; ++lane) products[lane] -= c[lane];
  } else {
    for (int lane = 0; lane < kLanes; ++lane) products[lane] += c[lane];
  }
  StoreWide(warp, i.destination, products);
}
void MultiplyAddWideCarry(Warp& warp, const Instruction& i) {
  alignas(64) uint64_t products[kLanes], c[kLanes];
  Products<uint32_t>(warp, i, products);
  WideRow<Wide::kZeroExtended>(warp, i.c, c);
  const uint32_t carry_in = i.Bit(74) ? PredicateAt(warp, i, 87, 90) : 0;
  uint32_t carry = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto sum = static_cast<unsigned __int128>(products[lane]) + c[lane] + Has(carry_in, lane);
    products[lane] = static_cast<uint64_t>(sum);
    carry |= static_cast<uint32_t>(sum >> 64) << lane;
  }
  StoreWide(warp, i.destination, products);
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), carry);
}

void LoadEffectiveAddress(Warp& warp, const Instruction& i) {
  const EffectiveAddress how = {.upper = i.Bit(80),
                                .extend = i.Bit(73),
                                .carries = i.Bit(74),
                                .negate_a = i.a.negate,
                                .negate_b = i.b.negate,
                                .shift = static_cast<int>(i.Bits(75, 5))};
  Source plain_b = i.b;
  plain_b.negate = false;
  alignas(64) uint32_t scratch[2][kLanes], result[kLanes];
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t* const b = RowOf<kI>(warp, plain_b, scratch[0]);
  const uint32_t* const c = RowOf<kI>(warp, i.c, scratch[1]);
  const uint32_t carry_in = how.carries ? PredicateAt(warp, i, 87, 90) : 0;
  uint32_t carry = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    bool out;
    result[lane] = ComputeAddress(how, a[lane], b[lane], c[lane], Has(carry_in, lane), &out);
    carry |= static_cast<uint32_t>(out) << lane;
  }
  Store(warp, i.destination, [&](int lane) { return result[lane]; });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), carry);
}
// The usual one: a shift and an addition.
void ShiftAndAdd(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t by = i.Bits(75, 5);
  With<kI>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) { return (a[lane] << by) + b[lane]; });
  });
}

}  // namespace

Handler SelectMove(const Instruction& i) {
  return i.b.kind == Source::Kind::kRegister ? &MoveRegister : &MoveScalar;
}

Handler SelectCompareIntegers(const Instruction& i) {
  if (i.Bit(72)) return &CompareUpperIntegers;
  static constexpr Handler kUnsigned[] = {
      &CompareIntegers<uint32_t, 0>, &CompareIntegers<uint32_t, 1>, &CompareIntegers<uint32_t, 2>,
      &CompareIntegers<uint32_t, 3>, &CompareIntegers<uint32_t, 4>, &CompareIntegers<uint32_t, 5>,
      &CompareIntegers<uint32_t, 6>, &CompareIntegers<uint32_t, 7>};
  static constexpr Handler kSigned[] = {&CompareIntegers<int32_t, 0>, &CompareIntegers<int32_t, 1>,
                                        &CompareIntegers<int32_t, 2>, &CompareIntegers<int32_t, 3>,
                                        &CompareIntegers<int32_t, 4>, &CompareIntegers<int32_t, 5>,
                                        &CompareIntegers<int32_t, 6>, &CompareIntegers<int32_t, 7>};
  return (i.Bit(73) ? kSigned : kUnsigned)[i.Bits(76, 3)];
}

Handler SelectAdd3(const Instruction& i) {
  const bool carries = i.Bit(74) || i.Bits(81, 3) != kTrue || i.Bits(84, 3) != kTrue;
  return carries ? &Add3Carry : &Add3;
}

Handler SelectLogic3(const Instruction& i) {
  if (i.Bits(81, 3) != kTrue) return &Logic3;
  switch (i.Bits(72, 8)) {
    case 0x0c:
      return &LogicOf<0x0c>;
    case 0x30:
      return &LogicOf<0x30>;
    case 0x33:
      return &LogicOf<0x33>;
    case 0x3c:
      return &LogicOf<0x3c>;
    case 0x96:
      return &LogicOf<0x96>;
    case 0xc0:
      return &LogicOf<0xc0>;
    case 0xf8:
      return &LogicOf<0xf8>;
    case 0xfc:
      return &LogicOf<0xfc>;
    case 0xfe:
      return &LogicOf<0xfe>;
    default:
      return &Logic3;
  }
}

Handler SelectShift(const Instruction& i) {
  const bool narrow = i.Bits(73, 2) >= 2, upper = i.Bit(80), right = i.Bit(76);
  if (i.b.kind == Source::Kind::kImmediate && narrow && i.b.value < 32) {
    if (!right && !upper) return &ShiftLeft;
    if (right && upper) {
      return i.Bits(73, 2) == 2 ? &ShiftRight<int32_t> : &ShiftRight<uint32_t>;
    }
  }
  return &Shift;
}

Handler SelectMultiplyAdd(const Instruction& i) {
  return i.Bit(74) ? &MultiplyAddCarry : &MultiplyAdd;
}

Handler SelectMultiplyAddWide(const Instruction& i) {
  if (!i.Bit(74) && i.Bits(81, 3) == kTrue) {
    return i.Bit(73) ? &MultiplyAddWide<int32_t> : &MultiplyAddWide<uint32_t>;
  }
  // What carries of signed products are, nothing says.
  return i.Bit(73) || i.c.negate ? nullptr : &MultiplyAddWideCarry;
}

Handler SelectLoadEffectiveAddress(const Instruction& i) {
  const bool plain = !i.Bit(80) && !i.Bit(74) && i.Bits(81, 3) == kTrue && !i.a.negate;
  return plain ? &ShiftAndAdd : &LoadEffectiveAddress;
}

void MultiplyAddHigh(Warp& warp, const Instruction& i) {
  alignas(64) uint64_t products[kLanes], c[kLanes];
  if (i.Bit(73)) {
    Products<int32_t>(warp, i, products);
  } else {
    Products<uint32_t>(warp, i, products);
  }
  WideRow<Wide::kSignExtended>(warp, i.c, c);
  const uint32_t carry_in = i.Bit(74) ? PredicateAt(warp, i, 87, 90) : 0;
  uint32_t carry = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto sum = static_cast<unsigned __int128>(products[lane]) + c[lane] + Has(carry_in, lane);
    carry |= static_cast<uint32_t>(sum >> 64) << lane;
    products[lane] = static_cast<uint64_t>(sum) >> 32;
  }
  Store(warp, i.destination, [&](int lane) { return static_cast<uint32_t>(products[lane]); });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), carry);
}

void Select(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t first = PredicateAt(warp, i, 87, 90);
  With<kI>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) { return Has(first, lane) ? a[lane] : b[lane]; });
  });
}

namespace {

// IMNMX has the sign at 73, its successors at 72.
bool IsSigned(const Instruction& i) { return i.Bit(i.word.operation() == 0x017 ? 73 : 72); }

}  // namespace

namespace {

// Minimum or maximum of words or of both halves, and zero for what is below it if asked for.
struct MinMaxKind {
  bool is_signed, halves, relu;
  explicit MinMaxKind(const Instruction& i)
      : is_signed(IsSigned(i)),
        halves(i.word.operation() != 0x017 && i.Bit(73)),
        relu(i.word.operation() != 0x017 && i.Bit(76)) {}
  bool plain() const { return !halves && !relu; }

  uint32_t OfHalf(bool min, uint32_t a, uint32_t b) const {
    const auto value = [&](uint32_t half) -> int32_t {
      return is_signed ? static_cast<int16_t>(half) : static_cast<int32_t>(half & 0xffff);
    };
    const int32_t x = value(a), y = value(b);
    const int32_t result = (x < y) == min ? x : y;
    return static_cast<uint32_t>(relu && result < 0 ? 0 : result) & 0xffff;
  }
  uint32_t Of(bool min, uint32_t a, uint32_t b) const {
    if (halves) return OfHalf(min, a, b) | OfHalf(min, a >> 16, b >> 16) << 16;
    const uint32_t result = MinMax(is_signed, min, a, b);
    return relu && static_cast<int32_t>(result) < 0 ? 0 : result;
  }
  uint32_t Sum(uint32_t a, uint32_t b) const {
    return halves ? ((a + b) & 0xffff) | (((a >> 16) + (b >> 16)) << 16) : a + b;
  }
};

}  // namespace

void MinMaxInteger(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t minimum = PredicateAt(warp, i, 87, 90);
  const MinMaxKind kind(i);
  With<kI>(warp, i.b, [&](auto b) {
    if (kind.plain()) {
      Store(warp, i.destination,
            [&](int lane) { return MinMax(kind.is_signed, Has(minimum, lane), a[lane], b[lane]); });
    } else {
      Store(warp, i.destination,
            [&](int lane) { return kind.Of(Has(minimum, lane), a[lane], b[lane]); });
    }
  });
}

// The greater ones of two pairs of halves, and for the lower and the upper ones whether it is a's.
void MinMaxAndWhich(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const MinMaxKind kind(i);
  With<kI>(warp, i.b, [&](auto b) {
    const auto is_first = [&](int shift) {
      return MaskOf([&](int lane) {
        const uint32_t x = a[lane] >> shift & 0xffff;
        return kind.OfHalf(false, x, b[lane] >> shift) == x;
      });
    };
    const uint32_t low = is_first(0), high = is_first(16);
    Store(warp, i.destination, [&](int lane) { return kind.Of(false, a[lane], b[lane]); });
    SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), low);
    SetPredicate(warp, static_cast<int>(i.Bits(84, 3)), high);
  });
}

void MinMax3(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t minimum = PredicateAt(warp, i, 87, 90);
  const MinMaxKind kind(i);
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination, [&](int lane) {
        const bool min = Has(minimum, lane);
        return kind.Of(min, kind.Of(min, a[lane], b[lane]), c[lane]);
      });
    });
  });
}

void AddMinMax(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  const uint32_t minimum = PredicateAt(warp, i, 87, 90);
  const MinMaxKind kind(i);
  With<kI>(warp, i.b, [&](auto b) {
    With<kI>(warp, i.c, [&](auto c) {
      Store(warp, i.destination, [&](int lane) {
        return kind.Of(Has(minimum, lane), kind.Sum(a[lane], b[lane]), c[lane]);
      });
    });
  });
}

void AddIntegers(Warp& warp, const Instruction& i) {
  const uint32_t* const a = warp.registers[i.a.index];
  if (i.Bit(73)) {
    Source plain = i.b;
    plain.negate = false;
    With<kI>(warp, plain, [&](auto b) {
      Store(warp, i.destination, [&](int lane) {
        const uint32_t low = i.b.negate ? 0 - b[lane] : b[lane];
        const uint32_t high = i.b.negate ? 0 - (b[lane] >> 16) : b[lane] >> 16;
        return ((a[lane] + low) & 0xffff) | ((a[lane] >> 16) + high) << 16;
      });
    });
    return;
  }
  With<kI>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) { return a[lane] + b[lane]; });
  });
}

void AbsoluteInteger(Warp& warp, const Instruction& i) {
  With<kI>(warp, i.b, [&](auto b) {
    Store(warp, i.destination, [&](int lane) {
      const uint32_t value = b[lane];
      return static_cast<int32_t>(value) < 0 ? 0 - value : value;
    });
  });
}

}  // namespace phantora::sass
