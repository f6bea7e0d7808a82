// What came of measuring a launch, as a line of JSON:
//   {"gpu": "NVIDIA H100 80GB HBM3", "driver": "12.4", "sms": 132, "clock_mhz": 1980}   the first
//   {"launch": N, "us": ..., "error": ..., "samples": ..., "launches_each": ...}
//   {"launch": N, "failed": "why", "gave_up": true}     true: the process has to be started anew
#ifndef PHANTORA_TOOLS_PROFILER_REPLAY_RESULT_H_
#define PHANTORA_TOOLS_PROFILER_REPLAY_RESULT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/profiler/kernel_replay.h"

namespace phantora {

struct ReplayResult {
  uint64_t launch = 0;
  ReplayTime time;
  std::string failed;  // empty: measured
  bool gave_up = false;
};

// Each without an end of line. Errors: it is no such line; for the first line, also what it says
// to be wrong ({"refused": "why"}).
std::string ToLine(const ReplayResult& result);
absl::StatusOr<ReplayResult> ParseReplayResult(std::string_view line);
std::string ToLine(const ProfiledGpu& gpu);
std::string RefusalLine(absl::string_view why);
absl::StatusOr<ProfiledGpu> ParseProfiledGpu(std::string_view line);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_PROFILER_REPLAY_RESULT_H_
