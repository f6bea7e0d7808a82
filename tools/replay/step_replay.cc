#include "tools/replay/step_replay.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clock/time_source.h"
#include "fabric/cluster/cluster_fabric.h"
#include "fabric/collectives/nccl_planner.h"
#include "tools/replay/step_groups.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {
namespace {

VirtualTime Later(VirtualTime time, VirtualSpan span) {
  int64_t sum = 0;
  if (__builtin_add_overflow(time.picoseconds(), span.picoseconds(), &sum)) {
    return VirtualTime::Infinity();
  }
  return VirtualTime() + VirtualSpan::Picoseconds(sum);
}

// When the host of the recording submitted its work, and how it gets on in the replay.
class ReplayedHost {
 public:
  explicit ReplayedHost(const StepRecord& record) : record_(record) {
    for (uint32_t i = 0; i < record.nodes.size(); ++i) {
      events_.push_back({record.nodes[i].submitted, false, i});
    }
    for (uint32_t i = 0; i < record.waits.size(); ++i) {
      events_.push_back({record.waits[i].until, true, i});
    }
    std::sort(events_.begin(), events_.end());
  }

  // When it goes on; Infinity if it waits for a node that has no end, or is done. `ends`: of nodes
  // that are over, Infinity for others.
  VirtualTime Next(const std::vector<VirtualTime>& ends) const {
    if (next_ == events_.size()) return VirtualTime::Infinity();
    const auto& [at, is_wait, index] = events_[next_];
    if (!is_wait) return Later(now_, at - recorded_);
    const StepRecord::Wait& wait = record_.waits[index];
    VirtualTime over = Later(now_, std::max(wait.since - recorded_, VirtualSpan()));
    VirtualTime recorded_end, end;
    for (const uint32_t node : wait.after) {
      if (ends[node] == VirtualTime::Infinity()) return VirtualTime::Infinity();
      recorded_end = std::max(recorded_end, record_.nodes[node].end);
      end = std::max(end, ends[node]);
    }
    // It may have taken the host a moment to see it.
    const VirtualSpan lag = std::max(wait.until - recorded_end, VirtualSpan());
    return std::max(over, Later(end, lag));
  }
  // It goes on at `now`; returns the node that it submits, if it is not a wait that is over.
  std::optional<uint32_t> GoOn(VirtualTime now) {
    const auto& [at, is_wait, index] = events_[next_++];
    now_ = now;
    recorded_ = at;
    if (is_wait) return std::nullopt;
    return index;
  }

 private:
  const StepRecord& record_;
  // By time; what is submitted comes before a wait that ends then. Then the index.
  std::vector<std::tuple<VirtualTime, bool, uint32_t>> events_;
  size_t next_ = 0;
  VirtualTime now_, recorded_;  // of the last event, here and in the recording
};

// NCCL's operations on the replay's cluster, each in all groups of its communicator at once.
class ReplayedNccl {
 public:
  ReplayedNccl(const StepRecord& record, ClusterFabric* fabric)
      : record_(record),
        fabric_(fabric),
        planner_(fabric, record.memory_bytes_per_s, [this](const std::string& what) {
          if (error_.empty()) error_ = what;
        }) {}

  absl::Status Prepare(int new_hosts) {
    // Communicators like rank 0's have numbers of their own, by which switches hash.
    int number = 0;
    for (const auto& recorded : record_.communicators) number = std::max(number, recorded.number);
    for (const StepRecord::Communicator& recorded : record_.communicators) {
      auto groups = GroupsLike(recorded.places, record_.gpus, record_.hosts, new_hosts);
      if (!groups.ok()) return groups.status();
      auto& communicators = communicators_.emplace_back();
      for (size_t i = 0; i < groups->size(); ++i) {
        Communicator communicator;
        communicator.number = i == 0 ? recorded.number : ++number;
        communicator.places = std::move((*groups)[i]);
        communicator.settings = recorded.settings;
        communicators.push_back(std::move(communicator));
      }
    }
    for (const StepRecord::Operation& operation : record_.operations) {
      for (const auto& collective : operation.collectives) {
        if (collective.operation == nccl::Operation::kSend ||
            collective.operation == nccl::Operation::kReceive) {
          return absl::UnimplementedError(
              "it has sends or receives (pipelines, all-to-all), which cannot be scaled");
        }
      }
    }
    return absl::OkStatus();
  }

