// The emulated GPUs in simulated time: one timeline per process.
#ifndef PHANTORA_TRAP_GPU_TIMELINE_GPU_TIMELINES_H_
#define PHANTORA_TRAP_GPU_TIMELINE_GPU_TIMELINES_H_

#include <sys/types.h>

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "clock/simulated_device.h"
#include "clock/time_source.h"
#include "trap/gpu/front/channel.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {

// Runs on whatever thread calls it, under the machine's lock; nothing here happens by
// itself. A timeline holds the channels of one process on all its GPUs, which run beside
// each other and share each GPU's SMs and copy engines. (Processes that share a GPU do not
// slow each other yet.)
class GpuTimelines : public SimulatedDevice {
 public:
  explicit GpuTimelines(GpuServices* services) : services_(services) {}

  // Sets by which clock a channel goes, what it shares with the others of its process, and
  // that submissions are let in by this.
  void Prepare(Channel::Config& config);
  // The time of the process's GPUs, which is its own when it stops.
  TimeSource& TimeOf(pid_t process) { return *Of(process).clock; }
  void Add(std::shared_ptr<Channel> channel);
  void Remove(const Channel* channel);
  // After its channels are gone.
  void ProcessDied(pid_t process);

  Submitted Submit(pid_t process, VirtualTime from, VirtualTime to, VirtualSpan each) override;
  bool HasSubmitted(pid_t process) override;
  Queues QueuesOf(pid_t process) override;
  VirtualTime NextEvent(pid_t process) override;
  Progress Advance(pid_t process, VirtualTime to, bool stop_when_seen) override;
  bool WaitsForOthers(pid_t process) override;
  VirtualTime NextSharedEvent() override;
  std::vector<pid_t> Passed(VirtualTime to) override;

 private:
  // When work that is under way ends.
  struct Ends {
    VirtualTime first = VirtualTime::Infinity();
    bool depend_on_others = false;  // some of it does, see SharedWork
    uint64_t failures = 0;          // of channels until then
  };
  struct Timeline {
    std::shared_ptr<ManualTimeSource> clock = std::make_shared<ManualTimeSource>();
    // By GPU and engine (kSms for the SMs); channels keep them.
    absl::flat_hash_map<std::pair<int, int64_t>, std::weak_ptr<EngineShare>> engines;
    std::vector<std::shared_ptr<Channel>> channels;
    bool unfinished = false;                      // there is more to do at this very time
    std::vector<std::weak_ptr<Channel>> waiters;  // for a semaphore
    uint64_t settled = 0;                         // releases_ when it was run last
    // What was submitted at times that the timeline has not reached, since it must not run
    // ahead of that work; and how much of that each channel has.
    std::deque<std::pair<VirtualTime, std::weak_ptr<Channel>>> submitted;
    absl::flat_hash_map<const Channel*, uint32_t> waiting_submissions;
    // Until a channel makes a step or fails, or the shared work goes on: a process has dozens of
    // channels, and is asked for its next event whenever any process does something.
    mutable std::optional<Ends> ends;
  };

  Timeline& Of(pid_t process);
  static std::shared_ptr<EngineShare> EngineOf(Timeline& timeline, int gpu, int64_t engine);
  // Runs `timeline` to `to`, as far as the budget goes.
  void Run(pid_t process, Timeline& timeline, VirtualTime to, bool stop_when_seen, int64_t& budget);
  // Does all that can be done at the present time of `timeline`, within the budget.
  void Settle(pid_t process, Timeline& timeline, int64_t& budget);
  // The same where nothing but what they wait for can have changed.
  void LookAtWaiters(pid_t process, Timeline& timeline, int64_t& budget);
  Channel::State Step(pid_t process, Timeline& timeline, Channel& channel, bool& worked,
                      int64_t& budget);
  void Failed(pid_t process, Timeline& timeline, const Channel& channel);
  VirtualTime Next(const Timeline& timeline) const;
  const Ends& EndsOf(const Timeline& timeline) const;
  // Is work under way whose end depends on other processes?
  bool Shares(const Timeline& timeline) const;
  // How far it may run.
  VirtualTime Horizon(const Timeline& timeline) const;
  // Submissions of the channel that Submit() has not been told of.
  static uint32_t Untold(const Timeline& timeline, const Channel& channel);
  void Reveal(Timeline& timeline);

  GpuServices* const services_;
  absl::flat_hash_map<pid_t, std::unique_ptr<Timeline>> timelines_;
  // Semaphores written by all, and when the last was: waiters may be in other processes.
  uint64_t releases_ = 0;
  uint64_t interrupts_ = 0;
  VirtualTime last_release_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_TIMELINE_GPU_TIMELINES_H_
