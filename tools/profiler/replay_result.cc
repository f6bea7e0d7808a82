#include "tools/profiler/replay_result.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace phantora {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

absl::Status Wrong(const std::exception& error) {
  return absl::InvalidArgumentError(
      absl::StrCat("no answer of a profiler of kernels: ", error.what()));
}

}  // namespace

std::string ToLine(const ReplayResult& result) {
  if (!result.failed.empty()) {
    return Dump(
        {{"launch", result.launch}, {"failed", result.failed}, {"gave_up", result.gave_up}});
  }
  return Dump({{"launch", result.launch},
               {"us", result.time.microseconds},
               {"error", result.time.error},
               {"samples", result.time.samples},
               {"launches_each", result.time.launches_each}});
}

absl::StatusOr<ReplayResult> ParseReplayResult(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    ReplayResult result;
    json.at("launch").get_to(result.launch);
    if (json.contains("failed")) {
      json["failed"].get_to(result.failed);
      json.at("gave_up").get_to(result.gave_up);
      if (result.failed.empty()) result.failed = "for no reason that it says";
    } else {
      json.at("us").get_to(result.time.microseconds);
      json.at("error").get_to(result.time.error);
      json.at("samples").get_to(result.time.samples);
      json.at("launches_each").get_to(result.time.launches_each);
    }
    return result;
  } catch (const std::exception& error) {
    return Wrong(error);
  }
}

std::string ToLine(const ProfiledGpu& gpu) {
  return Dump(
      {{"gpu", gpu.name}, {"driver", gpu.driver}, {"sms", gpu.sms}, {"clock_mhz", gpu.clock_mhz}});
}

std::string RefusalLine(absl::string_view why) {
  Json json;
  json["refused"] = std::string(why);
  return Dump(json);
}

absl::StatusOr<ProfiledGpu> ParseProfiledGpu(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    if (json.contains("refused")) {
      return absl::FailedPreconditionError(json["refused"].get<std::string>());
    }
    ProfiledGpu gpu;
    json.at("gpu").get_to(gpu.name);
    json.at("driver").get_to(gpu.driver);
    json.at("sms").get_to(gpu.sms);
    json.at("clock_mhz").get_to(gpu.clock_mhz);
    return gpu;
  } catch (const std::exception& error) {
    return Wrong(error);
  }
}

}  // namespace phantora
