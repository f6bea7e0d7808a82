#include "trap/time/virtual_timers.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/types.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/thread_activity.h"
#include "trap/linux/unique_fd.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

// Ids of POSIX timers start here, far above the kernel's.
constexpr int kFirstId = 0x40000000;
// A process may not have more timers than its signals could be queued for.
constexpr size_t kMostTimers = 4096;
// A timerfd carries its mark as an interval of so many seconds and the mark: longer than
// any program asks for, and never running, because it is not armed.
constexpr int64_t kMarkBase = 1'000'000'000;
constexpr uint64_t kMostMark = 4'000'000'000'000'000'000;
// Descriptors that are looked at for timers that have moved.
constexpr int kMostLookedAt = 4096;
constexpr VirtualSpan kShortestPeriod = VirtualSpan::Microseconds(10);
// linux/timerfd.h.
constexpr unsigned long kSetTicks = _IOW('T', 0, __u64);

// What the kernel's struct sigevent starts with (asm-generic/siginfo.h).
struct SignalEvent {
  uint64_t value;
  int32_t signal, notify;
  int32_t thread;
};

bool IsProcessorClock(int clock) {
  return clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID;
}

bool IsZero(const timespec& time) { return time.tv_sec == 0 && time.tv_nsec == 0; }

timespec FromSpan(VirtualSpan span) {
  const int64_t ns = span.nanoseconds();
  return {.tv_sec = ns / kNanosecondsPerSecond, .tv_nsec = ns % kNanosecondsPerSecond};
}

// Saturates at 53 days.
VirtualSpan ToSpan(const timespec& time) {
  const VirtualTime instant = InstantOf(CLOCK_MONOTONIC, time, 0);
  return instant == VirtualTime::Infinity()
             ? VirtualSpan::Picoseconds(std::numeric_limits<int64_t>::max() / 2)
             : VirtualSpan::Picoseconds(instant.picoseconds());
}

UniqueFd Copy(int pidfd, int descriptor) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, descriptor, 0)));
}

// The mark of a timerfd; 0 if it has none, -1 if it is no timerfd.
int64_t MarkOf(int timer) {
  itimerspec now{};
  if (timerfd_gettime(timer, &now) != 0) return -1;
  if (now.it_interval.tv_sec < kMarkBase) return 0;
  return (now.it_interval.tv_sec - kMarkBase) * kNanosecondsPerSecond + now.it_interval.tv_nsec;
}

timespec IntervalOf(int64_t mark) {
  return {.tv_sec = kMarkBase + mark / kNanosecondsPerSecond,
          .tv_nsec = mark % kNanosecondsPerSecond};
}

// So that no rank can guess that of another.
int64_t RandomMark() {
  uint64_t random = 0;
  [[maybe_unused]] const ssize_t got = getrandom(&random, sizeof random, 0);
  return static_cast<int64_t>(random % kMostMark) + 1;
}

// CLOCK_*, of which a timerfd's text in /proc tells.
int ClockOf(int timer) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", timer);
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t length = file.valid() ? read(file.get(), text, sizeof text - 1) : 0;
  text[std::max<ssize_t>(length, 0)] = '\0';
  const char* at = strstr(text, "clockid: ");
  return at == nullptr ? CLOCK_MONOTONIC : atoi(at + strlen("clockid: "));
}

// How often a timer expires in the time from `deadline` to `now`.
int64_t Expirations(VirtualTime deadline, VirtualSpan interval, VirtualTime now) {
  return (now - deadline).picoseconds() / interval.picoseconds() + 1;
}

// Saturates at half of what picoseconds can say, 53 days, so that nothing that is added
// overflows.
VirtualTime Later(VirtualTime time, VirtualSpan span, int64_t times) {
  const __int128 sum = static_cast<__int128>(span.picoseconds()) * times + time.picoseconds();
  return sum >= std::numeric_limits<int64_t>::max() / 2
             ? VirtualTime::Infinity()
             : time + VirtualSpan::Picoseconds(static_cast<int64_t>(sum) - time.picoseconds());
}

