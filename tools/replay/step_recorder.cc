#include "tools/replay/step_recorder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tools/replay/step_roles.h"

namespace phantora {
namespace {

// Numbers of work say whose it is.
constexpr int kNodeBits = 32;

}  // namespace

StepRecorder::StepRecorder(Options options) : options_(std::move(options)) {
  tables_.set_most_nodes(options_.most_nodes);
}

RankRecorder* StepRecorder::Find(pid_t process) {
  const auto it = living_.find(process);
  return it == living_.end() ? nullptr : &all_[it->second]->rank;
}

size_t StepRecorder::Of(pid_t process) {
  const auto [it, made] = living_.try_emplace(process, all_.size());
  if (made) {
    all_.push_back(
        std::make_unique<Recorded>(Recorded{process, RankRecorder(&tables_, &options_.describe)}));
  }
  return it->second;
}

void StepRecorder::Fetched(pid_t process, uint32_t channel, VirtualTime submitted) {
  all_[Of(process)]->rank.Fetched(channel, submitted);
}

uint64_t StepRecorder::Kernel(const Where& where, absl::string_view name,
                              const EngineWork::Need& need, uint64_t shared, VirtualTime now) {
  const size_t index = Of(where.process);
  const uint64_t node = all_[index]->rank.Kernel(where, name, need, shared, now);
  return node == 0 ? 0 : (index << kNodeBits) + node;
}

uint64_t StepRecorder::Copy(const Where& where, const EngineWork::Need& need, VirtualTime now) {
  const size_t index = Of(where.process);
  const uint64_t node = all_[index]->rank.Copy(where, need, now);
  return node == 0 ? 0 : (index << kNodeBits) + node;
}

void StepRecorder::Ended(uint64_t number, VirtualTime now) {
  const uint64_t index = number >> kNodeBits;
  if (number == 0 || index >= all_.size() || all_[index] == nullptr) return;
  all_[index]->rank.Ended(number & ((uint64_t{1} << kNodeBits) - 1), now);
}

void StepRecorder::Released(pid_t process, uint32_t channel, uint64_t address, uint64_t value,
                            VirtualTime now) {
  all_[Of(process)]->rank.Released(channel, address, value, now);
}

void StepRecorder::Acquired(pid_t process, uint32_t channel, uint64_t address,
                            const std::function<bool(uint64_t)>& satisfies) {
  all_[Of(process)]->rank.Acquired(channel, address, satisfies);
}

void StepRecorder::Waited(pid_t process, VirtualTime since, VirtualTime until) {
  if (RankRecorder* rank = Find(process)) rank->Waited(since, until);
}

void StepRecorder::ProcessDied(pid_t process) {
  const auto it = living_.find(process);
  if (it == living_.end()) return;
  auto& recorded = all_[it->second];
  recorded->rank.Stop();
  if (!recorded->rank.has_operations()) {
    tables_.DropNodes(recorded->rank.nodes());
    recorded = nullptr;
  }
  living_.erase(it);
}

std::optional<GpuPlace> StepRecorder::PlaceOf(const RankRecorder& rank) {
  std::optional<GpuPlace> place;
  for (const StepRecord::Member& member : rank.communicators()) {
    const auto& places = tables_.communicators()[member.communicator].places;
    const GpuPlace here = places[static_cast<size_t>(member.rank)];
    if (place.value_or(here) != here) return std::nullopt;
    place = here;
  }
  return place;
}

StepRecord StepRecorder::Take(const std::function<int64_t(pid_t process)>& memory_of) {
  std::map<GpuPlace, Recorded*> ranks;
  for (const auto& recorded : all_) {
    if (recorded == nullptr) continue;
    recorded->rank.Stop();
    if (const auto place = PlaceOf(recorded->rank)) ranks.try_emplace(*place, recorded.get());
  }
  StepRecord record;
  std::vector<StepRecord::Role> works;
  for (const auto& [place, recorded] : ranks) {
    StepRecord::Rank& rank = record.ranks.emplace_back();
    rank.place = place;
    rank.memory = memory_of(recorded->process);
    rank.communicators = recorded->rank.communicators();
    works.push_back(recorded->rank.Take(options_.start));
  }
  record.communicators = std::move(tables_.communicators());
  record.operations = std::move(tables_.operations());
  record.names = std::move(tables_.names());
  record.roles = FindRoles(std::move(works), record.ranks);
  all_.clear();
  living_.clear();
  return record;
}

}  // namespace phantora
