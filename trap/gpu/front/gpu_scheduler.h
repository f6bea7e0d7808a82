// Finds submitted work and executes it: the emulated GPUs' own thread.
#ifndef PHANTORA_TRAP_GPU_FRONT_GPU_SCHEDULER_H_
#define PHANTORA_TRAP_GPU_FRONT_GPU_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trap/gpu/front/channel.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/gpu/timeline/gpu_timelines.h"
#include "trap/turn_lock.h"

namespace phantora {

// The page that a client writes to when it has submitted work, and the channels
// that may be meant.
struct Doorbell {
  std::shared_ptr<MemoryObject> page;
  std::vector<std::weak_ptr<Channel>> channels;
};

// All members but Start and Stop need the machine's lock.
class GpuScheduler {
 public:
  // `before_round` runs under the lock at the start of every round, for timers
  // of others; it returns true if it still has something pending.
  GpuScheduler(TurnLock* machine_lock, GpuServices* services, std::function<bool()> before_round);
  ~GpuScheduler();

  // In simulated time, work is run by `timelines`, not by the thread of this.
  void Simulate(GpuTimelines* timelines) { timelines_ = timelines; }
  bool simulated() const { return timelines_ != nullptr; }
  // In simulated time, sets what a channel shares with others (GpuTimelines::Prepare).
  void Prepare(Channel::Config& config);
  // What the GPUs' own clock shows to a process.
  TimeSource& TimeOf(pid_t process);

  // nullptr when the supervisor has run out of descriptors or memory.
  std::shared_ptr<Doorbell> AddDoorbell();
  void Add(std::shared_ptr<Channel> channel, const std::shared_ptr<Doorbell>& doorbell);
  void Remove(const Channel* channel);

  // Channels of a group fail together.
  void FailGroup(uint64_t group, uint32_t code, const WarpError& warp_error);

  void Start();
  void Stop();

  // One round over the processes that may have work, which get equal shares; true if
  // something was done. A round is short, since nothing else happens during it: with
  // much to do, it ends early and the next one goes on from there.
  // Called by the thread, and by tests.
  bool Round();

 private:
  void Run();
  void Activate(const std::shared_ptr<Channel>& channel);
  void RunProcess(std::deque<std::shared_ptr<Channel>>& queue, int64_t& budget, bool& worked);

  TurnLock* const machine_lock_;
  GpuServices* const services_;
  const std::function<bool()> before_round_;
  GpuTimelines* timelines_ = nullptr;
  std::vector<std::weak_ptr<Doorbell>> doorbells_;
  absl::flat_hash_map<const Channel*, std::shared_ptr<Channel>> all_;
  std::unordered_set<const Channel*> is_active_;
  // By process, the next to run first.
  std::map<pid_t, std::deque<std::shared_ptr<Channel>>> active_;
  pid_t last_served_ = 0;
  bool timers_pending_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_GPU_SCHEDULER_H_
