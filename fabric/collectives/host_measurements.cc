#include "fabric/collectives/host_measurements.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "fabric/collectives/nccl_topology.h"
#include "fabric/collectives/operation_plans.h"

namespace phantora {
namespace {

using Operation = BenchmarkedOperation;

// Whose host stands for those of its generation.
const char* GpuOf(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kAmpere:
      return "a100-sxm4-80gb";
    case GpuGeneration::kHopper:
      return "h100-sxm5-80gb";
    default:
      return nullptr;
  }
}

const EmbeddedFile* FileOf(const std::string& gpu) {
  for (const EmbeddedFile& file : HostData()) {
    if (absl::EndsWith(std::string(file.name), "/" + gpu + ".tsv")) return &file;
  }
  return nullptr;
}

// What bytes of the plan's first part move at when nothing else does.
double RateAlone(const FlowNetwork& network, const Plan::Part& part) {
  absl::flat_hash_map<LinkId, double> weights;
  for (const LinkUse& use : part.uses) weights[use.link] += use.weight;
  double rate = part.most_bytes_per_s > 0 ? part.most_bytes_per_s : HUGE_VAL;
  for (const auto& [link, weight] : weights) {
    if (weight > 0) rate = std::min(rate, network.FirstCapacityOf(link) / weight);
  }
  return rate;
}

// Everything takes `ratio` times as long.
void Stretch(const FlowNetwork& network, double ratio, bool shares_links, Plan& plan) {
  plan.latency = VirtualSpan::Picoseconds(
      std::llround(static_cast<double>(plan.latency.picoseconds()) * ratio));
  for (Plan::Part& part : plan.parts) {
    const double rate = RateAlone(network, part);
    // What is slower than the model leaves the links to others meanwhile, unless they are what
    // several parts of one operation wait for.
    if (ratio < 1 || shares_links) {
      for (LinkUse& use : part.uses) use.weight *= ratio;
    }
    if (std::isfinite(rate)) part.most_bytes_per_s = rate / ratio;
  }
}

}  // namespace

HostMeasurements::HostMeasurements(const ClusterFabric* fabric) : fabric_(fabric) {
  const EmbeddedFile* file = FileOf(fabric->cluster().host.gpu);
  const char* const like = GpuOf(fabric->facts().generation);
  if (file == nullptr && like != nullptr) file = FileOf(like);
  if (file == nullptr) return;
  // The file is a part of the program, and tests read it.
  auto tables = ParseMeasuredTables(std::string(file->name), std::string(file->content));
  if (tables.ok()) tables_ = *std::move(tables);
}

double HostMeasurements::Curve::At(double log_bytes) const {
  const auto above =
      std::lower_bound(points.begin(), points.end(), log_bytes,
                       [](const Point& point, double value) { return point.log_bytes < value; });
  if (above == points.begin()) return above->log_ratio;
  const Point& below = *std::prev(above);
  if (above == points.end()) return below.log_ratio;
  const double part = (log_bytes - below.log_bytes) / (above->log_bytes - below.log_bytes);
  return below.log_ratio + part * (above->log_ratio - below.log_ratio);
}

