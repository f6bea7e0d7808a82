// Whole operations of a benchmark as plans: what a call of every rank comes to.
#ifndef PHANTORA_FABRIC_COLLECTIVES_OPERATION_PLANS_H_
#define PHANTORA_FABRIC_COLLECTIVES_OPERATION_PLANS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/collective_plan.h"
#include "fabric/collectives/measured_tables.h"
#include "fabric/collectives/nccl_limits.h"

namespace phantora {

// NCCL's collective of these; nullopt for messages.
std::optional<NcclCollective> CollectiveOf(BenchmarkedOperation operation);

// What ranks at these places do together, to be run at once: one plan of a collective, one for each
// message of an all-to-all or a sendrecv (each rank to the next). `bytes` as nccl-tests counts
// them; `topology` and `limits` as PlanCollective takes them. Errors are those of
// PlanCollective and PlanSend.
absl::StatusOr<std::vector<Plan>> PlansOf(ClusterFabric& fabric, const NcclTopology& topology,
                                          absl::Span<const GpuPlace> ranks,
                                          BenchmarkedOperation operation, int64_t bytes,
                                          const NcclLimits& limits);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_OPERATION_PLANS_H_
