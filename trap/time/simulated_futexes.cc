// SimulatedTime's futexes, where every call on them is seen: their queues are here, not in the
// kernel.
#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>

#include "trap/time/futex_call.h"
#include "trap/time/simulated_time.h"

namespace phantora {

void SimulatedTime::WakeFutexWaiters(const std::vector<uint64_t>& calls, VirtualTime now,
                                     NotifyListener& listener) {
  for (const uint64_t id : calls) {
    const auto call = held_.Find(id);
    if (call == held_.end()) continue;
    Process& process = clocks_.Of(call->second.process);
    clocks_.Raise(process, call->second.thread, now);
    LetGo(call, listener, End::kReady);
  }
}

void SimulatedTime::ServeSeenWake(const TrappedCall& call) {
  const pid_t thread = call.thread();
  const FutexWake wake = FutexWake::Parse(call, call.process());
  VirtualTime now;
  if (wake.first.is_private) {
    // No other process sees it. Nor is it an end of a loop: who waits for Python's lock has it
    // handed over in each turn.
    Process& process = clocks_.Stopped(call.process(), thread, true);
    quiet_ = false;
    Runs(thread, call.process());
    now = ProcessClocks::SeenBy(process, thread);
  } else {
    now = WakesOthers(call);
  }
  FutexQueues& futexes = held_.futexes();
  const auto first = futexes.Waiters(wake.first, wake.wakes, wake.bits);
  const auto moved = wake.ToMove(futexes, first);
  const auto others = wake.kind == FutexWake::Kind::kOperation
                          ? futexes.Waiters(wake.second, wake.others)
                          : std::vector<uint64_t>();
  if (first.empty() && moved.empty() && others.empty()) {
    // Whoever else there may be is the kernel's, and so is what is wrong with the call.
    return call.Continue();
  }
  const auto verdict = wake.Do(call.memory());
  if (verdict.error != 0) return call.Error(verdict.error);
  futexes.Move(moved, wake.second);
  int64_t woken = static_cast<int64_t>(first.size());
  // The caller first: it goes on before those that it has woken.
  if (verdict.wakes_others) woken += static_cast<int64_t>(others.size());
  call.Value(woken + (wake.counts_moved ? static_cast<int64_t>(moved.size()) : 0));
  WakeFutexWaiters(first, now, call.listener());
  if (verdict.wakes_others) WakeFutexWaiters(others, now, call.listener());
}

void SimulatedTime::WakeWhoJoins(const ThreadGate::Ended& ended, NotifyListener& listener) {
  // It clears the thread's number (set_tid_address(2)), which who joins it expects, and marks the
  // locks that it has held (get_robust_list(2)).
  std::vector<uint64_t> woken;
  for (const uint64_t id : held_.futexes().WaitersIn(ended.process)) {
    const auto call = held_.Find(id);
    if (call == held_.end()) continue;
    const RemoteMemory memory(call->second.thread);
    for (const auto& [address, expected] : call->second.wait->words()) {
      const auto word = memory.ReadObject<uint32_t>(address);
      if (!word || *word == expected) continue;
      if (expected == static_cast<uint32_t>(ended.thread) || (*word & FUTEX_OWNER_DIED) != 0) {
        woken.push_back(id);
        break;
      }
    }
  }
  WakeFutexWaiters(woken, clocks_.TimeOf(ended.process, ended.thread), listener);
}

}  // namespace phantora
