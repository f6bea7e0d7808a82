// Doing something to all lanes: how operations get their sources and leave their results.
#ifndef PHANTORA_TRAP_GPU_SASS_LANES_H_
#define PHANTORA_TRAP_GPU_SASS_LANES_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "trap/gpu/sass/warp.h"

namespace phantora::sass {

// How negate and absolute of a source are meant.
enum class Meaning { kInteger, kBits, kFloat };

inline uint32_t ConstantAt(const Warp& warp, const Source& source) {
  uint32_t value;
  NoteConstants(warp, source.index, source.value, sizeof value);
  std::memcpy(&value, warp.launch->constants[source.index] + source.value, sizeof value);
  return value;
}

template <Meaning M>
constexpr uint32_t Modified(const Source& source, uint32_t value) {
  if constexpr (M == Meaning::kFloat) {
    if (source.absolute) value &= 0x7fffffff;
    return source.negate ? value ^ 0x80000000 : value;
  } else if constexpr (M == Meaning::kInteger) {
    return source.negate ? 0 - value : value;
  } else {
    return source.negate ? ~value : value;
  }
}

// The value of a source that is the same for all lanes, unmodified.
inline uint32_t ScalarOf(const Warp& warp, const Source& source) {
  switch (source.kind) {
    case Source::Kind::kImmediate:
      return source.value;
    case Source::Kind::kConstant:
      return ConstantAt(warp, source);
    case Source::Kind::kUniform:
      return warp.uniform[source.index];
    default:
      return 0;
  }
}
// Its second half.
inline uint32_t HighScalarOf(const Warp& warp, const Source& source, bool sign_extended) {
  switch (source.kind) {
    case Source::Kind::kImmediate:
      return sign_extended && static_cast<int32_t>(source.value) < 0 ? ~0u : 0;
    case Source::Kind::kConstant: {
      uint32_t value;
      const uint32_t at = source.value + 4;
      NoteConstants(warp, source.index, at, sizeof value);
      std::memcpy(&value, warp.launch->constants[source.index] + at, sizeof value);
      return value;
    }
    case Source::Kind::kUniform:
      return source.index == kNoUniformRegister ? 0 : warp.uniform[source.index + 1];
    default:
      return 0;
  }
}

struct Row {
  const uint32_t* values;
  uint32_t operator[](int lane) const { return values[lane]; }
};
struct Scalar {
  uint32_t value;
  uint32_t operator[](int) const { return value; }
};

// Calls `use` with a Row or a Scalar.
template <Meaning M, typename Use>
inline __attribute__((always_inline)) void With(const Warp& warp, const Source& source, Use use) {
  if (source.kind != Source::Kind::kRegister) {
    use(Scalar{Modified<M>(source, ScalarOf(warp, source))});
    return;
  }
  const uint32_t* const row = warp.registers[source.index];
  if (!source.negate && (M != Meaning::kFloat || !source.absolute)) {
    use(Row{row});
    return;
  }
  alignas(64) uint32_t values[kLanes];
  if constexpr (M == Meaning::kFloat) {
    const uint32_t keep = source.absolute ? 0x7fffffff : ~0u;
    const uint32_t flip = source.negate ? 0x80000000 : 0;
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = (row[lane] & keep) ^ flip;
  } else {
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = Modified<M>(source, row[lane]);
  }
  use(Row{values});
}

// All lanes of a source, modified, in a row: a register's own, or `scratch`.
template <Meaning M>
inline const uint32_t* RowOf(const Warp& warp, const Source& source, uint32_t* scratch) {
  if (source.kind == Source::Kind::kRegister) {
    const uint32_t* const row = warp.registers[source.index];
    if (!source.negate && !source.absolute) return row;
    for (int lane = 0; lane < kLanes; ++lane) scratch[lane] = Modified<M>(source, row[lane]);
  } else {
    const uint32_t value = Modified<M>(source, ScalarOf(warp, source));
    for (int lane = 0; lane < kLanes; ++lane) scratch[lane] = value;
  }
  return scratch;
}

// The active lanes of register `destination` become value(lane).
template <typename Value>
inline __attribute__((always_inline)) void Store(Warp& warp, int destination, Value value) {
  uint32_t* const row = warp.registers[destination];
  if (warp.active == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) row[lane] = value(lane);
    return;
  }
  const uint32_t* const mask = warp.ActiveRow();
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t result = value(lane);
    row[lane] = (result & mask[lane]) | (row[lane] & ~mask[lane]);
  }
}

