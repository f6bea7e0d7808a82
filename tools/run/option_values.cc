#include "tools/run/option_values.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

// Of --memory-limit.
constexpr uint64_t kLeastLimit = uint64_t{256} << 20;

}  // namespace

std::string CheckBytes(const std::string& given) {
  int64_t bytes;
  if (given == "full" || (absl::SimpleAtoi(given, &bytes) && bytes >= 0)) return "";
  return absl::StrCat("'", given, "' is neither 'full' nor a number of bytes");
}

std::string CheckExecution(const std::string& given) {
  int64_t most;
  if (given == "off" || given == "small" || given == "all" || given == "gpu" ||
      (absl::SimpleAtoi(given, &most) && most >= 0)) {
    return "";
  }
  return absl::StrCat("'", given,
                      "' is not 'off', 'small', 'all', 'gpu' or a number of instructions");
}

std::optional<uint64_t> ParseSize(const std::string& given) {
  char* rest;
  const double number = std::strtod(given.c_str(), &rest);
  std::string unit = absl::AsciiStrToLower(absl::StripAsciiWhitespace(rest));
  if (absl::EndsWith(unit, "ib")) {
    unit.resize(unit.size() - 2);
  } else if (absl::EndsWith(unit, "b")) {
    unit.resize(unit.size() - 1);
  }
  const std::string units = "kmgt";
  const size_t power = unit.empty() ? 0 : units.find(unit) + 1;
  const double bytes = number * std::pow(1024.0, static_cast<double>(power));
  if (rest == given.c_str() || (!unit.empty() && (unit.size() > 1 || power == 0)) ||
      !(bytes >= 0) || bytes >= 9e18) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

std::string CheckSize(const std::string& given) {
  const auto bytes = ParseSize(given);
  if (!bytes) return absl::StrCat("'", given, "' is no size such as 16G or 500M");
  if (*bytes < kLeastLimit) return absl::StrCat("'", given, "' is less than any run takes (256M)");
  return "";
}

std::string CheckScale(const std::string& given) {
  double scale;
  if (absl::SimpleAtod(given, &scale) && std::isfinite(scale) && scale > 0) return "";
  return absl::StrCat("'", given, "' is no number above 0");
}

std::string CheckVariable(const std::string& given) {
  const size_t end = given.find('=');
  const auto is_letter = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; };
  if (end != std::string::npos && end > 0 && !absl::ascii_isdigit(given[0]) &&
      std::all_of(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(end), is_letter)) {
    return "";
  }
  return absl::StrCat("'", given, "' is no NAME=VALUE");
}

}  // namespace phantora