  const std::string& error() const { return error_; }

  // What the node's kernel needs of its engine.
  EngineWork::Need NeedOf(const StepRecord::Node& node) {
    const StepRecord::Operation& operation = record_.operations[OperationOf(node)];
    int sms = 1;
    double memory_share = 0;
    for (const auto& collective : operation.collectives) {
      const auto plan =
          planner_.Collective(communicators_[operation.communicator][0], collective, false);
      sms = std::max(sms, plan->sms);
      memory_share = std::max(memory_share, plan->memory_share);
    }
    return NeedWithoutEnd(sms, record_.sms, memory_share, node.level);
  }

  void Start(uint32_t node, VirtualTime now) {
    under_way_[node] = {};
    StartCollective(node, now);
  }
  size_t under_way() const { return under_way_.size(); }

  VirtualTime Next() {
    VirtualTime next = fabric_->network().NextEnd();
    if (!flows_start_.empty()) next = std::min(next, flows_start_.begin()->first);
    return next;
  }
  // Appends the nodes that are over at `now`.
  void Run(VirtualTime now, std::vector<uint32_t>& over) {
    FlowNetwork& network = fabric_->network();
    if (network.NextEnd() <= now) {
      for (const FlowId flow : network.Ended(now)) {
        const auto it = flows_.find(flow);
        if (it == flows_.end()) continue;
        const uint32_t node = it->second;
        flows_.erase(it);
        EndPart(node, now, over);
      }
    }
    while (!flows_start_.empty() && flows_start_.begin()->first <= now) {
      const auto [node, communicator] = flows_start_.begin()->second;
      flows_start_.erase(flows_start_.begin());
      const auto& collective = CollectiveOf(node);
      const auto plan = planner_.Collective(*communicator, collective, true);
      if (!plan->no_way.empty() && error_.empty()) error_ = plan->no_way;
      UnderWay& under_way = under_way_.at(node);
      for (const TransferPlan::Part& part : plan->parts) {
        if (part.bytes <= 0) continue;
        flows_[network.Start(now, part.uses, part.bytes, part.most_bytes_per_s)] = node;
        ++under_way.parts;
      }
      EndPart(node, now, over);  // the one that stood for its flows
    }
  }

 private:
  struct UnderWay {
    size_t collective = 0;  // of the operation
    size_t parts = 0;       // that are not over
  };
  static size_t OperationOf(const StepRecord::Node& node) {
    return static_cast<size_t>(node.operation);
  }
  const StepRecord::Operation& OperationOf(uint32_t node) const {
    return record_.operations[OperationOf(record_.nodes[node])];
  }
  const StepRecord::Collective& CollectiveOf(uint32_t node) const {
    return OperationOf(node).collectives[under_way_.at(node).collective];
  }

  void StartCollective(uint32_t node, VirtualTime now) {
    const StepRecord::Operation& operation = OperationOf(node);
    UnderWay& under_way = under_way_[node];
    for (const Communicator& communicator : communicators_[operation.communicator]) {
      const auto& collective = operation.collectives[under_way.collective];
      const auto plan = planner_.Collective(communicator, collective, false);
      flows_start_.emplace(now + plan->latency, std::pair(node, &communicator));
      ++under_way.parts;
    }
  }
  void EndPart(uint32_t node, VirtualTime now, std::vector<uint32_t>& over) {
    UnderWay& under_way = under_way_.at(node);
    if (--under_way.parts > 0) return;
    if (++under_way.collective < OperationOf(node).collectives.size()) {
      return StartCollective(node, now);
    }
    under_way_.erase(node);
    over.push_back(node);
  }

