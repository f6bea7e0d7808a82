#include "trap/linux/thread_activity.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "trap/linux/unique_fd.h"
#include "trap/log.h"

namespace phantora {
namespace {

// Descriptors that may be kept are this part of all.
constexpr rlim_t kShareOfFiles = 8;
constexpr rlim_t kFilesPerThread = 3;

// Real time for which somebody is stopped from outside before that is told, ns. A tracer such as
// strace keeps a thread for some microseconds; a person who stops a rank, for longer.
constexpr int64_t kStoppedForLong = 5'000'000'000;
// After that a tracer is taken to wait for other threads, too.
constexpr int64_t kLongForATracer = 100'000'000;

constexpr char kSlices[] = "schedstat", kCall[] = "syscall", kChannel[] = "wchan";

// The time slices that the thread has had; -1 if it is gone.
int64_t Slices(const Proc& files, pid_t thread, const UniqueFd& kept) {
  char text[128];
  if (!files.Read(thread, kSlices, text, kept)) return -1;
  const char* last = strrchr(text, ' ');
  return last == nullptr ? -1 : atoll(last);
}

// Does it wait for a child of vfork to exec or end? Only that can end it.
bool WaitsForVfork(const Proc& files, pid_t thread) {
  char text[256];
  if (!files.Read(thread, kCall, text)) return false;
  const int call = atoi(text);
  return call == SYS_vfork || call == SYS_clone || call == SYS_clone3;
}

// What wakes a thread whose `syscall` in /proc this is, and the word that it waits on if that is a
// futex. Other futexes than these have timeouts, or owners whose end wakes others.
WokenBy WakerOf(const char* text, uint64_t* word) {
  int call = 0;
  uint64_t operation = 0, timeout = 0;
  if (sscanf(text, "%d %" SCNx64 " %" SCNx64 " %*x %" SCNx64, &call, word, &operation, &timeout) !=
          4 ||
      call != SYS_futex || timeout != 0) {
    return WokenBy::kAnything;
  }
  const uint64_t command = operation & FUTEX_CMD_MASK;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) return WokenBy::kAnything;
  return (operation & FUTEX_PRIVATE_FLAG) != 0 ? WokenBy::kItself : WokenBy::kSharedFutex;
}

// The state in a thread's `stat` (proc(5)); S if the text makes no sense.
char StateOf(const char* stat) {
  const char* fields = strrchr(stat, ')');
  char state = 'S';
  if (fields != nullptr) sscanf(fields + 1, " %c", &state);
  return state;
}

// Where a thread stands that a signal or a tracer has stopped (kernel/signal.c).
bool IsChannelOfStopped(const char* channel) {
  return strncmp(channel, "do_signal_stop", 14) == 0 || strncmp(channel, "ptrace_stop", 11) == 0;
}

int64_t Number(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at == nullptr ? 0 : atoll(at + strlen(name));
}

uint64_t Mask(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at == nullptr ? 0 : strtoull(at + strlen(name), nullptr, 16);
}

}  // namespace

ThreadSignals SignalsOf(pid_t thread, const Proc& files) {
  char text[4096];
  if (!files.Read(thread, "status", text)) return {};
  return {.own = Mask(text, "SigPnd:"),
          .shared = Mask(text, "ShdPnd:"),
          .blocked = Mask(text, "SigBlk:"),
          .caught = Mask(text, "SigCgt:"),
          .ignored = Mask(text, "SigIgn:"),
          .tracer = static_cast<pid_t>(Number(text, "TracerPid:"))};
}

bool Nudge(pid_t process, pid_t thread, const ThreadSignals& signals, const Proc& files) {
  // Those whose default is to be ignored (signal(7)); of a traced thread they wait to be told.
  for (const int signal : {SIGURG, SIGWINCH, SIGCHLD}) {
    const uint64_t bit = SignalBit(signal);
    if (((signals.caught | signals.blocked) & bit) != 0) continue;
    if (syscall(SYS_tgkill, process, thread, signal) != 0) return false;
    return (SignalsOf(thread, files).own & bit) != 0;
  }
  return false;
}

std::string ThreadName(pid_t thread, const Proc& files) {
  char text[64];
  return files.Read(thread, "comm", text) ? text : "";
}

ThreadActivity::ThreadActivity(const Proc* files, const RealClock* clock)
    : files_(*files),
      clock_(*clock),
      channels_are_exact_(files->ChannelsAreExact()),
      most_threads_([] {
        rlimit files{};
        getrlimit(RLIMIT_NOFILE, &files);
        return static_cast<size_t>(files.rlim_cur / kShareOfFiles / kFilesPerThread);
      }()) {}

void ThreadActivity::StartsThread(pid_t process) { processes_[process].complete = false; }

void ThreadActivity::StopsByRun(pid_t process) { stopped_by_run_.insert(process); }

void ThreadActivity::ContinuesByRun(pid_t process) { stopped_by_run_.erase(process); }

