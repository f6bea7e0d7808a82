// The host's clocks, for those who measure real time: what the supervisor itself spends, how long
// processes have run, and how long to wait for the kernel. Never what programs are told, which is
// simulated.
#ifndef PHANTORA_TRAP_LINUX_REAL_CLOCK_H_
#define PHANTORA_TRAP_LINUX_REAL_CLOCK_H_

#include <sys/types.h>

#include <cstdint>

namespace phantora {

// All in nanoseconds. An interface, so that tests have time pass as they like (FakeRealClock).
class RealClock {
 public:
  virtual ~RealClock() = default;

  // CLOCK_MONOTONIC: since the host was booted.
  virtual int64_t Monotonic() const = 0;
  // CLOCK_REALTIME: since 1970.
  virtual int64_t Realtime() const = 0;
  // Processor time of all threads of `process`, or of one `thread` of any process, since it has
  // begun; 0 if it is gone. The kernel brings a thread's up to date at its ticks only
  // (/proc/PID/schedstat), and so it may a process's.
  virtual int64_t ProcessorTime(pid_t process) const = 0;
  virtual int64_t ThreadProcessorTime(pid_t thread) const = 0;
  // Not shorter, whatever signals come.
  virtual void Sleep(int64_t nanoseconds) const = 0;
  // `timer`, a timerfd of CLOCK_MONOTONIC, becomes readable once, so long from now; 0 disarms it.
  virtual void ArmTimer(int timer, int64_t nanoseconds) const = 0;

  // The one of this host. Never destroyed.
  static const RealClock& Host();
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_REAL_CLOCK_H_
