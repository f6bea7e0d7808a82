// A rank's devices as the keeper of simulated time sees them.
#ifndef PHANTORA_CLOCK_SIMULATED_DEVICE_H_
#define PHANTORA_CLOCK_SIMULATED_DEVICE_H_

#include <sys/types.h>

#include <vector>

#include "clock/virtual_time.h"

namespace phantora {

// Each process has a device timeline of its own, which never runs ahead of what the
// process has been told, unless the process waits.
class SimulatedDevice {
 public:
  virtual ~SimulatedDevice() = default;

  // The process has run from `from` to `to` and may have submitted work meanwhile. When
  // within that time is not known: submissions are spread evenly, and each costs the
  // process `each` on top. Everything that is over by then becomes visible to it.
  struct Submitted {
    VirtualTime now;  // when the process is now: `to` and what its submissions cost
    int count = 0;
    bool seen = false;  // something was released or interrupted
  };
  virtual Submitted Submit(pid_t process, VirtualTime from, VirtualTime to, VirtualSpan each) = 0;

  // Has the process submitted work that has not been told to Submit() yet?
  virtual bool HasSubmitted(pid_t process) = 0;

  // How full its queues are.
  struct Queues {
    bool full = false;   // one has no room: the process may be waiting for some
    // Behind what Submit() has been told of, one has less room than whoever has waited for
    // some should get.
    bool short_of_room = false;
    uint64_t hidden = 0;  // submissions that have not been told to Submit() yet
  };
  virtual Queues QueuesOf(pid_t process) = 0;

  // When something happens next on the process's devices; Infinity for never.
  virtual VirtualTime NextEvent(pid_t process) = 0;

  // What happened on the way.
  struct Progress {
    VirtualTime time;          // reached; may be less than asked for: too much to do at once
    bool released = false;     // a semaphore was written: who polls memory may go on
    bool interrupted = false;  // an interrupt was raised: who sleeps may go on
  };
  // Runs the devices to `to` (Infinity: to their last event). With `stop_when_seen`, stops
  // as soon as something was released or interrupted.
  virtual Progress Advance(pid_t process, VirtualTime to, bool stop_when_seen) = 0;

  // Does the process have work under way that ends when other processes do something?
  virtual bool WaitsForOthers(pid_t process) = 0;
  // When something happens next to what processes share, such as a network.
  virtual VirtualTime NextSharedEvent() = 0;
  // No process does anything before `to` any more. What they share is run to there; returns
  // those whose devices may go on by that.
  virtual std::vector<pid_t> Passed(VirtualTime to) = 0;
};

}  // namespace phantora

#endif  // PHANTORA_CLOCK_SIMULATED_DEVICE_H_
