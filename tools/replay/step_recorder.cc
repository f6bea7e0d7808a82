#include "tools/replay/step_recorder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace phantora {
namespace {

// Values of a semaphore, semaphores, and semaphores written before a wait is told of.
constexpr size_t kMostValues = 16, kMostSemaphores = 1 << 16, kMostReleases = 1 << 14;
constexpr size_t kMostChannels = 1 << 12;
constexpr size_t kMostCollectives = 1 << 20;
// Where engines are told apart by their type, the SMs.
constexpr int64_t kSms = -1;

}  // namespace

bool StepRecorder::Records(pid_t process) {
  if (stopped_) return false;
  if (process_ != 0) return process == process_;
  if (unwanted_.contains(process)) return false;
  if (!options_.wanted(process)) {
    unwanted_.insert(process);
    return false;
  }
  process_ = process;
  return true;
}

StepRecorder::Channel& StepRecorder::Of(uint32_t channel) {
  // A process that makes and drops channels without end.
  if (channels_.size() >= kMostChannels && !channels_.contains(channel)) channels_.clear();
  const auto [it, made] = channels_.try_emplace(channel);
  if (made) it->second.index = next_channel_++;
  return it->second;
}

void StepRecorder::Merge(const Front& from, Front& into) const {
  into.submitted = std::max(into.submitted, from.submitted);
  for (const uint32_t node : from.nodes) {
    const uint32_t channel = record_.nodes[node].channel;
    const auto same = std::find_if(into.nodes.begin(), into.nodes.end(), [&](uint32_t other) {
      return record_.nodes[other].channel == channel;
    });
    if (same != into.nodes.end()) {
      *same = std::max(*same, node);
    } else if (into.nodes.size() < StepRecord::kMostAfter) {
      into.nodes.push_back(node);
    }
  }
}

void StepRecorder::Fetched(pid_t process, uint32_t channel, VirtualTime submitted) {
  if (!Records(process)) return;
  Front& front = Of(channel).front;
  front.submitted = std::max(front.submitted, submitted);
}

