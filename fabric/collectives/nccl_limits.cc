#include "fabric/collectives/nccl_limits.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace phantora {
namespace {

// In the order of NcclCollective.
constexpr const char* kCollectiveNames[kNcclCollectives] = {"broadcast", "reduce", "allgather",
                                                            "reducescatter", "allreduce"};

// "ring,tree" or "^ring": false where a choice is not allowed.
template <size_t count, typename Named>
absl::Status ReadList(absl::string_view text, const char* variable, Named named,
                      std::array<bool, count>& allowed) {
  const bool except = absl::ConsumePrefix(&text, "^");
  allowed.fill(except);
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    word = absl::StripAsciiWhitespace(word);
    bool known = false;
    for (size_t i = 0; i < count; ++i) {
      if (!named(word, i)) continue;
      allowed[i] = !except;
      known = true;
    }
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat(variable, " has \"", word, "\", which NCCL does not know"));
    }
  }
  return absl::OkStatus();
}

// Lists for all collectives, or behind a collective's name, with semicolons between.
template <size_t count, typename Named>
absl::Status ReadVariable(const std::string& value, const char* variable, Named named,
                          std::array<std::array<bool, count>*, kNcclCollectives> allowed) {
  if (absl::StripAsciiWhitespace(value).empty()) return absl::OkStatus();
  for (absl::string_view part : absl::StrSplit(value, ';', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> split =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    const bool one = absl::StrContains(part, ":");
    bool known = !one;
    for (size_t i = 0; i < kNcclCollectives; ++i) {
      if (one &&
          !absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(split.first), kCollectiveNames[i])) {
        continue;
      }
      known = true;
      const absl::string_view list = absl::StripAsciiWhitespace(one ? split.second : part);
      if (auto status = ReadList(list, variable, named, *allowed[i]); !status.ok()) return status;
    }
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat(variable, " has \"", split.first, "\", which is no collective of NCCL's"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void ForbidNvls(NcclLimits& limits) {
  limits.nvls = false;
  for (NcclAllowed& allowed : limits.allowed) {
    allowed.algorithm[static_cast<size_t>(NcclAlgorithm::kNvls)] = false;
    allowed.algorithm[static_cast<size_t>(NcclAlgorithm::kNvlsTree)] = false;
  }
}

absl::StatusOr<NcclLimits> ParseNcclLimits(const std::string& algorithms,
                                           const std::string& protocols) {
  NcclLimits limits;
  std::array<std::array<bool, kNcclAlgorithms>*, kNcclCollectives> algorithm;
  std::array<std::array<bool, kNcclProtocols>*, kNcclCollectives> protocol;
  for (size_t i = 0; i < kNcclCollectives; ++i) {
    algorithm[i] = &limits.allowed[i].algorithm;
    protocol[i] = &limits.allowed[i].protocol;
  }
  const auto is_algorithm = [](absl::string_view word, size_t i) {
    const auto which = static_cast<NcclAlgorithm>(i);
    return absl::EqualsIgnoreCase(word, Name(which)) ||
           (absl::EqualsIgnoreCase(word, "collnet") &&
            (which == NcclAlgorithm::kCollNetDirect || which == NcclAlgorithm::kCollNetChain));
  };
  const auto is_protocol = [](absl::string_view word, size_t i) {
    return absl::EqualsIgnoreCase(word, Name(static_cast<NcclProtocol>(i)));
  };
  auto status = ReadVariable(algorithms, "NCCL_ALGO", is_algorithm, algorithm);
  if (status.ok()) status = ReadVariable(protocols, "NCCL_PROTO", is_protocol, protocol);
  if (!status.ok()) return status;
  return limits;
}

}  // namespace phantora
