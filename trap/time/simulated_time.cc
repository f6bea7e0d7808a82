#include "trap/time/simulated_time.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace phantora {
namespace {

// Between two looks for calls, ns of real time.
constexpr int64_t kLongestPass = 10'000'000;
// Without a look for calls and at threads, ns of real time.
constexpr int64_t kLongestLook = 200'000;
// Real time between looks at threads that run, ns. Memory that others wait for to change
// is looked at more often, as long as that costs little.
constexpr int64_t kShortestTick = 250'000, kLongestTick = 4'000'000, kPolledTick = 250'000;
constexpr int64_t kTickPerPolled = 100'000;
constexpr int64_t kLongestPostponement = 1'000'000;
// And between looks for signals.
constexpr int64_t kSignalCheck = 20'000'000, kSignalCheckPerCall = 4'000'000;
// Between looks for memory to share.
constexpr int64_t kSharingCheck = 20'000'000;
// When somebody has run for so long, in processor time, and nothing has moved, time passes
// nevertheless: the one who runs may wait for memory to change.
constexpr int64_t kImpatience = 10'000'000'000;

// Whole seconds where runs repeat: what a program makes of the time in floating point (Python's
// time.time() + 0.1) is then rounded in the same way each time.
int64_t RealtimeOffset(const SimulatedTime::Options& options) {
  const int64_t offset = options.clocks.clock->Realtime() - ProcessClocks::Start().nanoseconds();
  return options.threads == nullptr ? offset : offset - offset % 1'000'000'000;
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
  if (options.threads != nullptr) {
    options.threads->SetMayGo([time = time.get()](pid_t process) { return time->MayGo(process); });
    if (time->learns()) {
      options.threads->SetTimeOf([time = time.get()](pid_t process, pid_t thread) {
        return time->clocks_.TimeOf(process, thread);
      });
    }
    options.threads->SetStoppedByRun(
        [time = time.get()](pid_t process) { return time->activity_.IsStoppedByRun(process); });
  }
  return time;
}

SimulatedTime::SimulatedTime(const Options& options, Vdso vdso)
    : options_(options),
      vdso_(std::move(vdso)),
      realtime_offset_(RealtimeOffset(options)),
      tick_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      clocks_(options.clocks),
      held_(options.epoll),
      timers_(realtime_offset_,
              [this] {
                std::vector<std::pair<pid_t, int>> living;
                for (const auto& [id, process] : clocks_.all()) {
                  living.emplace_back(id, process->pidfd.get());
                }
                return living;
              }),
      peers_([this](pid_t process, bool thorough) {
        if (clocks_.Find(process) != nullptr || !thorough) return clocks_.Find(process) != nullptr;
        const auto all = options_.descendants();
        return std::find(all.begin(), all.end(), process) != all.end();
      }),
      outside_(options.clocks.clock),
      activity_(options.clocks.threads, options.clocks.clock) {}

void SimulatedTime::Runs(pid_t thread, pid_t process) {
  clocks_.Stir(process);
  let_go_ = true;
  ++gone_;
  runner_ = thread;
  others_rest_ &= thread != 0 && spins_.Spins(thread);
  let_go_since_ = RealNow();
}

void SimulatedTime::DriverCall(pid_t id, pid_t thread) {
  HeardOf(id, thread);
  Process& process = clocks_.Stopped(id, thread);
  spins_.GoesOn(thread);
  clocks_.SetUsesGpu(process, thread);
  clocks_.ForgetThread(process, id, thread);
  // Where costs are learned, those are of the process's own code, without the driver's.
  if (options_.clocks.host.mode == HostTimeMode::kFixed || learns()) {
    process.now = process.now + options_.clocks.host.driver_call;
  }
  quiet_ = false;
  Runs(thread, id);
}

void SimulatedTime::ProcessDied(pid_t process) {
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    if (it->second.process == process) held_.Take(it);
    it = next;
  }
  processes_known_ = quiet_ = false;
  // That it has ended is told to those that watch it before its parent has SIGCHLD, under a lock of
  // the kernel that looking for a child of one's own waits for (exit_notify and do_wait in
  // kernel/exit.c).
  siginfo_t ended;
  waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT);
  const auto is_it = [process](pid_t other) { return other == process; };
  signals_.Blocked(is_it);
  wakes_.Blocked(is_it);
  signals_.Arrive(CallsUnderWay::kAnybody);
  Runs(0, 0);  // its parent, perhaps
  LetSpinnersLook(clocks_.NowOf(process), 0);
  order_.Forget(process);
  releases_.erase(process);
  held_.ProcessDied(process);
  spins_.ProcessDied(process);
  clocks_.Died(process);
  timers_.ProcessDied(process);
  outside_.ProcessDied(process);
  if (options_.sharing != nullptr) options_.sharing->ProcessDied(process);
  if (options_.threads != nullptr) {
    options_.threads->ProcessDied(process);
    ended_.push_back({process, process});
  }
}