bool WriteSetting(const RemoteMemory& memory, uint64_t address, const itimerspec& setting) {
  return address == 0 || memory.WriteObject(RemoteAddress{address}, setting);
}

bool WriteSetting(const RemoteMemory& memory, uint64_t address, const itimerval& setting) {
  return address == 0 || memory.WriteObject(RemoteAddress{address}, setting);
}

itimerval ToMicroseconds(const itimerspec& setting) {
  return {.it_interval = {.tv_sec = setting.it_interval.tv_sec,
                          .tv_usec = setting.it_interval.tv_nsec / 1000},
          .it_value = {.tv_sec = setting.it_value.tv_sec,
                       .tv_usec = (setting.it_value.tv_nsec + 999) / 1000}};
}

}  // namespace

// --- Calls --------------------------------------------------------------------------

bool VirtualTimers::Serves(int call) {
  switch (call) {
    case SYS_alarm:
    case SYS_setitimer:
    case SYS_getitimer:
    case SYS_timer_create:
    case SYS_timer_settime:
    case SYS_timer_gettime:
    case SYS_timer_getoverrun:
    case SYS_timer_delete:
    case SYS_timerfd_settime:
    case SYS_timerfd_gettime:
      return true;
    default:
      return false;
  }
}

void VirtualTimers::Serve(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
                          NotifyListener& listener) {
  switch (notification.data.nr) {
    case SYS_alarm:
      SetAlarm(notification, tracee, now, listener);
      return;
    case SYS_setitimer:
    case SYS_getitimer:
      SetInterval(notification, tracee, now, listener);
      return;
    case SYS_timer_create:
      CreatePosix(notification, tracee, listener);
      return;
    case SYS_timer_settime:
    case SYS_timer_gettime:
    case SYS_timer_getoverrun:
    case SYS_timer_delete:
      if (!ServePosix(notification, tracee, now, listener)) listener.ReplyContinue(notification.id);
      return;
    case SYS_timerfd_settime:
    case SYS_timerfd_gettime:
      if (!ServeDescriptor(notification, tracee, now, listener)) {
        listener.ReplyContinue(notification.id);
      }
      return;
  }
}

VirtualTimers::Timer& VirtualTimers::IntervalTimer(const Tracee& tracee) {
  Timer& timer = timers_[{Timer::Kind::kInterval, {tracee.process, 0}}];
  timer.process = tracee.process;
  timer.pidfd = tracee.pidfd.get();
  return timer;
}

void VirtualTimers::SetInterval(const seccomp_notif& notification, const Tracee& tracee,
                                VirtualTime now, NotifyListener& listener) {
  const auto& arguments = notification.data.args;
  const RemoteMemory memory(static_cast<pid_t>(notification.pid));
  Timer& timer = IntervalTimer(tracee);
  const itimerval old = ToMicroseconds(Left(timer, now));
  if (notification.data.nr == SYS_getitimer) {
    const bool written = memory.WriteObject(RemoteAddress{arguments[1]}, old);
    written ? listener.ReplyValue(notification.id, 0)
            : listener.ReplyError(notification.id, EFAULT);
    return;
  }
  itimerval setting{};  // a null pointer disarms
  if (arguments[1] != 0) {
    const auto read = memory.ReadObject<itimerval>(RemoteAddress{arguments[1]});
    if (!read) {
      listener.ReplyError(notification.id, EFAULT);
      return;
    }
    setting = *read;
  }
  const auto valid = [](const timeval& time) {
    return time.tv_sec >= 0 && time.tv_usec >= 0 && time.tv_usec < 1'000'000;
  };
  if (!valid(setting.it_value) || !valid(setting.it_interval)) {
    listener.ReplyError(notification.id, EINVAL);
    return;
  }
  Arm(timer,
      {.it_interval = {setting.it_interval.tv_sec, setting.it_interval.tv_usec * 1000},
       .it_value = {setting.it_value.tv_sec, setting.it_value.tv_usec * 1000}},
      false, now);
  if (WriteSetting(memory, arguments[2], old)) {
    listener.ReplyValue(notification.id, 0);
  } else {
    listener.ReplyError(notification.id, EFAULT);
  }
}

