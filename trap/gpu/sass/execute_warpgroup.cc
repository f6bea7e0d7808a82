// Products of matrices by four warps: 64 rows, each warp's own 16 of them, with operands in shared
// memory. They are over when the instruction is: what waits for them finds them done.
//
// Which thread has which element, and where those of shared memory are: PTX ISA, "Asynchronous
// Warpgroup Level Matrix Instructions", with the strides as CUTLASS states them
// (include/cute/arch/mma_sm90_desc.hpp, cute/atom/mma_traits_sm90_gmma.hpp).
#include <algorithm>
#include <array>
#include <cstring>

#include "trap/gpu/sass/matrix_math.h"
#include "trap/gpu/sass/memory_access.h"
#include "trap/gpu/sass/operations.h"
#include "trap/gpu/sass/swizzle.h"
#include "trap/gpu/sass/tensor_sums.h"
#include "trap/gpu/sass/warpgroup_shape.h"

namespace phantora::sass {
namespace {

constexpr int kMostColumns = 256;
// So many products take the time of an instruction of a thread.
constexpr int kProductsOfAnInstruction = 8;

// Where a matrix is in shared memory (the descriptor's 64 bits).
struct Matrix {
  uint32_t start, leading, stride;  // bytes
  Swizzle swizzle;
  bool is_known;  // its pattern begins at a multiple of its size

  explicit Matrix(uint64_t bits)
      : start(static_cast<uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4),
        swizzle(OfDescriptor(static_cast<int>(bits >> 62))),
        is_known((bits >> 49 & 7) == 0) {}