uint64_t StepRecorder::Add(const Where& where, int64_t engine, int name, int operation,
                           const EngineWork::Need& need, VirtualTime now) {
  if (record_.nodes.size() >= options_.most_nodes) {
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
  channel.front.nodes = {static_cast<uint32_t>(record_.nodes.size())};
  record_.nodes.push_back(std::move(node));
  return record_.nodes.size();
}

int StepRecorder::OperationOf(uint64_t shared) {
  auto described = options_.describe(shared);
  if (!described) return StepRecord::kNoOperation;
  auto [communicator, fresh] = communicators_.try_emplace(
      described->communicator.number, static_cast<uint32_t>(record_.communicators.size()));
  if (fresh) {
    if (record_.communicators.size() >= StepRecord::kMostCommunicators) {
      return StepRecord::kNoOperation;
    }
    record_.communicators.push_back(std::move(described->communicator));
  }
  std::string key = absl::StrCat(communicator->second);
  for (const auto& collective : described->collectives) {
    absl::StrAppend(&key, " ", static_cast<int>(collective.operation), " ", collective.bytes,
                    collective.nvls ? "" : " -");
  }
  const auto [operation, made] =
      operations_.try_emplace(std::move(key), static_cast<int>(record_.operations.size()));
  if (made) {
    collectives_ += described->collectives.size();
    if (collectives_ > kMostCollectives) return StepRecord::kNoOperation;
    record_.operations.push_back({communicator->second, std::move(described->collectives)});
  }
  return operation->second;
}

int StepRecorder::NameOf(absl::string_view name) {
  if (name.empty()) return StepRecord::kNoName;
  // It comes from code of the program's.
  std::string kept(name.substr(0, StepRecord::kLongestName));
  std::erase_if(kept, [](char c) { return c < ' ' || c > '~'; });
  const auto known = names_.find(kept);
  if (known != names_.end()) return known->second;
  if (record_.names.size() >= StepRecord::kMostNames) return StepRecord::kNoName;
  record_.names.push_back(kept);
  return names_[kept] = static_cast<int>(record_.names.size()) - 1;
}

uint64_t StepRecorder::Kernel(const Where& where, absl::string_view name,
                              const EngineWork::Need& need, uint64_t shared, VirtualTime now) {
  if (!Records(where.process)) return 0;
  int operation = StepRecord::kNoOperation;
  if (shared != 0) {
    operation = OperationOf(shared);
    if (operation == StepRecord::kNoOperation) {
      Truncate();
      return 0;
    }
  }
  return Add(where, kSms, NameOf(name), operation, need, now);
}

uint64_t StepRecorder::Copy(const Where& where, const EngineWork::Need& need, VirtualTime now) {
  if (!Records(where.process)) return 0;
  return Add(where, where.engine, StepRecord::kNoName, StepRecord::kNoOperation, need, now);
}

void StepRecorder::Ended(uint64_t number, VirtualTime now) {
  if (number == 0 || number > record_.nodes.size()) return;
  record_.nodes[number - 1].end = now;
}

void StepRecorder::Released(pid_t process, uint32_t channel, uint64_t address, uint64_t value,
                            VirtualTime now) {
  if (!Records(process)) return;
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

void StepRecorder::Acquired(pid_t process, uint32_t channel, uint64_t address,
                            const std::function<bool(uint64_t)>& satisfies) {
  if (!Records(process)) return;
  const auto it = semaphores_.find(address);
  if (it == semaphores_.end()) {
    ++record_.lost_releases;
    return;
  }
  // It might have been written again since the value that was waited for.
  const Release* found = nullptr;
  for (auto release = it->second.rbegin(); release != it->second.rend(); ++release) {
    if (!satisfies(release->value)) break;
    found = &*release;
  }
  if (found == nullptr) {
    ++record_.lost_releases;
  } else {
    Merge(found->front, Of(channel).front);
  }
}

void StepRecorder::Waited(pid_t process, VirtualTime since, VirtualTime until) {
  if (process != process_ || stopped_) return;
  // Memory that the host looks at is not seen, but it looks whenever a semaphore is written.
  auto release = std::find_if(releases_.rbegin(), releases_.rend(),
                              [until](const auto& one) { return one.first <= until; });
  if (release == releases_.rend() || release->first <= since) return;
  if (record_.waits.size() >= StepRecord::kMostWaits) return Truncate();
  Front front;
  for (const VirtualTime at = release->first; release != releases_.rend() && release->first == at;
       ++release) {
    Merge(release->second, front);
  }
  record_.waits.push_back({since, until, std::move(front.nodes)});
}

void StepRecorder::ProcessDied(pid_t process) {
  unwanted_.erase(process);
  if (process != process_ || stopped_) return;
  Stop();
  if (!record_.operations.empty()) return;
  record_ = StepRecord();
  communicators_.clear();
  names_.clear();
  stopped_ = false;
  process_ = 0;
}

void StepRecorder::Truncate() {
  record_.truncated = true;
  Stop();
}

void StepRecorder::Stop() {
  stopped_ = true;
  channels_.clear();
  engines_.clear();
  semaphores_.clear();
  releases_.clear();
}

StepRecord StepRecorder::Take() {
  const auto since_start = [this](VirtualTime& time) {
    time = VirtualTime() + std::max(time - options_.start, VirtualSpan());
  };
  for (StepRecord::Node& node : record_.nodes) {
    node.end = std::max(node.start, node.end);
    for (VirtualTime* time : {&node.submitted, &node.start, &node.end}) since_start(*time);
  }
  for (StepRecord::Wait& wait : record_.waits) {
    for (VirtualTime* time : {&wait.since, &wait.until}) since_start(*time);
  }
  std::stable_sort(record_.waits.begin(), record_.waits.end(),
                   [](const auto& a, const auto& b) { return a.until < b.until; });
  stopped_ = true;
  return std::move(record_);
}

}  // namespace phantora
