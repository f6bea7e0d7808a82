// Keeps the simulated time of all processes under supervision: what their clocks say,
// when their sleeps and timeouts end, and when time may pass.
#ifndef PHANTORA_TRAP_TIME_SIMULATED_TIME_H_
#define PHANTORA_TRAP_TIME_SIMULATED_TIME_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "clock/polled_events.h"
#include "clock/virtual_time.h"
#include "trap/call_log.h"
#include "trap/linux/call_table.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/process_tree.h"
#include "trap/linux/thread_activity.h"
#include "trap/linux/trapped_call.h"
#include "trap/linux/unique_fd.h"
#include "trap/linux/vdso.h"
#include "trap/memory/page_sharing.h"
#include "trap/time/call_order.h"
#include "trap/time/calls_under_way.h"
#include "trap/time/held_calls.h"
#include "trap/time/message_times.h"
#include "trap/time/outside_answers.h"
#include "trap/time/outside_peers.h"
#include "trap/time/process_clocks.h"
#include "trap/time/spin_loops.h"
#include "trap/time/thread_gate.h"
#include "trap/time/timers/virtual_timers.h"
#include "trap/time/transfer_call.h"
#include "trap/time/turn_gate.h"
#include "trap/time/wake_times.h"
#include "trap/unknowns.h"

namespace phantora {

// Every process has a clock. It moves on when the process runs (see HostTimeMode) and
// when it waits: a call that would wait is held here, and time jumps to the earliest end
// of a wait or event of a GPU when every thread of every process is held or blocked in
// the kernel. A jump moves everybody's clock, since whoever is blocked can only be woken
// by something that happens after it. Who receives bytes is not earlier than who sent
// them.
//
// A thread that waits for a GPU spins: libcuda reads CLOCK_MONOTONIC_RAW in that loop, and
// nothing else does so twice in a row. It is held like one that sleeps.
class SimulatedTime {
 public:
  struct Options {
    ProcessClocks::Options clocks;
    Unknowns* unknowns;
    CallLog* log;
    PageSharing* sharing = nullptr;
    const TurnGate* turns = nullptr;  // time does not pass while somebody waits for a turn
    // Where runs repeat: threads of a process run one at a time, and calls of CallMode::kRepeatable
    // are trapped.
    ThreadGate* threads = nullptr;
    PolledEvents* events = nullptr;  // of the emulated driver
    int epoll;  // gets descriptors that Ready() is for
    // All processes that may act.
    std::vector<pid_t> (*descendants)() = Descendants;
  };

  struct Counters {
    uint64_t clock_reads = 0;
    uint64_t waits = 0;      // held calls
    uint64_t gpu_waits = 0;  // of them, for a GPU
    uint64_t transfers = 0;  // calls that send or receive
    uint64_t jumps = 0;
    uint64_t scans = 0;   // looks at all threads
    uint64_t nudges = 0;  // see ProcessClocks::Nudge()
  };

  // Errors: the kernel lacks what it takes.
  static absl::StatusOr<std::unique_ptr<SimulatedTime>> Create(const Options& options);

  // Serves calls about time, and those that tell of new processes; false if
  // `call` is none of them.
  bool Serve(const TrappedCall& call);

  // A thread looks up a name in the file system.
  void PathCall(pid_t process, pid_t thread) {
    outside_.GoesOn(thread);
    clocks_.PathCall(process, thread);
  }

  // A call of the process is served, whatever it is.
  void CallOf(pid_t process) { clocks_.Stir(process); }

  // A thread has stopped in a call: what its process has done since then is charged, where that is
  // learned. Before anything else that is about the call, which may be told again.
  void EndSegment(const TrappedCall& call);
  // It has been served, or has to wait for that.
  void LeaveCall(const TrappedCall& call);

  // It is a call that Serve() is not asked about, and not only a look-up of a name: the thread
  // stands still until it is answered.
  void Heard(pid_t process, pid_t thread) {
    if (thread == runner_) let_go_ = false;
    stopped_ = process;
    HeardOf(process, thread);
    outside_.GoesOn(thread);
  }

  // What the thread asks for has nothing to do with time.
  void GoesOn(pid_t thread) { spins_.GoesOn(thread); }

  // A thread connects a socket; the call is to be made by the kernel.
  void Connects(const TrappedCall& call);

  // Before a driver call: everything that the process has submitted so far enters its
  // GPUs.
  void DriverCall(pid_t process, pid_t thread);

  // After a driver call: does its answer have to wait? A loop of them may wait for others, as
  // PyTorch's is_completed() does by asking NCCL for errors, and would keep them from being served.
  bool HoldsAnswer(const CallArguments& call, pid_t process, int64_t value);

