// Products of small matrices by a warp. Which thread has which element: PTX ISA, "Matrix Fragments
// for mma.m16n8k8 / k16", and ldmatrix.
#include <algorithm>
#include <cstring>

#include "trap/gpu/sass/matrix_math.h"
#include "trap/gpu/sass/memory_access.h"
#include "trap/gpu/sass/operations.h"
#include "trap/gpu/sass/tensor_sums.h"

namespace phantora::sass {
namespace {

constexpr int kColumnsOfB = 8;

// d = a b + c of 16 x k and k x 8. In each register four threads that follow each other have one
// row of a, or one column of b: 16 bytes.
template <Element element, int k, bool float_results>
void MatrixProduct(Warp& warp, const Instruction& i) {
  constexpr int kOf = kOfChunk<element>, kParts = k / kOf;
  const auto row_of = [&](int index, int at) {
    return reinterpret_cast<const uint8_t*>(
        warp.registers[index == kNoRegister ? kNoRegister : index + at]);
  };
  alignas(64) float a[kRows][k], columns[kColumnsOfB][8] = {}, b[k < 8 ? 8 : k][kColumnsOfB];
  for (int part = 0; part < kParts; ++part) {
    for (int half = 0; half < 2; ++half) {
      const uint8_t* const from = row_of(i.a.index, 2 * part + half);
      for (int row = 0; row < 8; ++row) {
        Expand<element>(from + row * kChunk, &a[row + 8 * half][part * kOf]);
      }
    }
    const uint8_t* const from = row_of(i.b.index, part);
    for (int column = 0; column < kColumnsOfB; ++column) {
      Expand<element>(from + column * kChunk, &columns[column][part * kOf % 8]);
    }
    if ((part + 1) * kOf % 8 == 0 || part + 1 == kParts) {
      Transpose8(&columns[0][0], 8, &b[part * kOf / 8 * 8][0], kColumnsOfB);
    }
  }
  alignas(64) float sums[kRows][8];
  constexpr int kResults = float_results ? 4 : 2;
  alignas(64) uint32_t results[kResults][kLanes];
  const auto* const addends = i.c.index == kNoRegister ? nullptr : &warp.registers[i.c.index];
  const TensorRounding rounding = RoundingOf<element>(warp.launch->architecture, k);
  if constexpr (float_results) {
    FloatAddends(addends, sums);
    AddProducts8<k, kColumnsOfB, !float_results>(a, &b[0][0], rounding, sums);
    FloatResults(sums, results);
  } else {
    HalfAddends(addends, sums);
    AddProducts8<k, kColumnsOfB, !float_results>(a, &b[0][0], rounding, sums);
    HalfResults(sums, results);
  }
  for (int r = 0; r < kResults; ++r) {
    Store(warp, i.destination + r, [&](int lane) { return results[r][lane]; });
  }
}

}  // namespace

Handler SelectMatrixProduct(const Instruction& i) {
  const bool floats = i.Bit(76), wide = i.Bit(75);
  switch (i.Bits(82, 2)) {
    case 0:
      if (wide) {
        return floats ? &MatrixProduct<Element::kHalf, 16, true>
                      : &MatrixProduct<Element::kHalf, 16, false>;
      }
      return floats ? &MatrixProduct<Element::kHalf, 8, true>
                    : &MatrixProduct<Element::kHalf, 8, false>;
    case 1:
      if (!floats) return nullptr;
      return wide ? &MatrixProduct<Element::kBfloat, 16, true>
                  : &MatrixProduct<Element::kBfloat, 8, true>;
    case 2:
      // 1684 has bit 78, 1688 neither.
      return i.Bit(78) ? &MatrixProduct<Element::kTf32, 4, true>
                       : &MatrixProduct<Element::kTf32, 8, true>;
    default:
      return nullptr;
  }
}

namespace {

// Which elements lie where in products of small integers: in each register four threads that follow
// each other have a part of one row of a, or of one column of b, of 16 bytes.
struct IntegerShape {
  int rows, depth, bits;  // of a; elements of a row; of an element
  int per_register() const { return 32 / bits; }
  int parts() const { return depth * bits / 128; }
};
constexpr int kMostDepth = 256;

// Elements of a (`rows` of it) or b as 32-bit numbers.
template <typename Element>
void Fetch(const Warp& warp, int index, const IntegerShape& shape, int rows, Element element,
           int32_t (*to)[kMostDepth]) {
  const int halves = rows / 8, each = shape.per_register();
  for (int part = 0; part < shape.parts(); ++part) {
    for (int half = 0; half < halves; ++half) {
      const uint32_t* const row =
          warp.registers[index == kNoRegister ? kNoRegister : index + part * halves + half];
      for (int lane = 0; lane < kLanes; ++lane) {
        int32_t* const at = &to[lane / 4 + 8 * half][(part * 4 + lane % 4) * each];
        for (int e = 0; e < each; ++e) at[e] = element(row[lane] >> (shape.bits * e));
      }
    }
  }
}

// c + sums of `product`s; sums wrap, or end at their bounds.
template <typename Product>
void AddProducts(Warp& warp, const Instruction& i, const IntegerShape& shape, bool saturates,
                 const int32_t (*a)[kMostDepth], const int32_t (*b)[kMostDepth], Product product) {
  for (int r = 0; r < shape.rows / 4; ++r) {
    const uint32_t* const c =
        warp.registers[i.c.index == kNoRegister ? kNoRegister : i.c.index + r];
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4 + 8 * (r / 2), column = lane % 4 * 2 + r % 2;
      int64_t sum = 0;
      for (int k = 0; k < shape.depth; ++k) sum += product(a[row][k], b[column][k]);
      sum += static_cast<int32_t>(c[lane]);
      if (saturates) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      result[lane] = static_cast<uint32_t>(sum);
    }
    Store(warp, i.destination + r, [&](int lane) { return result[lane]; });
  }
}

}  // namespace