bool ThreadActivity::IsStoppedByRun(pid_t process) const {
  const auto names = [process](const std::unordered_set<pid_t>& stops) {
    return stops.contains(process) || stops.contains(0);
  };
  return names(stopped_by_run_) || names(asked_stops_);
}

void ThreadActivity::KeepOnly(const std::vector<pid_t>& processes) {
  const std::unordered_set<pid_t> kept(processes.begin(), processes.end());
  for (std::unordered_set<pid_t>* stops : {&stopped_by_run_, &asked_stops_}) {
    std::erase_if(*stops, [&](pid_t process) { return process != 0 && !kept.contains(process); });
  }
  for (auto it = processes_.begin(); it != processes_.end();) {
    const auto current = it++;
    if (kept.contains(current->first)) continue;
    for (const auto& [number, thread] : current->second.threads) Close(thread);
    processes_.erase(current);
  }
}

bool ThreadActivity::List(pid_t id, Process& process) {
  const auto threads = files_.Threads(id);
  if (!threads) return false;
  bool added = false;
  for (const pid_t number : *threads) {
    auto [it, fresh] = process.threads.try_emplace(number);
    if (!fresh) continue;
    added = true;
    if (open_threads_ >= most_threads_) continue;
    it->second.slices = files_.Open(number, kSlices);
    it->second.call = files_.Open(number, kCall);
    if (channels_are_exact_) it->second.channel = files_.Open(number, kChannel);
    open_threads_ += it->second.slices.valid() ? 1 : 0;
  }
  return added;
}

bool ThreadActivity::IsStoppedFromOutside(pid_t id, Thread& thread, char state) {
  if (state != 'T' && state != 't') {
    thread.stopped_since = 0;
    return false;
  }
  char text[4096];
  if (!files_.Read(id, "status", text)) return false;
  const auto process = static_cast<pid_t>(Number(text, "Tgid:"));
  const auto tracer = static_cast<pid_t>(Number(text, "TracerPid:"));
  if (state == 't') {
    // This process stops threads itself (page sharing), and lets them go on before it looks.
    if (tracer == 0 || tracer == getpid() || processes_.contains(tracer)) return false;
  } else if (IsStoppedByRun(process)) {
    return false;
  }
  const int64_t now = clock_.Monotonic(), slices = Slices(files_, id, thread.slices);
  if (thread.stopped_since == 0 || slices != thread.stopped_slices) {
    thread.stopped_since = now;
    thread.stopped_slices = slices;
    thread.told_of_stop = false;
  }
  if (state == 't' && now - thread.stopped_since > kLongForATracer) {
    keeping_tracer_ = tracer;
    kept_at_ = now;
  }
  if (!thread.told_of_stop && now - thread.stopped_since > kStoppedForLong) {
    thread.told_of_stop = true;
    LogWarning(absl::StrCat("thread ", id, " of process ", process,
                            " is stopped from outside of the run, ",
                            state == 't' ? absl::StrCat("by process ", tracer) : "by a signal",
                            ": simulated time stands still until it goes on"));
  }
  return true;
}

bool ThreadActivity::LeavesCall(pid_t id, Thread& thread) {
  // Linux can preempt a thread that has said that it is about to sleep, and may yet find
  // that it need not: /proc/PID/stat shows it asleep while it waits for a processor
  // (do_wait in kernel/exit.c reaps a child in that state). The call that a thread is in can
  // only be read when it has left the processor: Linux waits a moment for one that has not,
  // and calls it running then (task_current_syscall in lib/syscall.c).
  char text[256];
  thread.woken_by = WokenBy::kAnything;
  if (!files_.Read(id, kCall, text, thread.call)) return false;
  if (strncmp(text, "running", 7) == 0) return true;
  thread.woken_by = WakerOf(text, &thread.word);
  return false;
}

bool ThreadActivity::IsRunnable(pid_t id, Thread& thread, bool* gone) {
  // A thread that has been woken for another processor is asleep by its call until that processor
  // has heard of it (TASK_WAKING; ttwu_queue_wakelist in kernel/sched/core.c), which takes as long
  // as a host takes to run a virtual machine's processor. Its channel and its state tell.
  char text[512];
  if (channels_are_exact_ && files_.Read(id, kChannel, text, thread.channel) && text[0] != '0' &&
      !IsChannelOfStopped(text)) {
    thread.stopped_since = 0;
    return false;
  }
  if (!files_.Read(id, "stat", text)) {
    if (gone != nullptr) *gone = true;
    return false;
  }
  const char state = StateOf(text);
  return state == 'R' || IsStoppedFromOutside(id, thread, state) || LeavesCall(id, thread);
}

bool ThreadActivity::Runs(pid_t id, Thread& thread) {
  char text[512];
  thread.woken_by = WokenBy::kAnything;
  if (!files_.Read(id, "stat", text)) return false;
  switch (const char state = StateOf(text)) {
    case 'R':
      return true;
    case 'T':
    case 't':
      return IsStoppedFromOutside(id, thread, state) || LeavesCall(id, thread);
    case 'D':
      return !WaitsForVfork(files_, id);
    case 'Z':
    case 'X':
      // On its way out: whoever waits for that goes on now.
      saw_dying_ = true;
      return true;
    default:
      return LeavesCall(id, thread);
  }
}

