#include "trap/linux/stopped_process.h"

#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "trap/linux/proc.h"
#include "trap/linux/process_tree.h"
#include "trap/linux/real_clock.h"

namespace phantora {
namespace {

// Real time in which a thread stops, ns: one that is blocked does so in microseconds.
constexpr int64_t kPatience = 500'000'000;
// In which one makes a call that does not wait, on a machine that is very busy. Its registers are
// put back after that, so nothing may be done before.
constexpr int64_t kCallPatience = 60'000'000'000;
// The instruction, as it lies in memory.
constexpr long kSyscall = 0x050f;
constexpr uint64_t kSyscallBytes = 2;
// A step takes a few microseconds, and a sleep of any length fifty.
constexpr int kSpins = 100;
constexpr useconds_t kPause = 20;  // microseconds

int64_t Now() { return RealClock::Host().Monotonic(); }

using Outcome = Children::Stop;

// Waits until `end` for the thread to stop; `signal` gets what it was about to be sent.
Outcome AwaitStop(Children& children, pid_t thread, int64_t end, int& signal) {
  for (int spins = 0;; ++spins) {
    int status = 0;
    const Outcome stop = children.TakeStop(thread, status);
    if (stop == Outcome::kStopped) {
      const bool is_event = status >> 16 != 0;
      signal = is_event || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    }
    if (stop != Outcome::kRuns || Now() > end) return stop;
    if (spins < kSpins) {
      sched_yield();
    } else {
      usleep(kPause);
    }
  }
}

}  // namespace

void ProcessStopper::ReleaseLate() {
  std::erase_if(late_, [this](pid_t thread) {
    int signal = 0;
    const Outcome stop = AwaitStop(*children_, thread, 0, signal);
    if (stop == Outcome::kStopped) ptrace(PTRACE_DETACH, thread, nullptr, signal);
    return stop != Outcome::kRuns;
  });
}

std::unique_ptr<StoppedProcess> ProcessStopper::Stop(pid_t process,
                                                     const std::function<bool(pid_t)>& held) {
  std::unique_ptr<StoppedProcess> stopped(new StoppedProcess(this));
  if (ParentOf(process) == getpid()) stopped->own_child_ = process;
  if (!stopped->StopAll(process, held) || !stopped->FindCaller()) return nullptr;
  return stopped;
}

bool StoppedProcess::StopAll(pid_t process, const std::function<bool(pid_t)>& held) {
  const int64_t end = Now() + kPatience;
  const auto known = [this](pid_t thread) {
    return std::any_of(threads_.begin(), threads_.end(),
                       [thread](const Thread& other) { return other.id == thread; });
  };
  // Those that run meanwhile may start others, until a look finds no more.
  for (bool found = true; found;) {
    found = false;
    const auto threads = Proc::Host().Threads(process);
    if (!threads) return false;
    std::vector<pid_t> seized;
    bool refused = false;
    for (const pid_t thread : *threads) {
      if (held(thread) || known(thread)) continue;
      if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
        refused |= errno != ESRCH;
        continue;
      }
      seized.push_back(thread);
      ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    }
    for (const pid_t thread : seized) {
      int signal = 0;
      switch (AwaitStop(*stopper_->children_, thread, end, signal)) {
        case Outcome::kStopped:
          threads_.push_back({thread, signal});
          found = true;
          break;
        case Outcome::kGone:
          found = true;
          break;
        case Outcome::kRuns:
          stopper_->late_.push_back(thread);
          refused = true;
          break;
      }
    }
    if (refused) return false;
  }
  return true;
}

bool StoppedProcess::FindCaller() {
  for (size_t i = 0; i < threads_.size(); ++i) {
    const pid_t thread = threads_[i].id;
    if (threads_[i].signal != 0) continue;
    if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers_) != 0) continue;
    // Behind the instruction, or before it if the call is about to be made again.
    for (const uint64_t at : {registers_.rip - kSyscallBytes, registers_.rip}) {
      errno = 0;
      const long code = ptrace(PTRACE_PEEKTEXT, thread, at, nullptr);
      if (errno != 0 || (code & 0xffff) != kSyscall) continue;
      caller_ = i;
      instruction_ = at;
      return true;
    }
  }
  return false;
}

std::optional<int64_t> StoppedProcess::Call(int64_t number,
                                            const std::array<uint64_t, 6>& arguments) {
  Thread& thread = threads_[*caller_];
  user_regs_struct registers = registers_;
  registers.rip = instruction_;
  registers.rax = static_cast<uint64_t>(number);
  registers.orig_rax = ~uint64_t{0};  // nothing is to be restarted
  registers.rdi = arguments[0], registers.rsi = arguments[1], registers.rdx = arguments[2];
  registers.r10 = arguments[3], registers.r8 = arguments[4], registers.r9 = arguments[5];
  if (ptrace(PTRACE_SETREGS, thread.id, nullptr, &registers) != 0) return std::nullopt;
  for (;;) {
    if (ptrace(PTRACE_SINGLESTEP, thread.id, nullptr, nullptr) != 0) return std::nullopt;
    int signal = 0;
    if (AwaitStop(*stopper_->children_, thread.id, Now() + kCallPatience, signal) !=
        Outcome::kStopped) {
      return std::nullopt;
    }
    if (signal != 0) thread.signal = signal;
    user_regs_struct after{};
    if (ptrace(PTRACE_GETREGS, thread.id, nullptr, &after) != 0) return std::nullopt;
    // A signal may stop it before its step.
    if (after.rip == instruction_ + kSyscallBytes) return static_cast<int64_t>(after.rax);
  }
}

StoppedProcess::~StoppedProcess() {
  if (caller_) ptrace(PTRACE_SETREGS, threads_[*caller_].id, nullptr, &registers_);
  for (const Thread& thread : threads_) {
    const bool released = ptrace(PTRACE_DETACH, thread.id, nullptr, thread.signal) == 0;
    // Its process cannot go before its tracer has been told.
    if (!released && thread.id != own_child_) stopper_->late_.push_back(thread.id);
  }
  stopper_->ReleaseLate();
}

}  // namespace phantora
