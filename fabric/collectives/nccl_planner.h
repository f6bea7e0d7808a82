// Plans NCCL's operations on a cluster, for NcclWorld.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_PLANNER_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_PLANNER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/collective_plan.h"
#include "fabric/collectives/host_measurements.h"
#include "fabric/collectives/nccl_world.h"

namespace phantora {

class NcclPlanner : public TransferPlanner {
 public:
  // `memory_bytes_per_s`: of each GPU's own memory. `failed` is told, in words, of what can never
  // be planned, for instance because NCCL_ALGO forbids all there is.
  NcclPlanner(ClusterFabric* fabric, double memory_bytes_per_s,
              std::function<void(const std::string&)> failed)
      : fabric_(fabric),
        memory_bytes_per_s_(memory_bytes_per_s),
        failed_(std::move(failed)),
        measurements_(fabric) {}

  std::shared_ptr<const TransferPlan> Collective(const Communicator& communicator,
                                                 const CollectiveWork& work, bool now) override;
  std::shared_ptr<const TransferPlan> Message(const Communicator& communicator,
                                              const MessageWork& work, bool now) override;
  void Forget() override;

 private:
  // Does what goes between machines choose its way when it starts?
  bool Adapts() const { return fabric_->cluster().network.multipath == Multipath::kAdaptive; }
  // What is the same for all operations of a communicator.
  struct Known {
    NcclLimits limits;
    NcclTopology topology;
    std::map<CollectiveWork, std::shared_ptr<const TransferPlan>> collectives;
    std::map<MessageWork, std::shared_ptr<const TransferPlan>> messages;
  };
  Known& Of(const Communicator& communicator);
  std::shared_ptr<const TransferPlan> Make(const Communicator& communicator,
                                           const absl::StatusOr<Plan>& plan, bool adaptive);

  ClusterFabric* const fabric_;
  const double memory_bytes_per_s_;
  const std::function<void(const std::string&)> failed_;
  HostMeasurements measurements_;
  std::map<int, Known> communicators_;  // by number
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_PLANNER_H_
