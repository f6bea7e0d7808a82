#include "profiles/surfaces/product_model.h"

#include <algorithm>
#include <cmath>

namespace phantora {
namespace {

constexpr std::array<double, 8> kSplits = {1, 2, 3, 4, 6, 8, 12, 16};
// Chosen by leaving out each measured point in turn (bf16 products of H100): k tells less than
// the other sides, and libraries have kernels of their own for sides that are multiples of
// eight elements.
constexpr float kDepthCounts = 0.7F, kUnaligned = 0.2F;
constexpr double kResultBytes = 2;
constexpr double kDepthStep = 64;  // elements of k that a kernel takes at a time

constexpr std::array<const char*, 9 + kProductTiles.size()> kNames = {
    "start_s",
    "wave_s",
    "memory_bytes_per_s",
    "cache_bytes",
    "cache_bytes_per_s",
    "operand_bytes_per_s",
    "block_bytes_per_s",
    "split_s",
    "split_bytes_per_s",
    "sm_flops_per_s 64x8",
    "sm_flops_per_s 64x16",
    "sm_flops_per_s 64x32",
    "sm_flops_per_s 64x64",
    "sm_flops_per_s 128x64",
    "sm_flops_per_s 64x128",
    "sm_flops_per_s 128x128",
    "sm_flops_per_s 64x256",
    "sm_flops_per_s 128x192",
    "sm_flops_per_s 128x256",
    "sm_flops_per_s 256x128",
    "sm_flops_per_s 256x64",
};

double Fourth(double x) { return x * x * x * x; }

}  // namespace

absl::Span<const char* const> ProductModel::Names() { return kNames; }

double& ProductModel::Number(size_t i) {
  switch (i) {
    case 0:
      return start_s;
    case 1:
      return wave_s;
    case 2:
      return memory_bytes_per_s;
    case 3:
      return cache_bytes;
    case 4:
      return cache_bytes_per_s;
    case 5:
      return operand_bytes_per_s;
    case 6:
      return block_bytes_per_s;
    case 7:
      return split_s;
    case 8:
      return split_bytes_per_s;
    default:
      return sm_flops_per_s[i - 9];
  }
}

ProductShape ProductModel::ShapeOf(absl::Span<const float> row) {
  return {.rows = row[1], .columns = row[0], .depth = row[2]};
}

Coordinates ProductModel::At(const ProductShape& shape) {
  return {static_cast<float>(std::log(shape.columns)), static_cast<float>(std::log(shape.rows)),
          static_cast<float>(std::log(shape.depth)) * kDepthCounts,
          std::fmod(shape.columns, 8) == 0 ? 0 : kUnaligned};
}

double ProductModel::Seconds(const ProductShape& shape) const {
  const double bytes = operand_bytes * shape.depth * (shape.rows + shape.columns) +
                       kResultBytes * shape.rows * shape.columns;
  const double part = bytes / cache_bytes, in_cache = 1 / (1 + part * part);
  const double traffic =
      Fourth(bytes * (in_cache / cache_bytes_per_s + (1 - in_cache) / memory_bytes_per_s));
  // The least of all ways, rounded a little where two are near each other, as what a library
  // chooses by is not exactly what they take: the 16th root of the sum of -16th powers.
  double sum = 0, best = 0;
  for (const double splits : kSplits) {
    const double depth = std::ceil(shape.depth / splits / kDepthStep) * kDepthStep;
    const double add_up =
        splits == 1 ? 0 : split_s + 8 * splits * shape.rows * shape.columns / split_bytes_per_s;
    for (size_t i = 0; i < kProductTiles.size(); ++i) {
      const auto [high, wide] = kProductTiles[i];
      const double tiles = splits * std::ceil(shape.rows / high) * std::ceil(shape.columns / wide);
      const double waves = std::ceil(tiles / sms);
      const double compute = waves * (2.0 * high * wide * depth / sm_flops_per_s[i] + wave_s);
      const double operands = tiles * (high + wide) * depth * operand_bytes / operand_bytes_per_s;
      const double asked = bytes / (std::min<double>(tiles, sms) * block_bytes_per_s);
      const double seconds =
          std::sqrt(std::sqrt(Fourth(compute) + traffic + Fourth(operands) + Fourth(asked))) +
          add_up;
      if (best == 0) best = seconds;
      sum += Fourth(Fourth(best / seconds));
    }
  }
  return start_s + best / std::sqrt(std::sqrt(std::sqrt(std::sqrt(sum))));
}

}  // namespace phantora
