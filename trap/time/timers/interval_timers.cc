#include "trap/time/timers/interval_timers.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "trap/linux/remote_memory.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

TimerKey KeyOf(pid_t process) {
  return {.kind = TimerKey::Kind::kInterval, .process = process, .number = 0};
}

bool IsValidTimeval(const timeval& time) {
  return time.tv_sec >= 0 && time.tv_usec >= 0 && time.tv_usec < 1'000'000;
}

itimerval ToMicroseconds(const itimerspec& setting) {
  return {.it_interval = {.tv_sec = setting.it_interval.tv_sec,
                          .tv_usec = setting.it_interval.tv_nsec / 1000},
          .it_value = {.tv_sec = setting.it_value.tv_sec,
                       .tv_usec = (setting.it_value.tv_nsec + 999) / 1000}};
}

}  // namespace

itimerspec IntervalTimers::LeftOf(pid_t process, VirtualTime now) const {
  const auto timer = timers_.find(process);
  return timer == timers_.end() ? itimerspec{} : timer->second.state.Left(now);
}

void IntervalTimers::Arm(const Tracee& tracee, const itimerspec& setting, VirtualTime now) {
  Timer& timer = timers_[tracee.process];
  timer.pidfd = tracee.pidfd.get();
  timer.state.Arm(setting, false, now, 0);
  queue_.Set(KeyOf(tracee.process), tracee.process, timer.state.deadline);
}

void IntervalTimers::Get(const TrappedCall& call, VirtualTime now) {
  const bool written =
      call.memory().WriteObject(call.Address(1), ToMicroseconds(LeftOf(call.process(), now)));
  written ? call.Value(0) : call.Error(EFAULT);
}

void IntervalTimers::Set(const TrappedCall& call, VirtualTime now) {
  const itimerval old = ToMicroseconds(LeftOf(call.process(), now));
  itimerval setting{};  // a null pointer disarms
  if (call.Word(1) != 0) {
    const auto read = call.memory().ReadObject<itimerval>(call.Address(1));
    if (!read) return call.Error(EFAULT);
    setting = *read;
  }
  if (!IsValidTimeval(setting.it_value) || !IsValidTimeval(setting.it_interval)) {
    return call.Error(EINVAL);
  }
  Arm(call.tracee(),
      {.it_interval = {setting.it_interval.tv_sec, setting.it_interval.tv_usec * 1000},
       .it_value = {setting.it_value.tv_sec, setting.it_value.tv_usec * 1000}},
      now);
  const bool written = call.Word(2) == 0 || call.memory().WriteObject(call.Address(2), old);
  written ? call.Value(0) : call.Error(EFAULT);
}

void IntervalTimers::SetAlarm(const TrappedCall& call, VirtualTime now) {
  const itimerspec old = LeftOf(call.process(), now);
  const auto seconds = static_cast<uint32_t>(call.Word(0));
  Arm(call.tracee(), {.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_nsec = 0}}, now);
  // Rounded to whole seconds, but not to none (kernel/time/itimer.c alarm_setitimer).
  int64_t left = old.it_value.tv_sec + (old.it_value.tv_nsec >= kNanosecondsPerSecond / 2 ? 1 : 0);
  if (left == 0 && old.it_value.tv_nsec != 0) left = 1;
  call.Value(left);
}

void IntervalTimers::Expire(const TimerKey& key, VirtualTime now) {
  const auto timer = timers_.find(key.process);
  if (timer == timers_.end()) return queue_.Remove(key);
  timer->second.state.Expire(now);
  queue_.Set(key, key.process, timer->second.state.deadline);
  syscall(SYS_pidfd_send_signal, timer->second.pidfd, SIGALRM, nullptr, 0);
}

void IntervalTimers::ProcessDied(pid_t process) {
  timers_.erase(process);
  queue_.Remove(KeyOf(process));
}

}  // namespace phantora
