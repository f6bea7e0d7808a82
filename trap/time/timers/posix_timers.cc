#include "trap/time/timers/posix_timers.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "trap/linux/remote_memory.h"
#include "trap/linux/thread_activity.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

// Ids start here, far above the kernel's.
constexpr int kFirstId = 0x40000000;

// What the kernel's struct sigevent starts with (asm-generic/siginfo.h).
struct SignalEvent {
  uint64_t value;
  int32_t signal, notify;
  int32_t thread;
};

// Is it one that the kernel has timers of, and is not of processor time?
bool IsOurs(int clock) {
  return clock >= 0 && clock <= CLOCK_TAI && clock != CLOCK_PROCESS_CPUTIME_ID &&
         clock != CLOCK_THREAD_CPUTIME_ID && clock != CLOCK_MONOTONIC_RAW &&
         clock != CLOCK_REALTIME_COARSE && clock != CLOCK_MONOTONIC_COARSE;
}

TimerKey KeyOf(pid_t process, int id) {
  return {.kind = TimerKey::Kind::kPosix, .process = process, .number = id};
}

}  // namespace

itimerspec PosixTimers::Timer::Left(VirtualTime now) const {
  return notify == SIGEV_NONE ? state.LeftUntold(now) : state.Left(now);
}

int PosixTimers::ReadEvent(const seccomp_notif& notification, Timer& timer) {
  timer.notify = SIGEV_SIGNAL;
  timer.signal = SIGALRM;
  timer.value = static_cast<uint64_t>(timer.id);
  if (const uint64_t address = notification.data.args[1]; address != 0) {
    const auto event = RemoteMemory(static_cast<pid_t>(notification.pid))
                           .ReadObject<SignalEvent>(RemoteAddress{address});
    if (!event) return EFAULT;
    timer.notify = event->notify;
    timer.signal = event->signal;
    timer.value = event->value;
    timer.thread = event->thread;
  }
  if (timer.notify == SIGEV_NONE) return 0;
  const bool known = timer.notify == SIGEV_SIGNAL || timer.notify == SIGEV_THREAD_ID ||
                     timer.notify == SIGEV_THREAD;
  return known && timer.signal > 0 && timer.signal < NSIG ? 0 : EINVAL;
}

void PosixTimers::Create(const seccomp_notif& notification, const Tracee& tracee,
                         NotifyListener& listener) {
  const auto& arguments = notification.data.args;
  Timer timer;
  timer.state.clock = static_cast<int>(arguments[0]);
  if (!IsOurs(timer.state.clock)) {
    return listener.ReplyContinue(notification.id);  // the kernel's, or its error
  }
  timer.process = tracee.process;
  timer.pidfd = tracee.pidfd.get();
  timer.id = kFirstId + last_id_;
  if (const int error = ReadEvent(notification, timer); error != 0) {
    return listener.ReplyError(notification.id, error);
  }
  if (queue_.CountOf(tracee.process) >= kMostTimers) {
    return listener.ReplyError(notification.id, EAGAIN);
  }
  const RemoteMemory memory(static_cast<pid_t>(notification.pid));
  if (!memory.WriteObject(RemoteAddress{arguments[2]}, timer.id)) {
    return listener.ReplyError(notification.id, EFAULT);
  }
  last_id_ = (last_id_ + 1) % kFirstId;
  timers_[{timer.process, timer.id}] = timer;
  Enqueue(timer);
  listener.ReplyValue(notification.id, 0);
}

void PosixTimers::Enqueue(const Timer& timer) {
  const bool is_told = timer.notify != SIGEV_NONE;
  queue_.Set(KeyOf(timer.process, timer.id), timer.process,
             is_told ? timer.state.deadline : VirtualTime::Infinity());
}

void PosixTimers::Serve(const seccomp_notif& notification, const Tracee& tracee, VirtualTime now,
                        NotifyListener& listener) {
  const auto& arguments = notification.data.args;
  const auto it = timers_.find({tracee.process, static_cast<int32_t>(arguments[0])});
  if (it == timers_.end()) return listener.ReplyContinue(notification.id);
  Timer& timer = it->second;
  switch (notification.data.nr) {
    case SYS_timer_settime:
      return SetTime(timer, notification, now, listener);
    case SYS_timer_gettime: {
      const RemoteMemory memory(static_cast<pid_t>(notification.pid));
      const bool written = memory.WriteObject(RemoteAddress{arguments[1]}, timer.Left(now));
      return written ? listener.ReplyValue(notification.id, 0)
                     : listener.ReplyError(notification.id, EFAULT);
    }
    case SYS_timer_getoverrun:
      return listener.ReplyValue(notification.id, timer.overruns);
    case SYS_timer_delete:
      queue_.Remove(KeyOf(timer.process, timer.id));
      timers_.erase(it);
      return listener.ReplyValue(notification.id, 0);
  }
}

void PosixTimers::SetTime(Timer& timer, const seccomp_notif& notification, VirtualTime now,
                          NotifyListener& listener) {
  const auto& arguments = notification.data.args;
  const RemoteMemory memory(static_cast<pid_t>(notification.pid));
  const auto setting = memory.ReadObject<itimerspec>(RemoteAddress{arguments[2]});
  const bool accessible =
      setting &&
      (arguments[3] == 0 || memory.WriteObject(RemoteAddress{arguments[3]}, timer.Left(now)));
  if (!accessible) return listener.ReplyError(notification.id, EFAULT);
  if (!IsValid(setting->it_value) || !IsValid(setting->it_interval)) {
    return listener.ReplyError(notification.id, EINVAL);
  }
  timer.overruns = 0;
  timer.state.Arm(*setting, (arguments[1] & TIMER_ABSTIME) != 0, now, realtime_offset_);
  Enqueue(timer);
  listener.ReplyValue(notification.id, 0);
}

void PosixTimers::Expire(const TimerKey& key, VirtualTime now) {
  const auto it = timers_.find({key.process, static_cast<int>(key.number)});
  if (it == timers_.end()) return queue_.Remove(key);
  const int64_t expirations = it->second.state.Expire(now);
  Enqueue(it->second);
  Signal(it->second, expirations);
}

void PosixTimers::Signal(Timer& timer, int64_t expirations) {
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

void PosixTimers::Forget(pid_t process) {
  auto it = timers_.lower_bound({process, 0});
  while (it != timers_.end() && it->first.first == process) {
    queue_.Remove(KeyOf(process, it->first.second));
    it = timers_.erase(it);
  }
}

}  // namespace phantora
