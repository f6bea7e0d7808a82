#include "profiles/surfaces/product_surface.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace phantora {
namespace {

// Chosen by leaving out each measured point in turn (bf16 products of H100): k tells less than
// the other sides, and libraries have kernels of their own for sides that are multiples of
// eight elements.
constexpr size_t kDimensions = 4;
constexpr float kDepthCounts = 0.7F, kUnaligned = 0.2F;

// What a repeated measurement differs by, as a part (vLLM 0.24's table against 0.19's: 3.1 % in
// the median for all of a point, of which this is the part that no neighbour shows).
constexpr double kNoise = 0.01;
// How fast what is known is lost with the distance, past that of neighbours on the grid of the
// tables: a factor of two in one of the sides.
constexpr double kKnown = 0.7, kLostPerDistance = 0.08;

Coordinates CoordinatesOf(const ProductShape& shape) {
  // A batch is taken for more columns: as many tiles.
  const double columns = shape.columns * shape.batch;
  return {static_cast<float>(std::log(columns)), static_cast<float>(std::log(shape.rows)),
          static_cast<float>(std::log(shape.depth)) * kDepthCounts,
          std::fmod(shape.columns, 8) == 0 ? 0 : kUnaligned};
}

ProductShape ShapeAt(const SurfacePoints& points, size_t row) {
  const auto at = points.Row(row);
  return {.rows = at[1], .columns = at[0], .depth = at[2]};
}

std::vector<Coordinates> AllCoordinates(const SurfacePoints& points) {
  std::vector<Coordinates> all(points.rows());
  for (size_t i = 0; i < all.size(); ++i) all[i] = CoordinatesOf(ShapeAt(points, i));
  return all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProductSurface>> ProductSurface::Create(SurfacePoints points,
                                                                       std::string_view fit) {
  if (points.names() != std::vector<std::string>{"m", "n", "k"}) {
    return absl::InvalidArgumentError("a surface of products has the columns m, n and k");
  }
  ProductModel model;
  model.sms = points.sms();
  double bar_scale = 0;
  try {
    const auto json = nlohmann::json::parse(fit);
    bar_scale = json.at("bar_scale").get<double>();
    model.operand_bytes = json.at("operand_bytes").get<double>();
    model.result_bytes = json.at("result_bytes").get<double>();
    for (size_t i = 0; i < ProductModel::Names().size(); ++i) {
      model.Number(i) = json.at("model").at(ProductModel::Names()[i]).get<double>();
      if (!(model.Number(i) > 0)) return absl::InvalidArgumentError("a number is not positive");
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return std::make_unique<ProductSurface>(std::move(points), model, bar_scale);
}

ProductSurface::ProductSurface(SurfacePoints points, const ProductModel& model, double bar_scale)
    : points_(std::move(points)),
      model_(model),
      bar_scale_(bar_scale),
      residuals_(AllCoordinates(points_), kDimensions) {}

ProductShape ProductSurface::ShapeOf(size_t row) const { return ShapeAt(points_, row); }

SurfacePrice ProductSurface::Price(const ProductShape& shape, size_t but) const {
  const auto residual = [this](size_t row) {
    return std::log(points_.Seconds(row) / model_.Seconds(ShapeAt(points_, row)));
  };
  const LocalRegression::Guess guess = residuals_.At(CoordinatesOf(shape), residual, but);
  const double model_s = model_.Seconds(shape);
  if (!std::isfinite(guess.distance)) return {model_s, 1};
  const double lost = kLostPerDistance * std::max(0.0, guess.distance - kKnown);
  const double bar = bar_scale_ * std::hypot(guess.spread, kNoise, lost);
  return {model_s * std::exp(guess.value), std::expm1(std::min(bar, 2.0))};
}

std::string WriteFit(const ProductModel& model, double bar_scale) {
  nlohmann::ordered_json json;
  json["operand_bytes"] = model.operand_bytes;
  json["result_bytes"] = model.result_bytes;
  json["bar_scale"] = std::round(bar_scale * 1000) / 1000;
  for (size_t i = 0; i < ProductModel::Names().size(); ++i) {
    const double number = model.Number(i);
    const double unit = std::pow(10, std::floor(std::log10(number)) - 4);
    json["model"][ProductModel::Names()[i]] =
        std::stod(absl::StrCat(std::round(number / unit), "e", std::lround(std::log10(unit))));
  }
  return json.dump(1) + "\n";
}

}  // namespace phantora