  // Where runs repeat: has the call, which `handler` would serve, to wait until nobody can do
  // anything earlier? Then Next() will give it back.
  bool Holds(const TrappedCall& call, CallHandler handler, const seccomp_notif& notification);
  // Such a call that is to be served now. After Pass().
  std::optional<seccomp_notif> Next();

  // `descriptor` is readable; false if it is none of these. Pass() is to follow.
  bool Ready(int descriptor, NotifyListener& listener);

  // To be called when nothing else is to be done at once: lets time pass if it may.
  void Pass(NotifyListener& listener);

  // Are all processes blocked, with nothing to come that would wake one?
  bool AtRest(NotifyListener& listener);

  void ProcessDied(pid_t process);

  // Are all threads of the process blocked or held?
  bool Rests(pid_t process, NotifyListener& listener);

  const Counters& counters() const { return counters_; }
  const ProcessClocks& clocks() const { return clocks_; }

 private:
  using Process = ProcessClocks::Process;
  using Thread = ProcessClocks::Thread;
  // How a wait ends.
  enum class End { kTimedOut, kReady, kInterrupted, kStopped };

  SimulatedTime(const Options& options, Vdso vdso);

  // `thread` was answered: it runs. With 0, some thread of `process` may, or of any if that is 0.
  void Runs(pid_t thread, pid_t process);

  // Of a call that sends a signal; CallsUnderWay::kAnybody if it is not known.
  pid_t ReceiverOf(const CallArguments& call);
  // Serves and answers one kind of call.
  using Handler = void (SimulatedTime::*)(const TrappedCall&);
  // nullptr for calls that are not about time, and those that transfer bytes.
  static Handler HandlerOf(int call);
  void ServeNewProcess(const TrappedCall& call);
  void ServeNewProgram(const TrappedCall& call);
  void ServeThreadBegins(const TrappedCall& call);
  void ServeThreadEnds(const TrappedCall& call);
  void ServeClock(const TrappedCall& call);
  void ServeSignal(const TrappedCall& call);
  // Is it a call on a futex in shared memory, and no wait?
  static bool IsFutexWake(const CallArguments& call);
  void ServeFutexWake(const TrappedCall& call);
  // The same where all calls on futexes are seen: who is woken is let go here.
  void ServeSeenWake(const TrappedCall& call);
  void WakeFutexWaiters(const std::vector<uint64_t>& calls, VirtualTime now,
                        NotifyListener& listener);
  // The kernel writes to futexes of threads that end, and wakes who waits for them.
  void WakeWhoJoins(const ThreadGate::Ended& ended, NotifyListener& listener);
  // A thread has made a call: it is not earlier than who has woken it.
  void HeardOf(pid_t process, pid_t thread);
  // The thread goes on into a call that may wake others: its time.
  VirtualTime WakesOthers(const TrappedCall& call);
  // A process of the run sends a signal, which may stop the receiver or let it go on.
  void NoteStop(pid_t receiver, int signal);
  void ServeStop(const TrappedCall& call);
  void NoteAskedStop(const TrappedCall& call);
  // `call` sends the receiver a signal at `now`: if that makes it go on, it does so no earlier.
  void NotBeforeSignal(pid_t receiver, const CallArguments& call, VirtualTime now);
  // The same for those that a call wakes who wait for a futex.
  void NotBeforeWake(const TrappedCall& call, VirtualTime now);
  // sched_yield, which libcuda calls while a queue of its GPU is full.
  void ServeYield(const TrappedCall& call);
  void ServeVainYield(const TrappedCall& call);
  void ServeWait(const TrappedCall& call);
  void ServeTimer(const TrappedCall& call);
  void ServeTransfer(const TrappedCall& call, const TransferCall& transfer);
  void AnswerClock(const CallArguments& call, const RemoteMemory& memory, VirtualTime now,
                   NotifyListener& listener);
  bool WriteClock(const RemoteMemory& memory, RemoteAddress to, int clock, VirtualTime now) const;
  // The bytes of `call` that can be read from `file` were sent before this.
  void NotBeforeSender(Process& process, const TransferCall& call, const Conduit& conduit,
                       int file);

  // Bytes go to, or come from, somebody outside of the run.
  void AskOutside(const CallArguments& call, const RemoteMemory& memory, int file);
  void HearOutside(int file, bool stream);
  // Has somebody outside to answer before time passes?
  bool WaitsForOutside();

  // Holds the call of `process`, or answers it if it need not wait.
  void HoldOrAnswer(const CallArguments& call, pid_t process, int pidfd,
                    std::unique_ptr<TimedWait> wait, NotifyListener& listener);

