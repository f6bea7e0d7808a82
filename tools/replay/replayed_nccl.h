// NCCL's operations of a replay, on its cluster: the same world that a run has, whose ranks come to
// operations when replayed ones do.
#ifndef PHANTORA_TOOLS_REPLAY_REPLAYED_NCCL_H_
#define PHANTORA_TOOLS_REPLAY_REPLAYED_NCCL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "clock/virtual_time.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/nccl_planner.h"
#include "fabric/collectives/nccl_world.h"
#include "tools/replay/scaled_ranks.h"
#include "tools/replay/step_record.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {

class ReplayedNccl {
 public:
  // All must outlive it. `replayed`: for each of `ranks` the one that is replayed in its place,
  // which comes to operations at the same time.
  ReplayedNccl(const StepRecord* record, const ScaledRanks* ranks, std::vector<int> replayed,
               ClusterFabric* fabric);

  // Makes the communicators. Errors: they cannot be.
  absl::Status Prepare();
  // Why the replay cannot go on, in words; empty if it can.
  const std::string& error() const { return error_; }

  // What the operation of a node of the replayed `rank` needs of its engine.
  EngineWork::Need NeedOf(int rank, const StepRecord::Node& node);
  // It starts, with all ranks in whose place this one is.
  void Start(int rank, uint32_t node, const StepRecord::Node& what, VirtualTime now);

  VirtualTime Next() { return world_.NextEvent(); }
  // Calls `ended` for nodes of replayed ranks that are over, for all ranks in whose place they are.
  void Advance(VirtualTime to, const std::function<void(int rank, uint32_t node)>& ended);

 private:
  // What nodes of a rank wait for.
  struct UnderWay {
    NcclTicket ticket;
    uint32_t node;
  };
  class NoPayload : public PayloadMover {
    void Collective(absl::Span<const NcclShare>) override {}
    void Message(const NcclShare&, const NcclShare&) override {}
  };
  NcclEndpoint* EndpointOf(int rank, uint32_t communicator);
  int HostOf(int rank) const { return ranks_->ranks()[static_cast<size_t>(rank)].place.host; }
  // Is it an operation within a host without replayed ranks? It is as long as that of the ranks
  // that are replayed, and shares no links with it.
  bool IsElsewhere(int rank, uint32_t communicator) const;

  const StepRecord* const record_;
  const ScaledRanks* const ranks_;
  const std::vector<int> replayed_;
  std::vector<std::vector<int>> in_place_of_;  // by replayed rank, itself among them
  std::set<int> hosts_;                        // of replayed ranks
  std::string error_;
  NcclPlanner planner_;
  NoPayload payload_;
  NcclWorld world_;
  std::vector<std::vector<nccl::Handle>> handles_;   // by rank and its communicators
  std::vector<std::vector<UnderWay>> under_way_;     // by rank
  std::map<std::pair<int, uint32_t>, size_t> left_;  // tickets, by replayed rank and node
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_REPLAYED_NCCL_H_
