// Keeps the simulated time of all processes under supervision: what their clocks say,
// when their sleeps and timeouts end, and when time may pass.
#ifndef PHANTORA_TRAP_SUPERVISOR_SIMULATED_TIME_H_
#define PHANTORA_TRAP_SUPERVISOR_SIMULATED_TIME_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "clock/host_time.h"
#include "clock/simulated_device.h"
#include "clock/virtual_time.h"
#include "trap/call_log.h"
#include "trap/supervisor/notify_listener.h"
#include "trap/supervisor/thread_activity.h"
#include "trap/supervisor/timed_wait.h"
#include "trap/supervisor/tracees.h"
#include "trap/supervisor/unique_fd.h"
#include "trap/supervisor/vdso.h"
#include "trap/turn_lock.h"
#include "trap/unknowns.h"

namespace phantora {

// Every process has a clock. It moves on when the process runs (see HostTimeMode) and
// when it waits: a call that would wait is held here, and time jumps to the earliest end
// of a wait or event of a GPU when every thread of every process is held or blocked in
// the kernel. A jump moves everybody's clock, since whoever is blocked can only be woken
// by something that happens after it. A child starts with its parent's clock, and a
// parent is not earlier than the end of a child.
//
// A thread that waits for a GPU spins: libcuda reads CLOCK_MONOTONIC_RAW in that loop, and
// nothing else does so twice in a row. It is held like one that sleeps.
class SimulatedTime {
 public:
  struct Options {
    HostTime host;
    SimulatedDevice* device;
    TurnLock* machine_lock;  // for the device; not held when these are called
    Unknowns* unknowns;
    CallLog* log;
    // Told of every wait of a thread for GPUs, with its beginning and end.
    std::function<void(pid_t process, pid_t thread, VirtualTime since, VirtualTime until)> waited;
    int epoll;  // gets descriptors that Ready() is for
  };

  struct Counters {
    uint64_t clock_reads = 0;
    uint64_t waits = 0;      // held calls
    uint64_t gpu_waits = 0;  // of them, for a GPU
    uint64_t jumps = 0;
    uint64_t scans = 0;   // looks at all threads
    uint64_t nudges = 0;  // see Nudge()
  };

  // Of a process that used a GPU, for the report.
  struct RankTime {
    pid_t process;
    VirtualSpan elapsed;  // since the start of the run
    VirtualSpan waited;   // for its GPUs
  };

  // Errors: the kernel lacks what it takes.
  static absl::StatusOr<std::unique_ptr<SimulatedTime>> Create(const Options& options);

  static VirtualTime Start();

  // Serves calls about time, and those that tell of new processes; false if
  // `notification` is none of them.
  bool Serve(const seccomp_notif& notification, const Tracee& tracee, NotifyListener& listener);

  // Before a driver call: everything that the process has submitted so far enters its
  // GPUs.
  void DriverCall(pid_t process, pid_t thread);

  // `descriptor` is readable; false if it is none of these. Pass() is to follow.
  bool Ready(int descriptor, NotifyListener& listener);

  // To be called when nothing else is to be done at once: lets time pass if it may.
  void Pass(NotifyListener& listener);

  void ProcessDied(pid_t process);

  const Counters& counters() const { return counters_; }
  // Those that have died or are left.
  std::vector<RankTime> ranks() const;

 private:
  struct Thread {
    uint32_t reads = 0;  // clock reads in a row
    uint32_t spins = 0;  // of CLOCK_MONOTONIC_RAW in a row
    // Of a wait for a GPU that may not be over.
    VirtualTime waiting_since, waited_until;
  };
  struct Rank {
    pid_t parent = 0;
    UniqueFd pidfd;
    VirtualTime now;
    // What `now` accounts for, ns.
    int64_t processor_time = 0, wall_time = 0;
    VirtualSpan waited;
    bool uses_gpu = false;
    VirtualTime next_event = VirtualTime::Infinity();  // of its GPUs
    int gpu_waiters = 0;                               // held calls
    bool seen = false;  // its GPUs have done something that these may wait for
    std::vector<pid_t> children;
    int submissions = 0;  // found when a thread of it stopped last
    absl::flat_hash_map<pid_t, Thread> threads;
  };
  struct Held {
    pid_t process = 0, thread = 0;
    VirtualTime deadline = VirtualTime::Infinity();
    std::unique_ptr<TimedWait> wait;
    // Without it, it waits for a GPU, reading this clock to there.
    int clock = 0;
    RemoteAddress clock_out{};
    VirtualTime since;
  };
  using HeldCalls = std::map<uint64_t, Held>;  // by notification id

