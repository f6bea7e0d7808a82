#include "tools/record/answers.h"

#include <algorithm>
#include <bit>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/abi/generated/rm_controls.h"

namespace phantora::record {
namespace {

constexpr char kDomainSources[] = "0x20809064", kFrequencies[] = "0x2080a026",
               kStateClocks[] = "0x2080a06b";
constexpr uint32_t kMostEntries = 32;
constexpr uint32_t kMostSms = 512;

}  // namespace

Answers::Answers(const Recording& recording) {
  for (const RecordedCall& call : recording.calls) {
    if (call.kind != "control") continue;
    if (call.result != "NV_OK") {
      refused_[call.name].push_back(&call);
      continue;
    }
    calls_[call.name].push_back(&call);
    for (const Parameter& parameter : call.out) {
      uint64_t number;
      if (absl::EndsWith(parameter.name, "]") && NumberOf(parameter.value, &number)) {
        infos_.try_emplace(parameter.name, number);
      }
    }
  }
}

const std::vector<const RecordedCall*>& Answers::Calls(absl::string_view control) const {
  static const std::vector<const RecordedCall*> kNone;
  const auto found = calls_.find(std::string(control));
  return found == calls_.end() ? kNone : found->second;
}

bool Answers::WasRefused(absl::string_view control) const {
  return Calls(control).empty() && refused_.find(std::string(control)) != refused_.end();
}

uint64_t Answers::NumberIn(const RecordedCall& call, absl::string_view member) {
  const std::string* value = call.After(member);
  uint64_t number;
  return value != nullptr && NumberOf(*value, &number) ? number : 0;
}

uint64_t Answers::Word(const RecordedCall& call, uint32_t index) {
  return NumberIn(call, absl::StrFormat("+0x%x", uint64_t{index} * 4));
}

std::optional<uint64_t> Answers::Number(absl::string_view control, absl::string_view member) const {
  const auto& calls = Calls(control);
  if (calls.empty()) return std::nullopt;
  return NumberIn(*calls.front(), member);
}

std::optional<std::string> Answers::Text(absl::string_view control,
                                         absl::string_view member) const {
  for (const RecordedCall* call : Calls(control)) {
    const std::string* value = call->After(member);
    std::string text;
    if (value != nullptr && TextOf(*value, &text)) return text;
  }
  return std::nullopt;
}

std::optional<uint64_t> Answers::Info(absl::string_view list, absl::string_view index) const {
  const auto found = infos_.find(absl::StrCat(list, "[", index, "]"));
  if (found == infos_.end()) return std::nullopt;
  return found->second;
}

std::map<uint32_t, uint64_t> RecordedClocks(const Answers& answers) {
  // What the driver calls each of the domains: {public, own, ...} from word 2 on.
  std::map<uint64_t, uint32_t> domains;
  for (const RecordedCall* call : answers.Calls(kDomainSources)) {
    const uint64_t count = std::min<uint64_t>(Answers::Word(*call, 1), kMostEntries);
    for (uint32_t i = 0; call->bytes == 520 && i < count; ++i) {
      domains.try_emplace(Answers::Word(*call, 3 + 4 * i),
                          static_cast<uint32_t>(Answers::Word(*call, 2 + 4 * i)));
    }
  }
  std::map<uint32_t, uint64_t> clocks;
  const auto add = [&](uint64_t own, uint64_t khz) {
    const auto domain = domains.find(own);
    if (domain != domains.end() && khz != 0) clocks.try_emplace(domain->second, khz);
  };
  // The clocks of the highest state; then what libcuda takes for the highest clocks.
  for (const RecordedCall* call : answers.Calls(kStateClocks)) {
    if (call->bytes == 42264) add(Answers::Word(*call, 6), Answers::Word(*call, 9));
  }
  for (const RecordedCall* call : answers.Calls(kFrequencies)) {
    const uint64_t count = std::min<uint64_t>(Answers::Word(*call, 4), kMostEntries);
    for (uint32_t i = 0; call->bytes == 532 && i < count; ++i) {
      add(Answers::Word(*call, 5 + 4 * i), Answers::Word(*call, 7 + 4 * i));
    }
  }
  return clocks;
}

std::vector<uint32_t> RecordedTpcs(const Answers& answers) {
  std::map<uint64_t, uint32_t> tpcs;
  for (const RecordedCall* call : answers.Calls("NV2080_CTRL_CMD_GR_GET_TPC_MASK")) {
    tpcs.try_emplace(Answers::NumberIn(*call, "gpcId"),
                     std::popcount(Answers::NumberIn(*call, "tpcMask")));
  }
  for (const RecordedCall* call : answers.Calls("NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO")) {
    const uint64_t count = std::min<uint64_t>(Answers::NumberIn(*call, "numQueries"), 96);
    for (uint64_t i = 0; i < count; ++i) {
      const std::string query = absl::StrCat("queries[", i, "].");
      if (Answers::NumberIn(*call, query + "queryType") ==
              abi::NV2080_CTRL_GRMGR_GR_FS_INFO_QUERY_TPC_MASK &&
          Answers::NumberIn(*call, query + "status") == 0) {
        tpcs.try_emplace(Answers::NumberIn(*call, query + "queryData+0x0"),
                         std::popcount(Answers::NumberIn(*call, query + "queryData+0x4")));
      }
    }
  }
  const auto& orders = answers.Calls("NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER");
  if (tpcs.empty() && !orders.empty()) {
    const RecordedCall& order = *orders.front();
    const uint64_t sms = std::min<uint64_t>(Answers::NumberIn(order, "numSm"), kMostSms);
    for (uint64_t i = 0; i < sms; ++i) {
      const std::string sm = absl::StrCat("globalSmId[", i, "].");
      if (Answers::NumberIn(order, sm + "localSmId") == 0) {
        ++tpcs[Answers::NumberIn(order, sm + "gpcId")];
      }
    }
  }
  std::vector<uint32_t> result;
  for (const auto& [gpc, count] : tpcs) {
    if (count > 0) result.push_back(count);
  }
  return result;
}

}  // namespace phantora::record
