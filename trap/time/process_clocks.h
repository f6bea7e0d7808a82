// The simulated clock of every process: what moves it while the process runs, and what
// its GPUs do meanwhile.
#ifndef PHANTORA_TRAP_TIME_PROCESS_CLOCKS_H_
#define PHANTORA_TRAP_TIME_PROCESS_CLOCKS_H_

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "clock/host_time.h"
#include "clock/simulated_device.h"
#include "clock/virtual_time.h"
#include "trap/linux/proc.h"
#include "trap/linux/process_tree.h"
#include "trap/linux/real_clock.h"
#include "trap/linux/thread_activity.h"
#include "trap/linux/unique_fd.h"
#include "trap/time/host_segments.h"
#include "trap/time/thread_clocks.h"
#include "trap/turn_lock.h"

namespace phantora {

// A child starts with its parent's clock, and a parent is not earlier than the end of a
// child.
class ProcessClocks {
 public:
  struct Options {
    HostTime host;
    SimulatedDevice* device;
    TurnLock* machine_lock;  // for the device; not held when these are called
    // Told of every wait of a thread for GPUs, with its beginning and end.
    std::function<void(pid_t process, pid_t thread, VirtualTime since, VirtualTime until)> waited;
    HostSegments* segments = nullptr;  // with HostTimeMode::kLearned
    // What is asked of the host.
    const RealClock* clock = &RealClock::Host();
    const Proc* threads = &Proc::Host();
    pid_t (*parent_of)(pid_t) = ParentOf;
  };

  struct Thread {
    uint32_t reads = 0;   // clock reads in a row, see NoteRead()
    VirtualTime read_at;  // the last
    uint32_t spins = 0;   // of CLOCK_MONOTONIC_RAW in a row
    // When a wait for a GPU began that may not be over, and until when it has lasted.
    VirtualTime waiting_since, waited_until;
  };
  struct Process {
    pid_t id = 0, parent = 0;
    UniqueFd pidfd;
    VirtualTime now;
    // What `now` accounts for, ns.
    int64_t processor_time = 0, wall_time = 0;
    VirtualSpan waited;  // for its GPUs
    // All its threads were found blocked when it had used so much processor time, ns, and it has
    // been given no reason to go on since.
    bool at_rest = false;
    int64_t rested_at = 0;
    WokenBy woken_by = WokenBy::kAnything;  // then
    // Its processor time when the memory that its own calls wait for was looked at last, and real
    // time until which it may be running without that being seen in its processor time, ns.
    int64_t looked_at = -1, may_run_until = 0;
    bool uses_gpu = false;
    bool has_called = false;                           // or has only been seen to be there
    VirtualTime next_event = VirtualTime::Infinity();  // of its GPUs
    bool seen = false;              // its GPUs have done something that these may wait for
    bool waits_for_others = false;  // its GPUs have work that ends when others do something
    std::vector<pid_t> children;
    UniqueFd ends_of_children;  // an epoll of their pidfds: so those that live need not be asked
    // Calls of each thread since it has waited; see ChargeFruitless().
    absl::flat_hash_map<pid_t, uint32_t> fruitless;
    // Where costs are learned: submissions from here to `now` have not been told to the GPUs yet,
    // and so many there were at the last stop.
    VirtualTime charged_from = VirtualTime::Infinity();
    uint64_t hidden_at_stop = 0;
    // Where costs are learned, each thread has a clock of its own. Then `now` is that of the thread
    // whose call is served, and else of the earliest that runs.
    ThreadClocks own;
    VirtualTime lifted;             // none is earlier
    std::deque<VirtualTime> forks;  // when it has made processes that have not been heard of
    VirtualTime seen_at;            // when its GPUs have done something that threads may wait for
    int submissions = 0;            // found when a thread of it stopped last
    uint32_t vain_yields = 0;       // since it has submitted something, or had a full queue
    uint32_t driver_calls = 0;      // in a row, by this thread
    pid_t last_driver_caller = 0;
    // Of a process that spins without a call: its processor time when it was last heard
    // of, ns, and since when (in its own time) its GPUs are run for it.
    int64_t quiet_since = 0;
    int64_t used_at_nudge = -1;  // processor time, ns
    uint64_t hidden = 0;         // what it had submitted then
    VirtualTime nudged_since = VirtualTime::Infinity();
    absl::flat_hash_map<pid_t, Thread> threads;
    // Threads to pass over, and how often others have been looked at.
    absl::flat_hash_map<pid_t, int> passed_over;
    absl::flat_hash_map<pid_t, VirtualTime> shown;  // what a thread has read last
  };
  // In order, so that nothing depends on where they lie in memory.
  using Processes = std::map<pid_t, std::unique_ptr<Process>>;

  // Of a process that used a GPU, for the report.
  struct RankTime {
    pid_t process;
    VirtualSpan elapsed;  // since the start of the run
    VirtualSpan waited;   // for its GPUs
  };

