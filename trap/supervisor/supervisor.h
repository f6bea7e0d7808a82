// The loop that serves one command's process tree.
#ifndef PHANTORA_TRAP_SUPERVISOR_SUPERVISOR_H_
#define PHANTORA_TRAP_SUPERVISOR_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "clock/host_time.h"
#include "clock/polled_events.h"
#include "clock/simulated_device.h"
#include "trap/call_log.h"
#include "trap/host/virtual_host.h"
#include "trap/launch/launcher.h"
#include "trap/launch/tree_ending.h"
#include "trap/linux/process_source.h"
#include "trap/memory/page_sharing.h"
#include "trap/supervisor/call_dispatch.h"
#include "trap/time/simulated_time.h"
#include "trap/time/turn_gate.h"
#include "trap/turn_lock.h"

namespace phantora {

class Supervisor {
 public:
  struct Options {
    // The emulated hosts, by number; at least one.
    std::vector<VirtualHost> hosts;
    // By rank, if the command is started by RunRanks().
    std::vector<int> host_of_rank;
    // The only one who waits for children of this process.
    Children* children;
    PageSharing* sharing = nullptr;  // shares memory of processes, if given
    // Called when one has ended.
    std::function<void(const RankEnd&)> rank_ended;
    CallLog* log;
    // Nice value, 0 to 19, that a process gets at least when it opens a device. Ranks
    // that spin on the GPU's memory must not starve the thread that would make it
    // change; see docs/ARCHITECTURE.md.
    int rank_nice = 0;
    // Held while a device is used or destroyed; shared with the GPU's thread.
    TurnLock* machine_lock;
    // Simulates time if its mode says so.
    HostTime host_time;
    HostSegments* segments = nullptr;  // with HostTimeMode::kLearned
    SimulatedDevice* device = nullptr;
    PolledEvents* events = nullptr;  // of the emulated driver; used under `machine_lock`
    Unknowns* unknowns;
    std::function<void(pid_t, pid_t, VirtualTime, VirtualTime)> waited = {};
    // Called by the thread that serves, often; must be quick.
    std::function<void()> between_calls = {};
    // Called as between_calls is. `at_rest` tells whether all processes are blocked and nothing
    // will happen by itself, which takes a look at all of them.
    std::function<void(const std::function<bool()>& at_rest)> watch = {};
    // In simulated time: is memory so short that no more processes should run than have a
    // processor? Called often.
    std::function<bool()> memory_is_short = {};
    // Called under the lock when a process of the tree has died.
    std::function<void(pid_t)> process_died;
  };

  // Errors: the kernel is out of epoll or signal descriptors.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(const Options& options);

  // Serves calls until the command has exited and nothing it started is left.
  // Forwards signals that were sent to this process alone (`signals` is a
  // signalfd). Returns the command's wait status.
  int Run(LaunchedCommand command, int signals);

  const SupervisorCounters& counters() const { return dispatch_->counters(); }
  // nullptr in real time.
  const SimulatedTime* time() const { return time_.get(); }
  // nullptr where simulated time need not repeat.
  const ThreadGate* threads() const { return threads_ ? &*threads_ : nullptr; }

 private:
  explicit Supervisor(const Options& options, UniqueFd epoll);

  void Watch(int descriptor, uint32_t events);
  // False when nothing runs under the filter any more.
  bool HandleEvents(LaunchedCommand& command, int signals, TreeEnding& ending,
                    NotifyListener& listener);
  // Lets those go on whose turn has come.
  void GiveTurns(NotifyListener& listener);
  // Lets time pass as far as it may, and serves the calls that come first.
  void PassTime(NotifyListener& listener);
  void ForwardSignals(int signals, const LaunchedCommand& command);

  const Options options_;
  UniqueFd epoll_;
  KernelProcesses processes_;
  ProcessLinks links_;
  HostFileProbe probe_;
  std::unique_ptr<SimulatedTime> time_;
  std::optional<TurnGate> turns_;         // in simulated time
  std::optional<ThreadGate> threads_;     // where that repeats
  bool thread_tick_ = false;              // it is time for its TakeTick()
  std::optional<CallDispatch> dispatch_;  // always, once created
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_SUPERVISOR_SUPERVISOR_H_
