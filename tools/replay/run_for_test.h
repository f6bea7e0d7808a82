// Recorded runs that are made up, for tests.
#ifndef PHANTORA_TOOLS_REPLAY_RUN_FOR_TEST_H_
#define PHANTORA_TOOLS_REPLAY_RUN_FOR_TEST_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"
#include "tools/replay/step_record.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {

inline constexpr uint8_t kFloatForTest = 7;  // ncclFloat32

inline StepRecord::Entry EntryForTest(nccl::Operation operation, uint64_t count, int peer = 0) {
  return {operation, kFloatForTest, nccl::kSum, peer, count};
}

// Ranks of a DGX H100 cluster, all with role 0 at first, which does nothing.
struct RunForTest {
  explicit RunForTest(int ranks, int gpus = 8) {
    record.cluster = "dgx-h100";
    record.gpu = "h100-sxm5-80gb";
    record.hosts = (ranks + gpus - 1) / gpus;
    record.gpus = gpus;
    record.sms = 132;
    record.memory_bytes_per_s = 3e12;
    record.roles.resize(1);
    for (int rank = 0; rank < ranks; ++rank) {
      record.ranks.push_back({.place = {rank / gpus, rank % gpus}});
    }
  }
  // Each rank's next communicator.
  void Communicator(const std::vector<int>& members) {
    StepRecord::Communicator communicator;
    communicator.number = static_cast<int>(record.communicators.size()) + 1;
    for (size_t i = 0; i < members.size(); ++i) {
      StepRecord::Rank& rank = record.ranks[static_cast<size_t>(members[i])];
      communicator.places.push_back(rank.place);
      rank.communicators.push_back(
          {static_cast<uint32_t>(record.communicators.size()), static_cast<int>(i)});
    }
    record.communicators.push_back(std::move(communicator));
  }
  // One for each set of ranks that differ by multiples of `stride`, of so many.
  void Communicators(int stride, int size) {
    const auto ranks = static_cast<int>(record.ranks.size());
    for (int first = 0; first < ranks; ++first) {
      if (first / stride % size != 0) continue;
      std::vector<int> members;
      for (int i = 0; i < size; ++i) members.push_back(first + i * stride);
      Communicator(members);
    }
  }
  int Operation(uint32_t communicator, std::vector<StepRecord::Entry> entries) {
    record.operations.push_back({communicator, std::move(entries)});
    return static_cast<int>(record.operations.size()) - 1;
  }
  int AllReduce(uint32_t communicator, uint64_t count) {
    return Operation(communicator, {EntryForTest(nccl::Operation::kAllReduce, count)});
  }
  // Returns its number.
  uint32_t Add(size_t role, uint32_t channel, int64_t us, std::vector<uint32_t> after,
               int operation = StepRecord::kNoOperation) {
    StepRecord::Node node;
    node.channel = channel;
    node.operation = operation;
    node.alone = VirtualSpan::Microseconds(us);
    node.demand = EngineShare::kWhole / 2;  // leaves room for NCCL
    node.after = std::move(after);
    record.roles[role].nodes.push_back(std::move(node));
    return static_cast<uint32_t>(record.roles[role].nodes.size()) - 1;
  }

  StepRecord record;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_RUN_FOR_TEST_H_