  // The wait, whose descriptors have become ready, is about to tell so.
  void TellsOfEvents(const TimedWait& wait);
  // The wait, which is over at once, is about to be left to the kernel, and may find events there.
  void LeavesEvents(TimedWait& wait, int pidfd, pid_t process);
  // The poll is about to be left to the kernel, and to sleep there.
  void PollsUnseen(const TrappedCall& call, TimedWait& wait);

  // Writes what happens to a held call to the log of calls.
  void Log(const HeldCall& held, const char* what);
  void Hold(uint64_t id, HeldCall held);
  void LetGo(HeldCalls::Calls::iterator call, NotifyListener& listener, End end);
  void LetGpuWaitersGo(pid_t process, NotifyListener& listener);
  // Answers a call that waits for room or for others.
  void AnswerHeld(HeldCalls::Calls::iterator call, NotifyListener& listener);
  // What the thread has used since it looked in vain was for its loop.
  void PassOverLoop(Process& process, pid_t thread);
  // A look of the thread that has come to nothing.
  SpinLoops::Turn LookInVain(Process& process, pid_t thread);
  // A thread has stopped, other than to look in vain: who spins looks whether it has written.
  void LetSpinnersLook(VirtualTime at, pid_t thread, int depth = 1);
  // Where threads have their own clocks: one that spins and looks at memory is not earlier than who
  // has stopped meanwhile, and may have written what it sees.
  void MayHaveWritten(pid_t process, pid_t thread);
  void SeesOthers(const HeldCall& held);
  // One that spins looks, at its own time.
  void LetLook(uint64_t call, NotifyListener& listener);
  // Those that have been kept for long, in real time, by somebody who runs on.
  void LetSpinnersLookAnyway(NotifyListener& listener);
  // Until no process is earlier, or until its deadline.
  void HoldForOthers(const CallArguments& call, Process& process, HeldCall held);
  // One that a debugger wants to stop.
  void LetAttachedGo(HeldCalls::Calls::iterator call, NotifyListener& listener);
  // Those that waited for room in a queue of their GPUs, and have it.
  void LetRoomWaitersGo(NotifyListener& listener);
  // Those for whom something has happened, or nothing more will by itself.
  void LetServedWaitersGo(NotifyListener& listener);

  // Calls of `process` (0: of all) whose memory has changed; with `if_ran`, since a look found it
  // as expected after which the process has not run.
  std::vector<uint64_t> ChangedCalls(pid_t process, bool if_ran);
  // Lets them go.
  void CheckPolled(pid_t process, NotifyListener& listener);
  // The same for those that MayPass() has just found blocked.
  void CheckPolledOfBlocked(NotifyListener& listener);
  void LetGoIfHeld(const std::vector<uint64_t>& calls, NotifyListener& listener);
  // Calls of `process` (CallsUnderWay::kAnybody: of all) whose thread has a signal to handle. Those
  // that processes send each other are looked for before time passes, those from outside once in a
  // while.
  void CheckSignals(pid_t process, NotifyListener& listener);
  // Those that senders who are earlier than `before`, and so blocked, have sent.
  void CheckSentSignals(VirtualTime before, NotifyListener& listener);
  // Timers that are due already. True if there were any.
  bool CheckTimers(NotifyListener& listener);

  // Does the thread stand in a call that has been received, and cannot go on before it is answered?
  bool StandsInCall(pid_t process, pid_t thread) const;
  // A thread of libcuda's own is about to wait for no certain time. Where ranks share memory, such
  // waits are left to the kernel: it takes a thread that sleeps there to make calls of
  // PageSharing's.
  bool IsLeftToKernel(const TrappedCall& call, Process& process);
  bool learns() const { return options_.clocks.host.mode == HostTimeMode::kLearned; }
  bool sees_wakes() const { return options_.threads != nullptr; }
  // Whose threads have come to an end.
  void ServeEndedThreads(NotifyListener& listener);
  // May a thread of it go on that sleeps in a call?
  bool IsUnsettled(pid_t process) const {
    return options_.threads != nullptr && options_.threads->IsUnsettled(process);
  }

