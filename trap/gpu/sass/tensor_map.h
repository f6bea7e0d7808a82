// What a copy of a tensor's box knows of the tensor: the first 64 of the 128
// bytes that cuTensorMapEncodeTiled makes. There are programs that have no more than those.
#ifndef PHANTORA_TRAP_GPU_SASS_TENSOR_MAP_H_
#define PHANTORA_TRAP_GPU_SASS_TENSOR_MAP_H_

#include <array>
#include <cstdint>
#include <optional>

#include "trap/gpu/sass/swizzle.h"

namespace phantora::sass {

struct TensorMap {
  static constexpr int kBytes = 64;
  static constexpr int kMostDimensions = 5, kMostSpatial = 3;
  // As cuda.h numbers them for the most part; tf32 is float, which is rounded on its way.
  enum class Type : uint8_t {
    kU8,
    kU16,
    kU32,
    kS32,
    kU64,
    kS64,
    kHalf,
    kFloat,
    kFloatFtz,
    kDouble,
    kBfloat,
  };

  uint64_t address = 0;
  int dimensions = 1;
  Type type = Type::kU8;
  Swizzle swizzle = Swizzle::kNone;
  bool fills_with_nan = false;
  bool rounds_to_tf32 = false;  // what is loaded
  // From the dimension whose elements are neighbours on.
  std::array<uint64_t, kMostDimensions> sizes{};
  std::array<uint64_t, kMostDimensions> strides{};  // bytes; of the first, an element's
  std::array<uint32_t, kMostDimensions> steps{};    // between elements that are copied
  std::array<uint32_t, kMostDimensions> box{};      // elements that are copied
  // The tensor is of images, whose dimensions but the first (channels) and the last (which image)
  // are spatial. A box is then of channels and of pixels, box[0] and box[1], which follow each
  // other within these bounds of positions, both included, from image to image.
  bool is_of_images = false;
  std::array<int64_t, kMostSpatial> first{}, last{};
  int spatial() const { return dimensions - 2; }

  uint32_t element_bytes() const { return static_cast<uint32_t>(strides[0]); }
  // Of a box's elements; 0 if they cannot be in shared memory.
  uint32_t BoxBytes() const;
  // From row to row in shared memory: with a swizzle never less than that changes places in, as
  // kernels of cuBLAS write rows of 80 bytes.
  uint32_t RowPitch() const;
  // From a box's first byte there to behind its last.
  uint32_t BoxSpan() const;

  // `bytes`: kBytes of them. nullopt: of a kind that is not known (interleaved).
  static std::optional<TensorMap> Read(const uint8_t* bytes);
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_TENSOR_MAP_H_
