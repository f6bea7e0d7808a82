// Records what the GPUs of all ranks of a run did, and what each piece of work waited for.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_RECORDER_H_
#define PHANTORA_TOOLS_REPLAY_STEP_RECORDER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "clock/virtual_time.h"
#include "tools/replay/rank_recorder.h"
#include "tools/replay/step_record.h"
#include "tools/replay/step_tables.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {

// Of each process that takes part in NCCL operations with one GPU; of each GPU the first such
// process. Called under the machine's lock. What it keeps is bounded; past StepRecord::kMostNodes
// it records no more.
class StepRecorder : public OrderObserver {
 public:
  struct Options {
    VirtualTime start;  // of the run
    // What the shared work is that was prepared last under this number.
    RankRecorder::Describe describe;
    size_t most_nodes = StepRecord::kMostNodes;
  };
  explicit StepRecorder(Options options);

  void Fetched(pid_t process, uint32_t channel, VirtualTime submitted) override;
  uint64_t Kernel(const Where& where, absl::string_view name, const EngineWork::Need& need,
                  uint64_t shared, VirtualTime now) override;
  uint64_t Copy(const Where& where, const EngineWork::Need& need, VirtualTime now) override;
  void Ended(uint64_t number, VirtualTime now) override;
  void Released(pid_t process, uint32_t channel, uint64_t address, uint64_t value,
                VirtualTime now) override;
  void Acquired(pid_t process, uint32_t channel, uint64_t address,
                const std::function<bool(uint64_t)>& satisfies) override;

  // A thread of the process waited for its GPUs, and has done something else since.
  void Waited(pid_t process, VirtualTime since, VirtualTime until);
  // After its channels are gone.
  void ProcessDied(pid_t process);

  // What was recorded: all but the cluster. Ranks that did the same have one role.
  // `memory_of`: the most bytes of GPU memory that a process had.
  StepRecord Take(const std::function<int64_t(pid_t process)>& memory_of);

 private:
  struct Recorded {
    pid_t process;
    RankRecorder rank;
  };
  RankRecorder* Find(pid_t process);
  // Finds or makes it; its number in `all_`.
  size_t Of(pid_t process);
  // Of its first communicator; nullopt if it has none, or another place in another.
  std::optional<GpuPlace> PlaceOf(const RankRecorder& rank);

  const Options options_;
  StepTables tables_;
  std::vector<std::unique_ptr<Recorded>> all_;  // null: it ended without an operation
  absl::flat_hash_map<pid_t, size_t> living_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_RECORDER_H_
