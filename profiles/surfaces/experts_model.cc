#include "profiles/surfaces/experts_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace phantora {
namespace {

constexpr std::array<const char*, 8> kNames = {
    "start_s",
    "wave_s",
    "memory_bytes_per_s",
    "block_bytes_per_s",
    "sm_flops_per_s 16",
    "sm_flops_per_s 32",
    "sm_flops_per_s 64",
    "sm_flops_per_s 128",
};
constexpr std::array<double, 4> kTileRows = {16, 32, 64, 128};
constexpr double kTileFeatures = 128;
// Of activations, whatever weights have.
constexpr double kActivationBytes = 2;

double Fourth(double x) { return x * x * x * x; }

}  // namespace

Routed RoutedBy(double tokens, double topk, double experts, double skew) {
  const double rows = tokens * topk;
  if (skew <= 0) {
    const double touched = std::min(experts, rows);
    return {touched, std::ceil(rows / std::max(touched, 1.0))};
  }
  const double least = rows > experts ? 1 : 0.01, most = rows > experts ? 0.8 * tokens : 2;
  const double power = 1 - skew, low = std::pow(least, power), high = std::pow(most, power);
  const auto part = [&](double i) {
    return std::pow(low + (high - low) * (i + 0.5) / experts, 1 / power);
  };
  std::vector<double> parts;
  for (double i = 0; i < experts; ++i) parts.push_back(part(i));
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  Routed routed = {0, 0};
  double kept = 0;
  for (const double each : parts) {
    const double here = std::min(std::round(each / sum * rows), tokens);
    routed.touched += here >= 1;
    routed.largest = std::max(routed.largest, here);
    kept += here;
  }
  // What would be more than one token's goes to experts without any.
  routed.touched = std::min(experts, routed.touched + std::max(0.0, rows - kept));
  return {std::max(routed.touched, 1.0), std::max(routed.largest, 1.0)};
}

absl::Span<const char* const> ExpertsModel::Names() { return kNames; }

double& ExpertsModel::Number(size_t i) {
  switch (i) {
    case 0:
      return start_s;
    case 1:
      return wave_s;
    case 2:
      return memory_bytes_per_s;
    case 3:
      return block_bytes_per_s;
    default:
      return sm_flops_per_s[i - 4];
  }
}

std::vector<std::string> ExpertsModel::Columns() {
  return {"num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "skew"};
}

ExpertsShape ExpertsModel::ShapeOf(absl::Span<const float> row) {
  const Routed routed = RoutedBy(row[0], row[3], row[4], row[6]);
  return {.rows = static_cast<double>(row[0]) * row[3],
          .touched = routed.touched,
          .largest = routed.largest,
          .hidden = row[1],
          .inner = std::max(1.0, static_cast<double>(row[2]) / row[5])};
}

Coordinates ExpertsModel::At(const ExpertsShape& shape) {
  return {static_cast<float>(std::log(shape.rows)), static_cast<float>(std::log(shape.touched)),
          static_cast<float>(std::log(shape.hidden)), static_cast<float>(std::log(shape.inner)),
          static_cast<float>(0.3 * std::log(shape.largest * shape.touched / shape.rows))};
}

double ExpertsModel::ProductSeconds(const ExpertsShape& shape, double features,
                                    double depth) const {
  const double traffic = (shape.touched * features * depth * operand_bytes +
                          shape.rows * (features + depth) * kActivationBytes) /
                         memory_bytes_per_s;
  double least = 0;
  for (size_t i = 0; i < kTileRows.size(); ++i) {
    // An expert's last tile is half full on average.
    const double groups = std::max(shape.touched, shape.rows / kTileRows[i] + 0.5 * shape.touched);
    const double tiles = groups * std::ceil(features / kTileFeatures);
    const double one = std::max(2 * kTileRows[i] * kTileFeatures * depth / sm_flops_per_s[i],
                                kTileFeatures * depth * operand_bytes / block_bytes_per_s);
    const double waves = std::ceil(tiles / sms);
    const double compute = std::max(tiles / sms, 1.0) * one + waves * wave_s;
    const double all = std::sqrt(std::sqrt(Fourth(compute) + Fourth(traffic)));
    if (least == 0 || all < least) least = all;
  }
  return least;
}

double ExpertsModel::Seconds(const ExpertsShape& shape) const {
  const double between = shape.rows * (3 * shape.inner + shape.hidden) * kActivationBytes;
  return start_s + ProductSeconds(shape, 2 * shape.inner, shape.hidden) +
         ProductSeconds(shape, shape.hidden, shape.inner) + between / memory_bytes_per_s;
}

}  // namespace phantora
