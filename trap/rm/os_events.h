// OS events: descriptors that become readable when a GPU interrupts.
#ifndef PHANTORA_TRAP_RM_OS_EVENTS_H_
#define PHANTORA_TRAP_RM_OS_EVENTS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "clock/polled_events.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// A descriptor that polls readable while it is raised: a pipe of which the tracee
// has the read end.
class EventDescriptor {
 public:
  // `write_end` is invalid if descriptors have run out.
  EventDescriptor();
  int write_end() const { return write_end_.get(); }
  UniqueFd TakeReadEnd() { return std::move(read_end_); }
  ino_t inode() const { return inode_; }

  void Raise();
  void Drain();

  // Kept by OsEvents.
  bool raised = false;
  bool seen = false;           // by a poll, since it was raised
  bool polled_unseen = false;  // PollsUnseen() has told of it
  VirtualTime drain_at;

 private:
  UniqueFd write_end_, read_end_;
  ino_t inode_ = 0;
};

// Implemented by the emulated files that can be raised.
class EventSource {
 public:
  virtual ~EventSource() = default;
  virtual const std::shared_ptr<EventDescriptor>& descriptor() const = 0;
};

// The real driver's poll() consumes a dataless event, so that it is seen once. A
// pipe stays readable until it is read, and libcuda does not read it: it is
// drained by the poll that tells of it, where that is held here. Where polls may be
// the kernel's, it is drained some time later, too. Until then libcuda's thread wakes up more than
// once, which is harmless; a pulse that is too short to be seen would cost the
// waiter its 100 ms poll timeout.
class OsEvents : public InterruptSink, public PolledEvents {
 public:
  // `polls_are_seen`: all polls of programs are Seen(), but for those of PollsUnseen().
  explicit OsEvents(TimeSource* time, bool polls_are_seen = false)
      : time_(time), polls_are_seen_(polls_are_seen) {}

  // An event object (NV01_EVENT_OS_EVENT). It lives as long as the result; nullptr when
  // the process has too many.
  struct Registration {
    int gpu;
    pid_t process;
    uint32_t notify_index;  // with the NV01_EVENT_* flags
    std::shared_ptr<EventDescriptor> descriptor;
  };
  std::shared_ptr<Registration> Register(int gpu, pid_t process, uint32_t notify_index,
                                         std::shared_ptr<EventDescriptor> descriptor);

  void ProcessDied(pid_t process);

  void NonStall(int gpu, pid_t process, uint32_t engine) override;
  void ChannelError(int gpu, pid_t process) override;

  // Drains what has been raised long enough; true if some is still raised that will be.
  bool Drain();

  // PolledEvents.
  bool is_raised() const override { return !raised_.empty(); }
  void Seen(ino_t pipe, bool left_to_kernel) override;
  void PollsUnseen(pid_t process, ino_t pipe) override;
  void PollsUnseen(pid_t process) override;

 private:
  struct OfProcess {
    std::vector<std::weak_ptr<Registration>> registrations;
    bool polls_unseen = false;  // whatever it polls
  };

  // Raises those of the process whose notify index `matches`.
  template <typename Predicate>
  void RaiseIf(int gpu, pid_t process, Predicate matches);

  TimeSource* const time_;
  const bool polls_are_seen_;
  absl::flat_hash_map<pid_t, OfProcess> of_processes_;
  std::vector<std::weak_ptr<EventDescriptor>> raised_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_OS_EVENTS_H_
