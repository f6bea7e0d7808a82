// How long it takes to multiply tokens by the experts that they are routed to: the model whose
// numbers are fitted to measured layers of such experts, and that says what lies between and
// beyond.
#ifndef PHANTORA_PROFILES_SURFACES_EXPERTS_MODEL_H_
#define PHANTORA_PROFILES_SURFACES_EXPERTS_MODEL_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "profiles/surfaces/local_regression.h"

namespace phantora {

// A layer's two grouped products: `rows` (tokens, times the experts of each) from `hidden` to
// 2 x `inner` features, of which halves are multiplied, and back. `touched` experts have any rows,
// the fullest of them `largest`.
struct ExpertsShape {
  double rows = 1, touched = 1, largest = 1, hidden = 1, inner = 1;
};

// What routers make of tokens, as rows of experts.
struct Routed {
  double touched = 1, largest = 1;
};
// `skew` 0: all experts alike; else as aiconfigurator's collector draws rows of an expert: with a
// density of x^-skew between one and 0.8 of all tokens (or 0.01 and 2, if there are fewer rows than
// experts), in proportion. Here: the middles of as many equal parts.
Routed RoutedBy(double tokens, double topk, double experts, double skew);

struct ExpertsModel {
  using Shape = ExpertsShape;
  static constexpr size_t kDimensions = 5;

  int sms = 0;
  double operand_bytes = 2;  // of an element of weights
  double start_s = 0;        // of the smallest layer: all of its kernels
  double wave_s = 0;         // of each wave of tiles
  double memory_bytes_per_s = 0;
  double block_bytes_per_s = 0;            // what one thread block can ask for
  std::array<double, 4> sm_flops_per_s{};  // of one SM: tiles of 16, 32, 64, 128 rows

  static absl::Span<const char* const> Names();
  double& Number(size_t i);
  double Number(size_t i) const { return const_cast<ExpertsModel*>(this)->Number(i); }

  // Of engines' tables; skew as of RoutedBy.
  static std::vector<std::string> Columns();
  static ExpertsShape ShapeOf(absl::Span<const float> row);
  static Coordinates At(const ExpertsShape& shape);

  // One of the two products, from `depth` to `features`.
  double ProductSeconds(const ExpertsShape& shape, double features, double depth) const;
  // The layer. What lies between its products (activations, sums of a token's experts) is bound by
  // memory, and priced so where those kernels are met by themselves.
  double Seconds(const ExpertsShape& shape) const;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_EXPERTS_MODEL_H_
