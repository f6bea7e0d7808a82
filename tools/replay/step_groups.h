// Where the ranks of a recorded communicator are on a larger cluster of the same hosts.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_GROUPS_H_
#define PHANTORA_TOOLS_REPLAY_STEP_GROUPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "fabric/cluster/gpu_place.h"

namespace phantora {

// Every rank does what rank 0 does, so there are as many communicators like its own as it takes for
// all GPUs: the first is rank 0's own. One that has all GPUs, or the same GPUs of every host, has
// them on all hosts of the larger cluster too. One within a host stays within a host. Hosts have
// `gpus` ranks each; the recording had `hosts`, the cluster has `new_hosts`.
// Errors: neither of these.
absl::StatusOr<std::vector<std::vector<GpuPlace>>> GroupsLike(absl::Span<const GpuPlace> places,
                                                              int gpus, int hosts, int new_hosts);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_GROUPS_H_