  const StepRecord& record_;
  ClusterFabric* const fabric_;
  NcclPlanner planner_;
  std::string error_;
  std::vector<std::vector<Communicator>> communicators_;  // all like a recorded one
  absl::flat_hash_map<uint32_t, UnderWay> under_way_;     // by node
  absl::flat_hash_map<FlowId, uint32_t> flows_;           // their nodes
  std::multimap<VirtualTime, std::pair<uint32_t, const Communicator*>> flows_start_;
};

class Replayer {
 public:
  // `hosts`: of the cluster.
  Replayer(const StepRecord& record, ClusterFabric* fabric, int hosts,
           absl::Span<const std::string> sharded)
      : record_(record), hosts_(hosts), host_(record), nccl_(record, fabric) {
    for (const std::string& name : record.names) {
      is_sharded_.push_back(
          std::any_of(sharded.begin(), sharded.end(),
                      [&](const std::string& part) { return absl::StrContains(name, part); }));
    }
    const size_t count = record.nodes.size();
    ends_.assign(count, VirtualTime::Infinity());
    communication_.resize(count);
    exposed_.resize(count);
    followers_.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      missing_.push_back(record.nodes[i].after.size() + 1);  // and the host
      for (const uint32_t other : record.nodes[i].after) followers_[other].push_back(i);
    }
  }

  absl::Status Run() {
    if (auto status = nccl_.Prepare(hosts_); !status.ok()) return status;
    for (;;) {
      Settle();
      if (!nccl_.error().empty()) return absl::FailedPreconditionError(nccl_.error());
      const VirtualTime next = Next();
      if (next == VirtualTime::Infinity()) break;
      Account(next - clock_->Now());
      clock_->AdvanceTo(next);
    }
    if (over_ < record_.nodes.size()) {
      return absl::InternalError(absl::StrCat("of ", record_.nodes.size(), " nodes ",
                                              record_.nodes.size() - over_, " never end"));
    }
    return absl::OkStatus();
  }

  VirtualTime EndOf(uint32_t node) const { return ends_[node]; }
  const std::vector<VirtualTime>& ends() const { return ends_; }
  // Until the node's end.
  VirtualTime CommunicationTo(uint32_t node) const { return VirtualTime() + communication_[node]; }
  VirtualTime ExposedTo(uint32_t node) const { return VirtualTime() + exposed_[node]; }

 private:
  struct Running {
    uint32_t node;
    bool is_nccl, started;
    std::unique_ptr<EngineWork> work;
  };

  VirtualTime Next() {
    VirtualTime next = std::min(host_.Next(ends_), nccl_.Next());
    for (const Running& running : running_) {
      const VirtualTime when = !running.is_nccl   ? running.work->ends()
                               : !running.started ? running.work->began()
                                                  : VirtualTime::Infinity();
      next = std::min(next, when);
    }
    return std::max(next, clock_->Now());
  }

  void Account(VirtualSpan span) {
    if (nccl_.under_way() == 0) return;
    communication_now_ = communication_now_ + span;
    const bool beside = std::any_of(running_.begin(), running_.end(), [this](const Running& one) {
      return !one.is_nccl && one.work->began() <= clock_->Now();
    });
    if (!beside) exposed_now_ = exposed_now_ + span;
  }

  // Does all that there is to do at this time.
  void Settle() {
    const VirtualTime now = clock_->Now();
    for (bool worked = true; worked;) {
      worked = false;
      std::vector<uint32_t> over;
      nccl_.Run(now, over);
      for (const Running& running : running_) {
        if (!running.is_nccl && running.work->ends() <= now) over.push_back(running.node);
      }
      for (const uint32_t node : over) End(node, now);
      while (host_.Next(ends_) <= now) {
        worked = true;
        if (const auto node = host_.GoOn(now)) Allow(*node);
      }
      worked |= !over.empty() || !ready_.empty();
      while (!ready_.empty()) {
        const uint32_t node = *ready_.begin();
        ready_.erase(ready_.begin());
        Begin(node, now);
      }
      for (Running& running : running_) {
        if (!running.is_nccl || running.started || running.work->began() > now) continue;
        running.started = worked = true;
        nccl_.Start(running.node, now);
      }
    }
  }

