#include "profiles/surfaces/attention_model.h"

#include <algorithm>
#include <cmath>

namespace phantora {
namespace {

constexpr std::array<const char*, 9> kNames = {
    "start_s",
    "tile_s",
    "memory_bytes_per_s",
    "sm_bytes_per_s",
    "combine_s",
    "sm_flops_per_s 64",
    "sm_flops_per_s 128",
    "sm_flops_per_s 192",
    "sm_flops_per_s 256",
};
constexpr std::array<double, 3> kTiles = {64, 128, 192};  // queries
constexpr double kKeyBlock = 128;
constexpr std::array<double, 7> kSplits = {1, 2, 4, 8, 16, 32, 64};

double Seen(double keys, double window) { return window > 0 ? std::min(keys, window) : keys; }

double Fourth(double x) { return x * x * x * x; }

}  // namespace

absl::Span<const char* const> AttentionModel::Names() { return kNames; }

double& AttentionModel::Number(size_t i) {
  switch (i) {
    case 0:
      return start_s;
    case 1:
      return tile_s;
    case 2:
      return memory_bytes_per_s;
    case 3:
      return sm_bytes_per_s;
    case 4:
      return combine_s;
    default:
      return sm_flops_per_s[i - 5];
  }
}

std::vector<std::string> AttentionModel::Columns() {
  return {"batch_size", "isl",  "num_heads",  "num_key_value_heads",
          "head_dim",   "step", "window_size"};
}

AttentionShape AttentionModel::ShapeOf(absl::Span<const float> row) {
  return {.batch = row[0],
          .queries = row[1],
          .keys = row[1] + row[5],
          .heads = row[2],
          .kv_heads = row[3],
          .width = row[4],
          .window = row[6]};
}

Coordinates AttentionModel::At(const AttentionShape& shape) {
  // Chosen by leaving out each measured point in turn (prompts, H100). A table has either one
  // query or no other keys, so the keys say what the queries would.
  const double seen = Seen(shape.keys, shape.window);
  return {static_cast<float>(std::log(shape.batch)),
          static_cast<float>(std::log(shape.keys)),
          static_cast<float>(std::log(shape.heads)),
          static_cast<float>(std::log(shape.heads / shape.kv_heads)),
          static_cast<float>(2 * std::log(shape.width)),
          static_cast<float>(0.5 * std::log(shape.keys / seen))};
}

size_t AttentionModel::WidthClass(double width) {
  return width <= 64 ? 0 : width <= 128 ? 1 : width <= 192 ? 2 : 3;
}

double AttentionModel::Seconds(const AttentionShape& shape) const {
  const size_t wide = WidthClass(shape.width);
  const double group = std::max(1.0, shape.heads / shape.kv_heads);
  const double seen = Seen(shape.keys, shape.window);
  // What all queries of a sequence see of the keys is read from memory, once.
  const double read =
      shape.window > 0 ? std::min(shape.keys, shape.window + shape.queries) : shape.keys;
  const double traffic =
      Fourth((2 * operand_bytes * shape.batch * shape.kv_heads * read * shape.width +
              4 * shape.batch * shape.heads * shape.queries * shape.width) /
             memory_bytes_per_s);
  double least = 0;
  for (const bool packed : {false, true}) {
    const double rows = packed ? shape.queries * group : shape.queries;
    const double heads = packed ? shape.kv_heads : shape.heads;
    for (const double tile : kTiles) {
      const double tiles = std::ceil(rows / tile) * heads * shape.batch;
      const double queries = std::min(shape.queries, packed ? tile / group : tile);
      // A tile of queries meets the keys of its last one; half of the prompt on average.
      const double mean = std::min(seen, shape.keys - (shape.queries - 1) / 2 + queries / 2);
      const double longest = std::min(shape.keys, seen + queries);
      const auto seconds = [&](double keys) {
        const double blocks = std::ceil(keys / kKeyBlock) * kKeyBlock;
        return std::max(4 * tile * blocks * shape.width / sm_flops_per_s[wide],
                        2 * operand_bytes * blocks * shape.width / sm_bytes_per_s);
      };
      for (const double splits : kSplits) {
        if (splits > 1 && splits > std::ceil(longest / kKeyBlock)) break;
        const double one = seconds(mean / splits) + tile_s;
        const double waves = std::ceil(tiles * splits / sms);
        const double compute = std::max(
            {tiles * splits * one / sms, seconds(longest / splits) + tile_s, waves * tile_s});
        const double parts = splits > 1
                                 ? combine_s + 8 * splits * shape.batch * shape.heads *
                                                   shape.queries * shape.width / memory_bytes_per_s
                                 : 0;
        const double all = std::sqrt(std::sqrt(Fourth(compute) + traffic)) + parts;
        if (least == 0 || all < least) least = all;
      }
    }
  }
  return start_s + least;
}

}  // namespace phantora
