// Measured points of one family of kernels on one GPU, as profiles/data/<gpu>/surfaces/*.surface
// hold them.
#ifndef PHANTORA_PROFILES_SURFACES_SURFACE_POINTS_H_
#define PHANTORA_PROFILES_SURFACES_SURFACE_POINTS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace phantora {

// A file is the line "phantora surface 1", a line of JSON and a zstd frame. The JSON:
//   columns   the shape's, in order: [{"name": "m", "values": [1, 2, ...]}, ...], ascending
//   rows      how many points
//   source    what was measured, by whom: repository, commit, path, licence, software, device
//   sms       of the GPU
// The frame: for every column the place of each row's value among `values`, 16 bits each, least
// significant byte first; then each row's time, 16 bits: t is 1 ns times e to the (t / 2048).
// Written by tools/prices/import_aiconfigurator.py.
class SurfacePoints {
 public:
  // Errors: it is not such a file; says what is wrong.
  static absl::StatusOr<SurfacePoints> Parse(std::string_view file);

  size_t rows() const { return seconds_.size(); }
  size_t columns() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  const std::string& source() const { return source_; }
  int sms() const { return sms_; }

  absl::Span<const float> Row(size_t row) const {
    return absl::MakeConstSpan(values_).subspan(row * columns(), columns());
  }
  double Seconds(size_t row) const { return seconds_[row]; }

 private:
  std::vector<std::string> names_;
  std::vector<float> values_;   // rows x columns
  std::vector<float> seconds_;  // rows
  std::string source_;          // JSON
  int sms_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_SURFACES_SURFACE_POINTS_H_
