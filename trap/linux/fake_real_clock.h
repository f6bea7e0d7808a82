// A host's clocks for tests.
#ifndef PHANTORA_TRAP_LINUX_FAKE_REAL_CLOCK_H_
#define PHANTORA_TRAP_LINUX_FAKE_REAL_CLOCK_H_

#include <poll.h>
#include <sys/timerfd.h>
#include <sys/types.h>

#include <cstdint>
#include <map>

#include "trap/linux/real_clock.h"

namespace phantora {

// Stands still until told otherwise.
class FakeRealClock : public RealClock {
 public:
  explicit FakeRealClock(int64_t monotonic = 0, int64_t realtime = 0)
      : monotonic_(monotonic), realtime_(realtime) {}

  int64_t Monotonic() const override { return monotonic_; }
  int64_t Realtime() const override { return realtime_; }
  int64_t ProcessorTime(pid_t process) const override { return Of(processes_, process); }
  int64_t ThreadProcessorTime(pid_t thread) const override { return Of(threads_, thread); }
  // Passes at once.
  void Sleep(int64_t nanoseconds) const override { Pass(nanoseconds); }

  // As the kernel has it, but by this clock: whoever passes time returns when it is readable.
  void ArmTimer(int timer, int64_t nanoseconds) const override {
    const itimerspec never{};
    timerfd_settime(timer, 0, &never, nullptr);
    due_.erase(timer);
    if (nanoseconds > 0) due_[timer] = monotonic_ + nanoseconds;
  }

  void Pass(int64_t nanoseconds) const {
    monotonic_ += nanoseconds, realtime_ += nanoseconds;
    for (auto it = due_.begin(); it != due_.end();) {
      if (it->second > monotonic_) {
        ++it;
        continue;
      }
      const itimerspec soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 1}};
      pollfd readable{it->first, POLLIN, 0};
      if (timerfd_settime(it->first, 0, &soon, nullptr) == 0) poll(&readable, 1, -1);
      it = due_.erase(it);
    }
  }
  // The process (thread) runs for so long, at the same time as others.
  void RunProcess(pid_t process, int64_t nanoseconds) { processes_[process] += nanoseconds; }
  void RunThread(pid_t thread, int64_t nanoseconds) { threads_[thread] += nanoseconds; }

 private:
  static int64_t Of(const std::map<pid_t, int64_t>& times, pid_t id) {
    const auto it = times.find(id);
    return it == times.end() ? 0 : it->second;
  }

  mutable int64_t monotonic_, realtime_;
  std::map<pid_t, int64_t> processes_, threads_;
  mutable std::map<int, int64_t> due_;  // timers that have been armed
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FAKE_REAL_CLOCK_H_
