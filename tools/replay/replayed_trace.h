// The timelines of a replay's ranks as a file for ui.perfetto.dev.
#ifndef PHANTORA_TOOLS_REPLAY_REPLAYED_TRACE_H_
#define PHANTORA_TOOLS_REPLAY_REPLAYED_TRACE_H_

#include <string>

#include "absl/status/status.h"
#include "tools/replay/scaled_ranks.h"
#include "tools/replay/step_record.h"
#include "tools/replay/step_replay.h"

namespace phantora {

// Of each of `step.timelines` a process, named after its coordinates, with a track for each of its
// channels. `record` and `ranks` are those that were replayed. Errors: the file cannot be written.
absl::Status WriteReplayedTrace(const StepRecord& record, const ScaledRanks& ranks,
                                const ReplayedStep& step, const std::string& file);

// What an operation is called there: "AllReduce of 64 MiB, 8 ranks". `count` is per rank.
std::string TextOf(const StepRecord& record, const ScaledRanks& ranks, int rank, int operation);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_REPLAYED_TRACE_H_