bool ThreadActivity::Blocked(const std::vector<pid_t>& processes,
                             const std::function<bool(pid_t)>& held, bool second) {
  for (const pid_t id : processes) {
    Process& process = processes_[id];
    if (!process.complete && List(id, process) && second) return false;
    // Then its threads are where they were, but who has been woken and waits for a processor.
    bool rests =
        !second && process.complete && process.ran != 0 && process.ran == process.ran_until_blocked;
    // Then who waits for futexes has not been woken either, but by a signal.
    const bool signalled = process.signals != signals_;
    const WokenBy asleep =
        process.shared_wakes == shared_wakes_ ? WokenBy::kSharedFutex : WokenBy::kItself;
    process.woken_by = WokenBy::kItself;
    for (auto it = process.threads.begin(); it != process.threads.end();) {
      const auto current = it++;
      auto& [number, thread] = *current;
      if (held(number)) {
        thread.woken_by = WokenBy::kAnything;
        continue;
      }
      if (rests) {
        if (signalled || thread.woken_by > asleep) {
          bool gone = false;
          if (IsRunnable(number, thread, &gone)) {
            running_ = number;
            running_process_ = id;
            return false;
          }
          // Its end wakes who joins it, by a futex; what it has run for since the kernel took note
          // last is in nobody's processor time.
          if (gone) {
            rests = false;
            it = process.threads.begin();
            continue;
          }
        }
        process.woken_by = std::max(process.woken_by, thread.woken_by);
        continue;
      }
      const int64_t slices = Slices(files_, number, thread.slices);
      if (slices < 0) {
        Close(thread);
        process.threads.erase(current);
        if (second) return false;
        continue;
      }
      // Asleep since it was found so, unless it has been woken and waits for a processor.
      const bool same_sleep = slices == thread.slept;
      if (same_sleep ? IsRunnable(number, thread) : second || Runs(number, thread)) {
        running_ = number;
        running_process_ = id;
        return false;
      }
      thread.slept = slices;
      process.woken_by = std::max(process.woken_by, thread.woken_by);
    }
    if (second) process.complete = true;
  }
  return true;
}

bool ThreadActivity::NobodyHasRun(const std::vector<pid_t>& processes) {
  // The kernel brings a process's time up to date when a thread leaves its processor. Those that
  // are blocked now have left it.
  return std::all_of(processes.begin(), processes.end(), [this](pid_t id) {
    const Process& process = processes_[id];
    return process.ran != 0 && clock_.ProcessorTime(id) == process.ran;
  });
}

bool ThreadActivity::AllBlocked(const std::vector<pid_t>& processes,
                                const std::function<bool(pid_t)>& held) {
  saw_dying_ = false;
  // Who ran last time probably still does.
  if (running_ != 0 && !held(running_) &&
      std::find(processes.begin(), processes.end(), running_process_) != processes.end()) {
    const auto process = processes_.find(running_process_);
    if (process != processes_.end()) {
      const auto thread = process->second.threads.find(running_);
      if (thread != process->second.threads.end() && IsRunnable(running_, thread->second)) {
        return false;
      }
    }
  }
  // One look is not enough: a thread may wake one that was looked at before, and block
  // before it is looked at itself. Then the one that was woken is found running the
  // second time, or has run. Where nobody has run during the first, none has woken another.
  for (const pid_t id : processes) processes_[id].ran = clock_.ProcessorTime(id);
  if (!Blocked(processes, held, false)) return false;
  if (NobodyHasRun(processes)) {
    for (const pid_t id : processes) {
      Process& process = processes_[id];
      process.complete = true;
      process.ran_until_blocked = process.ran;
    }
  } else if (!Blocked(processes, held, true)) {
    return false;
  }
  for (const pid_t id : processes) {
    processes_[id].shared_wakes = shared_wakes_;
    processes_[id].signals = signals_;
  }
  return true;
}

std::vector<ThreadActivity::FutexWaiter> ThreadActivity::SharedFutexWaiters(
    const std::vector<pid_t>& processes, const std::function<bool(pid_t)>& held) {
  std::vector<FutexWaiter> waiters;
  for (const pid_t id : processes) {
    Process& process = processes_[id];
    if (!process.complete) List(id, process);
    // Who has not run since it was found blocked waits where it did.
    const bool rests = process.complete && process.ran_until_blocked != 0 &&
                       clock_.ProcessorTime(id) == process.ran_until_blocked;
    for (auto& [number, thread] : process.threads) {
      if (held(number)) continue;
      WokenBy woken_by = thread.woken_by;
      uint64_t word = thread.word;
      char text[256];
      if (!rests || woken_by == WokenBy::kAnything) {
        if (!files_.Read(number, kCall, text, thread.call)) continue;
        woken_by = WakerOf(text, &word);
      }
      if (woken_by == WokenBy::kSharedFutex) waiters.push_back({id, number, word});
    }
  }
  return waiters;
}

}  // namespace phantora
