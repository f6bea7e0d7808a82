// Steps as Chakra execution traces, which ASTRA-sim and other simulators of networks run.
#ifndef PHANTORA_TOOLS_REPLAY_CHAKRA_TRACE_H_
#define PHANTORA_TOOLS_REPLAY_CHAKRA_TRACE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tools/replay/scaled_ranks.h"
#include "tools/replay/step_period.h"
#include "tools/replay/step_record.h"

namespace phantora {

// Writes the last step of each rank into `folder`, which is made: step.RANK.et, and
// comm_groups.json with the ranks of each communicator. In a trace
//   - a kernel or copy is a COMP_NODE that takes as long as it would alone;
//   - an NCCL operation is a COMM_COLL_NODE, or a COMM_SEND_NODE or COMM_RECV_NODE for each
//   message;
//     sends and receives of one group with all ranks, of one size, are an all-to-all. How long it
//     takes is for the simulator to say; broadcasts and reductions to one rank have the recorded
//     time, since ASTRA-sim has none of its own;
//   - what the host takes from one launch to the next, and after a wait, is a COMP_NODE with
//     is_cpu_op, after which the launch may begin.
// Chakra's times are whole microseconds: they are rounded so that sums are right. duration_ps has
// each as it is.
//
// Errors: the file cannot be written; ranks do not do the same within the step (the recording is
// too short, or was made while they were not in step).
absl::Status WriteChakraTraces(const StepRecord& record, absl::Span<const StepPeriod> periods,
                               const ScaledRanks& ranks, const std::string& folder);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_CHAKRA_TRACE_H_