void SimulatedTime::ServeEndedThreads(NotifyListener& listener) {
  if (options_.threads == nullptr) return;
  for (const auto& ended : options_.threads->TakeEnded()) ended_.push_back(ended);
  for (const auto& ended : std::exchange(ended_, {})) {
    WakeWhoJoins(ended, listener);
    clocks_.EndsThread(ended.process, ended.thread);
  }
}

void SimulatedTime::TakeTick() {
  if (tick_ns_ == 0 || RealNow() < tick_due_ns_) return;
  uint64_t expirations;
  if (read(tick_.get(), &expirations, sizeof expirations) != sizeof expirations) return;
  ticked_ns_ = tick_ns_;
  tick_ns_ = 0;
}

bool SimulatedTime::Ready(int descriptor, NotifyListener& listener) {
  if (descriptor == tick_.get()) {
    // Time does not pass here: a call may be at hand that has not been served yet.
    TakeTick();
    // The tick may have been armed long before.
    if (RealNow() - let_go_since_ > kShortestTick / 2) let_go_ = false;
    stopped_ = 0;
    if (sole_runner_ != 0) quiet_ = false, sole_runner_ = 0;  // it does something else
    const int nudged =
        clocks_.Nudge([this](pid_t process) { return held_.gpu_waiters().contains(process); });
    counters_.nudges += static_cast<uint64_t>(nudged);
    LetSpinnersLookAnyway(listener);
    if (nudged > 0) ticked_ns_ = 0;  // look again soon
    return true;
  }
  bool known = false;
  auto call = held_.Watching(descriptor, &known);
  if (call == held_.end()) return known;
  if (options_.threads != nullptr) {
    // It is served in its turn, when all that come by its time have come.
    held_.NoteReady(call);
    call->second.asked.clear();  // somebody outside has answered
    order_.AddEnd(ReadyAt(call->second), call->second.process, call->first);
  } else if (call->second.wait->CollectReady()) {
    LetGo(call, listener, End::kReady);
  }
  return known;
}

bool SimulatedTime::RunsForNothing() {
  const pid_t thread = activity_.running();
  const int64_t ran = options_.clocks.clock->ThreadProcessorTime(thread);
  if (thread != suspect_ || clocks_.last_progress() > suspect_since_) {
    suspect_ = thread;
    suspect_ran_ = ran;
    suspect_since_ = clocks_.last_progress();
  }
  return ran - suspect_ran_ > kImpatience;
}

bool SimulatedTime::NothingLeft(VirtualTime before, NotifyListener& listener) {
  // What was submitted before everybody stopped; not what somebody submits who runs.
  const int submitted = SubmitAll(quiet_ ? VirtualTime::Infinity() : before);
  const uint64_t let_go = gone_;
  CheckPolledOfBlocked(listener);
  CheckSentSignals(before, listener);
  // It may have raised an interrupt, and woken somebody.
  if (submitted > 0) quiet_ = false;
  return submitted == 0 && gone_ == let_go;
}

