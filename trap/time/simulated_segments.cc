// SimulatedTime, where each thread has a clock of its own, which goes on by what its code is known
// to take.
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>

#include "trap/time/descriptor_state.h"
#include "trap/time/host_segments.h"
#include "trap/time/simulated_time.h"

namespace phantora {

void SimulatedTime::EndSegment(const TrappedCall& call) {
  if (!learns()) return;
  const pid_t thread = call.thread();
  const Process& process = clocks_.Of(call.process());
  if (!options_.clocks.segments->IsNew(call.process(), thread, call.id())) {
    return clocks_.ServeAgain(call.process(), thread);
  }
  const auto known = process.threads.find(thread);
  const bool reads_raw = call.number() == SYS_clock_gettime && call.Int(0) == CLOCK_MONOTONIC_RAW;
  const bool looks_again = spins_.Spins(thread) ||
                           (reads_raw && known != process.threads.end() && known->second.spins > 0);
  // What is called with what, without addresses, lengths and numbers of descriptors.
  uint32_t kind = static_cast<uint32_t>(call.number()) << 16;
  if (call.number() == SYS_ioctl || call.number() == SYS_futex) kind |= call.Word(1) & 0xffff;
  if (call.number() == SYS_clock_gettime) kind |= call.Word(0) & 0xffff;
  clocks_.EndSegment(call.process(), thread, kind, looks_again);
}

void SimulatedTime::LeaveCall(const TrappedCall& call) {
  if (!learns()) return;
  Process* process = clocks_.Find(call.process());
  if (process == nullptr) return;
  const pid_t thread = call.thread();
  const bool stands = held_.HoldsThread(thread) || order_.HoldsThread(thread) ||
                      (options_.turns != nullptr && options_.turns->HoldsThread(thread));
  clocks_.Leave(*process, thread, !stands);
  MayHaveWritten(call.process(), thread);
}

bool SimulatedTime::HasEarlierEnd(const Process& process) {
  if (order_.HasBefore(process.id, process.now)) return true;
  const auto earliest = held_.Earliest();
  if (earliest == held_.end() || earliest->second.deadline >= process.now) return false;
  return std::any_of(held_.begin(), held_.end(), [&](const auto& call) {
    return call.second.process == process.id && call.second.deadline < process.now;
  });
}

VirtualTime SimulatedTime::ReadyAt(const HeldCall& held) {
  if (!learns()) return clocks_.NowOf(held.process);
  VirtualTime at = clocks_.TimeOf(held.process, held.thread);
  for (const int file : held.wait->files()) {
    if (!IsReady(file, POLLIN)) continue;
    const Conduit conduit = Conduit::Of(file);
    if (conduit.kind == Conduit::Kind::kSocket && !conduit.stream) {
      at = std::max(at, ordered_at_);  // that of the call that has connected to it, or sent
    } else if (conduit.kind != Conduit::Kind::kOther) {
      int unread = 0;
      ioctl(file, FIONREAD, &unread);
      at = std::max(at, messages_.Received(conduit, static_cast<uint64_t>(std::max(unread, 0)), 1));
    } else {
      // Whoever has made it ready has just stopped to do so, mostly a thread of the same process.
      at = std::max(at, clocks_.NowOf(held.process));
    }
  }
  return at;
}

}  // namespace phantora
