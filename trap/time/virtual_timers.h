// Timers in simulated time: alarm, setitimer, timer_create and timerfd.
#ifndef PHANTORA_TRAP_TIME_VIRTUAL_TIMERS_H_
#define PHANTORA_TRAP_TIME_VIRTUAL_TIMERS_H_

#include <linux/seccomp.h>
#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "clock/virtual_time.h"
#include "trap/linux/notify_listener.h"
#include "trap/linux/tracees.h"

namespace phantora {

// Interval and POSIX timers are kept here alone, and their signals sent from here. A
// timerfd stays the kernel's, so that it can be read and waited for; it is never armed,
// but told that it has expired (TFD_IOC_SET_TICKS, timerfd_create(2)). Timers of
// processor time stay the kernel's.
class VirtualTimers {
 public:
  // All processes that live, with a pidfd each.
  using Living = std::function<std::vector<std::pair<pid_t, int>>()>;

  // CLOCK_REALTIME runs `realtime_offset` ns before simulated time.
  VirtualTimers(int64_t realtime_offset, Living living)
      : realtime_offset_(realtime_offset), living_(std::move(living)) {}

  // Is it a system call about timers?
  static bool Serves(int call);
  // `now`: the caller's time.
  void Serve(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
             NotifyListener& listener);

  // When a timer expires next, and whose; Infinity for none.
  struct Due {
    VirtualTime time = VirtualTime::Infinity();
    pid_t process = 0;
  };
  Due Earliest();
  // Lets the timers of `process` expire that are due at its time `now`; false if none is.
  bool ExpireDue(pid_t process, VirtualTime now);
  // Whose timers they are that run.
  std::vector<pid_t> Processes() const;

  // `file`, perhaps a timerfd, is about to be read.
  void BeforeRead(int file);

  // exec deletes POSIX timers.
  void NewProgram(pid_t process);
  void ProcessDied(pid_t process);

 private:
  struct Timer {
    enum class Kind { kInterval, kPosix, kDescriptor };
    Kind kind = Kind::kInterval;
    pid_t process = 0;
    int pidfd = -1;  // of the process; lives as long as it
    int clock = CLOCK_MONOTONIC;
    VirtualTime deadline = VirtualTime::Infinity();  // disarmed
    VirtualSpan interval;

    // POSIX timers: `id` as the process knows it, and how it is notified.
    int id = 0;
    int notify = 0, signal = 0;
    pid_t thread = 0;
    uint64_t value = 0;
    int overruns = 0;  // of the signal that was sent last

    // timerfd: where it was set last, and expirations that nobody has read.
    int descriptor = -1;
    uint64_t unread = 0;
  };
  // Interval timers by process, descriptors by the mark that they carry.
  using Key = std::pair<Timer::Kind, std::pair<pid_t, int64_t>>;
  using Timers = std::map<Key, Timer>;

  void SetInterval(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
                   NotifyListener& listener);
  void SetAlarm(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
                NotifyListener& listener);
  void CreatePosix(const seccomp_notif& notification, const Tracee& tracee,
                   NotifyListener& listener);
  // timer_settime, timer_gettime, timer_getoverrun, timer_delete; false if not ours.
  bool ServePosix(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
                  NotifyListener& listener);
  bool ServeDescriptor(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
                       NotifyListener& listener);

  Timer& IntervalTimer(const Tracee& tracee);
  // Sets `timer` from `setting`, in the terms of its clock.
  void Arm(Timer& timer, const itimerspec& setting, bool absolute, VirtualTime now);
  static itimerspec Left(const Timer& timer, VirtualTime now);
  // `now` is not earlier than its deadline. False if the timer is no more.
  bool Expire(Timer& timer, int64_t mark, VirtualTime now);
  void Signal(Timer& timer, int64_t expirations);
  // False if nobody has the descriptor any more.
  bool Tick(Timer& timer, int64_t mark, uint64_t ticks);
  // Finds the descriptor that carries `mark`, wherever it is now.
  bool FindDescriptor(Timer& timer, int64_t mark, int& budget);
  size_t TimersOf(pid_t process) const;

  const int64_t realtime_offset_;
  const Living living_;
  Timers timers_;
  int last_id_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_VIRTUAL_TIMERS_H_
