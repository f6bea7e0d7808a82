// The kernel's seccomp user-notification interface, and nothing else.
#ifndef PHANTORA_TRAP_LINUX_SECCOMP_LISTENER_H_
#define PHANTORA_TRAP_LINUX_SECCOMP_LISTENER_H_

#include <memory>
#include <utility>

#include "trap/linux/notify_listener.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class SeccompListener : public NotifyListener {
 public:
  // Takes the listener descriptor of a loaded filter. Errors: the running
  // kernel's notification structures are larger than ours.
  static absl::StatusOr<std::unique_ptr<SeccompListener>> Create(UniqueFd listener);

  // Does the kernel wake the target on the notifier's own CPU (Linux 6.6)?
  // Without it every trapped call costs a cross-CPU wake-up.
  bool synchronous_wake_up() const { return synchronous_wake_up_; }

  int fd() const override { return fd_.get(); }
  bool HasCall() const override;
  bool HasCallOr(int descriptor) const override;
  std::optional<seccomp_notif> Receive() override;
  bool StillPending(uint64_t id) override;
  absl::Status ReplyDescriptor(uint64_t id, int file, bool close_on_exec) override;
  absl::Status Replace(uint64_t id, int target, int file) override;
  absl::StatusOr<int> AddDescriptor(uint64_t id, int file) override;

 protected:
  bool Send(const seccomp_notif_resp& response) override;

 private:
  explicit SeccompListener(UniqueFd fd) : fd_(std::move(fd)) {}

  const UniqueFd fd_;
  bool synchronous_wake_up_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_SECCOMP_LISTENER_H_
