// Lets the threads of a process run one at a time.
#ifndef PHANTORA_TRAP_TIME_THREAD_GATE_H_
#define PHANTORA_TRAP_TIME_THREAD_GATE_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "clock/virtual_time.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/proc.h"
#include "trap/linux/real_clock.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// Threads of a process that run at the same time find each other's memory as it happens to be, and
// come to their calls in an order that is another one in every run. Here one of them runs from an
// answer to its next call, and the others stand in theirs, answered or not; who has been answered
// first goes next. So what a process does, and in which order, follows from what it is answered,
// and repeats.
//
// That takes that every call in which a thread waits for others is trapped (CallMode::kRepeatable).
// Some are not: a thread that the kernel has put to sleep, and one that has run for long while
// others wait (it may wait for them, by looking at memory), count no more, and the next one goes.
// Then two may run at once, as without this.
//
// It stands between the kernel and those that serve calls: their answers are kept until the thread
// may go. Of the serving thread.
class ThreadGate : public NotifyListener {
 public:
  // Real time after which others go, too, ns: since a thread was answered, if it sleeps in the
  // kernel; of its processor time, if it runs; since a thread was made that has not been heard
  // of, and is there; since one was to end that a debugger has stopped; and since one goes that a
  // debugger has stopped, which may wait for others to stop.
  static constexpr int64_t kPatienceWithSleep = 1'000'000, kLongestRun = 300'000'000,
                           kPatienceWithBirth = 1'000'000'000, kPatienceWithStop = 2'000'000'000,
                           kPatienceWithTracer = 100'000'000;

  // `epoll` gets timer().
  explicit ThreadGate(int epoll, const Proc* files = &Proc::Host(),
                      const RealClock* clock = &RealClock::Host());

  // Where calls come from and answers go to; before anything else, and for as long as this lives.
  void Attach(NotifyListener& calls) { calls_ = &calls; }

  // The thread has stopped in a call, which is served next, or again.
  void Stopped(uint64_t call, pid_t process, pid_t thread);
  // A thread of the process has stopped in a call that is served later, and nobody else goes until
  // then.
  void StandsUnserved(pid_t process);
  // This call, once it is answered, makes a thread: nobody else of the process goes before that one
  // has been heard of.
  void StartsThread(uint64_t call);
  // It ends its thread: nobody else goes before that one is gone.
  void Ends(uint64_t call);
  // It is left to the kernel, where its thread sleeps: others go meanwhile.
  void GoesToSleep(uint64_t call);
  // It has called execve: it is its only thread.
  void NewProgram(pid_t process, pid_t thread);
  void ProcessDied(pid_t process);

  // Says whether a thread of the process may go, as far as other processes are concerned. If not,
  // LetGo() is to follow.
  void SetMayGo(std::function<bool(pid_t)> may_go) { may_go_ = std::move(may_go); }
  // Is the process, if a signal has stopped it, stopped by the run itself? Then who is stopped
  // sleeps; otherwise all wait for whoever has stopped it.
  void SetStoppedByRun(std::function<bool(pid_t)> by_run) { stopped_by_run_ = std::move(by_run); }
  void LetGo(pid_t process);
  // Of those of a process that may go, the one goes whose time is the earliest; of equal ones, and
  // without this, who has been answered first.
  void SetTimeOf(std::function<VirtualTime(pid_t process, pid_t thread)> time_of) {
    time_of_ = std::move(time_of);
  }

  // Lets those go whose turn has come.
  void Release();
  struct Ended {
    pid_t process = 0, thread = 0;
  };
  // Threads that have come to their ends.
  std::vector<Ended> TakeEnded() { return std::exchange(ended_, {}); }
  // May a thread of the process go on that sleeps in a call, or has one come to its end of which
  // TakeEnded() has not told?
  bool IsUnsettled(pid_t process) const;

  // Has a thread of the process been answered just now, and not been heard of since? It may sleep
  // in a call that is not trapped, but that would be soon.
  bool HasJustGone(pid_t process) const;
  // All threads of the process that do not stand in a trapped call sleep in others.
  void FoundAsleep(pid_t process);
  // Does the thread stand in a call that has been served, but has not gone on yet?
  bool Stands(pid_t process, pid_t thread) const;
  // Do all threads of all other processes stand in trapped calls, without an answer?
  bool AllOthersStand(pid_t process) const;

