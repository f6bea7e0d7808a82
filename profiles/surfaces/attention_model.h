// How long attention takes, from how FlashAttention 2 and 3 compute it: the model whose numbers are
// fitted to measured attention, and that says what lies between and beyond.
#ifndef PHANTORA_PROFILES_SURFACES_ATTENTION_MODEL_H_
#define PHANTORA_PROFILES_SURFACES_ATTENTION_MODEL_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "profiles/surfaces/local_regression.h"

namespace phantora {

// Causal attention of `batch` sequences: `queries` new tokens each, the last of `keys` that there
// are. `window`: how many keys a query sees at most, 0 for all. `width` of a head; queries have
// `heads` of them, keys and values `kv_heads`.
struct AttentionShape {
  double batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, width = 128, window = 0;
};

struct AttentionModel {
  using Shape = AttentionShape;
  static constexpr size_t kDimensions = 6;

  int sms = 0;
  double operand_bytes = 2;  // of an element of keys and values
  double start_s = 0;        // of the smallest
  double tile_s = 0;         // of a tile of queries, beside its products
  double memory_bytes_per_s = 0;
  double sm_bytes_per_s = 0;               // keys and values that one SM reads
  double combine_s = 0;                    // adding up what keys were split into
  std::array<double, 4> sm_flops_per_s{};  // of one SM: heads up to 64, 128, 192 and 256 wide
  static size_t WidthClass(double width);  // of these

  static absl::Span<const char* const> Names();
  double& Number(size_t i);
  double Number(size_t i) const { return const_cast<AttentionModel*>(this)->Number(i); }

  // batch_size, isl, num_heads, num_key_value_heads, head_dim, step, window_size: engines'
  // tables. isl tokens after `step` that are in the cache already.
  static std::vector<std::string> Columns();
  static AttentionShape ShapeOf(absl::Span<const float> row);
  static Coordinates At(const AttentionShape& shape);

  // Of all sizes of tiles, with the heads that share keys in one tile or not, and all splits of
  // keys, the quickest.
  double Seconds(const AttentionShape& shape) const;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_ATTENTION_MODEL_H_
