#include "profiles/kernels/launch_request.h"

#include <zstd.h>

#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "profiles/kernels/fat_binary.h"
#include "profiles/kernels/whole_numbers.h"

namespace phantora {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMostParameters = 1 << 16, kMostRanges = 1 << 16;

// Symbols are whatever their file says.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

absl::string_view View(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

LaunchRequest RequestFrom(const Json& json) {
  LaunchRequest request;
  json.at("launch").get_to(request.id);
  if (!json.at("image").is_null()) request.image = json["image"].get<uint64_t>();
  json.at("kernel").get_to(request.kernel);
  json.at("symbol").get_to(request.symbol);
  if (!absl::SimpleHexAtoi(json.at("fingerprint").get<std::string>(), &request.fingerprint)) {
    throw std::invalid_argument("fingerprint is no hexadecimal number");
  }
  json.at("grid").get_to(request.grid);
  json.at("block").get_to(request.block);
  json.at("cluster").get_to(request.cluster);
  json.at("shared_bytes").get_to(request.shared_bytes);
  const std::string parameters = absl::HexStringToBytes(json.at("parameters").get<std::string>());
  request.parameters.assign(parameters.begin(), parameters.end());
  json.at("memory").get_to(request.memory);
  if (request.parameters.size() > kMostParameters || request.memory.size() > kMostRanges) {
    throw std::invalid_argument("too many parameters or ranges of memory");
  }
  json.at("zeros").get_to(request.zeros);
  json.at("row").get_to(request.row);
  json.at("modelled_us").get_to(request.modelled_us);
  json.at("source").get_to(request.source);
  json.at("launches").get_to(request.launches);
  return request;
}

RequestLine::Image ImageFrom(const Json& json) {
  RequestLine::Image image;
  json.at("image").get_to(image.id);
  const auto bytes = json.at("bytes").get<uint64_t>();
  std::string packed;
  if (bytes > kLargestCubin || !absl::Base64Unescape(json.at("zstd").get<std::string>(), &packed)) {
    throw std::invalid_argument("the image is too large or no base 64");
  }
  if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != bytes) {
    throw std::invalid_argument("the image is not of the size that it says");
  }
  image.cubin.resize(bytes);
  const size_t got =
      ZSTD_decompress(image.cubin.data(), image.cubin.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0 || got != bytes) {
    throw std::invalid_argument("the image does not unpack");
  }
  return image;
}

}  // namespace

std::string ToLine(const RequestHeader& header) {
  return Dump({{"phantora_missing", kVersion}, {"gpu", header.gpu}, {"product", header.product}});
}

std::string ToLine(const LaunchRequest& request) {
  Json json = {
      {"launch", request.id},
      {"image", nullptr},
      {"kernel", request.kernel},
      {"symbol", request.symbol},
      {"fingerprint", absl::StrFormat("%016x", request.fingerprint)},
      {"grid", request.grid},
      {"block", request.block},
      {"cluster", request.cluster},
      {"shared_bytes", request.shared_bytes},
      {"parameters", absl::BytesToHexString(View(request.parameters))},
      {"memory", request.memory},
      {"zeros", request.zeros},
      {"row", request.row},
      {"modelled_us", request.modelled_us},
      {"source", request.source},
      {"launches", request.launches},
  };
  if (request.image) json["image"] = *request.image;
  return Dump(json);
}

std::string ImageToLine(uint64_t id, absl::Span<const uint8_t> cubin) {
  std::string packed(ZSTD_compressBound(cubin.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), cubin.data(), cubin.size(), 3));
  return Dump({{"image", id}, {"bytes", cubin.size()}, {"zstd", absl::Base64Escape(packed)}});
}

absl::StatusOr<RequestLine> ParseRequestLine(std::string_view text) {
  RequestLine line;
  try {
    const Json json = Json::parse(text);
    RequireWholeNumbers(json, std::numeric_limits<uint64_t>::max(), {"modelled_us"});
    if (json.contains("phantora_missing")) {
      if (json["phantora_missing"] != kVersion) {
        return absl::InvalidArgumentError("it was written by another version of Phantora");
      }
      line.header = {json.at("gpu").get<std::string>(), json.at("product").get<std::string>()};
    } else if (json.contains("launch")) {
      line.request = RequestFrom(json);
    } else {
      line.image = ImageFrom(json);
    }
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("no line of a list of missing kernels: ", error.what()));
  }
  return line;
}

}  // namespace phantora