  // Readable when it is time for TakeTick().
  int timer() const { return timer_.get(); }
  void TakeTick();

  // Answers that had to wait, and threads that were not waited for, for the report.
  struct Counters {
    uint64_t kept = 0, slept = 0, ran_long = 0, not_born = 0, stopped = 0;
  };
  const Counters& counters() const { return counters_; }

  // NotifyListener.
  int fd() const override { return calls_->fd(); }
  bool HasCall() const override { return calls_->HasCall(); }
  bool HasCallOr(int descriptor) const override { return calls_->HasCallOr(descriptor); }
  std::optional<seccomp_notif> Receive() override { return calls_->Receive(); }
  bool StillPending(uint64_t id) override;
  absl::Status ReplyDescriptor(uint64_t id, int file, bool close_on_exec) override;
  absl::Status Replace(uint64_t id, int target, int file) override {
    return calls_->Replace(id, target, file);
  }
  absl::StatusOr<int> AddDescriptor(uint64_t id, int file) override {
    return calls_->AddDescriptor(id, file);
  }

 protected:
  bool Send(const seccomp_notif_resp& response) override;

 private:
  struct Call {
    pid_t process = 0, thread = 0;
    bool starts_thread = false, ends = false, sleeps = false, is_first = false;
  };
  struct Answer {
    Call call;
    seccomp_notif_resp response = {};
  };
  struct Process {
    std::vector<pid_t> stopped_ends;         // were stopped on their way out: nobody waits for them
    pid_t runner = 0;                        // has been answered, and not been heard of since
    int64_t runs_since = 0, ran_before = 0;  // real time, and its processor time then; ns
    bool runner_ends = false;
    bool unserved = false;
    bool sleeps = false;  // some thread does, in a call that is not trapped
    std::deque<Answer> ready;
    int births = 0;
    int64_t born_since = 0;
    pid_t maker = 0;  // whose call makes a thread, until it is heard of again: then that is there
    absl::flat_hash_map<pid_t, uint64_t> threads;  // that have been heard of, and their last calls
  };

  // Forgets a runner that is gone.
  void SettleEnd(pid_t id, Process& process);
  static bool IsIdle(const Process& process) { return process.runner == 0 && process.births == 0; }
  void GoNext(Process& process);
  // False: the caller is gone.
  bool Go(Process& process, const Answer& answer);
  void Runs(Process& process, const Call& call);
  // Is somebody kept for a reason that may be none?
  static bool Keeps(const Process& process) {
    return process.runner_ends || !process.ready.empty();
  }
  static bool NeedsLook(const Process& process) {
    return Keeps(process) || !process.stopped_ends.empty();
  }
  // Forgets a thread that is gone, and tells of it.
  void End(pid_t id, Process& process, pid_t thread);
  // Answers those whom a debugger waits for: they stop before they do anything. With `long_stopped`
  // all that are traced, since it may wait for any.
  void LetAttached(Process& process, bool long_stopped);
  // Whom others wait for no longer.
  void Look(pid_t id, Process& process, int64_t now);
  bool Sleeps(pid_t thread) const;
  // By a signal, or a debugger.
  bool IsStopped(pid_t thread) const;
  // Are there threads that have not been heard of? (There need not be: clone(2) may have failed.)
  bool HasUnknown(pid_t id, const Process& process) const;
  bool IsGone(pid_t thread) const;
  void Arm();

  const Proc& files_;
  const RealClock& clock_;
  const UniqueFd timer_;
  NotifyListener* calls_ = nullptr;
  bool ticks_ = false;  // or the kernel is out of descriptors: then everybody goes at once
  int64_t armed_ = 0;   // ns between ticks, 0: none
  absl::flat_hash_map<uint64_t, Call> open_;  // by notification id
  std::map<pid_t, Process> processes_;
  std::set<pid_t> kept_;  // those of which NeedsLook() is true
  std::vector<Ended> ended_;
  std::function<bool(pid_t)> may_go_ = [](pid_t) { return true; };
  std::function<VirtualTime(pid_t, pid_t)> time_of_;
  std::function<bool(pid_t)> stopped_by_run_ = [](pid_t) { return false; };
  Counters counters_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_THREAD_GATE_H_
