// Runs what was recorded of one rank again, on a cluster with more hosts, where every rank does
// the same at the same time.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_REPLAY_H_
#define PHANTORA_TOOLS_REPLAY_STEP_REPLAY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "clock/virtual_time.h"
#include "fabric/cluster/cluster.h"
#include "tools/replay/step_period.h"
#include "tools/replay/step_record.h"

namespace phantora {

// One step, as the mean of those that StepTime() counts.
struct ReplayedStep {
  int gpus = 0;
  VirtualSpan time;
  VirtualSpan communication;  // an NCCL operation was under way
  VirtualSpan exposed;        // and no kernel or copy beside it
  // When nodes were over, since the start.
  std::vector<VirtualTime> ends;
};

// The same as in a run: kernels of the recorded price that share SMs and memory bandwidth
// (EngineShare), NCCL's operations planned for the cluster (NcclPlanner) that share its links
// (FlowNetwork), a host that submits when it did, later by as much as its waits for GPUs are over
// later. Communicators: see GroupsLike. What is gathered and reduced in all has the size that it
// had; so the parts of ranks are smaller.
//
// Kernels with a name that contains one of `sharded` are work on a rank's own part of something
// that has the same size in all: they last shorter by as much as there are more ranks.
//
// Errors: the cluster's hosts are not those of the recording, or it has operations that cannot be
// scaled.
absl::StatusOr<ReplayedStep> Replay(const StepRecord& record, const StepPeriod& period,
                                    const Cluster& cluster,
                                    absl::Span<const std::string> sharded = {});

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_REPLAY_H_
