// How large products by four warps are: fields of HGMMA, QGMMA and IGMMA.
#ifndef PHANTORA_TRAP_GPU_SASS_WARPGROUP_SHAPE_H_
#define PHANTORA_TRAP_GPU_SASS_WARPGROUP_SHAPE_H_

#include "trap/gpu/sass/instruction.h"

namespace phantora::sass {

inline constexpr int kIntegerWarpgroupProduct = 0x1f1;  // IGMMA

// Of IGMMA by every third value of its field: 8, 16, 24 and 32, and then every 16.
constexpr int IntegerColumns(int field) {
  const int step = field / 3;
  return step < 4 ? 8 * (step + 1) : 16 * (step - 1);
}
constexpr int WarpgroupColumns(const Word& word) {
  if (word.operation() == kIntegerWarpgroupProduct) {
    return IntegerColumns(static_cast<int>(word.Bits(53, 6)));
  }
  return 8 * (static_cast<int>(word.Bits(53, 5)) + 1);
}
// Registers of the result: of 32 bits each, or two halves in one.
constexpr int WarpgroupRegisters(const Word& word) {
  const bool words = word.operation() == kIntegerWarpgroupProduct || word.Bit(75);
  return WarpgroupColumns(word) / (words ? 2 : 4);
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_WARPGROUP_SHAPE_H_
