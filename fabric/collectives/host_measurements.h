// NCCL's operations in one host, as long as they have been measured there.
#ifndef PHANTORA_FABRIC_COLLECTIVES_HOST_MEASUREMENTS_H_
#define PHANTORA_FABRIC_COLLECTIVES_HOST_MEASUREMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/collective_plan.h"
#include "fabric/collectives/measured_tables.h"
#include "fabric/collectives/nccl_cost.h"

namespace phantora {

// The model says how an operation uses links and how its time follows from them; how many times as
// long it took on a host that somebody measured (fabric/data/in_a_host: all-reduce, all-gather,
// reduce-scatter and all-to-all of 2, 4 and 8 GPUs at an NVSwitch) corrects it. Between sizes and
// numbers of ranks that were measured the ratio is interpolated by their logarithms, beyond them
// it stays what it is at the end. GPUs that were not measured take the ratios of one of their
// generation. Not thread-safe.
class HostMeasurements {
 public:
  // For hosts of this fabric, which is only read.
  explicit HostMeasurements(const ClusterFabric* fabric);

  // `plan` is PlanCollective's, of a communicator with that topology. Only what NCCL chooses by
  // itself on one host was measured, so any other plan stays as it is. `nvls` as in CollectiveWork.
  void Correct(const NcclTopology& topology, NcclCollective collective, int64_t bytes, bool nvls,
               Plan& plan);
  // PlanSend's, with the same arguments, of a message in a group in which the sender also sends to
  // itself: an all-to-all. (That copy takes part of the SMs' time: on A100 messages alone are a
  // sixth faster.)
  void CorrectExchange(const NcclTopology& topology, int64_t bytes, int messages, Plan& plan);

 private:
  struct Point {
    double log_bytes = 0, log_ratio = 0;  // of measured to modelled
  };
  struct Curve {
    NcclTopology topology;  // of the host that was measured
    std::vector<Point> points;
    double At(double log_bytes) const;  // log of the ratio
  };
  using Kind = std::pair<BenchmarkedOperation, bool>;  // with or without NVLS

  // By number of ranks; empty if nobody has measured it.
  const std::map<int, Curve>& CurvesOf(Kind kind);
  // nullopt: not measured.
  std::optional<double> Ratio(Kind kind, int ranks, int64_t bytes);

  const ClusterFabric* const fabric_;
  std::vector<MeasuredTable> tables_;
  std::map<Kind, std::map<int, Curve>> curves_;  // made when they are asked for
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_HOST_MEASUREMENTS_H_