// A bit for each lane for which `is` holds.
template <typename Is>
inline __attribute__((always_inline)) uint32_t MaskOf(Is is) {
  alignas(64) uint32_t bits[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) bits[lane] = is(lane) ? Bit(lane) : 0;
  uint32_t mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) mask |= bits[lane];
  return mask;
}

// Predicates, and what sets them.
inline uint32_t PredicateAt(const Warp& warp, const Instruction& instruction, int at,
                            int inverted) {
  const uint32_t value = warp.predicates[instruction.Bits(at, 3)];
  return instruction.Bit(inverted) ? ~value : value;
}
inline bool UniformPredicateAt(const Warp& warp, const Instruction& instruction, int at,
                               int inverted) {
  return warp.uniform_predicates[instruction.Bits(at, 3)] != instruction.Bit(inverted);
}
inline void SetPredicate(Warp& warp, int predicate, uint32_t value) {
  if (predicate == kTrue) return;
  uint32_t& to = warp.predicates[predicate];
  to = (to & ~warp.active) | (value & warp.active);
}
inline void SetUniformPredicate(Warp& warp, int predicate, bool value) {
  if (predicate != kTrue) warp.uniform_predicates[predicate] = value;
}
inline void SetUniform(Warp& warp, int index, uint32_t value) {
  if (index != kNoUniformRegister) warp.uniform[index] = value;
}
// AND, OR, XOR of set instructions (bits 74 and 75).
constexpr uint32_t Combined(int operation, uint32_t a, uint32_t b) {
  return operation == 0 ? a & b : operation == 1 ? a | b : a ^ b;
}

// Numbers in registers.
constexpr float AsFloat(uint32_t bits) { return std::bit_cast<float>(bits); }
constexpr uint32_t AsBits(float value) { return std::bit_cast<uint32_t>(value); }
constexpr double AsDouble(uint64_t bits) { return std::bit_cast<double>(bits); }
constexpr uint64_t AsBits(double value) { return std::bit_cast<uint64_t>(value); }

// Sources of 64 bits: pairs of registers, an immediate's high or sign-extended half, constants.
enum class Wide { kSignExtended, kZeroExtended, kHighHalf };
template <Wide W>
inline void WideRow(const Warp& warp, const Source& source, uint64_t* values) {
  if (source.kind == Source::Kind::kRegister) {
    const uint32_t* const low = warp.registers[source.index];
    const uint32_t* const high = warp.registers[source.index + 1];
    for (int lane = 0; lane < kLanes; ++lane) {
      values[lane] = low[lane] | uint64_t{high[lane]} << 32;
    }
    return;
  }
  uint64_t value = ScalarOf(warp, source);
  if (W == Wide::kHighHalf && source.kind == Source::Kind::kImmediate) {
    value <<= 32;
  } else {
    value |= uint64_t{HighScalarOf(warp, source, W == Wide::kSignExtended)} << 32;
  }
  for (int lane = 0; lane < kLanes; ++lane) values[lane] = value;
}
inline void StoreWide(Warp& warp, int destination, const uint64_t* values) {
  Store(warp, destination, [&](int lane) { return static_cast<uint32_t>(values[lane]); });
  Store(warp, destination + 1, [&](int lane) { return static_cast<uint32_t>(values[lane] >> 32); });
}

// Any function of three bits, as a table of eight.
constexpr uint32_t Lookup3(uint32_t a, uint32_t b, uint32_t c, int table) {
  uint32_t result = 0;
  if ((table & 0x01) != 0) result |= ~a & ~b & ~c;
  if ((table & 0x02) != 0) result |= ~a & ~b & c;
  if ((table & 0x04) != 0) result |= ~a & b & ~c;
  if ((table & 0x08) != 0) result |= ~a & b & c;
  if ((table & 0x10) != 0) result |= a & ~b & ~c;
  if ((table & 0x20) != 0) result |= a & ~b & c;
  if ((table & 0x40) != 0) result |= a & b & ~c;
  if ((table & 0x80) != 0) result |= a & b & c;
  return result;
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_LANES_H_
