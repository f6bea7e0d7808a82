// A system call that a thread makes: which, and with what.
#ifndef PHANTORA_TRAP_LINUX_CALL_ARGUMENTS_H_
#define PHANTORA_TRAP_LINUX_CALL_ARGUMENTS_H_

#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstdint>

#include "trap/linux/remote_memory.h"

namespace phantora {

// As the kernel has read them, once, when the call was made. May be kept for as long as the call
// waits.
class CallArguments {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): it is the same, with names.
  CallArguments(const seccomp_notif& notification)
      : id_(notification.id),
        thread_(static_cast<pid_t>(notification.pid)),
        data_(notification.data) {}

  // The call's number with the kernel, which no other call has.
  uint64_t id() const { return id_; }
  // Who makes it.
  pid_t thread() const { return thread_; }
  int number() const { return data_.nr; }

  // Argument 0 to 5, as what it is.
  uint64_t Word(int argument) const { return data_.args[argument]; }
  int Int(int argument) const { return static_cast<int>(data_.args[argument]); }
  RemoteAddress Address(int argument) const { return RemoteAddress{data_.args[argument]}; }

 private:
  uint64_t id_;
  pid_t thread_;
  seccomp_data data_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_CALL_ARGUMENTS_H_
