#include "trap/time/asked_stops.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdint>

#include "trap/linux/remote_memory.h"
#include "trap/time/timers/signal_event.h"

namespace phantora {
namespace {

constexpr pid_t kAnybody = 0;

bool StopsByEvent(const TrappedCall& call, RemoteAddress at) {
  if (at == RemoteAddress{0}) return false;
  const auto event = call.memory().ReadObject<SignalEvent>(at);
  return event && event->notify != SIGEV_NONE && IsStopSignal(event->signal);
}

// The signal that a child's end sends, and whom.
std::optional<pid_t> StopsByEnd(const TrappedCall& call, uint64_t flags, uint64_t signal) {
  if (!IsStopSignal(static_cast<int>(signal))) return std::nullopt;
  return (flags & CLONE_PARENT) != 0 ? kAnybody : call.process();
}

}  // namespace

bool IsStopSignal(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

std::optional<pid_t> AskedToStop(const TrappedCall& call) {
  switch (call.number()) {
    case SYS_timer_create:
    case SYS_mq_notify:
      return StopsByEvent(call, call.Address(1)) ? std::optional(call.process()) : std::nullopt;
    case SYS_fcntl:
      // Whom, F_SETOWN says: a process or a group.
      if (call.Int(1) != F_SETSIG || !IsStopSignal(call.Int(2))) return std::nullopt;
      return kAnybody;
    case SYS_prctl:
      if (call.Int(0) != PR_SET_PDEATHSIG || !IsStopSignal(call.Int(1))) return std::nullopt;
      return call.process();
    case SYS_clone:
      return StopsByEnd(call, call.Word(0), call.Word(0) & CSIGNAL);
    case SYS_clone3: {
      // What struct clone_args begins with.
      struct Beginning {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal;
      };
      const auto arguments = call.memory().ReadObject<Beginning>(call.Address(0));
      return arguments ? StopsByEnd(call, arguments->flags, arguments->exit_signal) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace phantora
