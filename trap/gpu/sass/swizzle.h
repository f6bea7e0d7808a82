// How rows in shared memory are spread over its banks: chunks of 16 bytes change places by which
// 128 bytes they are in. Copies of tensors and products by four warps agree on it (PTX ISA,
// "Swizzling Modes"; CUTLASS, cute::Swizzle).
#ifndef PHANTORA_TRAP_GPU_SASS_SWIZZLE_H_
#define PHANTORA_TRAP_GPU_SASS_SWIZZLE_H_

#include <cstdint>

namespace phantora::sass {

// By the bytes of a row in which chunks change places.
enum class Swizzle : uint8_t { kNone, k32, k64, k128 };

constexpr uint32_t SwizzleBytes(Swizzle swizzle) { return 16u << static_cast<int>(swizzle); }

// Where the byte with this address in shared memory is.
constexpr uint32_t Swizzled(Swizzle swizzle, uint32_t address) {
  const uint32_t mask = (1u << static_cast<int>(swizzle)) - 1;
  return address ^ (address >> 7 & mask) << 4;
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_SWIZZLE_H_
