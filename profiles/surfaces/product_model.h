// How long a matrix product takes, from how GPUs compute it: the model whose numbers are fitted to
// measured products, and that says what lies between and beyond them.
#ifndef PHANTORA_PROFILES_SURFACES_PRODUCT_MODEL_H_
#define PHANTORA_PROFILES_SURFACES_PRODUCT_MODEL_H_

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "profiles/surfaces/local_regression.h"

namespace phantora {

struct ProductShape {
  // A product of weights [rows, depth] with `columns` vectors of depth: in cuBLAS's terms m,
  // n and k; in torch.nn.functional.linear's, `columns` tokens, `rows` features from `depth`.
  double rows = 1, columns = 1, depth = 1;
};

// The sides of the output tiles that libraries have kernels for.
inline constexpr std::array<std::pair<int, int>, 12> kProductTiles = {{{64, 8},
                                                                       {64, 16},
                                                                       {64, 32},
                                                                       {64, 64},
                                                                       {128, 64},
                                                                       {64, 128},
                                                                       {128, 128},
                                                                       {64, 256},
                                                                       {128, 192},
                                                                       {128, 256},
                                                                       {256, 128},
                                                                       {256, 64}}};

// Of one GPU, type of numbers and library.
struct ProductModel {
  using Shape = ProductShape;
  static constexpr size_t kDimensions = 4;

  int sms = 0;
  double operand_bytes = 2;  // of an element; one of the result has two
  double start_s = 0;        // of the smallest product
  double wave_s = 0;         // of each wave of tiles, to fill and drain
  double memory_bytes_per_s = 0;
  double cache_bytes = 0, cache_bytes_per_s = 0;  // what stays there, read from there
  double operand_bytes_per_s = 0;                 // all SMs' tiles, from the second-level cache
  double block_bytes_per_s = 0;                   // what one thread block can ask for
  double split_s = 0, split_bytes_per_s = 0;      // adding up what k was split into
  std::array<double, kProductTiles.size()> sm_flops_per_s{};  // of one SM, by its tile

  // The numbers to be fitted, by name, all positive.
  static absl::Span<const char* const> Names();
  double& Number(size_t i);
  double Number(size_t i) const { return const_cast<ProductModel*>(this)->Number(i); }

  // m, n and k of torch.nn.functional.linear: tokens, features, from.
  static std::vector<std::string> Columns() { return {"m", "n", "k"}; }
  static ProductShape ShapeOf(absl::Span<const float> row);
  static Coordinates At(const ProductShape& shape);

  // The quickest of all tiles and splits of k, as a library that chooses well would: waves of tiles
  // on SMs (the last one as long as a full one), or traffic, whichever is longer.
  double Seconds(const ProductShape& shape) const;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_PRODUCT_MODEL_H_