const std::map<int, HostMeasurements::Curve>& HostMeasurements::CurvesOf(Kind kind) {
  const auto [it, fresh] = curves_.try_emplace(kind);
  if (!fresh) return it->second;
  std::unique_ptr<ClusterFabric> measured;  // the host
  VirtualTime now;
  for (const MeasuredTable& table : tables_) {
    if (table.operation != kind.first || table.nvls.value_or(kind.second) != kind.second) continue;
    const auto cluster = FindCluster(table.cluster);
    if (!cluster.ok()) continue;
    if (measured == nullptr || measured->cluster().name != cluster->name) {
      auto made = ClusterFabric::Create(*cluster);
      if (!made.ok()) continue;
      measured = *std::move(made);
      now = VirtualTime();
    }
    std::vector<GpuPlace> ranks;
    for (int gpu = 0; gpu < std::min(table.ranks, cluster->host.gpus); ++gpu) {
      ranks.push_back({0, gpu});
    }
    if (ranks.size() < 2 || table.rows.empty()) continue;
    NcclLimits limits;
    if (!kind.second) ForbidNvls(limits);
    Curve& curve = it->second[table.ranks];
    curve.topology = TopologyOf(*measured, ranks, {});
    for (const MeasuredTable::Row& row : table.rows) {
      const auto plans =
          PlansOf(*measured, curve.topology, ranks, table.operation, row.bytes, limits);
      if (!plans.ok()) continue;
      VirtualSpan took;
      for (const VirtualSpan each : RunAlone(measured->network(), *plans, now)) {
        took = std::max(took, each);
      }
      now = now + took;
      if (took <= VirtualSpan()) continue;
      curve.points.push_back({std::log(static_cast<double>(row.bytes)),
                              std::log(row.us * 1e6 / static_cast<double>(took.picoseconds()))});
    }
    std::sort(curve.points.begin(), curve.points.end(),
              [](const Point& a, const Point& b) { return a.log_bytes < b.log_bytes; });
    if (curve.points.empty()) it->second.erase(table.ranks);
  }
  return it->second;
}

std::optional<double> HostMeasurements::Ratio(Kind kind, int ranks, int64_t bytes) {
  const auto& curves = CurvesOf(kind);
  if (curves.empty() || bytes <= 0) return std::nullopt;
  const double log_bytes = std::log(static_cast<double>(bytes));
  const auto above = curves.lower_bound(ranks);
  if (above == curves.end()) return std::exp(std::prev(above)->second.At(log_bytes));
  const double at = above->second.At(log_bytes);
  if (above->first == ranks || above == curves.begin()) return std::exp(at);
  const auto below = std::prev(above);
  const double part = std::log(static_cast<double>(ranks) / below->first) /
                      std::log(static_cast<double>(above->first) / below->first);
  const double at_below = below->second.At(log_bytes);
  return std::exp(at_below + part * (at - at_below));
}

void HostMeasurements::Correct(const NcclTopology& topology, NcclCollective collective,
                               int64_t bytes, bool nvls, Plan& plan) {
  if (topology.nodes != 1 || !topology.nvlink || plan.parts.empty()) return;
  constexpr std::array kOperations = {Operation::kAllReduce, Operation::kAllGather,
                                      Operation::kReduceScatter};
  const auto* const operation =
      std::find_if(kOperations.begin(), kOperations.end(),
                   [&](Operation each) { return CollectiveOf(each) == collective; });
  if (operation == kOperations.end()) return;
  const Kind kind = {*operation, nvls};
  const auto& curves = CurvesOf(kind);
  if (curves.empty()) return;
  // Of as many ranks, or of the next number that was measured.
  auto near = curves.lower_bound(topology.ranks);
  if (near == curves.end()) --near;
  NcclLimits limits;
  if (!nvls) ForbidNvls(limits);
  NcclTopology measured = near->second.topology;
  measured.ranks = topology.ranks;
  const auto choice =
      Choose(measured, collective, bytes, limits.allowed[static_cast<size_t>(collective)]);
  if (!choice || choice->algorithm != plan.algorithm || choice->protocol != plan.protocol) return;
  if (const auto ratio = Ratio(kind, topology.ranks, bytes)) {
    Stretch(fabric_->network(), *ratio, false, plan);
  }
}

void HostMeasurements::CorrectExchange(const NcclTopology& topology, int64_t bytes, int messages,
                                       Plan& plan) {
  if (!topology.nvlink || plan.parts.empty()) return;
  const int ranks = std::max(messages, 1) + 1;
  if (const auto ratio = Ratio({Operation::kAllToAll, true}, ranks, bytes * ranks)) {
    Stretch(fabric_->network(), *ratio, true, plan);
  }
}

}  // namespace phantora
