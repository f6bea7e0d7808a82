// The price of a matrix product on one GPU: what its model says, corrected by what that misses the
// nearest measured products by.
#ifndef PHANTORA_PROFILES_SURFACES_PRODUCT_SURFACE_H_
#define PHANTORA_PROFILES_SURFACES_PRODUCT_SURFACE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/surfaces/local_regression.h"
#include "profiles/surfaces/product_model.h"
#include "profiles/surfaces/surface_points.h"

namespace phantora {

// Seconds, and the part of them that nine of ten such prices are within.
struct SurfacePrice {
  double seconds = 0, bar = 0;
};

class ProductSurface {
 public:
  // Points with the columns m (tokens), n (features) and k, as engines' tables call them. `fit`:
  // the JSON that fit_surfaces wrote for them. Errors: other columns, a number that is missing.
  static absl::StatusOr<std::unique_ptr<ProductSurface>> Create(SurfacePoints points,
                                                                std::string_view fit);
  // With a model that was not fitted yet.
  ProductSurface(SurfacePoints points, const ProductModel& model, double bar_scale);

  SurfacePrice At(const ProductShape& shape) const { return Price(shape, LocalRegression::kNone); }
  // Of a measured point, as if it had not been measured.
  SurfacePrice Without(size_t row) const { return Price(ShapeOf(row), row); }

  const SurfacePoints& points() const { return points_; }
  ProductShape ShapeOf(size_t row) const;

 private:
  SurfacePrice Price(const ProductShape& shape, size_t but) const;

  const SurfacePoints points_;
  const ProductModel model_;
  const double bar_scale_;
  const LocalRegression residuals_;
};

// `fit` of Create. `operand_bytes`, `result_bytes`: of an element.
std::string WriteFit(const ProductModel& model, double bar_scale);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_PRODUCT_SURFACE_H_
