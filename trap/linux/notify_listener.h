// What the supervisor asks of seccomp's user notifications. An interface, so that everything that
// serves calls is tested without a kernel; SeccompListener is the real one.
#ifndef PHANTORA_TRAP_LINUX_NOTIFY_LISTENER_H_
#define PHANTORA_TRAP_LINUX_NOTIFY_LISTENER_H_

#include <linux/seccomp.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phantora {

class NotifyListener {
 public:
  virtual ~NotifyListener() = default;

  // Polled for hang-up: nothing runs under the filter any more. -1 in tests.
  virtual int fd() const = 0;
  // Would Receive() return at once?
  virtual bool HasCall() const = 0;
  // Would it, or is this descriptor readable? One question instead of two.
  virtual bool HasCallOr(int descriptor) const = 0;
  // nullopt when there is nothing to receive: the caller died, or a signal.
  virtual std::optional<seccomp_notif> Receive() = 0;
  // Does the caller still wait for the answer? If not, its thread id may be another's by now.
  virtual bool StillPending(uint64_t id) = 0;

  // Answers of a call. A caller that has died meanwhile is normal, and not told.
  void ReplyValue(uint64_t id, int64_t value) { Send({id, value, 0, 0}); }
  void ReplyError(uint64_t id, int error) { Send({id, 0, -error, 0}); }
  // A debugger wants to stop the caller, which its pending SIGSTOP does on the way out; after that
  // the kernel makes the call again. Only while that signal is pending: the program would see the
  // number (handle_signal and arch_do_signal_or_restart, arch/x86/kernel/signal.c).
  void ReplyRestart(uint64_t id) { Send({id, 0, -kRestartNoHandler, 0}); }
  static bool IsRestart(const seccomp_notif_resp& response) {
    return response.error == -kRestartNoHandler;
  }
  void ReplyContinue(uint64_t id) { Send({id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE}); }
  // Installs `file` in the caller as a new descriptor and returns it from the
  // call. Errors leave the call unanswered: the caller's table is full (EMFILE); NotFound: it died.
  virtual absl::Status ReplyDescriptor(uint64_t id, int file, bool close_on_exec) = 0;

  // Replaces descriptor `target` of the caller by `file` (close-on-exec), while
  // the call stays pending. NotFound: the caller has died.
  virtual absl::Status Replace(uint64_t id, int target, int file) = 0;
  // Installs `file` in the caller as a new descriptor (close-on-exec), while the call stays
  // pending.
  virtual absl::StatusOr<int> AddDescriptor(uint64_t id, int file) = 0;
  // Answers of every kind pass here in the end.
  bool Reply(const seccomp_notif_resp& response) { return Send(response); }

 protected:
  static constexpr int kRestartNoHandler = 514;  // ERESTARTNOHAND, include/linux/errno.h

  // False: the caller is not there any more.
  virtual bool Send(const seccomp_notif_resp& response) = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_NOTIFY_LISTENER_H_