  void Allow(uint32_t node) {
    if (--missing_[node] == 0) ready_.insert(node);
  }

  void Begin(uint32_t index, VirtualTime now) {
    const StepRecord::Node& node = record_.nodes[index];
    const bool is_nccl = node.operation != StepRecord::kNoOperation;
    const EngineWork::Need need =
        is_nccl ? nccl_.NeedOf(node)
                : EngineWork::Need{AloneOf(node), node.demand, node.level, node.memory};
    auto& share = engines_[node.engine];
    if (share == nullptr) share = std::make_unique<EngineShare>(clock_);
    running_.push_back(
        {index, is_nccl, false, std::make_unique<EngineWork>(share.get(), now, need)});
  }

  VirtualSpan AloneOf(const StepRecord::Node& node) const {
    if (node.name == StepRecord::kNoName || !is_sharded_[static_cast<size_t>(node.name)]) {
      return node.alone;
    }
    const __int128 all = static_cast<__int128>(node.alone.picoseconds()) * record_.hosts;
    // On fewer hosts it may be longer than there is time.
    return VirtualSpan::Picoseconds(static_cast<int64_t>(
        std::min<__int128>(all / hosts_, std::numeric_limits<int64_t>::max())));
  }

  void End(uint32_t node, VirtualTime now) {
    ends_[node] = now;
    communication_[node] = communication_now_;
    exposed_[node] = exposed_now_;
    ++over_;
    std::erase_if(running_, [node](const Running& running) { return running.node == node; });
    for (const uint32_t follower : followers_[node]) Allow(follower);
  }

  const StepRecord& record_;
  const int hosts_;
  std::vector<bool> is_sharded_;  // by name
  const std::shared_ptr<ManualTimeSource> clock_ = std::make_shared<ManualTimeSource>();
  ReplayedHost host_;
  ReplayedNccl nccl_;
  std::map<uint32_t, std::unique_ptr<EngineShare>> engines_;
  std::vector<Running> running_;  // on their engines, which must outlive them
  std::set<uint32_t> ready_;
  std::vector<size_t> missing_;  // what a node has to wait for
  std::vector<std::vector<uint32_t>> followers_;
  std::vector<VirtualTime> ends_;
  size_t over_ = 0;
  VirtualSpan communication_now_, exposed_now_;
  std::vector<VirtualSpan> communication_, exposed_;  // until the ends of nodes
};

}  // namespace

absl::StatusOr<ReplayedStep> Replay(const StepRecord& record, const StepPeriod& period,
                                    const Cluster& cluster, absl::Span<const std::string> sharded) {
  if (cluster.host.gpu != record.gpu) {
    return absl::InvalidArgumentError(
        absl::StrCat("its GPUs are ", cluster.host.gpu, ", the recording is of ", record.gpu));
  }
  if (cluster.host.gpus < record.gpus) {
    return absl::InvalidArgumentError(absl::StrCat("its hosts have ", cluster.host.gpus,
                                                   " GPUs, in the recording ", record.gpus,
                                                   " of each had a rank"));
  }
  if (!cluster.events.empty()) {
    return absl::UnimplementedError("events of the network are not replayed");
  }
  auto fabric = ClusterFabric::Create(cluster);
  if (!fabric.ok()) return fabric.status();
  Replayer replayer(record, fabric->get(), cluster.hosts, sharded);
  if (auto status = replayer.Run(); !status.ok()) return status;
  ReplayedStep step;
  step.gpus = cluster.hosts * record.gpus;
  step.time = StepTime(period, [&](uint32_t node) { return replayer.EndOf(node); });
  step.communication =
      StepTime(period, [&](uint32_t node) { return replayer.CommunicationTo(node); });
  step.exposed = StepTime(period, [&](uint32_t node) { return replayer.ExposedTo(node); });
  step.ends = replayer.ends();
  return step;
}

}  // namespace phantora
