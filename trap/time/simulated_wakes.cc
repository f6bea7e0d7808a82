// SimulatedTime's wakes: what processes do to make each other go on.
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <map>
#include <utility>

#include "trap/linux/shared_word.h"
#include "trap/time/asked_stops.h"
#include "trap/time/simulated_time.h"

namespace phantora {
namespace {

// Of a process that a signal is sent to; others are taken to block it.
constexpr size_t kMostThreadsAsked = 64;
constexpr uint64_t kInPage = 4095;
// Whose default action is nothing (signal(7)).
constexpr uint64_t kIgnoredByDefault =
    SignalBit(SIGCHLD) | SignalBit(SIGCONT) | SignalBit(SIGURG) | SignalBit(SIGWINCH);

// The signal that a call sends; 0 for none.
int SignalOf(const CallArguments& call) {
  switch (call.number()) {
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo:
      return call.Int(2);
    default:
      return call.Int(1);
  }
}

bool IsToOneThread(const CallArguments& call) {
  return call.number() == SYS_tgkill || call.number() == SYS_rt_tgsigqueueinfo;
}

// Does the thread, if it waits, go on when it gets the signal?
bool GoesOnBy(const ThreadSignals& signals, uint64_t signal) {
  const uint64_t nothing = kIgnoredByDefault & ~signals.caught;
  return (signal & ~signals.blocked & ~signals.ignored & ~nothing) != 0;
}

}  // namespace

bool SimulatedTime::IsFutexWake(const CallArguments& call) {
  if (call.number() != SYS_futex) return false;
  const int command = call.Int(1) & FUTEX_CMD_MASK;
  return command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET;
}

void SimulatedTime::HeardOf(pid_t process, pid_t thread) {
  signals_.Stopped(thread);
  wakes_.Stopped(thread);
  if (wake_times_.empty()) return;
  if (Process* known = clocks_.Find(process)) {
    known->now = std::max(known->now, wake_times_.Heard(thread));
  }
}

VirtualTime SimulatedTime::WakesOthers(const TrappedCall& call) {
  spins_.GoesOn(call.thread());
  const Process& process = clocks_.Stopped(call.process(), call.thread(), true);
  quiet_ = false;
  LetSpinnersLook(process.now, call.thread());
  Runs(call.thread(), call.process());
  return ProcessClocks::SeenBy(process, call.thread());
}

void SimulatedTime::ServeSignal(const TrappedCall& call) {
  const VirtualTime now = WakesOthers(call);
  const pid_t receiver = ReceiverOf(call);
  clocks_.Stir(receiver);
  if (receiver != CallsUnderWay::kAnybody && receiver != call.process()) {
    NotBeforeSignal(receiver, call, now);
  }
  NoteStop(receiver, SignalOf(call));
  signals_.Begin(call.thread(), call.process(), receiver);
  call.Continue();
}

void SimulatedTime::ServeStop(const TrappedCall& call) {
  NoteAskedStop(call);
  quiet_ = false;
  Runs(call.thread(), call.process());
  call.Continue();
}

void SimulatedTime::NoteAskedStop(const TrappedCall& call) {
  if (const auto process = AskedToStop(call)) activity_.MayStopByRun(*process);
}

void SimulatedTime::NoteStop(pid_t receiver, int signal) {
  if (IsStopSignal(signal)) {
    activity_.StopsByRun(receiver);
  } else if (signal == SIGCONT) {
    activity_.ContinuesByRun(receiver);
  }
}

void SimulatedTime::NotBeforeSignal(pid_t receiver, const CallArguments& call, VirtualTime now) {
  Process& process = clocks_.Of(receiver);
  const int number = SignalOf(call);
  if (process.now >= now || number < 1 || number > 64) return;
  const Proc& files = *options_.clocks.threads;
  auto threads = files.Threads(receiver).value_or(std::vector<pid_t>());
  if (IsToOneThread(call)) {
    std::erase_if(threads,
                  [&](pid_t thread) { return thread != static_cast<pid_t>(call.Word(1)); });
  }
  if (threads.size() > kMostThreadsAsked) threads.resize(kMostThreadsAsked);
  const auto awaits = [&](pid_t thread) {
    const auto held = held_.OfThread(thread);
    return held != held_.end() && held->second.wait != nullptr &&
           held->second.wait->AwaitsSignal(SignalBit(number));
  };
  if (std::any_of(threads.begin(), threads.end(), [&](pid_t thread) {
        return GoesOnBy(SignalsOf(thread, files), SignalBit(number)) || awaits(thread);
      })) {
    clocks_.Lift(process, now);
  }
}

void SimulatedTime::ServeFutexWake(const TrappedCall& call) {
  if (sees_wakes()) return ServeSeenWake(call);
  NotBeforeWake(call, WakesOthers(call));
  wakes_.Begin(call.thread(), call.process(), CallsUnderWay::kAnybody);
  call.Continue();
}

void SimulatedTime::NotBeforeWake(const TrappedCall& call, VirtualTime now) {
  const uint64_t address = call.Word(0);
  const auto held = [this](pid_t thread) { return held_.HoldsThread(thread); };
  auto waiters = activity_.SharedFutexWaiters(processes_, held);
  const auto [first, last] = held_.PolledOf(0);
  for (auto it = first; it != last; ++it) {
    const HeldCall& other = it->second->second;
    if (other.wait->is_private()) continue;
    for (const auto& [word, value] : other.wait->words()) {
      waiters.push_back({other.process, other.thread, static_cast<uint64_t>(word)});
    }
  }
  // What is mapped where is asked of the kernel only where the words may be one.
  std::erase_if(waiters, [&](const ThreadActivity::FutexWaiter& waiter) {
    return (waiter.address & kInPage) != (address & kInPage);
  });
  if (waiters.empty()) return;
  const Proc& files = *options_.clocks.threads;
  const auto woken = SharedWord::Of(call.process(), address, files);
  if (!woken) return;
  std::vector<pid_t> threads;
  for (const auto& waiter : waiters) {
    if (SharedWord::Of(waiter.process, waiter.address, files) == woken) {
      threads.push_back(waiter.thread);
    }
  }
  wake_times_.Woken(std::move(threads), static_cast<uint32_t>(call.Int(2)), now);
}

pid_t SimulatedTime::ReceiverOf(const CallArguments& call) {
  switch (call.number()) {
    case SYS_kill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo: {
      // All four begin with a process; none, or less than 1, are several.
      const auto process = static_cast<pid_t>(call.Word(0));
      return process > 0 && clocks_.Find(process) != nullptr ? process : CallsUnderWay::kAnybody;
    }
    default:  // a thread or a descriptor: whose is not known
      return CallsUnderWay::kAnybody;
  }
}

void SimulatedTime::CheckSignals(pid_t process, NotifyListener& listener) {
  // One thread handles a signal that was sent to a process: the first, if it may.
  std::map<pid_t, uint64_t> handlers;
  for (auto it = held_.begin(); it != held_.end();) {
    auto next = std::next(it);
    const HeldCall& held = it->second;
    if (process != CallsUnderWay::kAnybody && held.process != process) {
      it = next;
      continue;
    }
    const ThreadSignals signals = SignalsOf(held.thread, *options_.clocks.threads);
    // First the signal, then whether the call still stands: who is being killed has one
    // or the other.
    if (signals.killed() || !listener.StillPending(it->first)) {
      signals_.Arrive(held.process);  // until it has died, time does not pass
      if (!signals.killed()) held_.Take(it);
      quiet_ = false;
      Runs(0, 0);  // it is about to end, and whoever waits for that goes on now
    } else if (signals.tracer != 0 && signals.tracer == activity_.keeping_tracer() &&
               Nudge(held.process, held.thread, signals, *options_.clocks.threads)) {
      LetAttachedGo(it, listener);
    } else if (signals.IsBeingAttached() && (held.wait == nullptr || held.wait->is_clock())) {
      LetAttachedGo(it, listener);
    } else if (held.wait != nullptr && !held.wait->is_clock()) {
      const std::optional<uint64_t> mask = held.wait->mask();
      if (signals.Due(signals.own, mask) != 0) {
        LetGo(it, listener, End::kInterrupted);
      } else if (signals.IsBeingAttached()) {
        LetGo(it, listener, End::kStopped);
      } else if (held.wait->AwaitsSignal(signals.pending())) {
        LetGo(it, listener, End::kReady);
      } else if (signals.Due(signals.shared, mask) != 0 &&
                 (held.thread == held.process || !handlers.contains(held.process))) {
        handlers[held.process] = it->first;
      }
    }
    it = next;
  }
  for (const auto& [handler, id] : handlers) {
    if (const auto it = held_.Find(id); it != held_.end()) LetGo(it, listener, End::kInterrupted);
  }
  if (process == CallsUnderWay::kAnybody) last_signal_check_ns_ = RealNow();
}

void SimulatedTime::CheckSentSignals(VirtualTime before, NotifyListener& listener) {
  signals_.Blocked([&](pid_t sender) {
    const Process* process = clocks_.Find(sender);
    return process == nullptr || process->now < before;
  });
  for (const pid_t receiver : signals_.TakeArrived()) CheckSignals(receiver, listener);
}

}  // namespace phantora
