// What one rank's GPUs did in a run, as a graph of work: what each piece waited for, and what it
// costs alone. Written by phantora-run --record-step, read by phantora-replay.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_RECORD_H_
#define PHANTORA_TOOLS_REPLAY_STEP_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clock/virtual_time.h"
#include "fabric/cluster/gpu_place.h"
#include "fabric/collectives/collective_work.h"

namespace phantora {

// The file is JSON, an object with these keys; times are picoseconds since the start of the run.
//   version        2
//   cluster        its name, without the number of hosts
//   gpu            their personality
//   hosts, gpus    hosts of the cluster, GPUs of each that have a rank
//   sms            of a GPU
//   memory_bytes_per_s
//   truncated      whether the run went on after the last node
//   lost_releases  semaphores waited for whose writer is not known
//   communicators  [{number, places: [[host, gpu], ...], algorithm, protocol, min_channels, ...}]
//                  places by rank; the settings are those of nccl::Settings
//   operations     [[communicator, [[operation, bytes, nvls], ...]], ...]; communicator is an
//                  index, operation a number of nccl::Operation, bytes what the larger of a rank's
//                  buffers has, nvls 1 if a switch can combine it. What one NCCL group does, in
//                  turn
//   names          of kernels
//   nodes          [[channel, engine, name, operation, submitted, start, end, alone, demand, level,
//                  memory, [after, ...]], ...] in the order in which they asked for their engines.
//                  engine: nodes with the same number share it; name: an index, -1 for none;
//                  operation: an index, -1 for kernels and copies; submitted: by the host; alone:
//                  how long it lasts with nothing beside it; demand, level, memory: see
//                  EngineWork::Need; after: earlier nodes (indices) that had to be over, among them
//                  the channel's last
//   waits          [[since, until, [after, ...]], ...] of the host for its GPUs, by `until`; it
//                  went on when these nodes were over
struct StepRecord {
  // Past these a file is refused, and a recording stops.
  static constexpr size_t kMostNodes = 1 << 19;
  static constexpr size_t kMostWaits = 1 << 19;
  static constexpr size_t kMostCommunicators = 1 << 12;
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
  // What NCCL itself had chosen, where it was the program's own, is not kept.
  using Collective = CollectiveWork;
  struct Operation {
    uint32_t communicator = 0;
    std::vector<Collective> collectives;
    bool operator==(const Operation&) const = default;
  };
  struct Communicator {
    int number = 0;
    std::vector<GpuPlace> places;
    nccl::Settings settings;
  };
  struct Wait {
    VirtualTime since, until;
    std::vector<uint32_t> after;
  };

  std::string cluster, gpu;
  int hosts = 1, gpus = 1;
  uint32_t sms = 1;
  double memory_bytes_per_s = 0;
  bool truncated = false;
  uint64_t lost_releases = 0;
  std::vector<Communicator> communicators;
  std::vector<Operation> operations;  // all different
  std::vector<std::string> names;
  std::vector<Node> nodes;
  std::vector<Wait> waits;
};

// Errors: the file cannot be written.
absl::Status WriteStepRecord(const StepRecord& record, const std::string& file);

// `text` is not trusted. Errors say what is wrong with it; what is read makes sense: indices exist,
// nodes only come after earlier ones, numbers have the sizes that they should.
absl::StatusOr<StepRecord> ParseStepRecord(const std::string& text);
absl::StatusOr<StepRecord> ReadStepRecord(const std::string& file);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_RECORD_H_
