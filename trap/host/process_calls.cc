#include "trap/host/process_calls.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>

namespace phantora {
namespace {

constexpr int kOneProcess = 1;  // IOPRIO_WHO_PROCESS of linux/ioprio.h

}  // namespace

bool RefusesChange(const TrappedCall& call, const RunMembers& members) {
  bool one = true;
  int number = call.Int(0);
  switch (call.number()) {
    case SYS_prlimit64:
    case SYS_sched_setaffinity:
    case SYS_sched_setattr:
    case SYS_sched_setparam:
    case SYS_sched_setscheduler:
      break;
    case SYS_setpriority:
      one = call.Int(0) == PRIO_PROCESS;
      number = call.Int(1);
      break;
    case SYS_ioprio_set:
      one = call.Int(0) == kOneProcess;
      number = call.Int(1);
      break;
    default:
      return false;
  }
  if (one && !members.IsOfOthers(call.thread(), number)) return false;
  call.Error(EPERM);
  return true;
}

}  // namespace phantora
