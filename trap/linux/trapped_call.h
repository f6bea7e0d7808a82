// A system call that waits for the supervisor's answer.
#ifndef PHANTORA_TRAP_LINUX_TRAPPED_CALL_H_
#define PHANTORA_TRAP_LINUX_TRAPPED_CALL_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trap/linux/call_arguments.h"
#include "trap/linux/checked_memory.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/tracees.h"

namespace phantora {

// The kernel has read the arguments once; what they point to is to be read once, too. A call that
// is answered by Continue() is made by the kernel, which reads all that they point to again.
class TrappedCall : public CallArguments {
 public:
  TrappedCall(const seccomp_notif& notification, Tracee& tracee, NotifyListener& listener)
      : CallArguments(notification),
        tracee_(tracee),
        listener_(listener),
        memory_(thread(), id(), &listener, true) {}
  TrappedCall(const TrappedCall&) = delete;
  TrappedCall& operator=(const TrappedCall&) = delete;

  Tracee& tracee() const { return tracee_; }
  pid_t process() const { return tracee_.process; }

  // Of the calling thread: the first of its process may have ended.
  const RemoteMemory& memory() const { return memory_; }
  // Does the caller still wait?
  bool pending() const { return listener_.StillPending(id()); }

  // The answer; one, or the call is kept to be answered later (id(), listener()).
  void Value(int64_t value) const { listener_.ReplyValue(id(), value); }
  void Error(int error) const { listener_.ReplyError(id(), error); }
  void Continue() const { listener_.ReplyContinue(id()); }
  // A value, or a negative error number.
  void Result(int64_t result) const {
    result < 0 ? Error(static_cast<int>(-result)) : Value(result);
  }
  // The following are as NotifyListener's.
  absl::Status Descriptor(int file, bool close_on_exec) const {
    return listener_.ReplyDescriptor(id(), file, close_on_exec);
  }
  absl::Status Replace(int target, int file) const { return listener_.Replace(id(), target, file); }

  NotifyListener& listener() const { return listener_; }

 private:
  Tracee& tracee_;
  NotifyListener& listener_;
  const CheckedMemory memory_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_TRAPPED_CALL_H_