void VirtualTimers::SetAlarm(const seccomp_notif& notification, const Tracee& tracee,
                             VirtualTime now, NotifyListener& listener) {
  Timer& timer = IntervalTimer(tracee);
  const itimerspec old = Left(timer, now);
  const auto seconds = static_cast<uint32_t>(notification.data.args[0]);
  Arm(timer, {.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_nsec = 0}}, false, now);
  // Rounded to whole seconds, but not to none (kernel/time/itimer.c alarm_setitimer).
  int64_t left = old.it_value.tv_sec + (old.it_value.tv_nsec >= kNanosecondsPerSecond / 2 ? 1 : 0);
  if (left == 0 && old.it_value.tv_nsec != 0) left = 1;
  listener.ReplyValue(notification.id, left);
}

size_t VirtualTimers::TimersOf(pid_t process) const {
  return static_cast<size_t>(std::count_if(timers_.begin(), timers_.end(), [&](const auto& timer) {
    return timer.second.process == process;
  }));
}

void VirtualTimers::CreatePosix(const seccomp_notif& notification, const Tracee& tracee,
                                NotifyListener& listener) {
  const auto& arguments = notification.data.args;
  const RemoteMemory memory(static_cast<pid_t>(notification.pid));
  const int clock = static_cast<int>(arguments[0]);
  if (IsProcessorClock(clock) || clock > CLOCK_TAI || clock == CLOCK_MONOTONIC_RAW ||
      clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE) {
    listener.ReplyContinue(notification.id);  // the kernel's, or its error
    return;
  }
  Timer timer;
  timer.kind = Timer::Kind::kPosix;
  timer.process = tracee.process;
  timer.pidfd = tracee.pidfd.get();
  timer.clock = clock;
  timer.notify = SIGEV_SIGNAL;
  timer.signal = SIGALRM;
  timer.id = kFirstId + last_id_;
  timer.value = static_cast<uint64_t>(timer.id);
  if (arguments[1] != 0) {
    const auto event = memory.ReadObject<SignalEvent>(RemoteAddress{arguments[1]});
    if (!event) {
      listener.ReplyError(notification.id, EFAULT);
      return;
    }
    timer.notify = event->notify;
    timer.signal = event->signal;
    timer.value = event->value;
    timer.thread = event->thread;
  }
  const bool notifies = timer.notify != SIGEV_NONE;
  const bool known = timer.notify == SIGEV_SIGNAL || timer.notify == SIGEV_NONE ||
                     timer.notify == SIGEV_THREAD_ID || timer.notify == SIGEV_THREAD;
  if (!known || (notifies && (timer.signal <= 0 || timer.signal >= NSIG))) {
    listener.ReplyError(notification.id, EINVAL);
    return;
  }
  if (TimersOf(tracee.process) >= kMostTimers) {
    listener.ReplyError(notification.id, EAGAIN);
    return;
  }
  if (!memory.WriteObject(RemoteAddress{arguments[2]}, timer.id)) {
    listener.ReplyError(notification.id, EFAULT);
    return;
  }
  last_id_ = (last_id_ + 1) % kFirstId;
  timers_[{Timer::Kind::kPosix, {tracee.process, timer.id}}] = timer;
  listener.ReplyValue(notification.id, 0);
}