  SimulatedTime(const Options& options, Vdso vdso);

  Rank& RankOf(pid_t process);
  // A thread of the process has stopped: brings its clock up to date, and its GPUs
  // with it.
  Rank& Enter(pid_t process);
  void TakeProcessorTime(Rank& rank, pid_t process);
  void DiscardProcessorTime(Rank& rank, pid_t process);
  // `thread` was answered: it runs.
  void Runs(pid_t thread) { let_go_ = true, runner_ = thread; }
  // Returns the number of new submissions.
  int Submit(Rank& rank, pid_t process, VirtualTime from);
  void NotBeforeChildren(Rank& rank);
  // The thread does something else than wait for a GPU.
  void EndWait(Thread& thread, pid_t process, pid_t id);
  void ForgetThread(Rank& rank, pid_t process, pid_t id);

  void ServeNewProgram(const seccomp_notif& notification, const Tracee& tracee);
  void ServeClock(const seccomp_notif& notification, pid_t process, NotifyListener& listener);
  void ServeWait(const seccomp_notif& notification, const Tracee& tracee, NotifyListener& listener);
  void AnswerClock(const seccomp_notif& notification, VirtualTime now, NotifyListener& listener);
  bool WriteClock(pid_t thread, RemoteAddress to, int clock, VirtualTime now) const;
  void ChargeRead(Rank& rank, Thread& thread);

  // Writes what happens to a held call to the log of calls.
  void Log(const Held& held, const char* what) const;
  void Hold(uint64_t id, Held held);
  // Takes a call out of held_.
  Held Take(HeldCalls::iterator call);
  void LetGo(HeldCalls::iterator call, NotifyListener& listener,
             void (TimedWait::*answer)(NotifyListener&) const);
  void LetGpuWaitersGo(pid_t process, NotifyListener& listener);
  // Those for whom something has happened, or nothing more will by itself.
  void LetServedWaitersGo(NotifyListener& listener);

  // Calls whose futex has changed, or whose thread has a signal to handle.
  // `signals`: now, and not only once in a while.
  void CheckHeld(NotifyListener& listener, bool signals);
  // May time pass to `to`: is everybody blocked, or later already?
  bool MayPass(VirtualTime to, NotifyListener& listener);
  // The earliest end of a wait (held_.end() for none), and event of a process's GPUs.
  HeldCalls::iterator EarliestDeadline();
  std::pair<pid_t, VirtualTime> EarliestEvent() const;
  void LiftAll(VirtualTime to);
  // For GPUs whose process neither waits nor reads clocks, and may spin on memory.
  void Nudge();
  void ArmTick(int64_t nanoseconds);

  const Options options_;
  const Vdso vdso_;
  const int64_t realtime_offset_;  // CLOCK_REALTIME - simulated time, ns
  const UniqueFd tick_;
  int64_t tick_ns_ = 0;    // 0: not armed
  int64_t ticked_ns_ = 0;  // how long it was armed for, when it has just come

  absl::flat_hash_map<pid_t, std::unique_ptr<Rank>> ranks_;
  std::vector<RankTime> finished_;
  int gpu_ranks_ = 0;
  HeldCalls held_;
  absl::flat_hash_map<pid_t, uint64_t> held_threads_;
  absl::flat_hash_map<int, uint64_t> watched_;  // descriptor -> held call
  // Copies of descriptors of all held calls. More would leave none for other ranks.
  size_t copies_ = 0, most_copies_ = 0;

  ThreadActivity activity_;
  std::vector<pid_t> processes_;  // of the whole tree
  bool processes_known_ = false;
  bool forked_ = true;  // a process since everybody was seen blocked
  // Everybody is blocked, but perhaps sole_runner_, a waiter for a GPU that was let go
  // and has not been seen to do anything but wait.
  bool quiet_ = false;
  pid_t sole_runner_ = 0;
  // A thread was answered, the last one this, and has not been heard of since.
  bool let_go_ = false;
  pid_t runner_ = 0;
  int64_t last_progress_ns_ = 0, last_signal_check_ns_ = 0;  // real time
  Counters counters_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_SUPERVISOR_SIMULATED_TIME_H_