bool SimulatedTime::PassToCall(NotifyListener& listener) {
  const CallOrder::Place first = order_.earliest();
  if (!MayPass(first.at, listener, false, first.process)) return false;
  if (!NothingLeft(first.at, listener)) return true;
  next_ = order_.Take();
  if (next_) {
    ordered_ = next_->id;
    ordered_at_ = first.at;
    return true;
  }
  if (first.call == CallOrder::kRelease) {
    releases_.erase(first.process);
    if (const Process* process = clocks_.Find(first.process);
        learns() && process != nullptr && HasEarlierEnd(*process)) {
      // What has come up since then goes first.
      order_.AddRelease(process->now, first.process);
      return true;
    }
    quiet_ = false;
    options_.threads->LetGo(first.process);
    ++gone_;
    return true;
  }
  const auto held = held_.Find(first.call);
  if (held == held_.end()) return true;
  if (held->second.spins) {
    LetLook(first.call, listener);
  } else if (held->second.wait->CollectReady()) {
    if (learns()) clocks_.Raise(clocks_.Of(first.process), held->second.thread, first.at);
    LetGo(held, listener, End::kReady);
  } else {
    held_.WatchOn(held);
  }
  return true;
}

bool SimulatedTime::MayGo(pid_t id) {
  const Process* process = clocks_.Find(id);
  if (process != nullptr && learns() && HasEarlierEnd(*process)) {
    order_.AddRelease(process->now, id);
    return false;
  }
  // While somebody looks at memory again and again, nobody goes ahead who might write to it.
  const bool may_be_seen = !held_.spinners().empty();
  if (process == nullptr || (!process->waits_for_others && !may_be_seen)) return true;
  // (Of threads with clocks of their own, one may have been kept until later.)
  if (releases_.insert(id).second || learns()) order_.AddRelease(process->now, id);
  return false;
}

std::optional<seccomp_notif> SimulatedTime::Next() { return std::exchange(next_, std::nullopt); }

bool SimulatedTime::MayPass(VirtualTime to, NotifyListener& listener, bool again, pid_t before) {
  const auto is_later = [&](const Process& process) {
    return process.now > to || (process.now == to && process.id >= before);
  };
  // Calls that have not been received, and descriptors that held calls wait for.
  const auto is_called = [&] {
    TakeTick();  // all that it asks for is a look
    return listener.HasCallOr(options_.epoll);
  };
  if ((options_.turns != nullptr && options_.turns->holds_any()) || is_called()) {
    quiet_ = false;
    return false;
  }
  ++counters_.scans;
  if (!processes_known_) {
    processes_ = options_.descendants();
    processes_known_ = true;
    activity_.KeepOnly(processes_);
    clocks_.KeepOnly(processes_);
  }
  if (!signals_.empty()) {
    clocks_.Stir(0);
    activity_.Signalled();
  }
  if (!wakes_.empty()) {
    clocks_.StirFutexes();
    activity_.SharedFutexWoken();
  }
  std::vector<pid_t> behind;
  bool somebody_ahead = false;
  horizon_ = VirtualTime::Infinity();
  for (const pid_t id : processes_) {
    // One that has made no call yet may compute all the same.
    Process* process = CountsProcessorTime() ? &clocks_.Of(id) : clocks_.Find(id);
    if (process != nullptr && !is_later(*process)) {
      // Who rested at the last look and has had no reason to wake does so still.
      if (clocks_.RestsStill(*process)) continue;
      clocks_.TakeProcessorTime(*process, id);
    }
    if (process != nullptr && is_later(*process)) {
      somebody_ahead = true;
      horizon_ = std::min(horizon_, process->now);
      continue;
    }
    if (options_.threads != nullptr &&
        (options_.threads->IsUnsettled(id) || options_.threads->HasJustGone(id))) {
      quiet_ = false;
      horizon_ = VirtualTime();
      return false;
    }
    if (process != nullptr) clocks_.BeginLook(*process);
    behind.push_back(id);
  }
  const auto held = [this](pid_t thread) { return held_.HoldsThread(thread); };
  const bool blocked = activity_.AllBlocked(behind, held);
  const bool called = is_called();
  if (called || !blocked) {
    if (activity_.saw_dying()) processes_known_ = false;
    quiet_ = false;
    horizon_ = VirtualTime();
    const bool spins = !called && RunsForNothing();
    others_rest_ &= called || spins;
    return spins;
  }
  const auto seen_blocked = [&](pid_t id) {
    const Process* process = clocks_.Find(id);
    return process == nullptr || !is_later(*process);
  };
  // Nobody was passed over whom they may have woken.
  wakes_.Blocked(seen_blocked);
  wakes_.TakeArrived();
  for (const pid_t id : behind) {
    if (Process* process = clocks_.Find(id)) {
      clocks_.NoteRest(*process, activity_.woken_by(id));
      blocked_.push_back(id);
    }
    if (options_.threads != nullptr) options_.threads->FoundAsleep(id);
    if (Process* process = learns() ? clocks_.Find(id) : nullptr) clocks_.FoundAsleep(*process);
  }
  // The child of somebody who is ahead is ahead too.
  if (!again && absl::erase_if(forkers_, seen_blocked) > 0) {
    processes_known_ = false;
    return MayPass(to, listener, true, before);
  }
  quiet_ = !somebody_ahead;
  others_rest_ = quiet_;
  sole_runner_ = 0;
  return true;
}

