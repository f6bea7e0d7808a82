// A host's clocks for tests.
#ifndef PHANTORA_TRAP_LINUX_FAKE_REAL_CLOCK_H_
#define PHANTORA_TRAP_LINUX_FAKE_REAL_CLOCK_H_

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

  void Pass(int64_t nanoseconds) const { monotonic_ += nanoseconds, realtime_ += nanoseconds; }
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
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_FAKE_REAL_CLOCK_H_