// Products of integers of eight bits, or of four (bit 83).
void IntegerMatrixProduct(Warp& warp, const Instruction& i) {
  const bool nibbles = i.Bit(83), wide = i.Bit(75);
  IntegerShape shape = {.rows = i.Bit(86) ? 16 : 8, .depth = 16, .bits = nibbles ? 4 : 8};
  if (nibbles) {
    shape.depth = i.Bits(83, 4) == 15 ? 64 : 32;
  } else if (wide) {
    shape.depth = 32;
  }
  const auto element = [&](bool is_signed) {
    const int above = 32 - shape.bits;
    return [is_signed, above](uint32_t word) {
      const uint32_t up = word << above;
      return is_signed ? static_cast<int32_t>(up) >> above : static_cast<int32_t>(up >> above);
    };
  };
  int32_t a[kRows][kMostDepth], b[kColumnsOfB][kMostDepth];
  Fetch(warp, i.a.index, shape, shape.rows, element(i.Bit(76)), a);
  Fetch(warp, i.b.index, shape, kColumnsOfB, element(i.Bit(78)), b);
  AddProducts(warp, i, shape, i.Bit(82), a, b, [](int32_t x, int32_t y) { return x * y; });
}

// Products of bits: how many both have (AND), or only one of them (XOR).
void BitMatrixProduct(Warp& warp, const Instruction& i) {
  const IntegerShape shape = {
      .rows = i.Bits(75, 2) == 0 ? 8 : 16, .depth = i.Bit(76) ? 256 : 128, .bits = 1};
  const auto element = [](uint32_t word) { return static_cast<int32_t>(word & 1); };
  int32_t a[kRows][kMostDepth], b[kColumnsOfB][kMostDepth];
  Fetch(warp, i.a.index, shape, shape.rows, element, a);
  Fetch(warp, i.b.index, shape, kColumnsOfB, element, b);
  const bool both = i.Bit(78);
  AddProducts(warp, i, shape, false, a, b,
              [both](int32_t x, int32_t y) { return both ? x & y : x ^ y; });
}

// One matrix of 8 x 8 halves in a register each, the other way round.
void TransposeMatrix(Warp& warp, const Instruction& i) {
  const uint32_t* const from = warp.registers[i.a.index];
  uint16_t elements[8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    elements[lane / 4][lane % 4 * 2] = static_cast<uint16_t>(from[lane]);
    elements[lane / 4][lane % 4 * 2 + 1] = static_cast<uint16_t>(from[lane] >> 16);
  }
  Store(warp, i.destination, [&](int lane) {
    const int row = lane / 4, column = lane % 4 * 2;
    return elements[column][row] | static_cast<uint32_t>(elements[column + 1][row]) << 16;
  });
}

