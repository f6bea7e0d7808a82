#include "tools/replay/rank_recorder.h"

#include <algorithm>

namespace phantora {
namespace {

// Values of a semaphore, semaphores, and semaphores written before a wait is told of.
constexpr size_t kMostValues = 16, kMostSemaphores = 1 << 16, kMostReleases = 1 << 14;
constexpr size_t kMostChannels = 1 << 12;
// Where engines are told apart by their type, the SMs.
constexpr int64_t kSms = -1;

}  // namespace

RankRecorder::Channel& RankRecorder::Of(uint32_t channel) {
  // A process that makes and drops channels without end.
  if (channels_.size() >= kMostChannels && !channels_.contains(channel)) channels_.clear();
  const auto [it, made] = channels_.try_emplace(channel);
  if (made) it->second.index = next_channel_++;
  return it->second;
}

void RankRecorder::Merge(const Front& from, Front& into) const {
  into.submitted = std::max(into.submitted, from.submitted);
  for (const uint32_t node : from.nodes) {
    const uint32_t channel = role_.nodes[node].channel;
    const auto same = std::find_if(into.nodes.begin(), into.nodes.end(), [&](uint32_t other) {
      return role_.nodes[other].channel == channel;
    });
    if (same != into.nodes.end()) {
      *same = std::max(*same, node);
    } else if (into.nodes.size() < StepRecord::kMostAfter) {
      into.nodes.push_back(node);
    }
  }
}

void RankRecorder::Fetched(uint32_t channel, VirtualTime submitted) {
  if (stopped_) return;
  Front& front = Of(channel).front;
  front.submitted = std::max(front.submitted, submitted);
}

uint64_t RankRecorder::Add(const Where& where, int64_t engine, int name, int operation,
                           const EngineWork::Need& need, VirtualTime now) {
  if (!tables_->AddNode()) {
    Truncate();
    return 0;
  }
  Channel& channel = Of(where.channel);
  StepRecord::Node node;
  node.channel = channel.index;
  node.engine = engines_.try_emplace({where.gpu, engine}, static_cast<uint32_t>(engines_.size()))
                    .first->second;
  node.name = name;
  node.operation = operation;
  node.submitted = channel.front.submitted;
  node.start = node.end = now;
  if (operation == StepRecord::kNoOperation) node.alone = need.span;
  node.demand = need.demand;
  node.level = need.level;
  node.memory = need.memory;
  node.after = std::move(channel.front.nodes);
  channel.front.nodes = {static_cast<uint32_t>(role_.nodes.size())};
  role_.nodes.push_back(std::move(node));
  return role_.nodes.size();
}

uint64_t RankRecorder::Kernel(const Where& where, absl::string_view name,
                              const EngineWork::Need& need, uint64_t shared, VirtualTime now) {
  if (stopped_) return 0;
  int operation = StepRecord::kNoOperation;
  if (shared != 0) {
    auto described = (*describe_)(shared);
    const auto added =
        described ? tables_->AddOperation(*std::move(described), communicators_) : std::nullopt;
    if (!added) {
      Truncate();
      return 0;
    }
    operation = *added;
  }
  return Add(where, kSms, tables_->AddName(name), operation, need, now);
}

uint64_t RankRecorder::Copy(const Where& where, const EngineWork::Need& need, VirtualTime now) {
  if (stopped_) return 0;
  return Add(where, where.engine, StepRecord::kNoName, StepRecord::kNoOperation, need, now);
}

void RankRecorder::Ended(uint64_t number, VirtualTime now) {
  if (number == 0 || number > role_.nodes.size()) return;
  role_.nodes[number - 1].end = now;
}

void RankRecorder::Released(uint32_t channel, uint64_t address, uint64_t value, VirtualTime now) {
  if (stopped_) return;
  const Front& front = Of(channel).front;
  if (semaphores_.size() >= kMostSemaphores && !semaphores_.contains(address)) {
    semaphores_.clear();
  }
  auto& values = semaphores_[address];
  values.push_back({value, front});
  if (values.size() > kMostValues) values.pop_front();
  releases_.emplace_back(now, front);
  if (releases_.size() > kMostReleases) releases_.pop_front();
}

void RankRecorder::Acquired(uint32_t channel, uint64_t address,
                            const std::function<bool(uint64_t)>& satisfies) {
  if (stopped_) return;
  const auto it = semaphores_.find(address);
  if (it == semaphores_.end()) {
    ++role_.lost_releases;
    return;
  }
  // It might have been written again since the value that was waited for.
  const Release* found = nullptr;
  for (auto release = it->second.rbegin(); release != it->second.rend(); ++release) {
    if (!satisfies(release->value)) break;
    found = &*release;
  }
  if (found == nullptr) {
    ++role_.lost_releases;
  } else {
    Merge(found->front, Of(channel).front);
  }
}

void RankRecorder::Waited(VirtualTime since, VirtualTime until) {
  if (stopped_) return;
  // Memory that the host looks at is not seen, but it looks whenever a semaphore is written.
  auto release = std::find_if(releases_.rbegin(), releases_.rend(),
                              [until](const auto& one) { return one.first <= until; });
  if (release == releases_.rend() || release->first <= since) return;
  if (!tables_->AddNode()) return Truncate();
  Front front;
  for (const VirtualTime at = release->first; release != releases_.rend() && release->first == at;
       ++release) {
    Merge(release->second, front);
  }
  role_.waits.push_back({since, until, std::move(front.nodes)});
}

void RankRecorder::Truncate() {
  role_.truncated = true;
  Stop();
}

void RankRecorder::Stop() {
  stopped_ = true;
  channels_.clear();
  engines_.clear();
  semaphores_.clear();
  releases_.clear();
}

StepRecord::Role RankRecorder::Take(VirtualTime start) {
  Stop();
  const auto since_start = [start](VirtualTime& time) {
    time = VirtualTime() + std::max(time - start, VirtualSpan());
  };
  for (StepRecord::Node& node : role_.nodes) {
    node.end = std::max(node.start, node.end);
    for (VirtualTime* time : {&node.submitted, &node.start, &node.end}) since_start(*time);
  }
  for (StepRecord::Wait& wait : role_.waits) {
    for (VirtualTime* time : {&wait.since, &wait.until}) since_start(*time);
  }
  std::stable_sort(role_.waits.begin(), role_.waits.end(),
                   [](const auto& a, const auto& b) { return a.until < b.until; });
  return std::move(role_);
}

}  // namespace phantora
