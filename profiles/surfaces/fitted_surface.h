// The price of one family's work on one GPU: what a model says, corrected by what that misses the
// nearest measured points by.
#ifndef PHANTORA_PROFILES_SURFACES_FITTED_SURFACE_H_
#define PHANTORA_PROFILES_SURFACES_FITTED_SURFACE_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "profiles/surfaces/local_regression.h"
#include "profiles/surfaces/surface_points.h"

namespace phantora {

// Seconds, and the part of them that nine of ten such prices are within.
struct SurfacePrice {
  double seconds = 0, bar = 0;
};

// A Model is a family's (product_model.h, attention_model.h):
//   Shape, kDimensions, Coordinates At(shape)   what a piece of work is, and where it lies
//   Columns(), Shape ShapeOf(row)               of the points
//   Names(), Number(i)                          the positive numbers that are fitted
//   int sms; operand_bytes                      of the GPU; of an element
//   double Seconds(shape)
template <typename Model>
class FittedSurface {
 public:
  using Shape = typename Model::Shape;

  // `fit`: the JSON that fit_surfaces wrote for these points. Errors: they have other columns; a
  // number is missing.
  static absl::StatusOr<std::unique_ptr<FittedSurface>> Create(SurfacePoints points,
                                                               std::string_view fit) {
    Model model;
    model.sms = points.sms();
    double bar_scale = 0;
    try {
      const auto json = nlohmann::json::parse(fit);
      bar_scale = json.at("bar_scale").get<double>();
      model.operand_bytes = json.at("operand_bytes").get<double>();
      for (size_t i = 0; i < Model::Names().size(); ++i) {
        model.Number(i) = json.at("model").at(Model::Names()[i]).template get<double>();
        if (!(model.Number(i) > 0)) return absl::InvalidArgumentError("a number is not positive");
      }
    } catch (const nlohmann::json::exception& error) {
      return absl::InvalidArgumentError(error.what());
    }
    if (points.names() != Model::Columns()) {
      return absl::InvalidArgumentError("the points have not the columns of their family");
    }
    return std::make_unique<FittedSurface>(std::move(points), model, bar_scale);
  }

  // With a model that was not fitted yet; the points have its columns.
  FittedSurface(SurfacePoints points, const Model& model, double bar_scale)
      : points_(std::move(points)),
        model_(model),
        bar_scale_(bar_scale),
        residuals_(AllCoordinates(points_), Model::kDimensions),
        residual_of_(points_.rows()) {
    for (auto& residual : residual_of_) residual = std::numeric_limits<float>::quiet_NaN();
  }

  SurfacePrice At(const Shape& shape) const { return Price(shape, LocalRegression::kNone); }
  // Of a measured point, as if it had not been measured.
  SurfacePrice Without(size_t row) const { return Price(Model::ShapeOf(points_.Row(row)), row); }
  // Of a row with the points' columns.
  SurfacePrice AtRow(absl::Span<const float> row) const { return At(Model::ShapeOf(row)); }

  const SurfacePoints& points() const { return points_; }
  const Model& model() const { return model_; }

 private:
  // What a repeated measurement differs by (one version's table against the next one's: 3.1 % in
  // the median for all of a point, of which this is the part that no neighbour shows).
  static constexpr double kNoise = 0.01;
  // How fast what is known is lost with the distance, past that of neighbours on the grids of the
  // tables: a factor of two in one of the sides.
  static constexpr double kKnown = 0.7, kLostPerDistance = 0.08;
  static constexpr double kMostBar = 2;  // as a logarithm

  static std::vector<Coordinates> AllCoordinates(const SurfacePoints& points) {
    std::vector<Coordinates> all(points.rows());
    for (size_t i = 0; i < all.size(); ++i) all[i] = Model::At(Model::ShapeOf(points.Row(i)));
    return all;
  }

  SurfacePrice Price(const Shape& shape, size_t but) const {
    const auto residual = [this](size_t row) -> double {
      std::atomic<float>& known = residual_of_[row];
      float value = known.load(std::memory_order_relaxed);
      if (std::isnan(value)) {
        value = static_cast<float>(
            std::log(points_.Seconds(row) / model_.Seconds(Model::ShapeOf(points_.Row(row)))));
        known.store(value, std::memory_order_relaxed);
      }
      return value;
    };
    const LocalRegression::Guess guess = residuals_.At(Model::At(shape), residual, but);
    const double model_s = model_.Seconds(shape);
    if (!std::isfinite(guess.distance)) return {model_s, 1};
    const double lost = kLostPerDistance * std::max(0.0, guess.distance - kKnown);
    const double bar = bar_scale_ * std::hypot(guess.spread, kNoise, lost);
    return {model_s * std::exp(guess.value), std::expm1(std::min(bar, kMostBar))};
  }

  const SurfacePoints points_;
  const Model model_;
  const double bar_scale_;
  const LocalRegression residuals_;
  // What the model misses each point by, as a logarithm; NaN until it is asked for.
  mutable std::vector<std::atomic<float>> residual_of_;
};

// `fit` of Create, with five digits.
template <typename Model>
std::string WriteFit(const Model& model, double bar_scale) {
  nlohmann::ordered_json json;
  json["operand_bytes"] = model.operand_bytes;
  json["bar_scale"] = std::round(bar_scale * 1000) / 1000;
  for (size_t i = 0; i < Model::Names().size(); ++i) {
    const double number = model.Number(i);
    const double unit = std::pow(10, std::floor(std::log10(number)) - 4);
    json["model"][Model::Names()[i]] =
        std::stod(absl::StrCat(std::round(number / unit), "e", std::lround(std::log10(unit))));
  }
  return json.dump(1) + "\n";
}

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_FITTED_SURFACE_H_
