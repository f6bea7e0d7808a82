// One rank of a replay: its GPUs and its host, as they were recorded.
#ifndef PHANTORA_TOOLS_REPLAY_REPLAYED_RANK_H_
#define PHANTORA_TOOLS_REPLAY_REPLAYED_RANK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "clock/time_source.h"
#include "clock/virtual_time.h"
#include "tools/replay/step_record.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {

// What follows from a role's graph, for all ranks that have it.
struct RoleGraph {
  // `alone_of`: how long a kernel or copy lasts alone.
  RoleGraph(const StepRecord::Role& role,
            const std::function<VirtualSpan(const StepRecord::Node&)>& alone_of);

  const StepRecord::Role* role;
  std::vector<VirtualSpan> alone;                // by node
  std::vector<std::vector<uint32_t>> followers;  // nodes that come after a node
  // What the host does, by time: whether that is a wait that ends (what is submitted at that time
  // comes before it), and which node or wait.
  std::vector<std::tuple<VirtualTime, bool, uint32_t>> host;
};

// The same as in a run: kernels of the recorded price that share SMs and memory bandwidth
// (EngineShare), a host that submits when it did, later by as much as its waits for GPUs are over
// later.
class ReplayedRank {
 public:
  // What an NCCL operation needs of its engine, and that it starts; EndOperation() is called when
  // it is over.
  struct Nccl {
    std::function<EngineWork::Need(uint32_t node)> need;
    std::function<void(uint32_t node)> start;
  };
  // How long a kernel takes that takes `alone` as recorded.
  using Pace = std::function<VirtualSpan(uint32_t node, VirtualSpan alone)>;
  // `graph` must outlive it.
  ReplayedRank(const RoleGraph* graph, std::shared_ptr<ManualTimeSource> clock, Pace pace,
               Nccl nccl);

  // When it has something to do, if no operation ends before; Infinity for never.
  VirtualTime Next() const;
  // Does all that there is to do at the clock's time.
  void Settle();
  void EndOperation(uint32_t node);

  size_t unfinished() const { return graph_->role->nodes.size() - over_; }
  // Of a node that is over. Until then an NCCL operation was under way for so long, and for so long
  // no kernel or copy beside it.
  VirtualTime EndOf(uint32_t node) const { return ends_[node]; }
  VirtualTime BeginOf(uint32_t node) const { return begins_[node]; }
  VirtualSpan CommunicationTo(uint32_t node) const { return communication_[node]; }
  VirtualSpan ExposedTo(uint32_t node) const { return exposed_[node]; }

 private:
  struct Running {
    uint32_t node;
    bool is_nccl, started;
    std::unique_ptr<EngineWork> work;
  };

  // When the host goes on; Infinity if it waits for a node that has no end, or is done.
  VirtualTime HostNext() const;
  // The node that it submits, if it is not a wait that is over.
  std::optional<uint32_t> HostGoesOn(VirtualTime now);
  // Books the time since the last change.
  void Account(VirtualTime now);
  void Allow(uint32_t node);
  void Begin(uint32_t node, VirtualTime now);
  void End(uint32_t node, VirtualTime now);

  const RoleGraph* const graph_;
  const std::shared_ptr<ManualTimeSource> clock_;
  const Pace pace_;
  const Nccl nccl_;
  size_t next_ = 0;                  // of the host's events
  VirtualTime host_now_, recorded_;  // of its last event, here and in the recording
  std::map<uint32_t, std::unique_ptr<EngineShare>> engines_;
  std::vector<Running> running_;  // on their engines, which must outlive them
  std::set<uint32_t> ready_;
  std::vector<uint32_t> missing_;  // what a node has to wait for
  std::vector<VirtualTime> begins_, ends_;
  std::vector<uint32_t> ended_operations_;
  size_t over_ = 0;
  int operations_ = 0;  // under way
  VirtualTime accounted_;
  VirtualSpan communication_now_, exposed_now_;
  std::vector<VirtualSpan> communication_, exposed_;  // until the ends of nodes
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_REPLAYED_RANK_H_