  // After so many clock reads in a row, a loop may be waiting for time to pass.
  static constexpr uint32_t kReadsOfWait = 1000;

  // The present of every process that has no parent here.
  static VirtualTime Start();

  explicit ProcessClocks(Options options) : options_(std::move(options)) {}

  // Made when it is not known yet.
  Process& Of(pid_t process);
  // nullptr if it is not known.
  Process* Find(pid_t process);
  // There are no others any more, but those that have made a call: of them, Died() is told.
  void KeepOnly(const std::vector<pid_t>& processes);
  const Processes& all() const { return processes_; }
  // Those that are earlier than `before`, the earliest first; of equal ones the lowest process id.
  std::vector<Process*> EarlierThan(VirtualTime before) const;

  // A thread of the process has stopped in a call: brings its clock up to date and, if the
  // call is about time or GPUs, its GPUs with it. (Whether it stops to wait may depend on
  // how threads happen to run.)
  Process& Stopped(pid_t process, pid_t thread, bool to_wait = false);
  void SetUsesGpu(Process& process, pid_t thread);
  int gpu_processes() const { return gpu_processes_; }

  // Is every thread of the process still blocked, as NoteRest() was told? Something may have woken
  // it that Stir() has not been told of: then it has used processor time, but the kernel may say so
  // only up to a tick of 4 ms later.
  bool RestsStill(const Process& process) const;
  // Its threads were found blocked after BeginLook(), and but for those whose calls are held it
  // takes `woken_by` to wake them. Of processes that share memory with others, which may wake them
  // by that, only those rest that wait for futexes alone.
  void BeginLook(Process& process) const;
  void NoteRest(Process& process, WokenBy woken_by) const;
  // A thread of the process (0: of any) may go on.
  void Stir(pid_t process);
  // Somebody may who waits for bytes in a call of its own that is not held.
  void StirReceivers();
  // Or for a futex in shared memory.
  void StirFutexes();
  // The memory that the process's own calls wait for is about to be looked at: has it been, since
  // the process ran last?
  bool HasLookedAt(Process& process) const;

  // Where costs are learned: a thread has stopped in a call of this kind, and its process's clock
  // goes on by what that took. `looks_again`: nothing, if it has submitted nothing either, since it
  // waits in a loop.
  void EndSegment(pid_t process, pid_t thread, uint32_t stop, bool looks_again);

  // Threads' own clocks. Where threads have none, the process's is that of all, and these do
  // nothing but Raise() and Lift(), and TimeOf() is the process's.
  // `now` is the thread's from here on: its call is served, or it is let go.
  void Enter(Process& process, pid_t thread);
  // It has been answered and runs, or stands in its call: then `now` is that of who runs.
  void Leave(Process& process, pid_t thread, bool runs);
  // Lets a thread go, whoever else is served meanwhile.
  class Going {
   public:
    Going(ProcessClocks& clocks, Process& process, pid_t thread)
        : clocks_(clocks), process_(process), thread_(thread), served_(process.now) {
      clocks.Enter(process, thread);
    }
    ~Going();
    Going(const Going&) = delete;
    Going& operator=(const Going&) = delete;

   private:
    ProcessClocks& clocks_;
    Process& process_;
    const pid_t thread_;
    const VirtualTime served_;
  };
  // The thread, which is held, is not earlier than `to`; or no thread of the process is.
  void Raise(Process& process, pid_t thread, VirtualTime to);
  void Lift(Process& process, VirtualTime to);
  VirtualTime TimeOf(pid_t process, pid_t thread) const;
  // All its threads sleep in calls that are not seen.
  void FoundAsleep(Process& process) { process.own.FoundAsleep(); }
  void EndsThread(pid_t process, pid_t thread);
  // Its GPUs have done something that threads may wait for.
  static void NoteSeen(Process& process, VirtualTime at) {
    process.seen = true;
    process.seen_at = std::max(process.seen_at, at);
  }

  // The process makes another one.
  static void Forks(Process& process);
  // Its call comes again, to be served.
  void ServeAgain(pid_t process, pid_t thread);

