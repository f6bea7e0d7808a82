#include "trap/time/thread_gate.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "trap/linux/thread_activity.h"

namespace phantora {
namespace {

// Between two looks at threads that others wait for, ns of real time: at those that end, which
// takes them some microseconds, and at others.
constexpr int64_t kTickOfEnd = 50'000, kTick = 1'000'000;

// The state in a thread's `stat` (proc(5)); X if it is gone.
char StateOf(const Proc& files, pid_t thread) {
  char text[512];
  if (!files.Read(thread, "stat", text)) return 'X';
  const char* const fields = strrchr(text, ')');
  return fields == nullptr || fields[1] == '\0' ? 'X' : fields[2];
}

}  // namespace

ThreadGate::ThreadGate(int epoll, const Proc* files, const RealClock* clock)
    : files_(*files),
      clock_(*clock),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = timer_.get();
  ticks_ = timer_.valid() && epoll_ctl(epoll, EPOLL_CTL_ADD, timer_.get(), &event) == 0;
}

void ThreadGate::Stopped(uint64_t call, pid_t id, pid_t thread) {
  Process& process = processes_[id];
  bool is_first = false;
  const auto [known, is_new] = process.threads.try_emplace(thread, call);
  if (is_new) {
    is_first = process.births > 0;
    if (is_first) --process.births;
  } else if (known->second != call) {
    open_.erase(known->second);  // a signal has broken it off
    known->second = call;
  }
  open_[call] = {.process = id, .thread = thread, .is_first = is_first};
  if (process.runner == thread) process.runner = 0;
  if (process.maker == thread) process.maker = 0;
  process.sleeps = process.unserved = false;
}

void ThreadGate::StandsUnserved(pid_t id) { processes_[id].unserved = true; }

void ThreadGate::StartsThread(uint64_t call) {
  if (const auto known = open_.find(call); known != open_.end()) known->second.starts_thread = true;
}

void ThreadGate::Ends(uint64_t call) {
  if (const auto known = open_.find(call); known != open_.end()) known->second.ends = true;
}

void ThreadGate::GoesToSleep(uint64_t call) {
  if (const auto known = open_.find(call); known != open_.end()) known->second.sleeps = true;
}

bool ThreadGate::Stands(pid_t id, pid_t thread) const {
  const auto process = processes_.find(id);
  if (process == processes_.end()) return false;
  const auto call = process->second.threads.find(thread);
  if (call == process->second.threads.end()) return false;
  return open_.contains(call->second) ||
         std::any_of(process->second.ready.begin(), process->second.ready.end(),
                     [thread](const Answer& answer) { return answer.call.thread == thread; });
}

void ThreadGate::NewProgram(pid_t id, pid_t thread) {
  Process& process = processes_[id];
  const auto call = process.threads.find(thread);
  const uint64_t current = call == process.threads.end() ? 0 : call->second;
  for (const auto& [other, last] : process.threads) {
    if (last != current) open_.erase(last);
  }
  process = Process();
  if (current != 0) process.threads[thread] = current;
  kept_.erase(id);
}

void ThreadGate::ProcessDied(pid_t id) {
  const auto process = processes_.find(id);
  if (process == processes_.end()) return;
  for (const auto& [thread, call] : process->second.threads) open_.erase(call);
  processes_.erase(process);
  kept_.erase(id);
}

bool ThreadGate::IsUnsettled(pid_t id) const {
  const auto process = processes_.find(id);
  if (process == processes_.end()) return false;
  return Keeps(process->second) ||
         std::any_of(ended_.begin(), ended_.end(),
                     [id](const Ended& ended) { return ended.process == id; });
}

bool ThreadGate::HasJustGone(pid_t id) const {
  const auto process = processes_.find(id);
  return process != processes_.end() && process->second.runner != 0 && !process->second.unserved &&
         clock_.Monotonic() - process->second.runs_since < kPatienceWithSleep;
}