bool VirtualTimers::ServePosix(const seccomp_notif& notification, const Tracee& tracee,
                               VirtualTime now, NotifyListener& listener) {
  const auto& arguments = notification.data.args;
  auto it =
      timers_.find({Timer::Kind::kPosix, {tracee.process, static_cast<int32_t>(arguments[0])}});
  if (it == timers_.end()) return false;
  Timer& timer = it->second;
  const RemoteMemory memory(static_cast<pid_t>(notification.pid));
  int64_t value = 0;
  bool accessible = true;
  switch (notification.data.nr) {
    case SYS_timer_gettime:
      accessible = memory.WriteObject(RemoteAddress{arguments[1]}, Left(timer, now));
      break;
    case SYS_timer_getoverrun:
      value = timer.overruns;
      break;
    case SYS_timer_delete:
      timers_.erase(it);
      break;
    case SYS_timer_settime: {
      const auto setting = memory.ReadObject<itimerspec>(RemoteAddress{arguments[2]});
      accessible = setting.has_value() && WriteSetting(memory, arguments[3], Left(timer, now));
      if (!accessible) break;
      if (!IsValid(setting->it_value) || !IsValid(setting->it_interval)) {
        listener.ReplyError(notification.id, EINVAL);
        return true;
      }
      timer.overruns = 0;
      Arm(timer, *setting, (arguments[1] & TIMER_ABSTIME) != 0, now);
      break;
    }
  }
  accessible ? listener.ReplyValue(notification.id, value)
             : listener.ReplyError(notification.id, EFAULT);
  return true;
}

bool VirtualTimers::ServeDescriptor(const seccomp_notif& notification, const Tracee& tracee,
                                    VirtualTime now, NotifyListener& listener) {
  const auto& arguments = notification.data.args;
  const RemoteMemory memory(static_cast<pid_t>(notification.pid));
  const int descriptor = static_cast<int>(arguments[0]);
  const UniqueFd copy = Copy(tracee.pidfd.get(), descriptor);
  if (!copy.valid()) return false;  // the kernel says why
  int64_t mark = MarkOf(copy.get());
  if (mark < 0) return false;
  const bool sets = notification.data.nr == SYS_timerfd_settime;
  const uint64_t out = arguments[sets ? 3 : 1];
  auto it = timers_.find({Timer::Kind::kDescriptor, {0, mark}});
  const itimerspec old = it == timers_.end() ? itimerspec{} : Left(it->second, now);
  if (!sets) {
    memory.WriteObject(RemoteAddress{out}, old) ? listener.ReplyValue(notification.id, 0)
                                                : listener.ReplyError(notification.id, EFAULT);
    return true;
  }
  const auto setting = memory.ReadObject<itimerspec>(RemoteAddress{arguments[2]});
  const uint64_t flags = arguments[1];
  if (!setting) {
    listener.ReplyError(notification.id, EFAULT);
    return true;
  }
  if (!IsValid(setting->it_value) || !IsValid(setting->it_interval) ||
      (flags & ~uint64_t{TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET}) != 0) {
    listener.ReplyError(notification.id, EINVAL);
    return true;
  }
  if (it == timers_.end() && TimersOf(tracee.process) >= kMostTimers) {
    listener.ReplyError(notification.id, ENOMEM);
    return true;
  }
  if (mark == 0) mark = RandomMark();
  // This also takes back what nobody has read, as setting a timer does.
  const itimerspec disarmed{.it_interval = IntervalOf(mark), .it_value = {}};
  if (timerfd_settime(copy.get(), 0, &disarmed, nullptr) != 0) return false;
  if (IsZero(setting->it_value)) {
    if (it != timers_.end()) timers_.erase(it);
  } else {
    Timer& timer = timers_[{Timer::Kind::kDescriptor, {0, mark}}];
    timer.kind = Timer::Kind::kDescriptor;
    timer.process = tracee.process;
    timer.pidfd = tracee.pidfd.get();
    timer.clock = ClockOf(copy.get());
    timer.descriptor = descriptor;
    timer.unread = 0;
    Arm(timer, *setting, (flags & TFD_TIMER_ABSTIME) != 0, now);
  }
  WriteSetting(memory, out, old) ? listener.ReplyValue(notification.id, 0)
                                 : listener.ReplyError(notification.id, EFAULT);
  return true;
}

// --- Timers -------------------------------------------------------------------------

