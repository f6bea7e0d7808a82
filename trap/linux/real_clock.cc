#include "trap/linux/real_clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>

#include "trap/linux/proc.h"

namespace phantora {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

int64_t Read(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0;
  return now.tv_sec * kNanosecondsPerSecond + now.tv_nsec;
}

// The clockid of a process's processor time (posix-timers.h MAKE_PROCESS_CPUCLOCK).
clockid_t ProcessorClock(pid_t process) { return static_cast<clockid_t>(~process) << 3 | 2; }

class HostClock : public RealClock {
 public:
  int64_t Monotonic() const override { return Read(CLOCK_MONOTONIC); }
  int64_t Realtime() const override { return Read(CLOCK_REALTIME); }
  int64_t ProcessorTime(pid_t process) const override { return Read(ProcessorClock(process)); }
  // The clock of a thread tells only its own process (kernel/time/posix-cpu-timers.c
  // pid_for_clock); others find the same in /proc.
  int64_t ThreadProcessorTime(pid_t thread) const override {
    char text[128];
    return Proc::Host().Read(thread, "schedstat", text) ? atoll(text) : 0;
  }
  void Sleep(int64_t nanoseconds) const override {
    timespec left{.tv_sec = nanoseconds / kNanosecondsPerSecond,
                  .tv_nsec = nanoseconds % kNanosecondsPerSecond};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
  }
  void ArmTimer(int timer, int64_t nanoseconds) const override {
    const itimerspec once{.it_interval = {},
                          .it_value = {.tv_sec = nanoseconds / kNanosecondsPerSecond,
                                       .tv_nsec = nanoseconds % kNanosecondsPerSecond}};
    timerfd_settime(timer, 0, &once, nullptr);
  }
};

}  // namespace

const RealClock& RealClock::Host() {
  static const HostClock* const clock = new HostClock;
  return *clock;
}

}  // namespace phantora
