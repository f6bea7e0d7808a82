// What a product's launch computes from which matrices, as some of its blocks tell.
#ifndef PHANTORA_TRAP_GPU_PRODUCTS_PRODUCT_FORM_H_
#define PHANTORA_TRAP_GPU_PRODUCTS_PRODUCT_FORM_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "trap/gpu/products/number.h"
#include "trap/gpu/sass/execute.h"
#include "uvm_model/address_space.h"

namespace phantora {

// Rows of numbers, or several such matrices; begins where a pointer among the parameters points.
struct MatrixPlace {
  uint32_t parameter = 0;  // where the pointer is, in bytes from the first parameter
  // A factor's: numbers of one row are neighbours by depth, and otherwise by its own side. Results'
  // are neighbours by x.
  bool by_depth = false;
  uint64_t stride = 0;        // bytes from row to row
  uint64_t batch_stride = 0;  // bytes from matrix to matrix

  bool operator==(const MatrixPlace&) const = default;
};

// results(x, y) = factor * (the sum over depth of a(x, depth) b(y, depth)), plus what was there, if
// `adds`, plus bias(x), if there is one; for each matrix of a batch.
struct ProductForm {
  uint64_t x = 0, y = 0, depth = 0, batch = 1;
  Number factors = Number::kFloat, result = Number::kFloat;
  MatrixPlace a = {}, b = {}, results = {};
  // Into how many parts the depth is cut, each of so many terms but the last: results are a matrix
  // for each part, as of a batch, which another launch adds up. Then there is no batch.
  uint64_t parts = 1, part_depth = 0;
  bool adds = false;
  std::optional<uint32_t> bias = std::nullopt;  // the parameter; numbers like the results
  double factor = 1;
  // The parameter that points to what blocks change to share the work, of so many bytes at most.
  // Nobody knows what a launch leaves there.
  static constexpr uint64_t kCounterBytes = 64;
  std::optional<uint32_t> counter = std::nullopt;

  uint64_t Rows(const MatrixPlace& of, uint64_t side) const { return of.by_depth ? side : depth; }
  uint64_t Width(const MatrixPlace& of, uint64_t side) const {
    return (of.by_depth ? depth : side) * BytesOf(factors);
  }
  uint64_t ResultWidth() const { return x * BytesOf(result); }
  // Of results.
  uint64_t Matrices() const { return batch * parts; }
  // The terms of one of them: the first, and how many.
  std::pair<uint64_t, uint64_t> TermsOf(uint64_t matrix) const {
    if (parts == 1) return {0, depth};
    const uint64_t first = matrix * part_depth;
    return {first, std::min(part_depth, depth - first)};
  }

  bool operator==(const ProductForm&) const = default;
};

// As cuBLAS calls them: m is x, n is y.
struct ProductSizes {
  uint64_t m = 0, n = 0, k = 0, batch = 1;
};

// What is known of a launch.
struct ProductLaunch {
  ProductSizes sizes;
  Number factors = Number::kFloat;
  absl::Span<const uint8_t> parameters;
  absl::Span<const uint32_t> pointers;  // see PointersAmong
};

// The one form that explains every byte that the watched clusters read and, within what rounding
// and another order of sums may do, what they wrote. `memory` is as it was before. nullopt: there
// is none, or more than one, or its values (zeros, say) would not tell one from another; `why`.
std::optional<ProductForm> FindProductForm(const ProductLaunch& launch,
                                           absl::Span<const sass::Watched> watched,
                                           AddressSpace& memory, std::string& why);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRODUCTS_PRODUCT_FORM_H_
