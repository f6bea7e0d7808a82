#include "fabric/collectives/table_check.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/collective_plan.h"
#include "fabric/collectives/host_measurements.h"
#include "fabric/collectives/nccl_topology.h"
#include "fabric/collectives/operation_plans.h"

namespace phantora {
namespace {

constexpr int64_t kMib = 1 << 20;

double ToleranceOf(int64_t bytes, bool one_node) {
  if (bytes < kMib) return one_node ? 0.15 : 0.25;
  if (bytes < 256 * kMib) return one_node ? 0.20 : 0.15;
  return one_node ? 0.05 : 0.10;
}

std::string ChoiceOf(const Plan& plan) {
  return absl::StrCat(plan.message ? "messages" : Name(plan.algorithm), " ", Name(plan.protocol),
                      ", ", plan.channels, " channels");
}

void Correct(HostMeasurements& measurements, const NcclTopology& topology,
             const MeasuredTable& table, int64_t bytes, Plan& plan) {
  if (const auto collective = CollectiveOf(table.operation)) {
    measurements.Correct(topology, *collective, bytes, table.nvls.value_or(true), plan);
  } else if (topology.nodes == 1 && table.operation == BenchmarkedOperation::kAllToAll) {
    measurements.CorrectExchange(topology, bytes / topology.ranks, topology.ranks - 1, plan);
  }
}

}  // namespace

absl::StatusOr<CheckedTable> Check(const MeasuredTable& table, bool corrected) {
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
  if (!table.nvls.value_or(true)) ForbidNvls(*limits);
  HostMeasurements measurements(fabric->get());
  CheckedTable checked;
  std::vector<double> errors;
  VirtualTime now;
  for (const MeasuredTable::Row& row : table.rows) {
    auto plans = PlansOf(**fabric, topology, ranks, table.operation, row.bytes, *limits);
    if (!plans.ok()) return plans.status();
    for (Plan& plan : *plans) {
      if (corrected) Correct(measurements, topology, table, row.bytes, plan);
    }
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
