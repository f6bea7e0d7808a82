#include "fabric/collectives/table_check.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/collective_plan.h"
#include "fabric/collectives/nccl_topology.h"

namespace phantora {
namespace {

constexpr int64_t kMib = 1 << 20;

double ToleranceOf(int64_t bytes, bool one_node) {
  if (bytes < kMib) return one_node ? 0.15 : 0.25;
  if (bytes < 256 * kMib) return one_node ? 0.20 : 0.15;
  return one_node ? 0.05 : 0.10;
}

// Every rank's messages of one call, as flows at once.
absl::StatusOr<std::vector<Plan>> Messages(ClusterFabric& fabric, const NcclTopology& topology,
                                           const std::vector<GpuPlace>& ranks, bool all,
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

absl::StatusOr<std::vector<Plan>> PlansOf(ClusterFabric& fabric, const NcclTopology& topology,
                                          const std::vector<GpuPlace>& ranks,
                                          const MeasuredTable& table, const NcclLimits& limits,
                                          int64_t bytes) {
  if (table.operation == "all-to-all" || table.operation == "sendrecv") {
    return Messages(fabric, topology, ranks, table.operation == "all-to-all", bytes);
  }
  const auto collective = table.operation == "all-reduce"       ? NcclCollective::kAllReduce
                          : table.operation == "all-gather"     ? NcclCollective::kAllGather
                          : table.operation == "reduce-scatter" ? NcclCollective::kReduceScatter
                                                                : NcclCollective::kBroadcast;
  auto plan = PlanCollective(fabric, topology, ranks, collective, bytes, limits, 1);
  if (!plan.ok()) return plan.status();
  return std::vector<Plan>{*std::move(plan)};
}

std::string ChoiceOf(const Plan& plan) {
  return absl::StrCat(plan.message ? "messages" : Name(plan.algorithm), " ", Name(plan.protocol),
                      ", ", plan.channels, " channels");
}

}  // namespace

absl::StatusOr<CheckedTable> Check(const MeasuredTable& table) {
  auto cluster = FindCluster(table.cluster);
  if (!cluster.ok()) return cluster.status();
  auto fabric = ClusterFabric::Create(*cluster);
  if (!fabric.ok()) return fabric.status();
  auto limits = ParseNcclLimits(table.algorithm, "");
  if (!limits.ok()) return limits.status();
  std::vector<GpuPlace> ranks;
  for (int host = 0; host < cluster->hosts; ++host) {
    for (int gpu = 0; gpu < cluster->host.gpus; ++gpu) ranks.push_back({host, gpu});
  }
  if (table.ranks > 0) ranks.resize(std::min(ranks.size(), static_cast<size_t>(table.ranks)));
  const NcclTopology topology = TopologyOf(**fabric, ranks, *limits);
  CheckedTable checked;
  std::vector<double> errors;
  VirtualTime now;
  for (const MeasuredTable::Row& row : table.rows) {
    auto plans = PlansOf(**fabric, topology, ranks, table, *limits, row.bytes);
    if (!plans.ok()) return plans.status();
    VirtualSpan took;
    for (const VirtualSpan each : RunAlone((*fabric)->network(), *plans, now)) {
      took = std::max(took, each);
    }
    now = now + took;
    CheckedRow out;
    out.bytes = row.bytes;
    out.measured_us = row.us;
    out.simulated_us = static_cast<double>(took.picoseconds()) / 1e6 + table.added_us;
    out.error = out.simulated_us / out.measured_us - 1;
    out.tolerance = ToleranceOf(row.bytes, topology.nodes == 1);
    out.counts = row.us > 1.25 * table.floor_us;
    out.choice = ChoiceOf(plans->back());
    if (out.counts) {
      ++checked.counted;
      checked.within += out.Within() ? 1 : 0;
      errors.push_back(std::abs(out.error));
      if (std::abs(out.error) > std::abs(checked.worst)) checked.worst = out.error;
    }
    checked.rows.push_back(std::move(out));
  }
  std::sort(errors.begin(), errors.end());
  if (!errors.empty()) checked.median = errors[errors.size() / 2];
  return checked;
}

}  // namespace phantora
