#include "trap/supervisor/timed_wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>

#include <limits>
#include <utility>

#include "trap/supervisor/thread_activity.h"

namespace phantora {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
// More descriptors than this are left to the kernel, in real time.
constexpr uint64_t kMostDescriptors = 4096;

VirtualTime Saturated(__int128 nanoseconds) {
  // Half of what picoseconds can say, 53 days: so nothing that is added to it overflows.
  constexpr __int128 kMost = std::numeric_limits<int64_t>::max() / 2000;
  if (nanoseconds >= kMost) return VirtualTime::Infinity();
  return VirtualTime::FromNanoseconds(nanoseconds < 0 ? 0 : static_cast<int64_t>(nanoseconds));
}

bool Valid(const timespec& time) {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < kNanosecondsPerSecond;
}

__int128 Nanoseconds(const timespec& time) {
  return static_cast<__int128>(time.tv_sec) * kNanosecondsPerSecond + time.tv_nsec;
}

}  // namespace

VirtualTime InstantOf(int clock, const timespec& time, int64_t realtime_offset) {
  const bool realtime = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
                        clock == CLOCK_REALTIME_ALARM || clock == CLOCK_TAI;
  return Saturated(Nanoseconds(time) - (realtime ? realtime_offset : 0));
}

TimedWait::TimedWait(const seccomp_notif& notification, VirtualTime now, int64_t realtime_offset)
    : notification_(notification), memory_(static_cast<pid_t>(notification.pid)) {
  switch (notification.data.nr) {
    case SYS_nanosleep:
      Relative(now, argument(0));
      break;
    case SYS_clock_nanosleep:
      ParseSleep(now, realtime_offset);
      break;
    case SYS_poll:
      RelativeMilliseconds(now, argument(2));
      ParsePoll();
      break;
    case SYS_ppoll:
      Relative(now, argument(2));
      ParsePoll();
      break;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      kind_ = Kind::kEpoll;
      RelativeMilliseconds(now, argument(3));
      watches_.push_back({static_cast<int>(argument(0)), EPOLLIN});
      break;
    case SYS_epoll_pwait2:
      kind_ = Kind::kEpoll;
      Relative(now, argument(3));
      watches_.push_back({static_cast<int>(argument(0)), EPOLLIN});
      break;
    case SYS_select:
      if (auto time = memory_.ReadObject<timeval>(RemoteAddress{argument(4)})) {
        deadline_ = Saturated(static_cast<__int128>(now.nanoseconds()) +
                              static_cast<__int128>(time->tv_sec) * kNanosecondsPerSecond +
                              static_cast<__int128>(time->tv_usec) * 1000);
        if (time->tv_sec < 0 || time->tv_usec < 0) Invalid(EINVAL);
      } else {
        Invalid(EFAULT);
      }
      ParseSelect();
      break;
    case SYS_pselect6:
      Relative(now, argument(4));
      ParseSelect();
      break;
    case SYS_futex:
      ParseFutex(now, realtime_offset);
      break;
    case SYS_rt_sigtimedwait:
      kind_ = Kind::kSignal;
      Relative(now, argument(2));
      break;
    default:
      verdict_ = Verdict::kContinue;
  }
  // A poll that does not wait at all.
  if (verdict_ == Verdict::kWait && kind_ != Kind::kSleep && kind_ != Kind::kFutex &&
      deadline_ <= now) {
    verdict_ = Verdict::kContinue;
  }
}

void TimedWait::Relative(VirtualTime now, uint64_t address) {
  const auto time = memory_.ReadObject<timespec>(RemoteAddress{address});
  if (!time) return Invalid(EFAULT);
  if (!Valid(*time)) return Invalid(EINVAL);
  deadline_ = Saturated(Nanoseconds(*time) + now.nanoseconds());
}

void TimedWait::RelativeMilliseconds(VirtualTime now, uint64_t argument) {
  const int milliseconds = static_cast<int>(argument);
  if (milliseconds < 0) {
    verdict_ = Verdict::kContinue;
    return;
  }
  deadline_ = Saturated(static_cast<__int128>(now.nanoseconds()) +
                        static_cast<__int128>(milliseconds) * 1'000'000);
}

void TimedWait::ParseSleep(VirtualTime now, int64_t realtime_offset) {
  const int clock = static_cast<int>(argument(0));
  const bool absolute = (argument(1) & TIMER_ABSTIME) != 0;
  if (clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_PROCESS_CPUTIME_ID || clock < 0) {
    verdict_ = Verdict::kContinue;  // processor time stays the kernel's
    return;
  }
  Relative(now, argument(2));
  if (verdict_ != Verdict::kWait || !absolute) return;
  const auto time = memory_.ReadObject<timespec>(RemoteAddress{argument(2)});
  if (!time) return Invalid(EFAULT);
  deadline_ = InstantOf(clock, *time, realtime_offset);
}

void TimedWait::ParsePoll() {
  kind_ = Kind::kPoll;
  const uint64_t count = static_cast<uint32_t>(argument(1));
  if (verdict_ != Verdict::kWait) return;
  if (count > kMostDescriptors) return LeaveToKernel("more than 4096 descriptors");
  std::vector<pollfd> polls(count);
  if (!memory_.Read(RemoteAddress{argument(0)}, polls.data(), count * sizeof(pollfd))) {
    return Invalid(EFAULT);
  }
  for (const pollfd& poll : polls) {
    // The bits of poll and epoll are the same.
    if (poll.fd >= 0) watches_.push_back({poll.fd, static_cast<uint16_t>(poll.events)});
  }
}

