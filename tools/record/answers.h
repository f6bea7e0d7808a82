// What a recording says to a question: parameters of controls after the calls that succeeded.
#ifndef PHANTORA_TOOLS_RECORD_ANSWERS_H_
#define PHANTORA_TOOLS_RECORD_ANSWERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "tools/record/recording.h"

namespace phantora::record {

class Answers {
 public:
  explicit Answers(const Recording& recording);

  // The controls of that name that succeeded, in their order.
  const std::vector<const RecordedCall*>& Calls(absl::string_view control) const;
  bool WasRefused(absl::string_view control) const;

  // Of the first such control. A member that is not recorded is 0.
  std::optional<uint64_t> Number(absl::string_view control, absl::string_view member) const;
  std::optional<std::string> Text(absl::string_view control, absl::string_view member) const;

  // The answer of a list of {index, data} pairs, as Info("grInfoList", "SM_VERSION").
  std::optional<uint64_t> Info(absl::string_view list, absl::string_view index) const;

  static uint64_t NumberIn(const RecordedCall& call, absl::string_view member);
  // Word `index` of parameters without a layout.
  static uint64_t Word(const RecordedCall& call, uint32_t index);

 private:
  absl::flat_hash_map<std::string, std::vector<const RecordedCall*>> calls_, refused_;
  absl::flat_hash_map<std::string, uint64_t> infos_;
};

// In kHz, of the clock domains as the drivers number them for their users: 1 graphics, 4 memory,
// 8 video. The controls have no public layout; rm_control_clock.cc and rm_control_perf.cc say what
// is known of them.
std::map<uint32_t, uint64_t> RecordedClocks(const Answers& answers);

// TPCs of each GPC that has any; empty if it was not asked.
std::vector<uint32_t> RecordedTpcs(const Answers& answers);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_ANSWERS_H_
