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
#include "trap/time/timers/signal_event.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

// Ids start here, far above the kernel's.
constexpr int kFirstId = 0x40000000;

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

int PosixTimers::ReadEvent(const TrappedCall& call, Timer& timer) {
  timer.notify = SIGEV_SIGNAL;
  timer.signal = SIGALRM;
  timer.value = static_cast<uint64_t>(timer.id);
  if (const uint64_t address = call.Word(1); address != 0) {
    const auto event = call.memory().ReadObject<SignalEvent>(RemoteAddress{address});
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

void PosixTimers::Create(const TrappedCall& call) {
  Timer timer;
  timer.state.clock = call.Int(0);
  if (!IsOurs(timer.state.clock)) {
    return call.Continue();  // the kernel's, or its error
  }
  timer.process = call.process();
  timer.pidfd = call.tracee().pidfd.get();
  timer.id = kFirstId + last_id_;
  if (const int error = ReadEvent(call, timer); error != 0) {
    return call.Error(error);
  }
  if (queue_.CountOf(call.process()) >= kMostTimers) {
    return call.Error(EAGAIN);
  }
  if (!call.memory().WriteObject(call.Address(2), timer.id)) {
    return call.Error(EFAULT);
  }
  last_id_ = (last_id_ + 1) % kFirstId;
  timers_[{timer.process, timer.id}] = timer;
  Enqueue(timer);
  call.Value(0);
}

void PosixTimers::Enqueue(const Timer& timer) {
  const bool is_told = timer.notify != SIGEV_NONE;
  queue_.Set(KeyOf(timer.process, timer.id), timer.process,
             is_told ? timer.state.deadline : VirtualTime::Infinity());
}

void PosixTimers::Serve(const TrappedCall& call, VirtualTime now) {
  const auto it = timers_.find({call.process(), static_cast<int32_t>(call.Word(0))});
  if (it == timers_.end()) return call.Continue();
  Timer& timer = it->second;
  switch (call.number()) {
    case SYS_timer_settime:
      return SetTime(timer, call, now);
    case SYS_timer_gettime: {
      const bool written = call.memory().WriteObject(call.Address(1), timer.Left(now));
      return written ? call.Value(0) : call.Error(EFAULT);
    }
    case SYS_timer_getoverrun:
      return call.Value(timer.overruns);
    case SYS_timer_delete:
      queue_.Remove(KeyOf(timer.process, timer.id));
      timers_.erase(it);
      return call.Value(0);
  }
}

void PosixTimers::SetTime(Timer& timer, const TrappedCall& call, VirtualTime now) {
  const auto setting = call.memory().ReadObject<itimerspec>(call.Address(2));
  const bool accessible =
      setting && (call.Word(3) == 0 || call.memory().WriteObject(call.Address(3), timer.Left(now)));
  if (!accessible) return call.Error(EFAULT);
  if (!IsValid(setting->it_value) || !IsValid(setting->it_interval)) {
    return call.Error(EINVAL);
  }
  timer.overruns = 0;
  timer.state.Arm(*setting, (call.Word(1) & TIMER_ABSTIME) != 0, now, realtime_offset_);
  Enqueue(timer);
  call.Value(0);
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
