// Whether anything in a process tree can still act by itself.
#ifndef PHANTORA_TRAP_LINUX_THREAD_ACTIVITY_H_
#define PHANTORA_TRAP_LINUX_THREAD_ACTIVITY_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "trap/linux/proc.h"
#include "trap/linux/real_clock.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// Bit 0 is signal 1.
constexpr uint64_t SignalBit(int signal) { return uint64_t{1} << (signal - 1); }

// Whose default action is a core dump (signal(7)).
inline constexpr uint64_t kDumpCore = SignalBit(SIGQUIT) | SignalBit(SIGILL) | SignalBit(SIGTRAP) |
                                      SignalBit(SIGABRT) | SignalBit(SIGBUS) | SignalBit(SIGFPE) |
                                      SignalBit(SIGSEGV) | SignalBit(SIGXCPU) | SignalBit(SIGXFSZ) |
                                      SignalBit(SIGSYS);

// Signals that have been sent to a thread or its process and are not handled yet.
struct ThreadSignals {
  uint64_t own = 0, shared = 0;  // pending
  uint64_t blocked = 0, caught = 0, ignored = 0;
  pid_t tracer = 0;  // who traces it

  uint64_t pending() const { return own | shared; }
  // Has it a SIGKILL to die of, but has not been scheduled since?
  bool killed() const { return (pending() >> 8 & 1) != 0; }
  // Does a debugger that attaches wait for it to stop (ptrace(2), PTRACE_ATTACH)? Held in a trapped
  // call, it would not.
  bool IsBeingAttached() const { return (own & SignalBit(SIGSTOP)) != 0; }
  // What it has a handler for, or dies of with a core dump, and does not block (`mask` may
  // take the place of what it blocks). Held in a trapped call, it would not notice
  // (WAIT_KILLABLE_RECV); what kills without a core dump comes as a SIGKILL.
  uint64_t Due(uint64_t which, std::optional<uint64_t> mask) const {
    const uint64_t dumps = kDumpCore & ~caught & ~ignored;
    return which & (caught | dumps) & ~mask.value_or(blocked);
  }
};
ThreadSignals SignalsOf(pid_t thread, const Proc& files = Proc::Host());

// Gives a traced thread a signal that means nothing to it, which its tracer is told of. False: it
// has handlers for all of those, or is traced no longer. If true, that signal is pending now, and a
// call in which the thread stands may be answered with ERESTARTNOHAND.
bool Nudge(pid_t process, pid_t thread, const ThreadSignals& signals,
           const Proc& files = Proc::Host());

// The name that the thread has given itself; empty if it is gone.
std::string ThreadName(pid_t thread, const Proc& files = Proc::Host());

// What it takes to make somebody go on who is blocked, beside a signal.
enum class WokenBy : uint8_t {
  kItself,       // a thread of its own process: it waits for a private futex
  kSharedFutex,  // or FUTEX_WAKE by another process
  kAnything,     // a descriptor, a child, the passing of time
};

// Looks at all threads of many processes, often: who has not run since it was found asleep is asked
// for no more than whether it is about to. Not thread-safe.
class ThreadActivity {
 public:
  explicit ThreadActivity(const Proc* files = &Proc::Host(),
                          const RealClock* clock = &RealClock::Host());

  // Is every thread of `processes` blocked in the kernel, but those that `held` names?
  // Then nothing happens before something from outside does.
  bool AllBlocked(const std::vector<pid_t>& processes, const std::function<bool(pid_t)>& held);

  // The process starts a thread. (It is listed anew at each look until one finds all blocked.)
  void StartsThread(pid_t process);
  // Somebody may have been woken who waits for a futex in shared memory. (Those of a process's own
  // are woken by its own threads only.)
  void SharedFutexWoken() { ++shared_wakes_; }
  // Anybody may go on for another reason: a signal, or having been stopped.
  void Signalled() { ++signals_; }
  // A process of the run stops this one by a signal (0: some), or lets it go on. Who was stopped
  // otherwise, or is looked at by a debugger of somebody outside, is no more blocked than who waits
  // for a processor: it is the world outside that keeps it, and simulated time waits for that, for
  // a while. (Not for ever: a debugger may itself wait for a thread whose call is held, and which
  // the kernel does not stop before that is answered.)
  void StopsByRun(pid_t process);
  void ContinuesByRun(pid_t process);
  // The kernel stops it some day because a process of the run has asked for that (0: some).
  void MayStopByRun(pid_t process) { asked_stops_.insert(process); }
  // If a signal has stopped it, is it one of the run's?
  bool IsStoppedByRun(pid_t process) const;
  // There are no others any more. In any order.
  void KeepOnly(const std::vector<pid_t>& processes);