void VirtualTimers::Arm(Timer& timer, const itimerspec& setting, bool absolute, VirtualTime now) {
  timer.interval = ToSpan(setting.it_interval);
  if (IsZero(setting.it_value)) {
    timer.deadline = VirtualTime::Infinity();
  } else if (absolute) {
    timer.deadline = InstantOf(timer.clock, setting.it_value, realtime_offset_);
  } else {
    timer.deadline = Later(now, ToSpan(setting.it_value), 1);
  }
}

itimerspec VirtualTimers::Left(const Timer& timer, VirtualTime now) {
  itimerspec left{.it_interval = FromSpan(timer.interval), .it_value = {}};
  if (timer.deadline == VirtualTime::Infinity()) return left;
  VirtualTime deadline = timer.deadline;
  if (timer.kind == Timer::Kind::kPosix && timer.notify == SIGEV_NONE && deadline <= now) {
    // Nobody is told, so it has not been set anew.
    if (timer.interval == VirtualSpan()) return left;
    deadline = Later(deadline, timer.interval, Expirations(deadline, timer.interval, now));
    if (deadline == VirtualTime::Infinity()) return left;
  }
  // One that is about to expire is not disarmed.
  left.it_value = FromSpan(std::max(deadline - now, VirtualSpan::Nanoseconds(1)));
  return left;
}

VirtualTimers::Due VirtualTimers::Earliest() {
  Due due;
  for (const auto& [key, timer] : timers_) {
    if (timer.kind == Timer::Kind::kPosix && timer.notify == SIGEV_NONE) continue;
    if (timer.deadline < due.time) due = {timer.deadline, timer.process};
  }
  return due;
}

std::vector<pid_t> VirtualTimers::Processes() const {
  std::vector<pid_t> processes;
  for (const auto& [key, timer] : timers_) {
    if (timer.deadline != VirtualTime::Infinity()) processes.push_back(timer.process);
  }
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  return processes;
}

bool VirtualTimers::ExpireDue(pid_t process, VirtualTime now) {
  // In the order of their deadlines, since signals are handled in the order of sending.
  std::vector<std::pair<VirtualTime, Key>> due;
  for (const auto& [key, timer] : timers_) {
    if (timer.process != process || timer.deadline > now) continue;
    if (timer.kind == Timer::Kind::kPosix && timer.notify == SIGEV_NONE) continue;
    due.emplace_back(timer.deadline, key);
  }
  std::sort(due.begin(), due.end());
  for (const auto& [deadline, key] : due) {
    auto it = timers_.find(key);
    if (!Expire(it->second, key.second.second, now)) timers_.erase(it);
  }
  return !due.empty();
}

bool VirtualTimers::Expire(Timer& timer, int64_t mark, VirtualTime now) {
  const bool repeats = timer.interval > VirtualSpan();
  // What repeats faster than anybody could notice expires several times at once.
  const VirtualTime until = repeats ? now + kShortestPeriod : now;
  int64_t expirations = 1;
  if (!repeats) {
    timer.deadline = VirtualTime::Infinity();
  } else {
    const bool fast = timer.interval < kShortestPeriod;
    expirations = Expirations(timer.deadline, timer.interval, fast ? until : now);
    timer.deadline = Later(timer.deadline, timer.interval, expirations);
  }
  if (timer.kind == Timer::Kind::kDescriptor) {
    return Tick(timer, mark, static_cast<uint64_t>(expirations)) && repeats;
  }
  Signal(timer, expirations);
  return true;
}

