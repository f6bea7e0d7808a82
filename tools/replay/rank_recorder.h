// Records what the GPUs of one process did, and what each piece of work waited for.
#ifndef PHANTORA_TOOLS_REPLAY_RANK_RECORDER_H_
#define PHANTORA_TOOLS_REPLAY_RANK_RECORDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "clock/virtual_time.h"
#include "tools/replay/step_record.h"
#include "tools/replay/step_tables.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {

// Called under the machine's lock, with its process's work only. What it keeps is bounded; when
// there is no more room for nodes it records no more.
class RankRecorder {
 public:
  using Where = OrderObserver::Where;
  using Describe = std::function<std::optional<StepTables::Described>(uint64_t shared)>;
  // `describe`: see StepRecorder. Both must outlive it.
  RankRecorder(StepTables* tables, const Describe* describe)
      : tables_(tables), describe_(describe) {}

  // See OrderObserver.
  void Fetched(uint32_t channel, VirtualTime submitted);
  uint64_t Kernel(const Where& where, absl::string_view name, const EngineWork::Need& need,
                  uint64_t shared, VirtualTime now);
  uint64_t Copy(const Where& where, const EngineWork::Need& need, VirtualTime now);
  void Ended(uint64_t number, VirtualTime now);
  void Released(uint32_t channel, uint64_t address, uint64_t value, VirtualTime now);
  void Acquired(uint32_t channel, uint64_t address, const std::function<bool(uint64_t)>& satisfies);

  // A thread of the process waited for its GPUs, and has done something else since.
  void Waited(VirtualTime since, VirtualTime until);
  // Records no more.
  void Stop();

  // Its place is that of its first communicator.
  bool has_operations() const { return !communicators_.empty(); }
  const std::vector<StepRecord::Member>& communicators() const { return communicators_; }
  // And waits.
  size_t nodes() const { return role_.nodes.size() + role_.waits.size(); }

  // What was recorded, with times since the run's `start`.
  StepRecord::Role Take(VirtualTime start);

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

  Channel& Of(uint32_t channel);
  void Merge(const Front& from, Front& into) const;
  uint64_t Add(const Where& where, int64_t engine, int name, int operation,
               const EngineWork::Need& need, VirtualTime now);
  // For want of room.
  void Truncate();

  StepTables* const tables_;
  const Describe* const describe_;
  bool stopped_ = false;
  StepRecord::Role role_;
  std::vector<StepRecord::Member> communicators_;
  absl::flat_hash_map<uint32_t, Channel> channels_;
  uint32_t next_channel_ = 0;
  std::map<std::pair<int, int64_t>, uint32_t> engines_;  // by GPU and kind
  // By address, the last values; and all, by time.
  absl::flat_hash_map<uint64_t, std::deque<Release>> semaphores_;
  std::deque<std::pair<VirtualTime, Front>> releases_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_RANK_RECORDER_H_
