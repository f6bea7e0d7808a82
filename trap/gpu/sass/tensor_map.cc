#include "trap/gpu/sass/tensor_map.h"

#include <cstring>

namespace phantora::sass {

// Fields as driver 550 writes them, found by asking cuTensorMapEncodeTiled for maps that differ in
// one argument.
std::optional<TensorMap> TensorMap::Read(const uint8_t* bytes) {
  uint32_t words[kBytes / 4];
  std::memcpy(words, bytes, sizeof words);
  static constexpr uint8_t kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2};
  const uint32_t how = words[2];
  const auto field = [](uint32_t word, int at, int width) {
    return word >> at & ((1u << width) - 1);
  };
  // 0: of images (im2col); 11: interleaved. 1: set in maps that cuBLAS makes itself, of which
  // nothing else differs.
  const uint32_t type = field(how, 7, 4);
  if (field(how, 2, 2) != 0 || field(how, 11, 2) != 0 || type >= sizeof kElementBytes) {
    return std::nullopt;
  }
  TensorMap map;
  map.address = words[0] | uint64_t{words[1]} << 32;
  map.dimensions = static_cast<int>(field(how, 4, 3)) + 1;
  if (map.dimensions > kMostDimensions) return std::nullopt;
  map.type = static_cast<Type>(type);
  map.swizzle = static_cast<Swizzle>(field(how, 13, 2));
  map.fills_with_nan = field(how, 15, 1) != 0;
  map.rounds_to_tf32 = field(how, 16, 1) != 0;
  const bool is_float = map.type == Type::kFloat || map.type == Type::kFloatFtz;
  if (map.rounds_to_tf32 && !is_float) return std::nullopt;
  map.is_of_images = field(how, 0, 1) != 0;
  // Bits that nobody has been seen to set.
  if (field(words[7], 16, 16) != 0 || field(words[13], 15, 9) != 0 ||
      words[15] >> (map.is_of_images ? 16 : 0) != 0) {
    return std::nullopt;
  }
  if (field(how, 19, 13) != 0 || (map.is_of_images && map.dimensions < 3)) return std::nullopt;
  map.strides[0] = kElementBytes[type];
  for (int i = 0; i < map.dimensions; ++i) {
    const auto at = static_cast<size_t>(i);
    map.sizes[at] = uint64_t{words[8 + at]} + 1;
    if (i > 0) {
      map.strides[at] = (words[2 + at] | uint64_t{field(words[7], 4 * (i - 1), 4)} << 32) * 16;
    }
    // Neighbours are copied whole.
    map.steps[at] = i == 0 ? 1 : field(words[13], 3 * i, 3) + 1;
    const uint32_t box = (i == 0 ? words[13] >> 24 : field(words[14], 8 * (i - 1), 8)) + 1;
    map.box[at] = (box + map.steps[at] - 1) / map.steps[at];
  }
  if (map.is_of_images) {
    map.box = {(words[13] >> 24) + 1, field(words[15], 0, 16) + 1};
    const int bits = map.spatial() == 1 ? 16 : map.spatial() == 2 ? 8 : 5;
    const auto corner = [&](int at) {
      return static_cast<int64_t>(uint64_t{field(words[14], at, bits)} << (64 - bits)) >>
             (64 - bits);
    };
    for (int i = 0; i < map.spatial(); ++i) {
      const auto at = static_cast<size_t>(i);
      map.first[at] = corner(i * bits);
      map.last[at] = static_cast<int64_t>(map.sizes[at + 1]) - 1 + corner(16 + i * bits);
    }
  }
  return map;
}

uint32_t TensorMap::BoxBytes() const {
  constexpr uint64_t kMost = 1 << 24;
  uint64_t bytes = element_bytes();
  for (int i = 0; i < (is_of_images ? 2 : dimensions); ++i) {
    bytes *= box[static_cast<size_t>(i)];
    if (bytes > kMost) return 0;
  }
  return static_cast<uint32_t>(bytes);
}

uint32_t TensorMap::RowPitch() const {
  const uint32_t row = element_bytes() * box[0];
  return swizzle == Swizzle::kNone ? row : std::max(row, SwizzleBytes(swizzle));
}
uint32_t TensorMap::BoxSpan() const {
  const uint32_t row = element_bytes() * box[0];
  return row == 0 ? 0 : (BoxBytes() / row - 1) * RowPitch() + row;
}

}  // namespace phantora::sass
