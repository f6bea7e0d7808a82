// A system call that waits, at most until an instant: kept from the kernel while it
// waits, since its timeout is in simulated time.
#ifndef PHANTORA_TRAP_TIME_TIMED_WAIT_H_
#define PHANTORA_TRAP_TIME_TIMED_WAIT_H_

#include <linux/seccomp.h>
#include <time.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/unique_fd.h"

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

  // A clock read in a loop that has to let others go first, until `deadline`.
  TimedWait(const seccomp_notif& notification, VirtualTime deadline);
  // Reads the arguments. `now` is the caller's time. Afterwards verdict() tells what to do.
  TimedWait(const seccomp_notif& notification, VirtualTime now, int64_t realtime_offset);
  // A call on the descriptor `descriptor` that would block until one of `events` (of epoll).
  TimedWait(const seccomp_notif& notification, int descriptor, uint32_t events,
            VirtualTime deadline);

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
  // For those calls, before Ready(): looks which descriptors are ready now. False: none is any
  // more, since somebody else has read from them, and the call has to wait on. (Left to the
  // kernel, it would wait there, in real time.)
  bool CollectReady();
  size_t copies() const { return copies_.size(); }
  int watched() const { return watched_.get(); }
  // Of a call on one descriptor.
  int copy() const { return copies_.empty() ? -1 : copies_[0].get(); }

  // For futexes and System V semaphores, whose memory nothing tells about: has it
  // changed, so that the caller is to look again?
  bool is_polled() const { return kind_ == Kind::kFutex || kind_ == Kind::kSemaphore; }
  bool Changed() const;
  // Of a futex: the words that it waits on, with the values that they had.
  const std::vector<std::pair<RemoteAddress, uint32_t>>& words() const { return words_; }
  // Can only its own process change it?
  bool is_private() const { return private_; }
  // The signals that are blocked during the call, where it says so itself.
  std::optional<uint64_t> mask() const;
  // Is one of these signals what it waits for (sigtimedwait, or a signalfd in a poll)?
  bool AwaitsSignal(uint64_t pending) const;
  const char* name() const;
  // Why the kernel has to keep the timeout, in real time; nullptr if it has not.
  const char* left_to_kernel() const { return left_to_kernel_; }
  bool is_descriptor() const { return kind_ == Kind::kDescriptor; }
  bool is_clock() const { return kind_ == Kind::kClock; }
  const seccomp_notif& notification() const { return notification_; }

  // To be called before an answer: the caller may count on its descriptors being closed
  // when it closes them.
  void ReleaseDescriptors() {
    copies_.clear();
    watched_.reset();
  }
  // Answers at the caller's time `now`. A caller that is gone is normal.
  void TimeOut(NotifyListener& listener, VirtualTime now) const;
  void Ready(NotifyListener& listener, VirtualTime now) const;
  void Interrupt(NotifyListener& listener, VirtualTime now) const;

 private:
  enum class Kind {
    kSleep,
    kPoll,
    kSelect,
    kEpoll,
    kFutex,
    kSignal,
    kDescriptor,
    kQueue,
    kSemaphore,
    kClock
  };
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
  void ParseFutexes(int64_t realtime_offset);
  void ParseQueue(int64_t realtime_offset);
  void ParseSemaphores(VirtualTime now);
  std::optional<uint64_t> ChangedWord() const;
  // Would the operations on System V semaphores go through, or fail, at once?
  bool SemaphoresReady() const;
  // With what CollectReady() found; false if it cannot be written.
  bool AnswerPoll(NotifyListener& listener) const;
  // Some calls leave the remaining time where they found the timeout.
  void WriteRemaining(VirtualTime now, bool interrupted) const;
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
  std::vector<short> ready_;  // of poll: what is ready, by watch
  // A signalfd tells whoever asks of his own signals, so its copy is of no use here.
  uint64_t signals_ = 0;
  // Futex words, and the values with which they are waited for.
  std::vector<std::pair<RemoteAddress, uint32_t>> words_;
  bool private_ = false;  // all of them
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TIMED_WAIT_H_
