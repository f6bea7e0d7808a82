// The kernel's seccomp user-notification interface, and nothing else.
#ifndef PHANTORA_TRAP_SUPERVISOR_NOTIFY_LISTENER_H_
#define PHANTORA_TRAP_SUPERVISOR_NOTIFY_LISTENER_H_

#include <linux/seccomp.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class NotifyListener {
 public:
  // Takes the listener descriptor of a loaded filter. Errors: the running
  // kernel's notification structures are larger than ours.
  static absl::StatusOr<NotifyListener> Create(UniqueFd listener);

  int fd() const { return fd_.get(); }
  // Does the kernel wake the target on the notifier's own CPU (Linux 6.6)?
  // Without it every trapped call costs a cross-CPU wake-up.
  bool synchronous_wake_up() const { return synchronous_wake_up_; }

  // Would Receive() return at once?
  bool HasCall() const;

  // nullopt when there is nothing to receive: the caller died, or a signal.
  std::optional<seccomp_notif> Receive();

  // The replies return false when the caller is gone, which is normal.
  bool ReplyValue(uint64_t id, int64_t value);
  bool ReplyError(uint64_t id, int error);
  bool ReplyContinue(uint64_t id);
  // Installs `file` in the caller as a new descriptor and returns it from the
  // call. Errors leave the call unanswered: the caller's table is full (EMFILE).
  absl::Status ReplyDescriptor(uint64_t id, int file, bool close_on_exec);

  // Replaces descriptor `target` of the caller by `file` (close-on-exec), while
  // the call stays pending. NotFound: the caller has died.
  absl::Status Replace(uint64_t id, int target, int file);

  // Installs `file` in the caller as a new descriptor (close-on-exec), while the call stays
  // pending.
  absl::StatusOr<int> AddDescriptor(uint64_t id, int file);

  bool StillPending(uint64_t id);

 private:
  explicit NotifyListener(UniqueFd fd) : fd_(std::move(fd)) {}
  bool Send(seccomp_notif_resp response);

  UniqueFd fd_;
  bool synchronous_wake_up_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_SUPERVISOR_NOTIFY_LISTENER_H_
