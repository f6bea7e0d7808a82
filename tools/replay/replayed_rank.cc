#include "tools/replay/replayed_rank.h"

#include <algorithm>
#include <utility>

namespace phantora {
namespace {

VirtualTime Later(VirtualTime time, VirtualSpan span) {
  int64_t sum = 0;
  if (__builtin_add_overflow(time.picoseconds(), span.picoseconds(), &sum)) {
    return VirtualTime::Infinity();
  }
  return VirtualTime() + VirtualSpan::Picoseconds(sum);
}

}  // namespace

RoleGraph::RoleGraph(const StepRecord::Role& of,
                     const std::function<VirtualSpan(const StepRecord::Node&)>& alone_of)
    : role(&of), followers(of.nodes.size()) {
  for (uint32_t i = 0; i < of.nodes.size(); ++i) {
    alone.push_back(alone_of(of.nodes[i]));
    for (const uint32_t other : of.nodes[i].after) followers[other].push_back(i);
    host.emplace_back(of.nodes[i].submitted, false, i);
  }
  for (uint32_t i = 0; i < of.waits.size(); ++i) host.emplace_back(of.waits[i].until, true, i);
  std::sort(host.begin(), host.end());
}

ReplayedRank::ReplayedRank(const RoleGraph* graph, std::shared_ptr<ManualTimeSource> clock,
                           Pace pace, Nccl nccl)
    : graph_(graph), clock_(std::move(clock)), pace_(std::move(pace)), nccl_(std::move(nccl)) {
  const auto& nodes = graph->role->nodes;
  for (const StepRecord::Node& node : nodes) {
    missing_.push_back(static_cast<uint32_t>(node.after.size()) + 1);  // and the host
  }
  ends_.assign(nodes.size(), VirtualTime::Infinity());
  begins_ = ends_;
  communication_.resize(nodes.size());
  exposed_.resize(nodes.size());
}

VirtualTime ReplayedRank::HostNext() const {
  if (next_ == graph_->host.size()) return VirtualTime::Infinity();
  const auto& [at, is_wait, index] = graph_->host[next_];
  if (!is_wait) return Later(host_now_, at - recorded_);
  const StepRecord::Wait& wait = graph_->role->waits[index];
  VirtualTime recorded_end, end;
  for (const uint32_t node : wait.after) {
    if (ends_[node] == VirtualTime::Infinity()) return VirtualTime::Infinity();
    recorded_end = std::max(recorded_end, graph_->role->nodes[node].end);
    end = std::max(end, ends_[node]);
  }
  // It may have taken the host a moment to see it.
  const VirtualSpan lag = std::max(wait.until - recorded_end, VirtualSpan());
  const VirtualSpan before = std::max(wait.since - recorded_, VirtualSpan());
  return std::max(Later(host_now_, before), Later(end, lag));
}

std::optional<uint32_t> ReplayedRank::HostGoesOn(VirtualTime now) {
  const auto& [at, is_wait, index] = graph_->host[next_++];
  host_now_ = now;
  recorded_ = at;
  if (is_wait) return std::nullopt;
  return index;
}

VirtualTime ReplayedRank::Next() const {
  VirtualTime next = HostNext();
  for (const Running& running : running_) {
    const VirtualTime when = !running.is_nccl   ? running.work->ends()
                             : !running.started ? running.work->began()
                                                : VirtualTime::Infinity();
    next = std::min(next, when);
  }
  if (!ended_operations_.empty()) return clock_->Now();
  return std::max(next, clock_->Now());
}

void ReplayedRank::Account(VirtualTime now) {
  const VirtualSpan span = now - std::exchange(accounted_, now);
  if (operations_ == 0) return;
  communication_now_ = communication_now_ + span;
  const bool beside = std::any_of(running_.begin(), running_.end(), [&](const Running& one) {
    return !one.is_nccl && one.work->began() < now;
  });
  if (!beside) exposed_now_ = exposed_now_ + span;
}

void ReplayedRank::Settle() {
  const VirtualTime now = clock_->Now();
  Account(now);
  for (bool worked = true; worked;) {
    worked = false;
    std::vector<uint32_t> over = std::exchange(ended_operations_, {});
    operations_ -= static_cast<int>(over.size());
    for (const Running& running : running_) {
      if (!running.is_nccl && running.work->ends() <= now) over.push_back(running.node);
    }
    for (const uint32_t node : over) End(node, now);
    while (HostNext() <= now) {
      worked = true;
      if (const auto node = HostGoesOn(now)) Allow(*node);
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
      ++operations_;
      nccl_.start(running.node);
    }
  }
}

void ReplayedRank::EndOperation(uint32_t node) { ended_operations_.push_back(node); }

void ReplayedRank::Allow(uint32_t node) {
  if (--missing_[node] == 0) ready_.insert(node);
}

void ReplayedRank::Begin(uint32_t index, VirtualTime now) {
  const StepRecord::Node& node = graph_->role->nodes[index];
  const bool is_nccl = node.operation != StepRecord::kNoOperation;
  // Copies go as fast as the bus.
  const bool is_kernel = !is_nccl && node.name != StepRecord::kNoName;
  const VirtualSpan alone = graph_->alone[index];
  const EngineWork::Need need = is_nccl ? nccl_.need(index)
                                        : EngineWork::Need{is_kernel ? pace_(index, alone) : alone,
                                                           node.demand, node.level, node.memory};
  auto& share = engines_[node.engine];
  if (share == nullptr) share = std::make_unique<EngineShare>(clock_);
  running_.push_back({index, is_nccl, false, std::make_unique<EngineWork>(share.get(), now, need)});
}

void ReplayedRank::End(uint32_t node, VirtualTime now) {
  ends_[node] = now;
  communication_[node] = communication_now_;
  exposed_[node] = exposed_now_;
  ++over_;
  const auto running = std::find_if(running_.begin(), running_.end(),
                                    [node](const Running& one) { return one.node == node; });
  if (running != running_.end()) {
    begins_[node] = running->work->began();
    running_.erase(running);
  }
  for (const uint32_t follower : graph_->followers[node]) Allow(follower);
}

}  // namespace phantora