int SimulatedTime::SubmitAll(VirtualTime before) {
  int submitted = 0;
  // In an order of their own: what GPUs share sees one rank's work after the other's.
  for (Process* process : clocks_.EarlierThan(before)) {
    submitted += clocks_.Submit(*process, process->id, process->now);
  }
  return submitted;
}

VirtualTime SimulatedTime::NextThing() {
  auto call = held_.Earliest();
  const VirtualTime deadline =
      call == held_.end() ? VirtualTime::Infinity() : call->second.deadline;
  return std::min({deadline, timers_.Earliest().time, clocks_.EarliestEvent().second,
                   clocks_.NextSharedEvent()});
}

void SimulatedTime::Pass(NotifyListener& listener) {
  // Others are to be served too, even if GPUs never come to rest.
  const int64_t begin = RealNow();
  const int64_t ticked = ticked_ns_;
  bool hidden_work = false;
  VirtualTime horizon;
  int64_t looked = begin;
  uint64_t gone_at_look = 0;
  const auto held_calls = static_cast<int64_t>(held_.all().size());
  if (begin - last_signal_check_ns_ > std::max(kSignalCheck, held_calls * kSignalCheckPerCall)) {
    CheckSignals(CallsUnderWay::kAnybody, listener);
    // Nor need one that nobody here has sent be among held calls.
    clocks_.Stir(0);
    activity_.Signalled();
  }
  // Memory changes when a process runs: its own calls may wait for that, and once in a
  // while others.
  if (stopped_ >= 0) CheckPolled(std::exchange(stopped_, kNobody), listener);
  for (const uint64_t call : std::exchange(looks_due_, {})) LetLook(call, listener);
  ServeEndedThreads(listener);
  CheckTimers(listener);
  ShareMemory(listener);
  while (RealNow() - begin < kLongestPass && !WaitsForOutside()) {
    if (waits_for_runner() || (quiet_ && sole_runner_ != 0)) break;
    LetServedWaitersGo(listener);
    if (waits_for_runner() || (quiet_ && sole_runner_ != 0)) break;
    auto call = held_.Earliest();
    const VirtualTime deadline =
        call == held_.end() ? VirtualTime::Infinity() : call->second.deadline;
    const VirtualTimers::Due timer = timers_.Earliest();
    const auto [process, event] = clocks_.EarliestEvent();
    const VirtualTime shared = clocks_.NextSharedEvent();
    const VirtualTime next = std::min({deadline, event, timer.time, shared});
    if (!order_.empty() && order_.earliest().at < next) {
      if (!PassToCall(listener) || next_) break;
      continue;
    }
    if (next == VirtualTime::Infinity()) {
      // Work may have been submitted by threads that have not made a call since.
      hidden_work = clocks_.HasHiddenWork();
      if (!hidden_work || ticked == 0 || !MayPass(next, listener) || SubmitAll(next) == 0) break;
      quiet_ = false;
      continue;
    }
    const bool known_quiet = quiet_ && sole_runner_ == 0;
    const int64_t now = RealNow();
    // Who has been let go since the last look may be earlier.
    if (!known_quiet && (next > horizon || gone_ != gone_at_look || now - looked > kLongestLook)) {
      if (!MayPass(next, listener)) break;
      if (!NothingLeft(next, listener)) continue;
      horizon = horizon_;
      looked = now;
      gone_at_look = gone_;
    }
    clocks_.NoteProgress();
    ++counters_.jumps;
    // What is shared comes first: what GPUs do at this time may follow from it.
    clocks_.Passed(next);
    if (shared == next) {
      if (quiet_) clocks_.LiftAll(next, true);
      continue;
    }
    if (event <= std::min(deadline, timer.time)) {
      PassToEvent(process, event, listener);
    } else if (timer.time <= deadline) {
      PassToTimer(timer, listener);
    } else {
      PassToDeadline(call, listener);
    }
  }
  ticked_ns_ = 0;
  ArmNextTick(hidden_work, ticked);
}