// Of 8 x 4 and 4 x 8 doubles, each thread has one; of the result two neighbours of a row.
void DoubleMatrixProduct(Warp& warp, const Instruction& i) {
  constexpr int kRows = 8, kDepth = 4, kColumns = 8;
  const auto at = [&](int index, int lane) {
    return AsDouble(warp.registers[index][lane] | uint64_t{warp.registers[index + 1][lane]} << 32);
  };
  double a[kRows][kDepth], b[kDepth][kColumns], results[kLanes][2];
  for (int lane = 0; lane < kLanes; ++lane) {
    a[lane / 4][lane % 4] = at(i.a.index, lane);
    b[lane % 4][lane / 4] = at(i.b.index, lane);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int half = 0; half < 2; ++half) {
      double sum = i.c.index == kNoRegister ? 0 : at(i.c.index + 2 * half, lane);
      for (int k = 0; k < kDepth; ++k) {
        sum = __builtin_fma(a[lane / 4][k], b[k][lane % 4 * 2 + half], sum);
      }
      results[lane][half] = sum;
    }
  }
  for (int half = 0; half < 2; ++half) {
    uint64_t bits[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) bits[lane] = AsBits(results[lane][half]);
    StoreWide(warp, i.destination + 2 * half, bits);
  }
}

// Of 16 x k and k x 8 doubles, k up to 16.
void WideDoubleMatrixProduct(Warp& warp, const Instruction& i) {
  constexpr int kMostDepth = 16, kColumns = 8;
  const int depth = 2 << i.Bits(76, 2);
  const auto at = [&](int index, int lane) {
    // What a program names beyond the last register is zero.
    if (index + 1 >= kNoRegister) return 0.0;
    return AsDouble(warp.registers[index][lane] | uint64_t{warp.registers[index + 1][lane]} << 32);
  };
  double a[kRows][kMostDepth], b[kMostDepth][kColumns];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane / 4, inside = lane % 4;
    for (int part = 0; part < depth / 4; ++part) {
      for (int half = 0; half < 2; ++half) {
        a[group + 8 * half][4 * part + inside] = at(i.a.index + 4 * part + 2 * half, lane);
      }
      b[4 * part + inside][group] = at(i.b.index + 2 * part, lane);
    }
  }
  for (int r = 0; r < 4; ++r) {
    uint64_t bits[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4 + 8 * (r / 2), column = lane % 4 * 2 + r % 2;
      double sum = i.c.index == kNoRegister ? 0 : at(i.c.index + 2 * r, lane);
      for (int k = 0; k < depth; ++k) sum = __builtin_fma(a[row][k], b[k][column], sum);
      bits[lane] = AsBits(sum);
    }
    StoreWide(warp, i.destination + 2 * r, bits);
  }
}

// Up to four matrices of 8 x 8 elements of 16 bits; thread 8 m + r has the address of row r of
// matrix m, and each thread gets two neighbours of a row, or of a column.
void LoadMatrix(Warp& warp, const Instruction& i) {
  constexpr int kRowBytes = 16;
  const int matrices = 1 << i.Bits(72, 2);
  const bool transposed = i.Bit(78);
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, false, i.b, addresses);
  for (int matrix = 0; matrix < matrices; ++matrix) {
    uint16_t elements[8][8];
    for (int row = 0; row < 8; ++row) {
      const uint8_t* const from = SharedAt(warp, addresses[8 * matrix + row], kRowBytes);
      if (from == nullptr) return;
      std::memcpy(elements[row], from, kRowBytes);
    }
    Store(warp, i.destination + matrix, [&](int lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const uint32_t low = transposed ? elements[column][row] : elements[row][column];
      const uint32_t high = transposed ? elements[column + 1][row] : elements[row][column + 1];
      return low | high << 16;
    });
  }
}

// The other way round.
void StoreMatrix(Warp& warp, const Instruction& i) {
  constexpr int kRowBytes = 16;
  const int matrices = 1 << i.Bits(72, 2);
  const bool transposed = i.Bit(78);
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, false, i.c, addresses);
  for (int matrix = 0; matrix < matrices; ++matrix) {
    const uint32_t* const from =
        warp.registers[i.b.index + (i.b.index == kNoRegister ? 0 : matrix)];
    uint16_t elements[8][8];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const auto low = static_cast<uint16_t>(from[lane]),
                 high = static_cast<uint16_t>(from[lane] >> 16);
      (transposed ? elements[column][row] : elements[row][column]) = low;
      (transposed ? elements[column + 1][row] : elements[row][column + 1]) = high;
    }
    for (int row = 0; row < 8; ++row) {
      uint8_t* const to = SharedAt(warp, addresses[8 * matrix + row], kRowBytes);
      if (to == nullptr) return;
      std::memcpy(to, elements[row], kRowBytes);
    }
  }
}

}  // namespace phantora::sass
