#include "trap/time/timers/descriptor_timers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "trap/linux/descriptor_copy.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/unique_fd.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

// A timerfd carries its mark as an interval of so many seconds and the mark: longer than
// any program asks for, and never running, because it is not armed.
constexpr int64_t kMarkBase = 1'000'000'000;
constexpr uint64_t kMostMark = 4'000'000'000'000'000'000;
// Descriptors that are looked at for timers that have moved.
constexpr int kMostLookedAt = 4096;
// linux/timerfd.h.
constexpr unsigned long kSetTicks = _IOW('T', 0, __u64);

TimerKey KeyOf(int64_t mark) {
  return {.kind = TimerKey::Kind::kDescriptor, .process = 0, .number = mark};
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

}  // namespace

itimerspec DescriptorTimers::LeftOf(int64_t mark, VirtualTime now) const {
  const auto timer = timers_.find(mark);
  return timer == timers_.end() ? itimerspec{} : timer->second.state.Left(now);
}

void DescriptorTimers::Get(const TrappedCall& call, VirtualTime now) {
  const DescriptorCopy copy = DescriptorCopy::Of(call.tracee().pidfd.get(), call.Int(0));
  const int64_t mark = copy.valid() ? MarkOf(copy.get()) : -1;
  if (mark < 0) return call.Continue();  // the kernel says why
  const bool written = call.memory().WriteObject(call.Address(1), LeftOf(mark, now));
  written ? call.Value(0) : call.Error(EFAULT);
}

void DescriptorTimers::Set(const TrappedCall& call, VirtualTime now) {
  const uint64_t flags = call.Word(1);
  const int descriptor = call.Int(0);
  const DescriptorCopy copy = DescriptorCopy::Of(call.tracee().pidfd.get(), descriptor);
  int64_t mark = copy.valid() ? MarkOf(copy.get()) : -1;
  if (mark < 0) return call.Continue();  // the kernel says why
  const itimerspec old = LeftOf(mark, now);
  const auto setting = call.memory().ReadObject<itimerspec>(call.Address(2));
  if (!setting) return call.Error(EFAULT);
  if (!IsValid(setting->it_value) || !IsValid(setting->it_interval) ||
      (flags & ~uint64_t{TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET}) != 0) {
    return call.Error(EINVAL);
  }
  if (!timers_.contains(mark) && queue_.CountOf(call.process()) >= kMostTimers) {
    return call.Error(ENOMEM);
  }
  if (mark == 0) mark = RandomMark();
  // This also takes back what nobody has read, as setting a timer does.
  const itimerspec disarmed{.it_interval = IntervalOf(mark), .it_value = {}};
  if (timerfd_settime(copy.get(), 0, &disarmed, nullptr) != 0) {
    return call.Continue();
  }
  if (IsZero(setting->it_value)) {
    timers_.erase(mark);
    queue_.Remove(KeyOf(mark));
  } else {
    Timer& timer = timers_[mark];
    timer.process = call.process();
    timer.pidfd = call.tracee().pidfd.get();
    timer.descriptor = descriptor;
    timer.unread = 0;
    timer.state.clock = ClockOf(copy.get());
    timer.state.Arm(*setting, (flags & TFD_TIMER_ABSTIME) != 0, now, realtime_offset_);
    queue_.Set(KeyOf(mark), timer.process, timer.state.deadline);
  }
  const bool written = call.Word(3) == 0 || call.memory().WriteObject(call.Address(3), old);
  written ? call.Value(0) : call.Error(EFAULT);
}

void DescriptorTimers::Expire(const TimerKey& key, VirtualTime now) {
  const auto it = timers_.find(key.number);
  if (it == timers_.end()) return queue_.Remove(key);
  Timer& timer = it->second;
  const auto expirations = static_cast<uint64_t>(timer.state.Expire(now));
  if (!Tick(timer, key.number, expirations) || !timer.state.repeats()) {
    timers_.erase(it);
    return queue_.Remove(key);
  }
  queue_.Set(key, timer.process, timer.state.deadline);
}

bool DescriptorTimers::Tick(Timer& timer, int64_t mark, uint64_t ticks) {
  // Looked up anew, not kept: a copy would keep the timer in sets of epoll after its
  // owner has closed it.
  DescriptorCopy copy = DescriptorCopy::Of(timer.pidfd, timer.descriptor);
  if (!copy.valid() || MarkOf(copy.get()) != mark) {
    int budget = kMostLookedAt;
    if (!FindDescriptor(timer, mark, budget)) return false;
    copy = DescriptorCopy::Of(timer.pidfd, timer.descriptor);
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

void DescriptorTimers::BeforeRead(int file) {
  if (timers_.empty()) return;
  const int64_t mark = MarkOf(file);
  const auto it = timers_.find(mark);
  if (mark <= 0 || it == timers_.end() || it->second.unread < 2) return;
  pollfd unread{file, POLLIN, 0};
  if (poll(&unread, 1, 0) > 0) ioctl(file, kSetTicks, &it->second.unread);
}

bool DescriptorTimers::FindDescriptor(Timer& timer, int64_t mark, int& budget) {
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
      if (MarkOf(DescriptorCopy::Of(pidfd, descriptor).get()) != mark) continue;
      timer.process = process;
      timer.pidfd = pidfd;
      timer.descriptor = descriptor;
      return true;
    }
  }
  return false;
}

void DescriptorTimers::ProcessDied(pid_t process) {
  int budget = kMostLookedAt;
  for (auto it = timers_.begin(); it != timers_.end();) {
    auto& [mark, timer] = *it;
    if (timer.process != process) {
      ++it;
    } else if (FindDescriptor(timer, mark, budget)) {
      queue_.Set(KeyOf(mark), timer.process, timer.state.deadline);
      ++it;
    } else {
      queue_.Remove(KeyOf(mark));
      it = timers_.erase(it);
    }
  }
}

}  // namespace phantora
