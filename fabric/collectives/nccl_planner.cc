#include "fabric/collectives/nccl_planner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fabric/collectives/lost_peer.h"
#include "fabric/collectives/nccl_topology.h"

namespace phantora {
namespace {

NcclCollective CollectiveOf(nccl::Operation operation) {
  switch (operation) {
    case nccl::Operation::kBroadcast:
      return NcclCollective::kBroadcast;
    case nccl::Operation::kReduce:
      return NcclCollective::kReduce;
    case nccl::Operation::kAllGather:
      return NcclCollective::kAllGather;
    case nccl::Operation::kReduceScatter:
      return NcclCollective::kReduceScatter;
    default:
      return NcclCollective::kAllReduce;
  }
}

// Settings are a rank's, and end with 0 or not.
std::string TextOf(const char (&text)[64]) {
  return std::string(text, std::find(text, text + sizeof text, '\0'));
}

// Plans of communicators that are gone are forgotten now and then.
constexpr size_t kMostCommunicators = 4096, kMostPlans = 1 << 16;
constexpr int kMostQueuePairs = 128;  // NCCL_IB_MAX_QPS in src/transport/net_ib.cc

}  // namespace

NcclPlanner::Known& NcclPlanner::Of(const Communicator& communicator) {
  if (communicators_.size() > kMostCommunicators) communicators_.erase(communicators_.begin());
  auto [it, made] = communicators_.try_emplace(communicator.number);
  Known& known = it->second;
  if (!made) return known;
  const nccl::Settings& settings = communicator.settings;
  auto limits = ParseNcclLimits(TextOf(settings.algorithm), TextOf(settings.protocol));
  if (limits.ok()) {
    known.limits = *limits;
  } else {
    failed_(absl::StrCat("NCCL: ", std::string(limits.status().message())));
  }
  known.limits.min_channels = std::max(settings.min_channels, 0);
  known.limits.max_channels = std::max(settings.max_channels, 0);
  if (settings.nvls == 0) known.limits.nvls = false;
  if (settings.collnet == 1) known.limits.coll_net = true;
  // Sockets have none.
  if (fabric_->cluster().nic.transport != Cluster::Transport::kEthernet) {
    known.limits.queue_pairs = std::clamp(settings.queue_pairs, 1, kMostQueuePairs);
  }
  known.topology = TopologyOf(*fabric_, communicator.places, known.limits);
  return known;
}

void NcclPlanner::Forget() {
  for (auto& [number, known] : communicators_) {
    known.collectives.clear();
    known.messages.clear();
  }
}

std::shared_ptr<const TransferPlan> NcclPlanner::Make(const Communicator& communicator,
                                                      const absl::StatusOr<Plan>& plan,
                                                      bool adaptive) {
  auto result = std::make_shared<TransferPlan>();
  TransferPlan& made = *result;
  if (absl::IsUnavailable(plan.status())) {
    const nccl::Settings& settings = communicator.settings;
    const LostPeer lost =
        LostPeerOf(fabric_->cluster().nic.transport, settings.ib_timeout, settings.ib_retries);
    made.name = "no way";
    made.no_way = std::string(plan.status().message());
    made.patience = lost.after;
    made.lost = lost.error;
    return result;
  }
  if (!plan.ok()) {
    failed_(absl::StrCat("NCCL: ", std::string(plan.status().message())));
    made.name = "impossible";
    return result;
  }
  made.name =
      plan->message ? "P2P" : absl::StrCat(Name(plan->algorithm), " ", Name(plan->protocol));
  made.adaptive = adaptive;
  made.latency = plan->latency;
  made.sms = plan->channels;
  double seconds = static_cast<double>(plan->latency.picoseconds()) * 1e-12;
  double transfer = 0;
  for (const Plan::Part& part : plan->parts) {
    made.parts.push_back({part.uses, part.bytes, part.most_bytes_per_s});
    if (part.most_bytes_per_s > 0)
      transfer = std::max(transfer, part.bytes / part.most_bytes_per_s);
  }
  seconds += transfer;
  if (seconds > 0) {
    made.memory_share = std::min(plan->memory_bytes / seconds / memory_bytes_per_s_, 1.0);
  }
  return result;
}

std::shared_ptr<const TransferPlan> NcclPlanner::Collective(const Communicator& communicator,
                                                            const CollectiveWork& work, bool now) {
  Known& known = Of(communicator);
  if (known.collectives.size() > kMostPlans) known.collectives.clear();
  auto [it, made] = known.collectives.try_emplace(work);
  if (made && work.given && work.given->takes > VirtualSpan()) {
    auto plan = std::make_shared<TransferPlan>();
    plan->name = "not NCCL's";
    plan->latency = work.given->takes;
    it->second = std::move(plan);
  } else if (made || (now && it->second->adaptive)) {
    const NcclCollective collective = CollectiveOf(work.operation);
    NcclLimits limits = known.limits;
    if (work.given) {
      NcclAllowed& allowed = limits.allowed[static_cast<size_t>(collective)];
      allowed.algorithm.fill(false);
      allowed.algorithm[static_cast<size_t>(work.given->algorithm)] = true;
      allowed.protocol.fill(false);
      allowed.protocol[static_cast<size_t>(work.given->protocol)] = true;
    } else if (!work.nvls) {
      ForbidNvls(limits);
    }
    auto plan = PlanCollective(*fabric_, known.topology, communicator.places, collective,
                               work.bytes, limits, static_cast<uint64_t>(communicator.number));
    if (plan.ok()) {
      measurements_.Correct(known.topology, collective, work.bytes, work.nvls, *plan);
    }
    it->second = Make(communicator, plan, Adapts() && known.topology.nodes > 1);
  }
  return it->second;
}

std::shared_ptr<const TransferPlan> NcclPlanner::Message(const Communicator& communicator,
                                                         const MessageWork& work, bool now) {
  Known& known = Of(communicator);
  if (known.messages.size() > kMostPlans) known.messages.clear();
  auto [it, made] = known.messages.try_emplace(work);
  if (made || (now && it->second->adaptive)) {
    const GpuPlace sender = communicator.places[static_cast<size_t>(work.from)],
                   receiver = communicator.places[static_cast<size_t>(work.to)];
    auto plan = PlanSend(*fabric_, known.topology, sender, receiver, work.bytes, work.messages,
                         static_cast<uint64_t>(communicator.number), known.limits.queue_pairs);
    const bool within = sender.host == receiver.host;
    if (plan.ok() && within && work.from != work.to && work.is_exchange) {
      measurements_.CorrectExchange(known.topology, work.bytes, work.messages, *plan);
    }
    it->second = Make(communicator, plan, Adapts() && !within);
  }
  return it->second;
}

}  // namespace phantora
