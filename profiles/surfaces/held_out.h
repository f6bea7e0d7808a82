// Measurements that nothing was made from, beside the prices of the same work.
#ifndef PHANTORA_PROFILES_SURFACES_HELD_OUT_H_
#define PHANTORA_PROFILES_SURFACES_HELD_OUT_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/surfaces/surface_points.h"

namespace phantora {

class HeldOut {
 public:
  // `path`: profiles/held_out/<gpu>/<surface>.<table>.surface. Errors: there is no such file, or
  // no surface to compare it with.
  static absl::StatusOr<HeldOut> Read(const std::filesystem::path& path);

  const std::string& gpu() const { return gpu_; }
  const std::string& surface() const { return surface_; }
  const std::string& table() const { return table_; }  // the engine's, and its version

  // Which points they are: the path of the table, the surface, and each value of a shape.
  std::vector<std::string> Points() const;

  struct Misses {
    size_t points = 0;
    // Relative: of the sizes of misses; the median of misses, with their sign.
    double median = 0, ninetieth = 0, bias = 0;
    double within_bars = 0;  // the part that is within its bar
  };
  // Of the points that were measured to take as long as this.
  Misses Within(double from_s, double to_s) const;

 private:
  struct Point {
    double measured_s, priced_s, bar;
  };
  std::string gpu_, surface_, table_;
  std::vector<Point> points_;
  SurfacePoints measured_;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_HELD_OUT_H_
