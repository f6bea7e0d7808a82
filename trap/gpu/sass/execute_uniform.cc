#include "trap/gpu/sass/integer_math.h"
#include "trap/gpu/sass/lanes.h"
#include "trap/gpu/sass/operations.h"

// Uniform operations happen if any thread executes them.
namespace phantora::sass {
namespace {

uint32_t Value(const Warp& warp, const Source& source, bool bits = false) {
  const uint32_t value = ScalarOf(warp, source);
  if (!source.negate) return value;
  return bits ? ~value : 0 - value;
}
uint64_t Pair(const Warp& warp, const Source& source) {
  return ScalarOf(warp, source) | uint64_t{HighScalarOf(warp, source, true)} << 32;
}
void SetPair(Warp& warp, int index, uint64_t value) {
  if (index == kNoUniformRegister) return;
  SetUniform(warp, index, static_cast<uint32_t>(value));
  SetUniform(warp, index + 1, static_cast<uint32_t>(value >> 32));
}
int First3(const Instruction& i) { return static_cast<int>(i.Bits(81, 3)); }
int Second3(const Instruction& i) { return static_cast<int>(i.Bits(84, 3)); }

void UniformAddress(Warp& warp, const Instruction& i) {
  const EffectiveAddress how = {.upper = i.Bit(80),
                                .extend = i.Bit(73),
                                .carries = i.Bit(74),
                                .negate_a = i.a.negate,
                                .negate_b = i.b.negate,
                                .shift = static_cast<int>(i.Bits(75, 5))};
  bool carry;
  const uint32_t result =
      ComputeAddress(how, ScalarOf(warp, i.a), ScalarOf(warp, i.b), ScalarOf(warp, i.c),
                     how.carries && UniformPredicateAt(warp, i, 87, 90), &carry);
  SetUniform(warp, i.destination, result);
  SetUniformPredicate(warp, First3(i), carry);
}

}  // namespace

Handler SelectUniformLoadEffectiveAddress(const Instruction&) { return &UniformAddress; }

void UniformMove(Warp& warp, const Instruction& i) {
  SetUniform(warp, i.destination, ScalarOf(warp, i.b));
}

void UniformPredicatesToRegister(Warp& warp, const Instruction& i) {
  uint32_t bits = 0;
  for (int at = 0; at < kTrue; ++at) bits |= uint32_t{warp.uniform_predicates[at]} << at;
  const uint32_t wanted = i.Bits(32, 32);
  SetUniform(warp, i.destination, (ScalarOf(warp, i.a) & ~wanted) | (bits & wanted));
}

void UniformSelect(Warp& warp, const Instruction& i) {
  const Source& from = UniformPredicateAt(warp, i, 87, 90) ? i.a : i.b;
  SetUniform(warp, i.destination, ScalarOf(warp, from));
}

void UniformCompare(Warp& warp, const Instruction& i) {
  const uint32_t a = ScalarOf(warp, i.a), b = ScalarOf(warp, i.b);
  const int comparison = static_cast<int>(i.Bits(76, 3));
  const bool result =
      i.Bit(72) ? CompareUpper(comparison, i.Bit(73), a, b, UniformPredicateAt(warp, i, 68, 71))
                : CompareWords(comparison, i.Bit(73), a, b);
  const bool with = UniformPredicateAt(warp, i, 87, 90);
  const int operation = static_cast<int>(i.Bits(74, 2));
  SetUniformPredicate(warp, First3(i), (Combined(operation, result, with) & 1) != 0);
  SetUniformPredicate(warp, Second3(i), (Combined(operation, !result, with) & 1) != 0);
}

void UniformAdd3(Warp& warp, const Instruction& i) {
  const bool extended = i.Bit(74);
  uint64_t sum = 0;
  for (const Source* source : {&i.a, &i.b, &i.c}) {
    sum += Value(warp, *source, true);
    if (source->negate && !extended) ++sum;
  }
  if (extended) {
    sum += UniformPredicateAt(warp, i, 87, 90) ? 1 : 0;
    sum += UniformPredicateAt(warp, i, 77, 80) ? 1 : 0;
  }
  SetUniform(warp, i.destination, static_cast<uint32_t>(sum));
  SetUniformPredicate(warp, First3(i), sum >> 32 >= 1);
  SetUniformPredicate(warp, Second3(i), sum >> 32 >= 2);
}

void UniformLogic3(Warp& warp, const Instruction& i) {
  const uint32_t result = Lookup3(ScalarOf(warp, i.a), ScalarOf(warp, i.b), ScalarOf(warp, i.c),
                                  static_cast<int>(i.Bits(72, 8)));
  SetUniform(warp, i.destination, result);
  SetUniformPredicate(warp, First3(i), result != 0 || UniformPredicateAt(warp, i, 87, 90));
}

void UniformPermuteBytes(Warp& warp, const Instruction& i) {
  SetUniform(warp, i.destination,
             Permute(0, ScalarOf(warp, i.a), ScalarOf(warp, i.b), ScalarOf(warp, i.c)));
}

void UniformAdd64(Warp& warp, const Instruction& i) {
  const auto term = [&warp](const Source& source) {
    const uint64_t value = Pair(warp, source);
    return source.negate ? uint64_t{0} - value : value;
  };
  SetPair(warp, i.destination, term(i.a) + term(i.b) + term(i.c));
}

void UniformShift(Warp& warp, const Instruction& i) {
  const ShiftKind kind = {.right = i.Bit(76),
                          .wide = i.Bits(73, 2) < 2,
                          .is_signed = (i.Bits(73, 2) & 1) == 0,
                          .wrap = i.Bit(75),
                          .upper = i.Bit(80)};
  SetUniform(warp, i.destination,
             ShiftFunnel(kind, ScalarOf(warp, i.a), ScalarOf(warp, i.b), ScalarOf(warp, i.c)));
}

void UniformSignExtend(Warp& warp, const Instruction& i) {
  SetUniform(warp, i.destination,
             Extended(ScalarOf(warp, i.a), ScalarOf(warp, i.b), i.Bit(73), i.Bit(75)));
}

void UniformBitMask(Warp& warp, const Instruction& i) {
  SetUniform(warp, i.destination, MaskOfBits(ScalarOf(warp, i.a), ScalarOf(warp, i.b), i.Bit(75)));
}

void UniformLogicPredicates(Warp& warp, const Instruction& i) {
  const uint32_t a = UniformPredicateAt(warp, i, 87, 90) ? ~0u : 0;
  const uint32_t b = UniformPredicateAt(warp, i, 77, 80) ? ~0u : 0;
  const uint32_t c = UniformPredicateAt(warp, i, 68, 71) ? ~0u : 0;
  const int first = static_cast<int>(i.Bits(64, 3) | i.Bits(72, 5) << 3);
  SetUniformPredicate(warp, First3(i), Lookup3(a, b, c, first) != 0);
  SetUniformPredicate(warp, Second3(i), Lookup3(a, b, c, static_cast<int>(i.Bits(16, 8))) != 0);
}

void UniformMultiplyAdd(Warp& warp, const Instruction& i) {
  const bool extended = i.Bit(74);
  uint32_t sum = ScalarOf(warp, i.a) * ScalarOf(warp, i.b) + Value(warp, i.c, extended);
  if (extended && UniformPredicateAt(warp, i, 87, 90)) ++sum;
  SetUniform(warp, i.destination, sum);
}

void UniformMultiplyAddWide(Warp& warp, const Instruction& i) {
  const uint32_t a = ScalarOf(warp, i.a), b = ScalarOf(warp, i.b);
  const uint64_t product =
      i.Bit(73) ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b))
                : uint64_t{a} * b;
  const uint64_t sum = product + Pair(warp, i.c);
  SetPair(warp, i.destination, sum);
  SetUniformPredicate(warp, First3(i), sum < product);
}

