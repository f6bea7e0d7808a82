// A system call that waits, at most until an instant: kept from the kernel while it
// waits, since its timeout is in simulated time.
#ifndef PHANTORA_TRAP_SUPERVISOR_TIMED_WAIT_H_
#define PHANTORA_TRAP_SUPERVISOR_TIMED_WAIT_H_

#include <linux/seccomp.h>
#include <time.h>

#include <cstdint>
#include <vector>

#include "clock/virtual_time.h"
#include "trap/supervisor/notify_listener.h"
#include "trap/supervisor/remote_memory.h"
#include "trap/supervisor/unique_fd.h"

namespace phantora {

// A clockid_t and a time on it, as an instant. CLOCK_REALTIME runs `realtime_offset`
// nanoseconds before simulated time. Saturates.
VirtualTime InstantOf(int clock, const timespec& time, int64_t realtime_offset);

class TimedWait {
 public:
  // What becomes of a call that would wait.
  enum class Verdict {
    kWait,      // hold it until deadline()
    kContinue,  // it need not wait, or its timeout is for the kernel after all
    kInvalid,   // answer errno error()
  };

  // Reads the arguments. `now` is the caller's time. Afterwards verdict() tells what to do.
  TimedWait(const seccomp_notif& notification, VirtualTime now, int64_t realtime_offset);

  Verdict verdict() const { return verdict_; }
  int error() const { return error_; }
  VirtualTime deadline() const { return deadline_; }
  uint64_t id() const { return notification_.id; }
  pid_t thread() const { return static_cast<pid_t>(notification_.pid); }

  // For calls that wait for descriptors: copies them from the process behind `pidfd` and
  // returns a descriptor that becomes readable when the call would return; invalid if
  // there is none to wait for. Verdict kContinue afterwards: they cannot be copied, or
  // are ready, or are more than `most`.
  int WatchDescriptors(int pidfd, size_t most);
  size_t copies() const { return copies_.size(); }
  int watched() const { return watched_.get(); }

  // For futexes: has the word changed, so that the caller is to look again?
  bool WordChanged() const;
  // For sigtimedwait: is a signal pending that it waits for?
  bool SignalArrived() const;
  const char* name() const;
  // Why the kernel has to keep the timeout, in real time; nullptr if it has not.
  const char* left_to_kernel() const { return left_to_kernel_; }
  bool is_futex() const { return kind_ == Kind::kFutex; }

  // Answers. A caller that is gone is normal.
  void TimeOut(NotifyListener& listener) const;
  void Ready(NotifyListener& listener) const;
  void Interrupt(NotifyListener& listener) const;

 private:
  enum class Kind { kSleep, kPoll, kSelect, kEpoll, kFutex, kSignal };
  struct Watch {
    int descriptor;
    uint32_t events;  // of epoll
  };

  void Relative(VirtualTime now, uint64_t address);
  void RelativeMilliseconds(VirtualTime now, uint64_t argument);
  void ParseSleep(VirtualTime now, int64_t realtime_offset);
  void ParsePoll();
  void ParseSelect();
  void ParseFutex(VirtualTime now, int64_t realtime_offset);
  void LeaveToKernel(const char* why) { verdict_ = Verdict::kContinue, left_to_kernel_ = why; }
  void Invalid(int error) { verdict_ = Verdict::kInvalid, error_ = error; }
  uint64_t argument(int index) const { return notification_.data.args[index]; }

  const seccomp_notif notification_;
  const RemoteMemory memory_;
  Kind kind_ = Kind::kSleep;
  Verdict verdict_ = Verdict::kWait;
  int error_ = 0;
  const char* left_to_kernel_ = nullptr;
  VirtualTime deadline_ = VirtualTime::Infinity();
  std::vector<Watch> watches_;
  // While they are open here, a descriptor that the caller closes stays in the set.
  std::vector<UniqueFd> copies_;
  UniqueFd watched_;
  uint32_t futex_value_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_SUPERVISOR_TIMED_WAIT_H_
