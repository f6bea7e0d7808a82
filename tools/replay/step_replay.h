// Runs what was recorded of a run's ranks again, on a cluster with more hosts and with more ranks
// like them.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_REPLAY_H_
#define PHANTORA_TOOLS_REPLAY_STEP_REPLAY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "clock/virtual_time.h"
#include "fabric/cluster/cluster.h"
#include "tools/replay/rank_pace.h"
#include "tools/replay/scaled_ranks.h"
#include "tools/replay/step_period.h"
#include "tools/replay/step_record.h"

namespace phantora {

// One step, as the mean of those that StepTime() counts.
struct ReplayedStep {
  // Ranks with one role.
  struct Role {
    uint32_t role = 0;
    int first = 0, ranks = 0;   // the first of them, and how many there are
    VirtualSpan time;           // of the first
    VirtualSpan communication;  // an NCCL operation was under way
    VirtualSpan exposed;        // and no kernel or copy beside it
    int64_t memory = 0;         // bytes, the most of any
  };
  int gpus = 0;
  std::vector<Role> roles;  // that of rank 0 first
  // When rank 0's nodes were over, since the start.
  std::vector<VirtualTime> ends;
  // Of a rank, what it did: begin and end of each node of its role, since the start.
  struct Timeline {
    int rank = 0;
    uint32_t role = 0;
    std::vector<std::pair<VirtualTime, VirtualTime>> nodes;
  };
  std::vector<Timeline> timelines;  // of ReplayOptions::shown
  // Ranks that were replayed, each in the place of others too if there are fewer than GPUs.
  int replayed = 0;
};

struct ReplayOptions {
  // Kernels with a name that contains one of these are work on a rank's own part of something that
  // has the same size in all: they last shorter by as much as there are more ranks.
  std::vector<std::string> sharded;
  // Past so many nodes, ranks that do the same at the same place along the axes that are not scaled
  // are replayed once; they then come to every operation at the same time, and an operation is over
  // for them when it is over for all.
  // Not if some are slower than others: then all are replayed.
  size_t most_nodes = size_t{1} << 22;
  RankPaces paces;
  // Ranks whose timelines are wanted; with `show_roles` also of the first rank of each role.
  std::vector<int> shown;
  bool show_roles = false;
};

// The same as in a run: ranks (ReplayedRank) whose NCCL operations, planned for the cluster, wait
// for each other and share its links (ReplayedNccl). `periods`: of each role.
//
// Errors: the cluster's hosts are not those of the recording, or too few, or its ranks wait for
// each other in vain.
absl::StatusOr<ReplayedStep> Replay(const StepRecord& record, absl::Span<const StepPeriod> periods,
                                    const ScaledRanks& ranks, const Cluster& cluster,
                                    const ReplayOptions& options = {});

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_REPLAY_H_