  // Of one of the processes that were just found blocked: its threads, but those that are held.
  WokenBy woken_by(pid_t process) { return processes_[process].woken_by; }

  struct FutexWaiter {
    pid_t process, thread;
    uint64_t address;  // of the word
  };
  // Threads of the processes that wait for futexes in shared memory, without a timeout, but those
  // that `held` names. In order of the processes given, and of threads.
  std::vector<FutexWaiter> SharedFutexWaiters(const std::vector<pid_t>& processes,
                                              const std::function<bool(pid_t)>& held);

  // Somebody outside of the run who traces, and has kept a thread stopped for longer than a tracer
  // does that is told of calls: it may wait for other threads to stop. 0: nobody.
  pid_t keeping_tracer() const {
    return clock_.Monotonic() - kept_at_ < kKeptRecently ? keeping_tracer_ : 0;
  }

  // The thread that was found running last.
  pid_t running() const { return running_; }
  // It is on its way out: the processes are not the same any more soon.
  bool saw_dying() const { return saw_dying_; }

 private:
  struct Thread {
    // Its schedstat, syscall and wchan in /proc, as long as descriptors are not scarce.
    UniqueFd slices, call, channel;
    int64_t slept = -1;  // its time slices when it was found asleep
    // Real time when it was found stopped, ns; 0 if it was not when it was looked at last.
    int64_t stopped_since = 0, stopped_slices = 0;  // and the slices it had had
    bool told_of_stop = false;
    // When its call was looked at last. While it was held it was not.
    WokenBy woken_by = WokenBy::kAnything;
    uint64_t word = 0;  // then, if it waited for a futex
  };
  struct Process {
    // In order: of several that run, the same one is found.
    std::map<pid_t, Thread> threads;
    bool complete = false;
    // Its processor time at this look, and when all its threads were last found blocked; 0 if it
    // is not known.
    int64_t ran = 0, ran_until_blocked = 0;
    WokenBy woken_by = WokenBy::kAnything;
    uint64_t shared_wakes = 0, signals = 0;  // before all its threads were last found blocked
  };

  // Lists threads that are not known; were there any?
  bool List(pid_t id, Process& process);
  void Close(const Thread& thread) { open_threads_ -= thread.slices.valid() ? 1 : 0; }
  // Has nobody run since Process::ran was read?
  bool NobodyHasRun(const std::vector<pid_t>& processes);
  // Are all threads blocked? The second look also says no if anyone has run since the first.
  bool Blocked(const std::vector<pid_t>& processes, const std::function<bool(pid_t)>& held,
               bool second);
  // Of one that was found asleep, or running last; `gone` is set if it has ended.
  bool IsRunnable(pid_t id, Thread& thread, bool* gone = nullptr);
  // Of any. If not, it notes what wakes it.
  bool Runs(pid_t id, Thread& thread);
  // Has somebody outside of the run stopped it? `state` is that of its `stat`.
  bool IsStoppedFromOutside(pid_t id, Thread& thread, char state);
  // Of one whose state is asleep: does it run, all the same? If not, it notes what wakes it.
  bool LeavesCall(pid_t id, Thread& thread);

  const Proc& files_;
  const RealClock& clock_;
  const bool channels_are_exact_;
  const size_t most_threads_;  // with open files
  std::map<pid_t, Process> processes_;
  size_t open_threads_ = 0;
  std::unordered_set<pid_t> stopped_by_run_, asked_stops_;
  uint64_t shared_wakes_ = 0, signals_ = 0;
  pid_t running_ = 0, running_process_ = 0;
  // As it was found last, at this real time (ns), which has to be within so much.
  static constexpr int64_t kKeptRecently = 1'000'000'000;
  pid_t keeping_tracer_ = 0;
  int64_t kept_at_ = -kKeptRecently;
  bool saw_dying_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_THREAD_ACTIVITY_H_
