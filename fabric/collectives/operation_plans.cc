#include "fabric/collectives/operation_plans.h"

#include <utility>

namespace phantora {
namespace {

// Every rank's messages of one call, as flows at once.
absl::StatusOr<std::vector<Plan>> Messages(ClusterFabric& fabric, const NcclTopology& topology,
                                           absl::Span<const GpuPlace> ranks, bool all,
                                           int64_t bytes) {
  std::vector<Plan> plans;
  const auto count = static_cast<int>(ranks.size());
  for (int from = 0; from < count; ++from) {
    for (int step = 1; step < (all ? count : 2); ++step) {
      const GpuPlace source = ranks[static_cast<size_t>(from)],
                     target = ranks[static_cast<size_t>((from + step) % count)];
      const int near = count / topology.nodes - 1, far = count - near - 1;
      const int messages = !all ? 1 : source.host == target.host ? near : far;
      auto plan = PlanSend(fabric, topology, source, target, all ? bytes / count : bytes, messages,
                           static_cast<uint64_t>(from * count + step));
      if (!plan.ok()) return plan.status();
      plans.push_back(*std::move(plan));
    }
  }
  return plans;
}

}  // namespace

std::optional<NcclCollective> CollectiveOf(BenchmarkedOperation operation) {
  switch (operation) {
    case BenchmarkedOperation::kAllReduce:
      return NcclCollective::kAllReduce;
    case BenchmarkedOperation::kAllGather:
      return NcclCollective::kAllGather;
    case BenchmarkedOperation::kReduceScatter:
      return NcclCollective::kReduceScatter;
    case BenchmarkedOperation::kBroadcast:
      return NcclCollective::kBroadcast;
    case BenchmarkedOperation::kAllToAll:
    case BenchmarkedOperation::kSendReceive:
      return std::nullopt;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Plan>> PlansOf(ClusterFabric& fabric, const NcclTopology& topology,
                                          absl::Span<const GpuPlace> ranks,
                                          BenchmarkedOperation operation, int64_t bytes,
                                          const NcclLimits& limits) {
  const auto collective = CollectiveOf(operation);
  if (!collective) {
    return Messages(fabric, topology, ranks, operation == BenchmarkedOperation::kAllToAll, bytes);
  }
  auto plan = PlanCollective(fabric, topology, ranks, *collective, bytes, limits, 1);
  if (!plan.ok()) return plan.status();
  return std::vector<Plan>{*std::move(plan)};
}

}  // namespace phantora
