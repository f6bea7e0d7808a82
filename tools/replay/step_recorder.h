// Records what the GPUs of one process did, and what each piece of work waited for.
#ifndef PHANTORA_TOOLS_REPLAY_STEP_RECORDER_H_
#define PHANTORA_TOOLS_REPLAY_STEP_RECORDER_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "clock/virtual_time.h"
#include "tools/replay/step_record.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {

// The first wanted process that uses a GPU; if it ends without an NCCL operation, the next.
// Called under the machine's lock. What it keeps is bounded; past StepRecord::kMostNodes nodes it
// records no more.
class StepRecorder : public OrderObserver {
 public:
  struct Options {
    VirtualTime start;                          // of the run
    std::function<bool(pid_t process)> wanted;  // asked once for each process
    // What the shared work is that was prepared last under this number. Communicators are told
    // apart by their number.
    struct Described {
      StepRecord::Communicator communicator;
      std::vector<StepRecord::Collective> collectives;
    };
    std::function<std::optional<Described>(uint64_t shared)> describe;
    size_t most_nodes = StepRecord::kMostNodes;
  };
  explicit StepRecorder(Options options) : options_(std::move(options)) {}

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

  // What was recorded: nodes and what they refer to, waits, and what was lost. The rest is not set.
  StepRecord Take();

 private:
  // What the next work of a channel has to wait for.
  struct Front {
    std::vector<uint32_t> nodes;  // the last of each channel at most
    VirtualTime submitted;
  };
  struct Channel {
    uint32_t index = 0;
    Front front;
  };
  struct Release {
    uint64_t value;
    Front front;
  };

  // Is it the process that is recorded?
  bool Records(pid_t process);
  Channel& Of(uint32_t channel);
  void Merge(const Front& from, Front& into) const;
  uint64_t Add(const Where& where, int64_t engine, int name, int operation,
               const EngineWork::Need& need, VirtualTime now);
  int NameOf(absl::string_view name);
  // Records no more.
  void Stop();
  // For want of room.
  void Truncate();
  // kNoOperation if there is no room for it.
  int OperationOf(uint64_t shared);

  const Options options_;
  pid_t process_ = 0;
  bool stopped_ = false;
  absl::flat_hash_set<pid_t> unwanted_;
  StepRecord record_;
  absl::flat_hash_map<uint32_t, Channel> channels_;
  uint32_t next_channel_ = 0;
  std::map<std::pair<int, int64_t>, uint32_t> engines_;  // by GPU and kind
  // By address, the last values; and all, by time.
  absl::flat_hash_map<uint64_t, std::deque<Release>> semaphores_;
  std::deque<std::pair<VirtualTime, Front>> releases_;
  std::map<int, uint32_t> communicators_;  // by number
  std::map<std::string, int> operations_;
  absl::flat_hash_map<std::string, int> names_;
  size_t collectives_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_STEP_RECORDER_H_