void SimulatedTime::ShareMemory(NotifyListener& listener) {
  if (options_.sharing == nullptr) return;
  const int64_t now = RealNow();
  if (now - last_sharing_ns_ < kSharingCheck) return;
  last_sharing_ns_ = now;
  const bool urgent = options_.sharing->IsUrgent();
  absl::flat_hash_set<pid_t> asked;
  for (const auto& [call, held] : held_.all()) {
    Process& process = clocks_.Of(held.process);
    if (!asked.insert(held.process).second) continue;
    if (!options_.sharing->Wants(held.process, urgent)) continue;
    {
      std::lock_guard lock(*options_.clocks.machine_lock);
      options_.sharing->Share(held.process, call, listener, [&, id = held.process](pid_t thread) {
        return StandsInCall(id, thread);
      });
    }
    // Its threads have run a little, to no purpose of their own.
    clocks_.DiscardProcessorTime(process, held.process);
    clocks_.Stir(held.process);
    activity_.Signalled();
    quiet_ = false;
    last_sharing_ns_ = RealNow();
    if (!urgent) return;
  }
}

bool SimulatedTime::StandsInCall(pid_t process, pid_t thread) const {
  return held_.HoldsThread(thread) ||
         (options_.turns != nullptr && options_.turns->HoldsThread(thread)) ||
         order_.HoldsThread(thread) ||
         (options_.threads != nullptr && options_.threads->Stands(process, thread));
}

bool SimulatedTime::Rests(pid_t process, NotifyListener& listener) {
  // A thread whose call has not been received is blocked in it.
  const auto held = [this](pid_t thread) { return held_.HoldsThread(thread); };
  // Who stands here until others have come as far rests, too: they may wait for his turn to end.
  if (order_.Has(process) && !options_.threads->HasJustGone(process)) return !listener.HasCall();
  return !IsUnsettled(process) && !listener.HasCall() && activity_.AllBlocked({process}, held) &&
         !listener.HasCall();
}