  static Swizzle OfDescriptor(int code) {
    static constexpr Swizzle kByCode[4] = {Swizzle::kNone, Swizzle::k128, Swizzle::k64,
                                           Swizzle::k32};
    return kByCode[code];
  }
  uint32_t width() const { return SwizzleBytes(swizzle); }
  // Of row `row`, whose 32 bytes lie one after the other, the first or second half.
  uint32_t AtRow(int row, int half) const {
    const uint32_t along = swizzle == Swizzle::kNone ? leading : kChunk;
    return start + static_cast<uint32_t>(row % 8) * width() +
           static_cast<uint32_t>(row / 8) * stride + static_cast<uint32_t>(half) * along;
  }
  // Of eight neighbours of 16 bits at depth `depth`, where those lie one after the other.
  uint32_t AtDepth(int eight, int depth) const {
    const auto column = static_cast<uint32_t>(eight), k = static_cast<uint32_t>(depth);
    if (swizzle == Swizzle::kNone) {
      return start + column * stride + k % 8 * kChunk + k / 8 * leading;
    }
    const uint32_t chunks = width() / kChunk;
    return start + column % chunks * kChunk + column / chunks * leading + k % 8 * width() +
           k / 8 * stride;
  }
};

const uint8_t* ChunkAt(Warp& warp, const Matrix& matrix, uint32_t address) {
  return SharedAt(warp, Swizzled(matrix.swizzle, address), kChunk);
}

// The rows of A, one after the other.
template <Element element>
bool ReadRows(Warp& warp, const Matrix& matrix, bool transposed, float (*to)[kDepth<element>]) {
  const int first = static_cast<int>(warp.warp_index & 3) * kRows;
  if (!transposed) {
    for (int row = 0; row < kRows; ++row) {
      for (int half = 0; half < 2; ++half) {
        const uint8_t* const from = ChunkAt(warp, matrix, matrix.AtRow(first + row, half));
        if (from == nullptr) return false;
        Expand<element>(from, &to[row][half * kOfChunk<element>]);
      }
    }
    return true;
  }
  if constexpr (kOfChunk<element> == 8) {
    for (int k = 0; k < kDepth<element>; ++k) {
      for (int eight = 0; eight < kRows / 8; ++eight) {
        const uint8_t* const from = ChunkAt(warp, matrix, matrix.AtDepth(first / 8 + eight, k));
        if (from == nullptr) return false;
        float values[8];
        Expand<element>(from, values);
        for (int i = 0; i < 8; ++i) to[8 * eight + i][k] = values[i];
      }
    }
  }
  return true;
}

// B by depth: to[k * kMostColumns + column].
template <Element element>
bool ReadColumns(Warp& warp, const Matrix& matrix, bool transposed, int columns, float* to) {
  constexpr int depth = kDepth<element>;
  if constexpr (kOfChunk<element> == 8) {
    for (int k = 0; transposed && k < depth; ++k) {
      for (int eight = 0; eight < columns / 8; ++eight) {
        const uint8_t* const from = ChunkAt(warp, matrix, matrix.AtDepth(eight, k));
        if (from == nullptr) return false;
        Expand<element>(from, &to[k * kMostColumns + 8 * eight]);
      }
    }
  }
  if (transposed) return true;
  alignas(64) float rows[8][depth];
  for (int eight = 0; eight < columns / 8; ++eight) {
    for (int i = 0; i < 8; ++i) {
      for (int half = 0; half < 2; ++half) {
        const uint8_t* const from = ChunkAt(warp, matrix, matrix.AtRow(8 * eight + i, half));
        if (from == nullptr) return false;
        Expand<element>(from, &rows[i][half * kOfChunk<element>]);
      }
    }
    for (int k = 0; k < depth; k += 8) {
      Transpose8(&rows[0][k], depth, &to[k * kMostColumns + 8 * eight], kMostColumns);
    }
  }
  return true;
}

// A from registers, each warp's own rows: as in smaller products.
template <Element element>
void RowsOfRegisters(const Warp& warp, int index, float (*to)[kDepth<element>]) {
  constexpr int kPerRegister = kDepth<element> / 8;
  for (int r = 0; r < 4; ++r) {
    const uint32_t* const row = warp.registers[index == kNoRegister ? kNoRegister : index + r];
    for (int lane = 0; lane < kLanes; ++lane) {
      uint8_t chunk[kChunk] = {};
      std::memcpy(chunk, &row[lane], 4);
      float values[kChunk];
      Expand<element>(chunk, values);
      float* const at = &to[lane / 4 + 8 * (r % 2)][(lane % 4 + 4 * (r / 2)) * kPerRegister];
      for (int i = 0; i < kPerRegister; ++i) at[i] = values[i];
    }
  }
}

uint64_t DescriptorAt(const Warp& warp, int index) {
  return warp.uniform[index] | uint64_t{warp.uniform[index + 1]} << 32;
}

// What the instruction has in common for all elements. False: nothing is to be done.
bool Begin(Warp& warp, const Instruction& i, int columns, int depth) {
  // It only ends a group.
  if (i.destination == kDiscard) return false;
  if (warp.active != kAllLanes) {
    warp.Fail(Stop::Reason::kRefused, 0, "a product without all threads of the warp");
    return false;
  }
  warp.launch->thread_instructions +=
      static_cast<uint64_t>(kRows * columns * depth / kProductsOfAnInstruction);
  return true;
}
bool AddsToDestination(const Warp& warp, const Instruction& i) {
  return warp.uniform_predicates[kTrue - static_cast<int>(i.Bits(87, 3))] != i.Bit(90);
}
// The descriptors of A (if it is not in registers) and B.
bool Descriptors(Warp& warp, const Instruction& i, bool in_registers, Matrix& a, Matrix& b) {
  const int index = in_registers ? i.b.index : i.a.index;
  if (index + 3 < kNoUniformRegister) {
    a = Matrix(DescriptorAt(warp, index));
    b = Matrix(DescriptorAt(warp, index + 2));
    if ((in_registers || a.is_known) && b.is_known) return true;
  }
  warp.Fail(Stop::Reason::kRefused, 0, "a matrix in shared memory of another layout");
  return false;
}

// The elements' types may differ with eight bits each.
template <Element of_a, Element of_b, bool floats>
void WarpgroupProduct(Warp& warp, const Instruction& i) {
  constexpr int depth = kDepth<of_a>;
  const int columns = WarpgroupColumns(i.word);
  if (!Begin(warp, i, columns, depth)) return;
  const bool in_registers = i.word.form() == 6;
  alignas(64) float a[kRows][depth];
  alignas(64) float b[depth * kMostColumns];
  Matrix matrix_a(0), matrix_b(0);
  if (!Descriptors(warp, i, in_registers, matrix_a, matrix_b)) return;
  if (in_registers) {
    RowsOfRegisters<of_a>(warp, i.a.index, a);
  } else if (!ReadRows<of_a>(warp, matrix_a, i.Bit(61), a)) {
    return;
  }
  if (!ReadColumns<of_b>(warp, matrix_b, i.Bit(62), columns, b)) return;
  if (i.Bit(72) != i.Bit(63)) {
    for (auto& row : a) {
      for (float& value : row) value = -value;
    }
  }
  const int addend =
      i.c.index == kNoRegister || !AddsToDestination(warp, i) ? -1 : static_cast<int>(i.c.index);
  const TensorRounding rounding = RoundingOf<of_a, of_b>(warp.launch->architecture, depth);
  for (int column = 0; column < columns; column += 8) {
    alignas(64) float sums[kRows][8];
    const int at = column / 8 * (floats ? 4 : 2);
    const auto* const addends = addend < 0 ? nullptr : &warp.registers[addend + at];
    if constexpr (floats) {
      FloatAddends(addends, sums);
      AddProducts8<depth, kMostColumns, !floats>(a, &b[column], rounding, sums);
      FloatResults(sums, &warp.registers[i.destination + at]);
    } else {
      HalfAddends(addends, sums);
      AddProducts8<depth, kMostColumns, !floats>(a, &b[column], rounding, sums);
      HalfResults(sums, &warp.registers[i.destination + at]);
    }
  }
}

// Of bytes, in 32 bits, which wrap or end at their bounds.
void WarpgroupIntegers(Warp& warp, const Instruction& i) {
  constexpr int kBytes = 32;
  const int columns = WarpgroupColumns(i.word);
  if (!Begin(warp, i, columns, kBytes)) return;
  const bool in_registers = i.word.form() == 6, signed_a = i.Bit(76), signed_b = i.Bit(82);
  Matrix matrix_a(0), matrix_b(0);
  if (!Descriptors(warp, i, in_registers, matrix_a, matrix_b)) return;
  uint8_t a[kRows][kBytes], b[kMostColumns][kBytes];
  const int first = static_cast<int>(warp.warp_index & 3) * kRows;
  for (int half = 0; half < 2; ++half) {
    for (int row = 0; row < kRows && !in_registers; ++row) {
      const uint8_t* const from = ChunkAt(warp, matrix_a, matrix_a.AtRow(first + row, half));
      if (from == nullptr) return;
      std::memcpy(&a[row][half * kChunk], from, kChunk);
    }
    for (int column = 0; column < columns; ++column) {
      const uint8_t* const from = ChunkAt(warp, matrix_b, matrix_b.AtRow(column, half));
      if (from == nullptr) return;
      std::memcpy(&b[column][half * kChunk], from, kChunk);
    }
  }
  for (int r = 0; r < 4 && in_registers; ++r) {
    const int index = i.a.index == kNoRegister ? kNoRegister : i.a.index + r;
    for (int lane = 0; lane < kLanes; ++lane) {
      std::memcpy(&a[lane / 4 + 8 * (r % 2)][4 * (lane % 4) + 16 * (r / 2)],
                  &warp.registers[index][lane], 4);
    }
  }
  const bool adds = i.c.index != kNoRegister && AddsToDestination(warp, i);
  const auto value = [](uint8_t byte, bool is_signed) -> int64_t {
    return is_signed ? static_cast<int8_t>(byte) : byte;
  };
  for (int column = 0; column < columns; column += 8) {
    for (int r = 0; r < 4; ++r) {
      const int at = column / 2 + r;
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint8_t* const row = a[lane / 4 + 8 * (r / 2)];
        const uint8_t* const other = b[column + lane % 4 * 2 + r % 2];
        int64_t sum = adds ? static_cast<int32_t>(warp.registers[i.c.index + at][lane]) : 0;
        for (int k = 0; k < kBytes; ++k) sum += value(row[k], signed_a) * value(other[k], signed_b);
        if (i.Bit(75)) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
        warp.registers[i.destination + at][lane] = static_cast<uint32_t>(sum);
      }
    }
  }
}

template <Element of_a, Element of_b>
Handler Of(bool floats) {
  return floats ? &WarpgroupProduct<of_a, of_b, true> : &WarpgroupProduct<of_a, of_b, false>;
}

}  // namespace