  void TakeProcessorTime(Process& process, pid_t id);
  // What it has used since it was looked at does not count.
  void DiscardProcessorTime(Process& process, pid_t id);
  // Of what it has used, so much was for nothing, ns.
  void ExcludeProcessorTime(Process& process, int64_t nanoseconds) const {
    process.processor_time += nanoseconds;
  }
  // Of a thread that has stopped, ns; 0 where it does not count.
  int64_t ProcessorTimeOf(pid_t thread) const {
    return CountsProcessorTime() ? clock().ThreadProcessorTime(thread) : 0;
  }
  // A thread reads a clock. Where processor time counts, one that has done other things for a
  // while does not read it in a loop.
  void NoteRead(const Process& process, Thread& thread) const;
  // What a thread reads, which is later each time. Where processor time does not count,
  // that is the thread's own affair, unless it reads again and again: threads that wait for
  // each other read the clock as often as they happen to meet.
  VirtualTime ReadClock(Process& process, pid_t thread);
  // A thread looks up a name in the file system.
  void PathCall(pid_t process, pid_t thread);
  // The present as far as the thread knows: what it has read may be a moment ahead.
  static VirtualTime SeenBy(const Process& process, pid_t thread);
  // As far as any of its threads knows.
  static VirtualTime Shown(const Process& process);
  // Where processor time does not count, time must not depend on how threads happen to
  // run. So libcuda's own threads are passed over: what they do is free, and does not lead
  // to what others have submitted.
  bool PassesOver(Process& process, pid_t thread);
  // Is that known of it, and that it is one of libcuda's?
  static bool IsLibcudas(const Process& process, pid_t thread);
  // For a call of the thread that comes to nothing at once. How many there are may depend on how
  // threads happen to run, so only a loop of them takes time, whatever other threads do meanwhile
  // (NCCL accepts connections in a loop while its caller sleeps for a microsecond at a time).
  // Returns whether it is one.
  static bool ChargeFruitless(Process& process, pid_t thread);
  // Returns the number of new submissions.
  int Submit(Process& process, pid_t id, VirtualTime from);
  // Has anybody submitted work that has not been found yet?
  bool HasHiddenWork() const;
  SimulatedDevice::Queues QueuesOf(pid_t process) const;
  // A thread of the process yields: is it time to ask QueuesOf()? That takes the machine's lock and
  // a look at every channel, which a loop of yields that wait for something else should not take
  // each time. NoteYield() tells whether a queue was full then.
  static bool IsYieldOfInterest(const Process& process);
  static void NoteYield(Process& process, bool full);
  // Runs the process's GPUs until somebody may notice, or to `to`.
  SimulatedDevice::Progress Advance(Process& process, pid_t id, VirtualTime to);

  // The thread does something else than wait for a GPU.
  void EndWait(Thread& thread, pid_t process, pid_t id);
  void ForgetThread(Process& process, pid_t id, pid_t thread);

  // Nobody is earlier than `to`. With `account`, their processor time is taken first.
  void LiftAll(VirtualTime to, bool account);
  // The earliest of the other processes that are not earlier than `from`; Infinity for none.
  VirtualTime EarliestBut(pid_t process, VirtualTime from);
  std::pair<pid_t, VirtualTime> EarliestEvent() const;
  // The next thing that happens to what the GPUs of several processes share.
  VirtualTime NextSharedEvent() const;
  // Nobody does anything before `to` any more.
  void Passed(VirtualTime to);

  // For GPUs whose process neither waits nor makes calls, but may spin on memory. `waits`
  // says whether a thread of a process waits for its GPUs. Returns how many it ran.
  int Nudge(const std::function<bool(pid_t)>& waits);

  void Died(pid_t process);

  // Real time of the last stop of anybody, ns.
  int64_t last_progress() const { return last_progress_ns_; }
  void NoteProgress();

  // Those that have died or are left.
  std::vector<RankTime> ranks() const;
  // The one that has died last; nullptr if none has.
  const RankTime* last_finished() const { return finished_.empty() ? nullptr : &finished_.back(); }
  // What the clock of a process says; the start of the run if it is not known.
  VirtualTime NowOf(pid_t process) const;
  // The latest of all clocks.
  VirtualTime Latest() const;

 private:
  // What its GPUs will do next. The machine's lock is held.
  void LookAhead(Process& process, pid_t id);
  void NotBeforeChildren(Process& process);
  static void AddChild(Process& parent, const Process& child);
  // Have its GPUs something to do by its present?
  bool IsDue(Process& process, pid_t id);
  // Runs the process's GPUs for it, and takes it along, while `wanted` says so; how many
  // events that were.
  int RunFor(Process& process, pid_t id, const std::function<bool()>& wanted);
  // Where processor time does not count: what the thread does is its own affair, as above.
  VirtualTime ChargeThread(Process& process, pid_t thread, VirtualSpan charge);
  // The same for a thread that is not passed over.
  static VirtualTime Charge(Process& process, pid_t thread, VirtualSpan charge);
  // When the child has been made.
  VirtualTime BeginOf(pid_t child, Process& parent);
  bool has_thread_clocks() const { return options_.segments != nullptr; }
  // When it is, for the report: its first thread, which ends it.
  VirtualTime EndOf(const Process& process) const;
  // Not of the one that is served.
  void Settle(Process& process);
  const RealClock& clock() const { return *options_.clock; }
  bool CountsProcessorTime() const { return options_.host.mode == HostTimeMode::kMeasured; }

  const Options options_;
  Processes processes_;
  std::vector<RankTime> finished_;
  int gpu_processes_ = 0;
  VirtualTime passed_;  // nobody is earlier
  pid_t served_ = 0;    // the process of which a thread's call is served
  int64_t last_progress_ns_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_PROCESS_CLOCKS_H_