void TimedWait::ParseSelect() {
  kind_ = Kind::kSelect;
  const int count = static_cast<int>(argument(0));
  if (verdict_ != Verdict::kWait) return;
  if (count < 0 || static_cast<uint64_t>(count) > kMostDescriptors) {
    return LeaveToKernel("more than 4096 descriptors");
  }
  constexpr uint32_t kEvents[3] = {EPOLLIN, EPOLLOUT, EPOLLPRI};
  std::vector<uint32_t> wanted(static_cast<size_t>(count));
  for (int set = 0; set < 3; ++set) {
    if (argument(1 + set) == 0) continue;
    std::vector<uint8_t> bits((static_cast<size_t>(count) + 7) / 8);
    if (!memory_.Read(RemoteAddress{argument(1 + set)}, bits.data(), bits.size())) {
      return Invalid(EFAULT);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if ((bits[i / 8] >> (i % 8) & 1) != 0) wanted[i] |= kEvents[set];
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != 0) watches_.push_back({static_cast<int>(i), wanted[i]});
  }
}

void TimedWait::ParseFutex(VirtualTime now, int64_t realtime_offset) {
  kind_ = Kind::kFutex;
  const int operation = static_cast<int>(argument(1));
  const int command = operation & FUTEX_CMD_MASK;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) {
    return LeaveToKernel("a futex with priority inheritance");
  }
  Relative(now, argument(3));
  if (verdict_ != Verdict::kWait) return;
  if (command == FUTEX_WAIT_BITSET) {
    const auto time = memory_.ReadObject<timespec>(RemoteAddress{argument(3)});
    if (!time) return Invalid(EFAULT);
    const bool realtime = (operation & FUTEX_CLOCK_REALTIME) != 0;
    deadline_ = InstantOf(realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC, *time, realtime_offset);
  }
  futex_value_ = static_cast<uint32_t>(argument(2));
  if (WordChanged()) Invalid(EAGAIN);
}

bool TimedWait::WordChanged() const {
  const auto word = memory_.ReadObject<uint32_t>(RemoteAddress{argument(0)});
  return !word || *word != futex_value_;
}

const char* TimedWait::name() const {
  switch (kind_) {
    case Kind::kSleep:
      return "sleep";
    case Kind::kPoll:
      return "poll";
    case Kind::kSelect:
      return "select";
    case Kind::kEpoll:
      return "epoll_wait";
    case Kind::kFutex:
      return "futex";
    case Kind::kSignal:
      return "sigtimedwait";
  }
  return "";
}

bool TimedWait::SignalArrived() const {
  if (kind_ != Kind::kSignal) return false;
  const auto wanted = memory_.ReadObject<uint64_t>(RemoteAddress{argument(0)});
  return !wanted || (*wanted & PendingSignals(thread())) != 0;
}

int TimedWait::WatchDescriptors(int pidfd, size_t most) {
  if (watches_.empty()) return -1;
  if (watches_.size() > most) {
    LeaveToKernel("too many descriptors are waited for");
    return -1;
  }
  watched_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  for (const Watch& watch : watches_) {
    UniqueFd copy(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, watch.descriptor, 0)));
    epoll_event event{};
    event.events = watch.events;
    if (!copy.valid() || epoll_ctl(watched_.get(), EPOLL_CTL_ADD, copy.get(), &event) != 0) {
      // Not open, or a regular file, which is always ready.
      verdict_ = Verdict::kContinue;
      if (!copy.valid() && errno == EPERM) LeaveToKernel("pidfd_getfd is denied");
      return -1;
    }
    copies_.push_back(std::move(copy));
  }
  return watched_.get();
}

void TimedWait::TimeOut(NotifyListener& listener) const {
  switch (kind_) {
    case Kind::kFutex:
      listener.ReplyError(id(), ETIMEDOUT);
      return;
    case Kind::kSignal:
      listener.ReplyError(id(), EAGAIN);
      return;
    case Kind::kPoll: {
      const uint64_t count = static_cast<uint32_t>(argument(1));
      std::vector<pollfd> polls(count);
      const RemoteAddress at{argument(0)};
      if (memory_.Read(at, polls.data(), count * sizeof(pollfd))) {
        for (pollfd& poll : polls) poll.revents = 0;
        memory_.Write(at, polls.data(), count * sizeof(pollfd));
      }
      break;
    }
    case Kind::kSelect: {
      // The kernel writes whole words.
      const std::vector<uint8_t> zeros((argument(0) + 63) / 64 * 8);
      for (int set = 1; set <= 3; ++set) {
        if (argument(set) == 0) continue;
        memory_.Write(RemoteAddress{argument(set)}, zeros.data(), zeros.size());
      }
      break;
    }
    case Kind::kSleep:
    case Kind::kEpoll:
      break;
  }
  listener.ReplyValue(id(), 0);
}

void TimedWait::Ready(NotifyListener& listener) const {
  if (kind_ == Kind::kFutex) {
    listener.ReplyValue(id(), 0);
  } else {
    listener.ReplyContinue(id());  // it finds what it waits for
  }
}

void TimedWait::Interrupt(NotifyListener& listener) const { listener.ReplyError(id(), EINTR); }

}  // namespace phantora
