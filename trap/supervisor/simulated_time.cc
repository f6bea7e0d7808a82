#include "trap/supervisor/simulated_time.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/supervisor/process_tree.h"

namespace phantora {
namespace {

// Simulated time, which is CLOCK_MONOTONIC of the ranks, starts here: a constant, so that
// runs can be compared.
constexpr VirtualTime kStart = VirtualTime::FromNanoseconds(10'000'000'000'000);
// CLOCK_MONOTONIC_RAW reads in a row that make a wait for a GPU. libcuda's event thread
// makes two between its polls.
constexpr uint32_t kSpinsOfWait = 6;
// A spinning thread with idle GPUs looks after 1 us, 2 us, ... 1024 us.
constexpr uint32_t kLooksUntilRarest = 10;
// After so many clock reads in a row, a loop may be waiting for time to pass: where
// processor time does not count, each takes as long as a turn of such a loop in Python.
constexpr uint32_t kReadsOfWait = 1000;
constexpr VirtualSpan kTurnOfWait = VirtualSpan::Microseconds(1);
// Between two looks for calls, ns of real time.
constexpr int64_t kLongestPass = 10'000'000;
// What stopping in a call costs the thread that stops, ns of its processor time.
constexpr int64_t kTrapCost = 3000;
// Real time between looks at threads that run, ns.
constexpr int64_t kShortestTick = 100'000, kLongestTick = 2'000'000, kLongestFutexTick = 200'000;
constexpr int64_t kSignalCheck = 20'000'000;
// When nothing has moved for so long in real time although somebody runs, time passes
// nevertheless: the one who runs may wait for memory to change.
constexpr int64_t kImpatience = 10'000'000'000;
constexpr int64_t kSpinImpatience = 50'000'000;

int64_t Nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// The clockid of a process's processor time (posix-timers.h MAKE_PROCESS_CPUCLOCK).
clockid_t ProcessorClock(pid_t process) { return static_cast<clockid_t>(~process) << 3 | 2; }

bool IsRealtime(int clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
         clock == CLOCK_REALTIME_ALARM || clock == CLOCK_TAI;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SimulatedTime>> SimulatedTime::Create(const Options& options) {
  auto vdso = Vdso::Create();
  if (!vdso.ok()) return vdso.status();
  std::unique_ptr<SimulatedTime> time(new SimulatedTime(options, *std::move(vdso)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = time->tick_.get();
  if (!time->tick_.valid() ||
      epoll_ctl(options.epoll, EPOLL_CTL_ADD, time->tick_.get(), &event) != 0) {
    return absl::ResourceExhaustedError("cannot make a timer");
  }
  return time;
}

VirtualTime SimulatedTime::Start() { return kStart; }

SimulatedTime::SimulatedTime(const Options& options, Vdso vdso)
    : options_(options),
      vdso_(std::move(vdso)),
      realtime_offset_(Nanoseconds(CLOCK_REALTIME) - kStart.nanoseconds()),
      tick_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  most_copies_ = descriptors.rlim_cur / 4;
}

// --- Clocks of processes ------------------------------------------------------------

SimulatedTime::Rank& SimulatedTime::RankOf(pid_t process) {
  auto& rank = ranks_[process];
  if (rank == nullptr) {
    auto made = std::make_unique<Rank>();
    made->now = kStart;
    made->parent = ParentOf(process);
    made->pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
    made->wall_time = Nanoseconds(CLOCK_MONOTONIC);
    Rank* rank_ptr = made.get();
    rank = std::move(made);
    auto parent = ranks_.find(rank_ptr->parent);
    if (parent != ranks_.end()) {
      rank_ptr->now = parent->second->now;
      parent->second->children.push_back(process);
    }
    return *rank_ptr;
  }
  return *rank;
}

void SimulatedTime::TakeProcessorTime(Rank& rank, pid_t process) {
  if (options_.host.mode != HostTimeMode::kMeasured) return;
  const int64_t processor = Nanoseconds(ProcessorClock(process));
  const int64_t wall = Nanoseconds(CLOCK_MONOTONIC);
  // Threads that ran one after another count in full, those that ran at the same time
  // once: together they cannot have run for longer than the time that has passed.
  const int64_t used = std::min(processor - rank.processor_time, wall - rank.wall_time) - kTrapCost;
  if (processor == 0 || used <= 0) return;
  rank.processor_time = processor;
  rank.wall_time = wall;
  rank.now = rank.now + VirtualSpan::Picoseconds(static_cast<int64_t>(
                            static_cast<double>(used) * options_.host.scale * 1000.0));
}

void SimulatedTime::DiscardProcessorTime(Rank& rank, pid_t process) {
  if (options_.host.mode != HostTimeMode::kMeasured) return;
  rank.processor_time = Nanoseconds(ProcessorClock(process));
  rank.wall_time = Nanoseconds(CLOCK_MONOTONIC);
}

int SimulatedTime::Submit(Rank& rank, pid_t process, VirtualTime from) {
  if (!rank.uses_gpu) return 0;
  const bool fixed = options_.host.mode == HostTimeMode::kFixed;
  std::lock_guard lock(*options_.machine_lock);
  const auto submitted = options_.device->Submit(process, from, rank.now,
                                                 fixed ? options_.host.submission : VirtualSpan());
  rank.now = submitted.now;
  rank.next_event = options_.device->NextEvent(process);
  rank.seen |= submitted.seen;
  return submitted.count;
}

void SimulatedTime::NotBeforeChildren(Rank& rank) {
  if (rank.children.empty()) return;
  std::vector<pollfd> polls;
  for (const pid_t child : rank.children) {
    auto it = ranks_.find(child);
    polls.push_back({it == ranks_.end() ? -1 : it->second->pidfd.get(), POLLIN, 0});
  }
  if (poll(polls.data(), polls.size(), 0) <= 0) return;
  for (size_t i = 0; i < polls.size(); ++i) {
    if (polls[i].revents == 0) continue;
    rank.now = std::max(rank.now, ranks_[rank.children[i]]->now);
  }
}

SimulatedTime::Rank& SimulatedTime::Enter(pid_t process) {
  Rank& rank = RankOf(process);
  const VirtualTime from = rank.now;
  TakeProcessorTime(rank, process);
  NotBeforeChildren(rank);
  rank.submissions = Submit(rank, process, from);
  last_progress_ns_ = Nanoseconds(CLOCK_MONOTONIC);
  return rank;
}

void SimulatedTime::EndWait(Thread& thread, pid_t process, pid_t id) {
  if (thread.waited_until > thread.waiting_since && options_.waited) {
    options_.waited(process, id, thread.waiting_since, thread.waited_until);
  }
  thread.waiting_since = thread.waited_until = VirtualTime();
}

void SimulatedTime::ForgetThread(Rank& rank, pid_t process, pid_t id) {
  auto it = rank.threads.find(id);
  if (it == rank.threads.end()) return;
  EndWait(it->second, process, id);
  rank.threads.erase(it);
}

void SimulatedTime::DriverCall(pid_t process, pid_t thread) {
  Rank& rank = Enter(process);
  if (!rank.uses_gpu) ++gpu_ranks_;
  rank.uses_gpu = true;
  ForgetThread(rank, process, thread);
  if (options_.host.mode == HostTimeMode::kFixed) rank.now = rank.now + options_.host.driver_call;
  quiet_ = false;
  Runs(thread);
}

void SimulatedTime::ProcessDied(pid_t process) {
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    if (it->second.process == process) Take(it);
    it = next;
  }
  processes_known_ = false;
  auto it = ranks_.find(process);
  if (it == ranks_.end()) return;
  Rank& rank = *it->second;
  auto parent = ranks_.find(rank.parent);
  if (parent != ranks_.end()) {
    parent->second->now = std::max(parent->second->now, rank.now);
    std::erase(parent->second->children, process);
  }
  if (rank.uses_gpu) --gpu_ranks_;
  if (rank.uses_gpu) finished_.push_back({process, rank.now - kStart, rank.waited});
  ranks_.erase(it);
}

std::vector<SimulatedTime::RankTime> SimulatedTime::ranks() const {
  auto ranks = finished_;
  for (const auto& [process, rank] : ranks_) {
    if (rank->uses_gpu) ranks.push_back({process, rank->now - kStart, rank->waited});
  }
  return ranks;
}

// --- Calls --------------------------------------------------------------------------

bool SimulatedTime::Serve(const seccomp_notif& notification, const Tracee& tracee,
                          NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  if (thread == runner_) let_go_ = false;
  switch (notification.data.nr) {
    case SYS_clone:
    case SYS_clone3:
    case SYS_fork:
    case SYS_vfork:
      Enter(tracee.process);  // the child starts with this time
      processes_known_ = quiet_ = false;
      forked_ = true;
      Runs(thread);
      listener.ReplyContinue(notification.id);
      return true;
    case SYS_arch_prctl:
      ServeNewProgram(notification, tracee);
      listener.ReplyContinue(notification.id);
      return true;
    case SYS_clock_gettime:
    case SYS_gettimeofday:
    case SYS_time:
      ServeClock(notification, tracee.process, listener);
      return true;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_futex:
    case SYS_rt_sigtimedwait:
      ServeWait(notification, tracee, listener);
      return true;
    default:
      return false;
  }
}

void SimulatedTime::ServeNewProgram(const seccomp_notif& notification, const Tracee& tracee) {
  // It sets the thread pointer, which every C library does once, before anything of the
  // program runs.
  RankOf(tracee.process);
  quiet_ = false;
  Runs(static_cast<pid_t>(notification.pid));
  if (auto status = vdso_.Redirect(tracee.process); !status.ok()) {
    options_.unknowns->Count("clock of a process", 0,
                             "it reads real time: " + std::string(status.message()));
  }
}

bool SimulatedTime::WriteClock(pid_t thread, RemoteAddress to, int clock, VirtualTime now) const {
  const int64_t time = now.nanoseconds() + (IsRealtime(clock) ? realtime_offset_ : 0);
  const timespec value{.tv_sec = time / 1'000'000'000, .tv_nsec = time % 1'000'000'000};
  return RemoteMemory(thread).WriteObject(to, value);
}

void SimulatedTime::AnswerClock(const seccomp_notif& notification, VirtualTime now,
                                NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  const auto& arguments = notification.data.args;
  const int64_t realtime = now.nanoseconds() + realtime_offset_;
  const RemoteMemory memory(thread);
  bool written = true;
  int64_t value = 0;
  switch (notification.data.nr) {
    case SYS_clock_gettime:
      written =
          WriteClock(thread, RemoteAddress{arguments[1]}, static_cast<int>(arguments[0]), now);
      break;
    case SYS_gettimeofday: {
      const timeval time{.tv_sec = realtime / 1'000'000'000,
                         .tv_usec = realtime % 1'000'000'000 / 1000};
      const struct timezone utc {};
      if (arguments[0] != 0) written = memory.WriteObject(RemoteAddress{arguments[0]}, time);
      if (arguments[1] != 0) written &= memory.WriteObject(RemoteAddress{arguments[1]}, utc);
      break;
    }
    case SYS_time:
      value = realtime / 1'000'000'000;
      if (arguments[0] != 0) written = memory.WriteObject(RemoteAddress{arguments[0]}, value);
      break;
  }
  if (written) {
    listener.ReplyValue(notification.id, value);
  } else {
    listener.ReplyError(notification.id, EFAULT);
  }
}

void SimulatedTime::ChargeRead(Rank& rank, Thread& thread) {
  const bool waits = ++thread.reads > kReadsOfWait;
  const bool counted = options_.host.mode == HostTimeMode::kMeasured;
  rank.now = rank.now + (waits && !counted ? kTurnOfWait : options_.host.clock_read);
}

void SimulatedTime::ServeClock(const seccomp_notif& notification, pid_t process,
                               NotifyListener& listener) {
  ++counters_.clock_reads;
  const pid_t thread_id = static_cast<pid_t>(notification.pid);
  const int clock = static_cast<int>(notification.data.args[0]);
  const bool continues = quiet_ && sole_runner_ == thread_id;
  if (continues) DiscardProcessorTime(RankOf(process), process);  // it only looked again
  Rank& rank = Enter(process);
  Thread& thread = rank.threads[thread_id];
  const bool raw =
      notification.data.nr == SYS_clock_gettime && clock == CLOCK_MONOTONIC_RAW && rank.uses_gpu;
  // Who has submitted something has not been waiting.
  if (rank.submissions > 0 || !raw) EndWait(thread, process, thread_id);
  if (rank.submissions > 0) thread = Thread{};
  thread.spins = raw ? thread.spins + 1 : 0;
  if (thread.spins >= kSpinsOfWait) {
    quiet_ = continues;
    sole_runner_ = 0;
    if (!continues) ++counters_.gpu_waits;
    Held held;
    held.process = process;
    held.thread = thread_id;
    held.clock = clock;
    held.clock_out = RemoteAddress{notification.data.args[1]};
    held.since = rank.now;
    if (rank.next_event == VirtualTime::Infinity()) {
      // Its own GPUs have nothing to do, so it waits for somebody else. It looks again
      // later, and later still.
      const uint32_t looks = std::min(thread.spins - kSpinsOfWait, kLooksUntilRarest);
      held.deadline = rank.now + VirtualSpan::Microseconds(int64_t{1} << looks);
    }
    Hold(notification.id, std::move(held));
    return;
  }
  quiet_ = false;
  Runs(thread_id);
  ChargeRead(rank, thread);
  AnswerClock(notification, rank.now, listener);
}

void SimulatedTime::ServeWait(const seccomp_notif& notification, const Tracee& tracee,
                              NotifyListener& listener) {
  const pid_t thread = static_cast<pid_t>(notification.pid);
  Rank& rank = Enter(tracee.process);
  ForgetThread(rank, tracee.process, thread);
  quiet_ = false;
  auto wait = std::make_unique<TimedWait>(notification, rank.now, realtime_offset_);
  int descriptor = -1;
  if (wait->verdict() == TimedWait::Verdict::kWait) {
    descriptor = wait->WatchDescriptors(tracee.pidfd.get(),
                                        copies_ < most_copies_ ? most_copies_ - copies_ : 0);
    pollfd ready{descriptor, POLLIN, 0};
    if (descriptor >= 0 && poll(&ready, 1, 0) > 0) {
      Runs(thread);
      wait->Ready(listener);
      return;
    }
  }
  switch (wait->verdict()) {
    case TimedWait::Verdict::kContinue:
      if (wait->left_to_kernel() != nullptr) {
        options_.unknowns->Count("timeout kept in real time by system call",
                                 static_cast<uint64_t>(notification.data.nr),
                                 wait->left_to_kernel());
      }
      // It takes some time, so that a loop over it ends.
      rank.now = rank.now + options_.host.clock_read * 40;
      Runs(thread);
      listener.ReplyContinue(notification.id);
      return;
    case TimedWait::Verdict::kInvalid:
      Runs(thread);
      listener.ReplyError(notification.id, wait->error());
      return;
    case TimedWait::Verdict::kWait:
      break;
  }
  Held held;
  held.process = tracee.process;
  held.thread = thread;
  held.deadline = wait->deadline();
  held.wait = std::move(wait);
  held.since = rank.now;
  if (descriptor >= 0) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = descriptor;
    epoll_ctl(options_.epoll, EPOLL_CTL_ADD, descriptor, &event);
    watched_[descriptor] = notification.id;
    copies_ += held.wait->copies();
  }
  Hold(notification.id, std::move(held));
}

// --- Held calls ---------------------------------------------------------------------

void SimulatedTime::Log(const Held& held, const char* what) const {
  if (!options_.log->enabled()) return;
  const double now = (ranks_.at(held.process)->now - kStart).picoseconds() / 1e12;
  const bool ends = held.deadline != VirtualTime::Infinity();
  options_.log->Line(
      held.process,
      absl::StrFormat(
          "thread %d at %.9f s: %s %s%s", held.thread, now, what,
          held.wait == nullptr ? "wait for a GPU" : held.wait->name(),
          ends ? absl::StrFormat(" until %.9f s", (held.deadline - kStart).picoseconds() / 1e12)
               : ""));
}

void SimulatedTime::Hold(uint64_t id, Held held) {
  ++counters_.waits;
  Log(held, "begins");
  held_threads_[held.thread] = id;
  if (held.wait == nullptr) ++RankOf(held.process).gpu_waiters;
  held_.emplace(id, std::move(held));
}

SimulatedTime::Held SimulatedTime::Take(HeldCalls::iterator call) {
  Held held = std::move(call->second);
  held_threads_.erase(held.thread);
  if (held.wait == nullptr) --RankOf(held.process).gpu_waiters;
  if (held.wait != nullptr && held.wait->watched() >= 0) {
    watched_.erase(held.wait->watched());
    copies_ -= held.wait->copies();
  }
  held_.erase(call);
  return held;
}

void SimulatedTime::LetGo(HeldCalls::iterator call, NotifyListener& listener,
                          void (TimedWait::*answer)(NotifyListener&) const) {
  const Held held = Take(call);
  quiet_ = false;
  Runs(held.thread);
  TakeProcessorTime(RankOf(held.process), held.process);
  Log(held, answer == &TimedWait::TimeOut ? "timed out"
            : answer == &TimedWait::Ready ? "was ready:"
                                          : "was interrupted:");
  (held.wait.get()->*answer)(listener);
}

void SimulatedTime::LetGpuWaitersGo(pid_t process, NotifyListener& listener) {
  Rank& rank = RankOf(process);
  rank.seen = false;
  pid_t runner = 0;
  int runners = 0;
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    if (it->second.process == process && it->second.wait == nullptr) {
      const uint64_t id = it->first;
      const Held held = Take(it);
      rank.waited = rank.waited + (rank.now - held.since);
      Thread& thread = rank.threads[held.thread];
      if (thread.waited_until != held.since) EndWait(thread, process, held.thread);
      if (thread.waiting_since == VirtualTime()) thread.waiting_since = held.since;
      thread.waited_until = rank.now;
      Log(held, "looks again:");
      runner = held.thread;
      ++runners;
      if (WriteClock(held.thread, held.clock_out, held.clock, rank.now)) {
        listener.ReplyValue(id, 0);
      } else {
        listener.ReplyError(id, EFAULT);
      }
    }
    it = next;
  }
  if (runners == 0) return;
  Runs(runner);
  sole_runner_ = runners == 1 && quiet_ ? runner : 0;
  quiet_ = sole_runner_ != 0;
}

void SimulatedTime::LetServedWaitersGo(NotifyListener& listener) {
  if (held_.empty()) return;
  std::vector<pid_t> served;
  for (const auto& [process, rank] : ranks_) {
    if (rank->gpu_waiters > 0 && rank->seen) served.push_back(process);
  }
  for (const auto& [id, held] : held_) {
    // It waited for its GPUs, and they have nothing more to do.
    if (held.wait == nullptr && held.deadline == VirtualTime::Infinity() &&
        RankOf(held.process).next_event == VirtualTime::Infinity()) {
      served.push_back(held.process);
    }
  }
  for (const pid_t process : served) LetGpuWaitersGo(process, listener);
}

bool SimulatedTime::Ready(int descriptor, NotifyListener& listener) {
  if (descriptor == tick_.get()) {
    uint64_t expirations;
    [[maybe_unused]] const ssize_t got = read(tick_.get(), &expirations, sizeof expirations);
    // Time does not pass here: a call may be at hand that has not been served yet.
    ticked_ns_ = tick_ns_;
    tick_ns_ = 0;
    let_go_ = false;
    if (sole_runner_ != 0) quiet_ = false, sole_runner_ = 0;  // it does something else
    CheckHeld(listener, false);
    Nudge();
    return true;
  }
  auto it = watched_.find(descriptor);
  if (it == watched_.end()) return false;
  auto call = held_.find(it->second);
  if (call != held_.end()) LetGo(call, listener, &TimedWait::Ready);
  return true;
}

void SimulatedTime::CheckHeld(NotifyListener& listener, bool signals) {
  const int64_t now = Nanoseconds(CLOCK_MONOTONIC);
  signals |= now - last_signal_check_ns_ > kSignalCheck;
  if (signals) last_signal_check_ns_ = now;
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    if (signals && IsBeingKilled(it->second.thread)) {
      Runs(0);  // it is about to end, and whoever waits for that goes on now
    } else if (const TimedWait* wait = it->second.wait.get(); wait != nullptr) {
      if (wait->is_futex() && wait->WordChanged()) {
        LetGo(it, listener, &TimedWait::Ready);
      } else if (signals && HasSignalToHandle(it->second.thread)) {
        LetGo(it, listener, &TimedWait::Interrupt);
      } else if (signals && wait->SignalArrived()) {
        LetGo(it, listener, &TimedWait::Ready);
      }
    }
    it = next;
  }
}

// --- Passing of time ----------------------------------------------------------------

SimulatedTime::HeldCalls::iterator SimulatedTime::EarliestDeadline() {
  auto earliest = held_.end();
  for (auto it = held_.begin(); it != held_.end(); ++it) {
    if (it->second.deadline == VirtualTime::Infinity()) continue;
    if (earliest == held_.end() || it->second.deadline < earliest->second.deadline) earliest = it;
  }
  return earliest;
}

std::pair<pid_t, VirtualTime> SimulatedTime::EarliestEvent() const {
  std::pair<pid_t, VirtualTime> earliest{0, VirtualTime::Infinity()};
  for (const auto& [process, rank] : ranks_) {
    // The process id decides between equal times: the order must not depend on a hash.
    if (rank->next_event < earliest.second ||
        (rank->next_event == earliest.second && earliest.first != 0 && process < earliest.first)) {
      earliest = {process, rank->next_event};
    }
  }
  return earliest;
}

bool SimulatedTime::MayPass(VirtualTime to, NotifyListener& listener) {
  ++counters_.scans;
  if (!processes_known_) {
    processes_ = Descendants();
    processes_known_ = true;
  }
  std::vector<pid_t> behind;
  bool somebody_ahead = false;
  for (const pid_t process : processes_) {
    auto it = ranks_.find(process);
    if (it != ranks_.end() && options_.host.mode == HostTimeMode::kMeasured) {
      TakeProcessorTime(*it->second, process);
    }
    if (it != ranks_.end() && it->second->now >= to) {
      somebody_ahead = true;
    } else {
      behind.push_back(process);
    }
  }
  const auto held = [this](pid_t thread) { return held_threads_.contains(thread); };
  // Calls that have not been received, and descriptors that held calls wait for.
  pollfd pending[] = {{listener.fd(), POLLIN, 0}, {options_.epoll, POLLIN, 0}};
  const bool blocked = activity_.AllBlocked(behind, held);
  const bool called = poll(pending, 2, 0) > 0;
  if (called || !blocked) {
    if (forked_) processes_known_ = false;  // the child may not have been there yet
    quiet_ = false;
    if (called) return false;
    return Nanoseconds(CLOCK_MONOTONIC) - last_progress_ns_ > kImpatience;
  }
  forked_ &= somebody_ahead;
  quiet_ = !somebody_ahead;
  sole_runner_ = 0;
  return true;
}

void SimulatedTime::LiftAll(VirtualTime to) {
  for (auto& [process, rank] : ranks_) {
    if (quiet_) TakeProcessorTime(*rank, process);
    rank->now = std::max(rank->now, to);
  }
}

void SimulatedTime::Pass(NotifyListener& listener) {
  // Others are to be served too, even if GPUs never come to rest.
  const int64_t begin = Nanoseconds(CLOCK_MONOTONIC);
  while (Nanoseconds(CLOCK_MONOTONIC) - begin < kLongestPass) {
    if (let_go_ || (quiet_ && sole_runner_ != 0)) break;
    CheckHeld(listener, false);
    LetServedWaitersGo(listener);
    if (let_go_ || (quiet_ && sole_runner_ != 0)) break;
    auto call = EarliestDeadline();
    const auto [process, event] = EarliestEvent();
    const VirtualTime deadline =
        call == held_.end() ? VirtualTime::Infinity() : call->second.deadline;
    const VirtualTime next = std::min(deadline, event);
    if (next == VirtualTime::Infinity()) break;
    const bool known_quiet = quiet_ && sole_runner_ == 0;
    if (!known_quiet) {
      if (!MayPass(next, listener)) break;
      // What was submitted before everybody stopped.
      int submitted = 0;
      for (auto& [other, rank] : ranks_) submitted += Submit(*rank, other, rank->now);
      CheckHeld(listener, true);
      if (submitted > 0 || let_go_) continue;
    }
    last_progress_ns_ = Nanoseconds(CLOCK_MONOTONIC);
    ++counters_.jumps;
    if (event <= deadline) {
      Rank& rank = *ranks_[process];
      SimulatedDevice::Progress progress;
      {
        std::lock_guard lock(*options_.machine_lock);
        progress = options_.device->Advance(process, event, true);
        rank.next_event = options_.device->NextEvent(process);
      }
      if (quiet_) {
        LiftAll(progress.time);
      } else {
        rank.now = std::max(rank.now, progress.time);
      }
      if (progress.interrupted) quiet_ = false;
      rank.seen |= progress.released || progress.interrupted;
      LetServedWaitersGo(listener);
      if (progress.interrupted) {
        quiet_ = false;
        Runs(0);  // somebody, perhaps
      }
      continue;
    }
    if (quiet_) LiftAll(deadline);
    Rank& rank = RankOf(call->second.process);
    rank.now = std::max(rank.now, deadline);
    if (call->second.wait == nullptr) {
      LetGpuWaitersGo(call->second.process, listener);
    } else {
      LetGo(call, listener, &TimedWait::TimeOut);
    }
  }
  // While others run and nothing happens, the looks become rarer.
  const int64_t ticked = std::exchange(ticked_ns_, 0);
  if (!held_.empty() || EarliestEvent().second != VirtualTime::Infinity()) {
    bool futex = false;
    for (const auto& [id, held] : held_) futex |= held.wait != nullptr && held.wait->is_futex();
    const int64_t longest = futex ? kLongestFutexTick : kLongestTick;
    ArmTick(let_go_ ? kShortestTick : std::clamp(ticked * 2, kShortestTick, longest));
  } else if (gpu_ranks_ > 0) {
    ArmTick(kLongestTick);  // submissions of one that makes no calls
  }
}

void SimulatedTime::Nudge() {
  const int64_t now = Nanoseconds(CLOCK_MONOTONIC);
  for (auto& [process, rank] : ranks_) {
    if (!rank->uses_gpu) continue;
    const VirtualTime from = rank->now;
    TakeProcessorTime(*rank, process);
    Submit(*rank, process, from);
    if (rank->next_event != VirtualTime::Infinity() &&
        options_.host.mode != HostTimeMode::kMeasured && rank->gpu_waiters == 0 &&
        now - last_progress_ns_ > kSpinImpatience) {
      ++counters_.nudges;
      std::lock_guard lock(*options_.machine_lock);
      const auto progress = options_.device->Advance(process, rank->next_event, true);
      rank->now = std::max(rank->now, progress.time);
      rank->next_event = options_.device->NextEvent(process);
    }
  }
}

void SimulatedTime::ArmTick(int64_t nanoseconds) {
  if (tick_ns_ != 0 && tick_ns_ <= nanoseconds) return;
  tick_ns_ = nanoseconds;
  const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = tick_ns_}};
  timerfd_settime(tick_.get(), 0, &once, nullptr);
}

}  // namespace phantora