void VirtualTimers::Signal(Timer& timer, int64_t expirations) {
  if (timer.kind == Timer::Kind::kInterval) {
    syscall(SYS_pidfd_send_signal, timer.pidfd, SIGALRM, nullptr, 0);
    return;
  }
  const bool to_thread = timer.notify == SIGEV_THREAD_ID;
  // A timer has one signal queued at most; more expirations are overruns.
  const pid_t target = to_thread ? timer.thread : timer.process;
  const bool queued = (SignalsOf(target).pending() >> (timer.signal - 1) & 1) != 0;
  const int64_t overruns = (queued ? timer.overruns + int64_t{1} : 0) + expirations - 1;
  timer.overruns =
      static_cast<int>(std::min<int64_t>(overruns, std::numeric_limits<int>::max() - 1));
  if (queued) return;
  siginfo_t info{};
  info.si_signo = timer.signal;
  info.si_code = SI_TIMER;
  info.si_timerid = timer.id;
  info.si_overrun = timer.overruns;
  info.si_value.sival_ptr = reinterpret_cast<void*>(timer.value);
  if (to_thread) {
    syscall(SYS_rt_tgsigqueueinfo, timer.process, timer.thread, timer.signal, &info);
  } else {
    syscall(SYS_pidfd_send_signal, timer.pidfd, timer.signal, &info, 0);
  }
}

bool VirtualTimers::Tick(Timer& timer, int64_t mark, uint64_t ticks) {
  // Looked up anew, not kept: a copy would keep the timer in sets of epoll after its
  // owner has closed it.
  UniqueFd copy = Copy(timer.pidfd, timer.descriptor);
  if (!copy.valid() || MarkOf(copy.get()) != mark) {
    int budget = kMostLookedAt;
    if (!FindDescriptor(timer, mark, budget)) return false;
    copy = Copy(timer.pidfd, timer.descriptor);
  }
  pollfd unread{copy.get(), POLLIN, 0};
  if (poll(&unread, 1, 0) > 0) {
    timer.unread += ticks;  // told when it is read: who waits has been woken once
    return true;
  }
  timer.unread = ticks;
  if (ioctl(copy.get(), kSetTicks, &timer.unread) == 0) return true;
  // A kernel without CONFIG_CHECKPOINT_RESTORE: expire at once, once.
  const itimerspec at_once{.it_interval = IntervalOf(mark), .it_value = {0, 1}};
  timerfd_settime(copy.get(), 0, &at_once, nullptr);
  poll(&unread, 1, 10);
  return true;
}

void VirtualTimers::BeforeRead(int file) {
  if (timers_.empty()) return;
  const int64_t mark = MarkOf(file);
  auto it = timers_.find({Timer::Kind::kDescriptor, {0, mark}});
  if (mark <= 0 || it == timers_.end() || it->second.unread < 2) return;
  pollfd unread{file, POLLIN, 0};
  if (poll(&unread, 1, 0) > 0) ioctl(file, kSetTicks, &it->second.unread);
}

bool VirtualTimers::FindDescriptor(Timer& timer, int64_t mark, int& budget) {
  for (const auto& [process, pidfd] : living_()) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", process);
    DIR* directory = opendir(path);
    if (directory == nullptr) continue;
    const absl::Cleanup close = [directory] { closedir(directory); };
    while (const dirent* entry = readdir(directory)) {
      if (--budget < 0) return false;
      char target[64];
      const ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
      if (length <= 0) continue;
      target[length] = '\0';
      if (strcmp(target, "anon_inode:[timerfd]") != 0) continue;
      const int descriptor = atoi(entry->d_name);
      if (MarkOf(Copy(pidfd, descriptor).get()) != mark) continue;
      timer.process = process;
      timer.pidfd = pidfd;
      timer.descriptor = descriptor;
      return true;
    }
  }
  return false;
}

void VirtualTimers::NewProgram(pid_t process) {
  std::erase_if(timers_, [process](const auto& timer) {
    return timer.second.kind == Timer::Kind::kPosix && timer.second.process == process;
  });
}

void VirtualTimers::ProcessDied(pid_t process) {
  int budget = kMostLookedAt;
  for (auto it = timers_.begin(); it != timers_.end();) {
    Timer& timer = it->second;
    // A timerfd lives as long as anybody has it.
    const bool stays =
        timer.process != process || (timer.kind == Timer::Kind::kDescriptor &&
                                     FindDescriptor(timer, it->first.second.second, budget));
    it = stays ? std::next(it) : timers_.erase(it);
  }
}

}  // namespace phantora
