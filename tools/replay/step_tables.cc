#include "tools/replay/step_tables.h"

#include <algorithm>

#include "fabric/collectives/nccl_operation.h"

namespace phantora {

std::optional<uint32_t> StepTables::AddCommunicator(StepRecord::Communicator communicator) {
  const auto [known, fresh] = communicator_of_.try_emplace(
      communicator.number, static_cast<uint32_t>(communicators_.size()));
  if (fresh) {
    if (communicators_.size() >= StepRecord::kMostCommunicators) {
      communicator_of_.erase(known);
      return std::nullopt;
    }
    communicators_.push_back(std::move(communicator));
  }
  return known->second;
}

std::optional<int> StepTables::AddOperation(Described described,
                                            std::vector<StepRecord::Member>& own) {
  const auto ranks = static_cast<int32_t>(described.communicator.places.size());
  const auto communicator = AddCommunicator(std::move(described.communicator));
  if (!communicator || ranks <= 0) return std::nullopt;
  std::vector<StepRecord::Entry> entries;
  for (const nccl::Entry& entry : described.entries) {
    StepRecord::Entry kept = {entry.operation, entry.type, entry.reduction, 0, entry.count};
    if (IsMessage(entry)) {
      kept.peer = (entry.peer - described.rank + ranks) % ranks;
    } else if (HasRoot(entry)) {
      kept.peer = entry.peer;
    }
    entries.push_back(kept);
  }
  const auto messages =
      std::stable_partition(entries.begin(), entries.end(),
                            [](const StepRecord::Entry& entry) { return !IsMessage(entry); });
  std::stable_sort(messages, entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.peer, a.operation) < std::pair(b.peer, b.operation);
  });
  const StepRecord::Member member = {*communicator, described.rank};
  auto mine = std::find(own.begin(), own.end(), member);
  if (mine == own.end()) mine = own.insert(own.end(), member);
  const auto local = static_cast<uint32_t>(mine - own.begin());
  const auto [operation, made] =
      operation_of_.try_emplace({local, std::move(entries)}, static_cast<int>(operations_.size()));
  if (!made) return operation->second;
  entries_ += operation->first.second.size();
  if (entries_ > StepRecord::kMostEntries) {
    operation_of_.erase(operation);
    return std::nullopt;
  }
  operations_.push_back({local, operation->first.second});
  return operation->second;
}

int StepTables::AddName(absl::string_view name) {
  if (name.empty()) return StepRecord::kNoName;
  // It comes from code of the program's.
  std::string kept(name.substr(0, StepRecord::kLongestName));
  std::erase_if(kept, [](char c) { return c < ' ' || c > '~'; });
  const auto known = name_of_.find(kept);
  if (known != name_of_.end()) return known->second;
  if (names_.size() >= StepRecord::kMostNames) return StepRecord::kNoName;
  names_.push_back(kept);
  return name_of_[kept] = static_cast<int>(names_.size()) - 1;
}

}  // namespace phantora
