// A system call that waits, at most until an instant: kept from the kernel while it
// waits, since its timeout is in simulated time.
#ifndef PHANTORA_TRAP_TIME_WAITS_TIMED_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_TIMED_WAIT_H_

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"
#include "trap/linux/call_arguments.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/remote_memory.h"
#include "trap/time/transfer_call.h"

namespace phantora {

// One class for each kind of wait says how its arguments are read, when it is over, and what it
// answers. Arguments in the caller's memory are read once, when the wait is made; the copy counts.
class TimedWait {
 public:
  // What becomes of a call that would wait.
  enum class Verdict {
    kWait,      // hold it until deadline()
    kContinue,  // it need not wait, or its timeout is for the kernel after all
    kInvalid,   // answer errno error()
  };
  // The caller's present, and by how many nanoseconds CLOCK_REALTIME is before simulated time.
  struct Present {
    VirtualTime now;
    int64_t realtime_offset = 0;
    // Are all calls on futexes seen (CallMode::kRepeatable)? Then nobody has to look at their
    // words.
    bool sees_wakes = false;
  };
  using Memory = std::shared_ptr<const RemoteMemory>;

  virtual ~TimedWait() = default;
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

  virtual const char* name() const = 0;
  Verdict verdict() const { return verdict_; }
  int error() const { return error_; }
  VirtualTime deadline() const { return deadline_; }
  uint64_t id() const { return arguments_.id(); }
  pid_t thread() const { return arguments_.thread(); }
  const CallArguments& arguments() const { return arguments_; }
  // It only looks, and does not wait.
  bool is_look() const { return is_look_; }
  // Such a one waits after all.
  void WaitUntil(VirtualTime deadline) { verdict_ = Verdict::kWait, deadline_ = deadline; }
  // Why the kernel has to keep the timeout, in real time; nullptr if it has not.
  const char* left_to_kernel() const { return left_to_kernel_; }
  // The signals that are blocked during the call, where it says so itself.
  std::optional<uint64_t> mask() const { return mask_; }

  // For calls that wait for descriptors: copies them from the process behind `pidfd` and
  // returns a descriptor that becomes readable when the call would return; -1 if
  // there is none to wait for. Verdict kContinue afterwards: they cannot be copied, or
  // are ready, or are more than `most`.
  virtual int WatchDescriptors(int pidfd, size_t most);
  // For those calls, before Ready(): looks which descriptors are ready now. False: none is any
  // more, since somebody else has read from them, and the call has to wait on. (Left to the
  // kernel, it would wait there, in real time.)
  virtual bool CollectReady() { return true; }
  // After that: those of files() that it has found readable. Empty if the kernel is to look.
  virtual std::vector<int> found_readable() const { return {}; }
  virtual size_t copies() const { return 0; }
  // The copies.
  virtual std::vector<int> files() const { return {}; }
  virtual int watched() const { return -1; }
  // To be called before an answer: the caller may count on its descriptors being closed
  // when it closes them.
  virtual void ReleaseDescriptors() {}
  // Of a call that moves bytes through one descriptor: what it moves, and the copy.
  virtual const TransferCall* transfer() const { return nullptr; }
  virtual int copy() const { return -1; }

  // For futexes and System V semaphores, whose memory nothing tells about: has it
  // changed, so that the caller is to look again?
  virtual bool is_polled() const { return false; }
  virtual bool Changed() const { return false; }
  // Of a futex: the words that it waits on, with the values that they had.
  using Words = std::vector<std::pair<RemoteAddress, uint32_t>>;
  virtual const Words& words() const;
  // Can only its own process change it?
  virtual bool is_private() const { return false; }
  // Is it woken by calls that are seen? With one of these bits, then; 0 if not.
  virtual uint32_t woken_with() const { return 0; }

  // Is one of these signals what it waits for (sigtimedwait, or a signalfd in a poll)?
  virtual bool AwaitsSignal(uint64_t /*pending*/) const { return false; }
  virtual bool is_clock() const { return false; }
  // Does it wait for nothing but time?
  virtual bool is_sleep() const { return false; }

  // Answers at the caller's time `now`. A caller that is gone is normal.
  virtual void TimeOut(NotifyListener& listener, VirtualTime now) const = 0;
  virtual void Ready(NotifyListener& listener, VirtualTime now) const;
  virtual void Interrupt(NotifyListener& listener, VirtualTime now) const;
  // The caller is to stop for a debugger, and makes the call again.
  void Restart(NotifyListener& listener) const { listener.ReplyRestart(id()); }

 protected:
  // `memory`: of the caller; nullptr for the real one.
  TimedWait(const CallArguments& call, Memory memory);

  const RemoteMemory& memory() const { return *memory_; }
  uint64_t argument(int index) const { return arguments_.Word(index); }
  void set_deadline(VirtualTime deadline) { deadline_ = deadline; }
  void set_mask(std::optional<uint64_t> mask) { mask_ = mask; }
  // Reads a mask of signals; 0 is none.
  std::optional<uint64_t> ReadMask(uint64_t address) const;

  // The timeout at `address`, as long as that is what it should be; else the wait is invalid.
  std::optional<timespec> ReadTimeout(uint64_t address);
  // A timeout that begins now.
  void Relative(VirtualTime now, uint64_t address);
  // The same, or none at address 0.
  void RelativeIfAny(VirtualTime now, uint64_t address);
  // The same in milliseconds; below 0 there is none.
  void RelativeMilliseconds(VirtualTime now, uint64_t argument);
  // A call that looks and does not wait is the kernel's.
  void ContinueIfOver(VirtualTime now);

  // The call has no timeout. (One may be so long that it never ends either.)
  void SetUntimed() { untimed_ = true; }
  void Continue() { verdict_ = Verdict::kContinue; }
  void LeaveToKernel(const char* why) { verdict_ = Verdict::kContinue, left_to_kernel_ = why; }
  void Invalid(int error) { verdict_ = Verdict::kInvalid, error_ = error; }
  bool waits() const { return verdict_ == Verdict::kWait; }

  // Some calls leave the remaining time where they found the timeout.
  virtual void WriteRemaining(VirtualTime /*now*/, bool /*interrupted*/) const {}

 private:
  const CallArguments arguments_;
  const Memory memory_;
  Verdict verdict_ = Verdict::kWait;
  int error_ = 0;
  const char* left_to_kernel_ = nullptr;
  VirtualTime deadline_ = VirtualTime::Infinity();
  bool is_look_ = false, untimed_ = false;
  std::optional<uint64_t> mask_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_TIMED_WAIT_H_
