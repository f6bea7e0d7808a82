// What the ranks of a run did with their GPUs, as graphs of work: what each piece waited for, and
// what it costs alone. Written by phantora-run --record-step, read by phantora-replay.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_RECORD_H_
#define PHANTORA_TOOLS_REPLAY_STEP_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clock/virtual_time.h"
#include "fabric/cluster/gpu_place.h"
#include "fabric/library/wire.h"

namespace phantora {

// The file is JSON, an object with these keys; times are picoseconds since the start of the run.
//   version        3
//   cluster        its name, without the number of hosts
//   gpu            their personality
//   hosts, gpus    hosts of the cluster, GPUs of each that have a rank
//   sms            of a GPU
//   memory_bytes_per_s
//   communicators  [{number, places: [[host, gpu], ...], algorithm, protocol, min_channels, ...}]
//                  places by rank; the settings are those of nccl::Settings
//   operations     [[communicator, [[operation, type, reduction, peer, count], ...]], ...], what
//                  one NCCL group does with one communicator. communicator: which of the rank's
//                  own; the rest: see Entry
//   names          of kernels
//   roles          [{truncated, lost_releases, nodes, waits}, ...]
//     truncated      whether the run went on after the last node
//     lost_releases  semaphores waited for whose writer is not known
//     nodes          [[channel, engine, name, operation, submitted, start, end, alone, demand,
//                    level, memory, [after, ...]], ...] in the order in which they asked for their
//                    engines. engine: nodes with the same number share it; name: an index, -1 for
//                    none; operation: an index, -1 for kernels and copies; submitted: by the host;
//                    alone: how long it lasts with nothing beside it; demand, level, memory: see
//                    EngineWork::Need; after: earlier nodes (indices) that had to be over, among
//                    them the channel's last
//     waits          [[since, until, [after, ...]], ...] of the host for its GPUs, by `until`; it
//                    went on when these nodes were over
//   ranks          [[host, gpu, role, memory, [[communicator, rank], ...]], ...] by place. memory:
//                  the most bytes of GPU memory that it had; the last: its own communicators, in
//                  the order of their first use, and its rank in each
struct StepRecord {
  // Past these a file is refused, and a recording stops.
  static constexpr size_t kMostNodes = 1 << 21;  // and waits, of all ranks together
  static constexpr size_t kMostCommunicators = 1 << 16;
  static constexpr size_t kMostEntries = 1 << 20;
  static constexpr size_t kMostRanks = 1 << 14;
  // What one node or wait may come after.
  static constexpr size_t kMostAfter = 1 << 10;
  static constexpr size_t kMostNames = 10000, kLongestName = 256;
  static constexpr int kNoOperation = -1, kNoName = -1;

  struct Node {
    uint32_t channel = 0, engine = 0;
    int name = kNoName, operation = kNoOperation;
    VirtualTime submitted, start, end;
    VirtualSpan alone;  // of kernels and copies
    uint32_t demand = 1, level = 0, memory = 0;
    std::vector<uint32_t> after;
  };
  struct Wait {
    VirtualTime since, until;
    std::vector<uint32_t> after;
  };
  // As in nccl::Entry, but that the peer of a send or a receive is counted from the rank itself
  // (modulo the communicator's ranks), so that ranks that do the same have the same. Sends and
  // receives come last, by peer. What NCCL itself had chosen, where it was the program's own, is
  // not kept.
  struct Entry {
    nccl::Operation operation = nccl::Operation::kAllReduce;
    uint8_t type = 0, reduction = 0;
    int32_t peer = 0;  // or the root of a broadcast or reduction; 0 for others
    uint64_t count = 0;
    auto operator<=>(const Entry&) const = default;
  };
  struct Operation {
    uint32_t communicator = 0;
    std::vector<Entry> entries;
    bool operator==(const Operation&) const = default;
  };
  struct Communicator {
    int number = 0;
    std::vector<GpuPlace> places;
    nccl::Settings settings;
  };
  // What one rank did, or several in the same way.
  struct Role {
    bool truncated = false;
    uint64_t lost_releases = 0;
    std::vector<Node> nodes;
    std::vector<Wait> waits;
  };
  struct Member {
    uint32_t communicator = 0;
    int rank = 0;
    bool operator==(const Member&) const = default;
  };
  struct Rank {
    GpuPlace place;
    uint32_t role = 0;
    int64_t memory = 0;
    std::vector<Member> communicators;
  };

  std::string cluster, gpu;
  int hosts = 1, gpus = 1;
  uint32_t sms = 1;
  double memory_bytes_per_s = 0;
  std::vector<Communicator> communicators;
  std::vector<Operation> operations;  // all different
  std::vector<std::string> names;
  std::vector<Role> roles;
  std::vector<Rank> ranks;
};

// A send or a receive.
bool IsMessage(const StepRecord::Entry& entry);

// What a rank of a communicator of `ranks` ranks brings to it, without addresses.
nccl::Entry EntryOf(const StepRecord::Entry& entry, int rank, int ranks);

// Errors: the file cannot be written.
absl::Status WriteStepRecord(const StepRecord& record, const std::string& file);

// `text` is not trusted. Errors say what is wrong with it; what is read makes sense: indices exist,
// nodes only come after earlier ones, numbers have the sizes that they should, communicators are
// made of the ranks that say so.
absl::StatusOr<StepRecord> ParseStepRecord(const std::string& text);
absl::StatusOr<StepRecord> ReadStepRecord(const std::string& file);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_RECORD_H_
