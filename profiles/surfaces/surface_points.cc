#include "profiles/surfaces/surface_points.h"

#include <zstd.h>

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace phantora {
namespace {

constexpr absl::string_view kMagic = "phantora surface 1\n";
constexpr size_t kMostRows = 1 << 22;
constexpr size_t kMostColumns = 16;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a surface: ", what));
}

}  // namespace

absl::StatusOr<SurfacePoints> SurfacePoints::Parse(std::string_view file) {
  if (file.substr(0, kMagic.size()) != std::string_view(kMagic.data(), kMagic.size())) {
    return Malformed("it does not begin with \"phantora surface 1\"");
  }
  file.remove_prefix(kMagic.size());
  const size_t end = file.find('\n');
  if (end == std::string_view::npos) return Malformed("its description does not end");
  SurfacePoints points;
  std::vector<std::vector<float>> values;
  size_t rows = 0;
  try {
    const auto about = nlohmann::json::parse(file.substr(0, end));
    rows = about.at("rows").get<size_t>();
    points.sms_ = about.at("sms").get<int>();
    points.source_ = about.at("source").dump();
    for (const auto& column : about.at("columns")) {
      points.names_.push_back(column.at("name").get<std::string>());
      values.push_back(column.at("values").get<std::vector<float>>());
    }
  } catch (const nlohmann::json::exception& error) {
    return Malformed(error.what());
  }
  if (rows > kMostRows || values.empty() || values.size() > kMostColumns || points.sms_ <= 0) {
    return Malformed("rows, columns or sms are not possible");
  }
  file.remove_prefix(end + 1);
  const size_t numbers = rows * (values.size() + 1);
  std::vector<uint8_t> bytes(numbers * sizeof(uint16_t));
  const size_t got = ZSTD_decompress(bytes.data(), bytes.size(), file.data(), file.size());
  if (ZSTD_isError(got)) return Malformed(ZSTD_getErrorName(got));
  if (got != bytes.size()) return Malformed(absl::StrCat(got, " bytes for ", numbers, " numbers"));
  const auto number = [&](size_t at) { return bytes[2 * at] | bytes[2 * at + 1] << 8; };
  points.values_.resize(rows * values.size());
  for (size_t column = 0; column < values.size(); ++column) {
    for (size_t row = 0; row < rows; ++row) {
      const size_t place = number(column * rows + row);
      if (place >= values[column].size()) {
        return Malformed(absl::StrCat("row ", row, " has no value in ", points.names_[column]));
      }
      points.values_[row * values.size() + column] = values[column][place];
    }
  }
  points.seconds_.resize(rows);
  for (size_t row = 0; row < rows; ++row) {
    points.seconds_[row] =
        static_cast<float>(1e-9 * std::exp(number(values.size() * rows + row) / 2048.0));
  }
  return points;
}

}  // namespace phantora
