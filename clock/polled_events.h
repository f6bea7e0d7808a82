// Descriptors that are readable until a poll has told of it, as those of the real driver's events
// are (nvidia_poll in kernel-open/nvidia/nv.c takes dataless_event_pending back).
#ifndef PHANTORA_CLOCK_POLLED_EVENTS_H_
#define PHANTORA_CLOCK_POLLED_EVENTS_H_

#include <sys/types.h>

namespace phantora {

// Events that the emulated driver has raised. Used under the machine's lock.
class PolledEvents {
 public:
  virtual ~PolledEvents() = default;

  // Is anything raised?
  virtual bool is_raised() const = 0;
  // A poll returns that has found this pipe (its inode) readable. If `left_to_kernel`, the kernel
  // is still to look at it for the caller.
  virtual void Seen(ino_t pipe, bool left_to_kernel) = 0;
  // A thread of the process polls this pipe in the kernel, where nobody sees what it finds.
  virtual void PollsUnseen(pid_t process, ino_t pipe) = 0;
  // The same for whatever the process polls: its descriptors cannot be looked at.
  virtual void PollsUnseen(pid_t process) = 0;
};

}  // namespace phantora

#endif  // PHANTORA_CLOCK_POLLED_EVENTS_H_