void ThreadGate::FoundAsleep(pid_t id) {
  const auto process = processes_.find(id);
  if (process == processes_.end() || process->second.runner == 0 || process->second.unserved)
    return;
  process->second.runner = 0;
  process->second.sleeps = true;
}

bool ThreadGate::AllOthersStand(pid_t id) const {
  return std::all_of(processes_.begin(), processes_.end(), [id](const auto& process) {
    return process.first == id || (IsIdle(process.second) && process.second.ready.empty() &&
                                   !process.second.sleeps && !process.second.unserved);
  });
}

bool ThreadGate::StillPending(uint64_t id) { return calls_->StillPending(id); }

void ThreadGate::Runs(Process& process, const Call& call) {
  if (call.sleeps) {
    process.sleeps = true;
    return;
  }
  process.runner = call.thread;
  process.runs_since = clock_.Monotonic();
  process.ran_before = -1;
  process.runner_ends = call.ends;
  if (!call.starts_thread) return;
  ++process.births;
  process.born_since = process.runs_since;
  process.maker = call.thread;
}

bool ThreadGate::Go(Process& process, const Answer& answer) {
  open_.erase(answer.response.id);
  if (!calls_->Reply(answer.response)) return false;
  Runs(process, answer.call);
  return true;
}

bool ThreadGate::Send(const seccomp_notif_resp& response) {
  const auto call = open_.find(response.id);
  if (call == open_.end() || !ticks_) return calls_->Reply(response);
  if (IsRestart(response)) {
    // It stops before it does anything, and is heard of again then.
    open_.erase(call);
    return calls_->Reply(response);
  }
  const Answer answer = {call->second, response};
  const pid_t id = answer.call.process;
  Process& process = processes_[id];
  if (process.ready.empty() && IsIdle(process) && may_go_(id)) {
    const bool goes = Go(process, answer);
    if (process.runner_ends) {
      kept_.insert(id);
      Arm();
    }
    return goes;
  }
  ++counters_.kept;
  // One that has just been made goes next: whether it or its maker has stopped first is chance.
  if (answer.call.is_first) {
    process.ready.push_front(answer);
  } else {
    process.ready.push_back(answer);
  }
  kept_.insert(id);
  Arm();
  return true;
}

absl::Status ThreadGate::ReplyDescriptor(uint64_t id, int file, bool close_on_exec) {
  auto status = calls_->ReplyDescriptor(id, file, close_on_exec);
  const auto call = open_.find(id);
  if (call == open_.end() || !status.ok()) return status;
  Runs(processes_[call->second.process], call->second);
  open_.erase(call);
  return status;
}

bool ThreadGate::IsGone(pid_t thread) const {
  const char state = StateOf(files_, thread);
  return state == 'X' || state == 'Z';
}

bool ThreadGate::IsStopped(pid_t thread) const {
  const char state = StateOf(files_, thread);
  return state == 'T' || state == 't';
}

bool ThreadGate::Sleeps(pid_t thread) const {
  // A disk, or memory to come, does not let others go. One that is gone without a word has ended
  // its process.
  if (StateOf(files_, thread) != 'S') return false;
  // Preempted on its way to sleep, or woken already (see ThreadActivity).
  char channel[128];
  if (files_.ChannelsAreExact() && files_.Read(thread, "wchan", channel) && channel[0] == '0') {
    return false;
  }
  // Who has made a call that has not been received sleeps in that.
  return !calls_->HasCall();
}

bool ThreadGate::HasUnknown(pid_t id, const Process& process) const {
  const auto threads = files_.Threads(id).value_or(std::vector<pid_t>());
  return std::any_of(threads.begin(), threads.end(),
                     [&](pid_t thread) { return !process.threads.contains(thread); });
}

void ThreadGate::End(pid_t id, Process& process, pid_t thread) {
  if (const auto known = process.threads.find(thread); known != process.threads.end()) {
    open_.erase(known->second);
    process.threads.erase(known);
  }
  ended_.push_back({id, thread});
}

