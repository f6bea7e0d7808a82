#include "profiles/surfaces/held_out.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "profiles/surfaces/surface_library.h"

namespace phantora {
namespace {

double Quantile(std::vector<double>& values, double part) {
  const auto at =
      values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

absl::StatusOr<HeldOut> HeldOut::Read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError("it cannot be read");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto points = SurfacePoints::Parse(text);
  if (!points.ok()) return points.status();
  HeldOut held_out;
  held_out.gpu_ = path.parent_path().filename();
  const std::string name = path.stem();
  held_out.surface_ = name.substr(0, name.find('.'));
  held_out.table_ = name.substr(std::min(name.size(), name.find('.') + 1));
  SurfaceLibrary library(held_out.gpu_);
  const auto compare = [&](const auto& surface) -> absl::Status {
    if (!surface.ok()) return surface.status();
    if (*surface == nullptr || points->names() != (*surface)->points().names()) {
      return absl::NotFoundError(
          absl::StrCat("there is no surface ", held_out.surface_, " of ", held_out.gpu_));
    }
    for (size_t i = 0; i < points->rows(); ++i) {
      const SurfacePrice price = (*surface)->AtRow(points->Row(i));
      held_out.points_.push_back({points->Seconds(i), price.seconds, price.bar});
    }
    return absl::OkStatus();
  };
  const absl::Status status =
      points->names() == ProductModel::Columns()   ? compare(library.Products(held_out.surface_))
      : points->names() == ExpertsModel::Columns() ? compare(library.Experts(held_out.surface_))
                                                   : compare(library.Attention(held_out.surface_));
  if (!status.ok()) return status;
  held_out.measured_ = *std::move(points);
  return held_out;
}

std::vector<std::string> HeldOut::Points() const {
  const std::string table = nlohmann::json::parse(measured_.source()).at("path");
  std::vector<std::string> points(measured_.rows(), absl::StrCat(table, " ", surface_));
  for (size_t i = 0; i < points.size(); ++i) {
    for (const float value : measured_.Row(i)) points[i] += " " + std::to_string(value);
  }
  return points;
}

HeldOut::Misses HeldOut::Within(double from_s, double to_s) const {
  std::vector<double> misses, sizes;
  size_t within = 0;
  for (const Point& point : points_) {
    if (point.measured_s < from_s || point.measured_s >= to_s) continue;
    misses.push_back(point.priced_s / point.measured_s - 1);
    sizes.push_back(std::abs(misses.back()));
    const double apart = std::abs(std::log(point.priced_s / point.measured_s));
    within += apart <= std::log1p(point.bar);
  }
  if (misses.empty()) return {};
  return {.points = misses.size(),
          .median = Quantile(sizes, 0.5),
          .ninetieth = Quantile(sizes, 0.9),
          .bias = Quantile(misses, 0.5),
          .within_bars = static_cast<double>(within) / static_cast<double>(misses.size())};
}

}  // namespace phantora