void UniformLoadConstant(Warp& warp, const Instruction& i) {
  uint32_t at = i.b.value;
  if (i.word.operation() == 0x0bb) at = ScalarOf(warp, i.a) + static_cast<uint32_t>(i.offset);
  if (at >= static_cast<uint32_t>(kConstantBytes)) {
    warp.Fail(Stop::Reason::kOutOfRange, at);
    return;
  }
  constexpr uint32_t kBytes[] = {1, 1, 2, 2, 4, 8, 16, 16};
  NoteConstants(warp, i.b.index, at, kBytes[i.Bits(73, 3)]);
  const uint8_t* const from = warp.launch->constants[i.b.index] + at;
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  switch (i.Bits(73, 3)) {
    case 0:
      value &= 0xff;
      break;
    case 1:
      value = static_cast<uint64_t>(static_cast<int8_t>(value));
      break;
    case 2:
      value &= 0xffff;
      break;
    case 3:
      value = static_cast<uint64_t>(static_cast<int16_t>(value));
      break;
    case 5:
      SetPair(warp, i.destination, value);
      return;
    default:
      break;
  }
  SetUniform(warp, i.destination, static_cast<uint32_t>(value));
}

void UniformFindLeadingOne(Warp& warp, const Instruction& i) {
  const uint32_t result = LeadingOne(Value(warp, i.b, true), i.Bit(73), i.Bit(74));
  SetUniform(warp, i.destination, result);
  SetUniformPredicate(warp, First3(i), result != ~0u);
}

void UniformReverseBits(Warp& warp, const Instruction& i) {
  SetUniform(warp, i.destination, Reversed(ScalarOf(warp, i.b)));
}

void UniformCountBits(Warp& warp, const Instruction& i) {
  SetUniform(warp, i.destination, static_cast<uint32_t>(std::popcount(Value(warp, i.b, true))));
}

}  // namespace phantora::sass