  // When time would pass to.
  VirtualTime NextThing();
  // May time pass to `to`: is everybody blocked, or later already? Then it may to `horizon_` too.
  // Who is there already counts as later; with `before`, only those of greater process ids.
  bool MayPass(VirtualTime to, NotifyListener& listener, bool again = false, pid_t before = 0);
  // After that: takes in what they have left behind. False if that has changed anything.
  bool NothingLeft(VirtualTime before, NotifyListener& listener);
  // Does the call show the caller what other processes have done, or them something?
  static bool IsSeenByOthers(const TrappedCall& call, CallHandler handler);
  // May a thread of the process go on as soon as it is answered? If not, its turn is in order_.
  bool MayGo(pid_t process);
  // Is there a call of the process that ends, or is to be served, before its present?
  bool HasEarlierEnd(const Process& process);
  // Of a call whose descriptors are ready: since when, as far as is known.
  VirtualTime ReadyAt(const HeldCall& held);
  // The call that comes first is to be served, or ends, if nobody can do anything earlier; else
  // false.
  bool PassToCall(NotifyListener& listener);
  // Somebody has been let go, and whether he is earlier is not known.
  bool waits_for_runner() const { return let_go_ && options_.threads == nullptr; }
  // Has the thread that was found running used very much processor time without anything
  // happening?
  bool RunsForNothing();
  // Takes in what was submitted before everybody stopped who is earlier than `before`; how much
  // that was.
  int SubmitAll(VirtualTime before);
  // Shares memory of a process now and then, if there is one with much of its own.
  void ShareMemory(NotifyListener& listener);
  // Let it come; MayPass() has allowed it.
  void PassToEvent(pid_t process, VirtualTime event, NotifyListener& listener);
  void PassToTimer(VirtualTimers::Due due, NotifyListener& listener);
  void PassToDeadline(HeldCalls::Calls::iterator call, NotifyListener& listener);
  bool CountsProcessorTime() const { return options_.clocks.host.mode == HostTimeMode::kMeasured; }
  // Real time, ns.
  int64_t RealNow() const { return options_.clocks.clock->Monotonic(); }
  void ArmTick(int64_t nanoseconds);
  void TakeTick();
  void ArmNextTick(bool hidden_work, int64_t ticked);

  const Options options_;
  const Vdso vdso_;
  const int64_t realtime_offset_;  // CLOCK_REALTIME - simulated time, ns
  const UniqueFd tick_;
  int64_t tick_ns_ = 0;      // 0: not armed
  int64_t ticked_ns_ = 0;    // how long it was armed for, when it has just come
  int64_t tick_due_ns_ = 0;  // real time, before which it does not come
  int64_t armed_since_ = 0, tick_wanted_since_ = 0;  // real time

  ProcessClocks clocks_;
  HeldCalls held_;
  VirtualTimers timers_;
  MessageTimes messages_;
  SpinLoops spins_;
  CallsUnderWay signals_, wakes_;    // signals sent, futexes of shared memory woken
  WakeTimes wake_times_;             // of the latter
  std::vector<uint64_t> looks_due_;  // held calls that may look at once
  // Threads that are let look, and by how many who did so one for another.
  absl::flat_hash_map<pid_t, int> looks_;
  CallOrder order_;
  absl::flat_hash_set<pid_t> releases_;  // processes of which a thread is in it to go on
  std::optional<seccomp_notif> next_;    // of them, the one to be served now
  uint64_t ordered_ = 0;                 // the last of these
  VirtualTime ordered_at_;               // the time of the last that was served
  OutsidePeers peers_;
  OutsideAnswers outside_;

  ThreadActivity activity_;
  std::vector<pid_t> processes_;  // of the whole tree
  // Those that MayPass() has found blocked, and whose memory has not been looked at since.
  std::vector<pid_t> blocked_;
  VirtualTime horizon_;  // the earliest of those that MayPass() did not look at, being later
  bool processes_known_ = false;
  // Who forked and has not been seen blocked since: the child may not have been there yet when
  // processes_ was found.
  absl::flat_hash_set<pid_t> forkers_;
  std::vector<ThreadGate::Ended> ended_;  // whose end may have woken who waits for a futex
  // The process that has made a call since memory was looked at last, 0 if it is time to look for
  // all.
  static constexpr pid_t kNobody = -1;
  pid_t stopped_ = kNobody;
  // Everybody is blocked, but perhaps sole_runner_, a waiter for a GPU that was let go
  // and has not been seen to do anything but wait.
  bool quiet_ = false;
  pid_t sole_runner_ = 0;
  // Nobody has gone on since everybody was found blocked but those that spin.
  bool others_rest_ = false;
  // A thread was answered, the last one this, and has not been heard of since.
  bool let_go_ = false;
  uint64_t gone_ = 0;         // how many were answered so far
  int64_t let_go_since_ = 0;  // real time, ns
  pid_t runner_ = 0;
  int64_t last_signal_check_ns_ = 0;  // real time
  int64_t last_sharing_ns_ = 0;       // real time
  // The thread that was found running, how long it had run, and when that was, ns.
  pid_t suspect_ = 0;
  int64_t suspect_ran_ = 0, suspect_since_ = 0;
  Counters counters_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_SIMULATED_TIME_H_