// A product of four warps begins when all of them have come to it, and what waits for one waits for
// all four's part: what one of them writes before is there for all, and what it writes after harms
// none.
void MeetWarpgroup(Warp& warp, const Instruction&) {
  BlockState& block = *warp.block;
  const uint32_t number = warp.warp_index / BlockState::kWarpsOfGroup;
  BlockState::Warpgroup& group = block.warpgroups[number];
  if (!warp.waits_for_group) {
    warp.waits_for_group = true;
    warp.group_phase = group.phase;
    const uint32_t warps =
        std::min(BlockState::kWarpsOfGroup, block.warps - number * BlockState::kWarpsOfGroup);
    if (++group.arrived == warps) {
      group.arrived = 0;
      ++group.phase;
      ++warp.launch->events;
    }
  }
  if (group.phase == warp.group_phase) {
    warp.gives_way = warp.repeats = true;
  } else {
    warp.waits_for_group = false;
  }
}

Handler SelectWarpgroupProduct(const Instruction& i) {
  // Results replace what they are added to; nobody has been seen to ask for anything else.
  if (i.c.index != kNoRegister && i.c.index != i.destination) return nullptr;
  if (i.word.form() == 6 && i.a.index != kNoRegister && i.a.index + 4 > kNoRegister) return nullptr;
  const bool floats = i.Bit(75);
  const bool transposes = i.Bit(61) || i.Bit(62);
  const bool halves = i.word.operation() == 0x1f0 && !i.Bit(58);
  if (transposes && !halves) return nullptr;
  switch (i.word.operation()) {
    case kIntegerWarpgroupProduct:
      return i.Bit(63) || i.Bit(72) ? nullptr : &WarpgroupIntegers;
    case 0x1f3: {
      const bool a_is_e5m2 = i.Bit(76), b_is_e5m2 = i.Bit(77);
      if (a_is_e5m2) {
        return b_is_e5m2 ? Of<Element::kE5m2, Element::kE5m2>(floats)
                         : Of<Element::kE5m2, Element::kE4m3>(floats);
      }
      return b_is_e5m2 ? Of<Element::kE4m3, Element::kE5m2>(floats)
                       : Of<Element::kE4m3, Element::kE4m3>(floats);
    }
    default:
      if (!halves) return Of<Element::kTf32, Element::kTf32>(true);
      if (i.Bit(76)) return floats ? Of<Element::kBfloat, Element::kBfloat>(true) : nullptr;
      return Of<Element::kHalf, Element::kHalf>(floats);
  }
}

}  // namespace phantora::sass
