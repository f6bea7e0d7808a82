#include "trap/time/timers/virtual_timers.h"

#include <sys/syscall.h>

namespace phantora {

bool VirtualTimers::Serves(int call) {
  switch (call) {
    case SYS_alarm:
    case SYS_setitimer:
    case SYS_getitimer:
    case SYS_timer_create:
    case SYS_timer_settime:
    case SYS_timer_gettime:
    case SYS_timer_getoverrun:
    case SYS_timer_delete:
    case SYS_timerfd_settime:
    case SYS_timerfd_gettime:
      return true;
    default:
      return false;
  }
}

void VirtualTimers::Serve(const TrappedCall& call, VirtualTime now) {
  switch (call.number()) {
    case SYS_alarm:
      return interval_.SetAlarm(call, now);
    case SYS_setitimer:
      return interval_.Set(call, now);
    case SYS_getitimer:
      return interval_.Get(call, now);
    case SYS_timer_create:
      return posix_.Create(call);
    case SYS_timer_settime:
    case SYS_timer_gettime:
    case SYS_timer_getoverrun:
    case SYS_timer_delete:
      return posix_.Serve(call, now);
    case SYS_timerfd_settime:
      return descriptors_.Set(call, now);
    case SYS_timerfd_gettime:
      return descriptors_.Get(call, now);
  }
}

bool VirtualTimers::ExpireDue(pid_t process, VirtualTime now) {
  // In the order of their deadlines, since signals are handled in the order of sending.
  const std::vector<TimerKey> due = queue_.DueOf(process, now);
  for (const TimerKey& key : due) {
    switch (key.kind) {
      case TimerKey::Kind::kInterval:
        interval_.Expire(key, now);
        break;
      case TimerKey::Kind::kPosix:
        posix_.Expire(key, now);
        break;
      case TimerKey::Kind::kDescriptor:
        descriptors_.Expire(key, now);
        break;
    }
  }
  return !due.empty();
}

void VirtualTimers::ProcessDied(pid_t process) {
  interval_.ProcessDied(process);
  posix_.Forget(process);
  descriptors_.ProcessDied(process);
}

}  // namespace phantora