bool SimulatedTime::AtRest(NotifyListener& listener) {
  const VirtualTime never = VirtualTime::Infinity();
  return order_.empty() && !WaitsForOutside() && NextThing() == never && !clocks_.HasHiddenWork() &&
         MayPass(never, listener) && quiet_;
}

void SimulatedTime::PassToEvent(pid_t id, VirtualTime event, NotifyListener& listener) {
  Process& process = clocks_.Of(id);
  const auto progress = clocks_.Advance(process, id, event);
  if (quiet_) {
    clocks_.LiftAll(progress.time, true);
  } else if (!learns()) {
    process.now = std::max(process.now, progress.time);
  }
  if (progress.interrupted) quiet_ = false;
  if (progress.released || progress.interrupted) ProcessClocks::NoteSeen(process, progress.time);
  LetServedWaitersGo(listener);
  if (progress.interrupted) {
    quiet_ = false;
    Runs(0, id);  // somebody, perhaps
  }
}

void SimulatedTime::PassToTimer(VirtualTimers::Due due, NotifyListener& listener) {
  if (quiet_) clocks_.LiftAll(due.time, true);
  Process& process = clocks_.Of(due.process);
  clocks_.Lift(process, due.time);
  timers_.ExpireDue(due.process, process.now);
  quiet_ = false;
  Runs(0, 0);  // who handles the signal, or reads the timer
  signals_.Arrive(due.process);
  CheckSignals(due.process, listener);
}

void SimulatedTime::PassToDeadline(HeldCalls::Calls::iterator call, NotifyListener& listener) {
  const VirtualTime deadline = call->second.deadline;
  if (quiet_) clocks_.LiftAll(deadline, true);
  Process& process = clocks_.Of(call->second.process);
  clocks_.Raise(process, call->second.thread, deadline);
  SeesOthers(call->second);
  // What it sees may have been written as late as the earliest of the others is.
  if (call->second.spins && !quiet_ && options_.threads == nullptr) {
    const VirtualTime others = clocks_.EarliestBut(process.id, process.now);
    if (others != VirtualTime::Infinity()) process.now = others;
  }
  if (call->second.for_others) {
    AnswerHeld(call, listener);
  } else if (call->second.for_gpu()) {
    LetGpuWaitersGo(call->second.process, listener);
  } else {
    LetGo(call, listener, End::kTimedOut);
  }
}

void SimulatedTime::ArmNextTick(bool hidden_work, int64_t ticked) {
  // While others run and nothing happens, the looks become rarer.
  const bool timers = timers_.Earliest().time != VirtualTime::Infinity();
  if (!held_.empty() || !order_.empty() || timers || hidden_work || !outside_.empty() ||
      clocks_.EarliestEvent().second != VirtualTime::Infinity() ||
      clocks_.NextSharedEvent() != VirtualTime::Infinity()) {
    const int64_t polled = static_cast<int64_t>(held_.polled()) * kTickPerPolled;
    const int64_t longest = polled > 0 ? std::max(polled, kPolledTick) : kLongestTick;
    ArmTick(let_go_ ? kShortestTick : std::clamp(ticked * 2, kShortestTick, longest));
  } else if (clocks_.gpu_processes() > 0) {
    ArmTick(kLongestTick);  // submissions of one that makes no calls
  }
}

void SimulatedTime::ArmTick(int64_t nanoseconds) {
  const int64_t now = RealNow();
  if (tick_ns_ != 0 && tick_ns_ <= nanoseconds) {
    // While calls come, nobody has to look; others wait no longer for that than a while.
    const bool postponed = let_go_ && now - armed_since_ > kShortestTick / 2 &&
                           now - tick_wanted_since_ < kLongestPostponement;
    if (!postponed) return;
  } else {
    tick_wanted_since_ = now;
  }
  armed_since_ = now;
  tick_ns_ = nanoseconds;
  tick_due_ns_ = now + nanoseconds;
  options_.clocks.clock->ArmTimer(tick_.get(), nanoseconds);
}

}  // namespace phantora