void ThreadGate::LetAttached(Process& process, bool long_stopped) {
  std::erase_if(process.ready, [&](const Answer& answer) {
    const ThreadSignals signals = SignalsOf(answer.call.thread, files_);
    if (!signals.IsBeingAttached() && (signals.tracer == 0 || !long_stopped)) return false;
    open_.erase(answer.response.id);
    calls_->Reply(answer.response);
    ++counters_.stopped;
    return true;
  });
}

void ThreadGate::SettleEnd(pid_t id, Process& process) {
  std::erase_if(process.stopped_ends, [&](pid_t thread) {
    if (!IsGone(thread)) return false;
    End(id, process, thread);
    return true;
  });
  if (!process.runner_ends || !IsGone(process.runner)) return;
  process.runner_ends = false;
  End(id, process, std::exchange(process.runner, 0));
}

void ThreadGate::Look(pid_t id, Process& process, int64_t now) {
  if (process.runner_ends && now - process.runs_since > kPatienceWithStop &&
      IsStopped(process.runner)) {
    ++counters_.stopped;
    process.runner_ends = false;
    process.stopped_ends.push_back(std::exchange(process.runner, 0));
  }
  if (process.runner != 0 && !process.runner_ends && !process.unserved &&
      now - process.runs_since > kPatienceWithSleep) {
    const int64_t ran = clock_.ThreadProcessorTime(process.runner);
    if (process.ran_before < 0) process.ran_before = ran;
    if (Sleeps(process.runner)) {
      ++counters_.slept;
      process.runner = 0;
      process.sleeps = true;
    } else if (ran - process.ran_before > kLongestRun) {
      ++counters_.ran_long;
      process.runner = 0;
    } else if (!process.ready.empty() && IsStopped(process.runner)) {
      if (stopped_by_run_(id)) {
        ++counters_.slept;
        process.runner = 0;
        process.sleeps = true;
      } else {
        LetAttached(process, now - process.runs_since > kPatienceWithTracer);
      }
    }
  }
  const int64_t unborn = process.births > 0 ? now - process.born_since : 0;
  if (unborn > kPatienceWithBirth ||
      (unborn > kTick && process.maker == 0 && !HasUnknown(id, process))) {
    counters_.not_born += static_cast<uint64_t>(process.births);
    process.births = 0;
  }
  SettleEnd(id, process);
}

void ThreadGate::GoNext(Process& process) {
  auto next = process.ready.begin();
  if (time_of_) {
    next = std::min_element(next, process.ready.end(), [this](const Answer& a, const Answer& b) {
      return time_of_(a.call.process, a.call.thread) < time_of_(b.call.process, b.call.thread);
    });
  }
  const Answer answer = *next;
  process.ready.erase(next);
  Go(process, answer);
}

void ThreadGate::LetGo(pid_t id) {
  const auto process = processes_.find(id);
  if (process == processes_.end()) return;
  while (!process->second.ready.empty() && IsIdle(process->second)) GoNext(process->second);
}

void ThreadGate::Release() {
  for (auto it = kept_.begin(); it != kept_.end();) {
    const pid_t id = *it;
    Process& process = processes_[id];
    SettleEnd(id, process);
    while (!process.ready.empty() && IsIdle(process) && may_go_(id)) GoNext(process);
    it = NeedsLook(process) ? std::next(it) : kept_.erase(it);
  }
  Arm();
}

void ThreadGate::TakeTick() {
  uint64_t expirations;
  // That it has none is as good.
  [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof expirations);
  const int64_t now = clock_.Monotonic();
  for (const pid_t id : kept_) Look(id, processes_[id], now);
  Release();
}

void ThreadGate::Arm() {
  int64_t tick = kept_.empty() ? 0 : kTick;
  for (const pid_t id : kept_) {
    if (processes_[id].runner_ends) tick = kTickOfEnd;
  }
  if (tick == armed_) return;
  armed_ = tick;
  const timespec every = {.tv_sec = 0, .tv_nsec = tick};
  const itimerspec timer = {.it_interval = every, .it_value = every};
  timerfd_settime(timer_.get(), 0, &timer, nullptr);
}

}  // namespace phantora
