#include "trap/time/timed_wait.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

namespace phantora {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;
// More descriptors than this are left to the kernel, in real time.
constexpr uint64_t kMostDescriptors = 4096;
// linux/futex.h FUTEX_WAITV_MAX, and struct futex_waitv.
constexpr uint64_t kMostFutexes = 128;
struct FutexWaiter {
  uint64_t value, address;
  uint32_t flags, reserved;
};
// The kernel's default limit of operations (SEMOPM).
constexpr uint64_t kMostSemaphores = 500;

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

// What a signalfd is for (fs/signalfd.c signalfd_show_fdinfo); 0 for other files.
uint64_t SignalfdMask(int file) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(path, text, sizeof text - 1);
  if (length <= 0) return 0;
  text[length] = '\0';
  if (strcmp(text, "anon_inode:[signalfd]") != 0) return 0;
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", file);
  const UniqueFd information(open(path, O_RDONLY | O_CLOEXEC));
  const ssize_t size = information.valid() ? read(information.get(), text, sizeof text - 1) : 0;
  text[std::max<ssize_t>(size, 0)] = '\0';
  const char* mask = strstr(text, "sigmask:");
  return mask == nullptr ? 0 : strtoull(mask + strlen("sigmask:"), nullptr, 16);
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
    case SYS_futex_waitv:
      ParseFutexes(realtime_offset);
      break;
    case SYS_rt_sigtimedwait:
      kind_ = Kind::kSignal;
      Relative(now, argument(2));
      break;
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
      ParseQueue(realtime_offset);
      break;
    case SYS_semtimedop:
      ParseSemaphores(now);
      break;
    default:
      verdict_ = Verdict::kContinue;
  }
  // A poll that does not wait at all.
  const bool polls = kind_ == Kind::kPoll || kind_ == Kind::kSelect || kind_ == Kind::kEpoll ||
                     kind_ == Kind::kSignal;
  if (verdict_ == Verdict::kWait && polls && deadline_ <= now) verdict_ = Verdict::kContinue;
}

TimedWait::TimedWait(const seccomp_notif& notification, VirtualTime deadline)
    : notification_(notification),
      memory_(static_cast<pid_t>(notification.pid)),
      kind_(Kind::kClock),
      deadline_(deadline) {}

TimedWait::TimedWait(const seccomp_notif& notification, int descriptor, uint32_t events,
                     VirtualTime deadline)
    : notification_(notification),
      memory_(static_cast<pid_t>(notification.pid)),
      kind_(Kind::kDescriptor),
      deadline_(deadline),
      watches_{{descriptor, events}} {}

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
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME &&
      clock != CLOCK_TAI && clock != CLOCK_REALTIME_ALARM && clock != CLOCK_BOOTTIME_ALARM) {
    verdict_ = Verdict::kContinue;  // processor time, which stays the kernel's, or an error
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
  words_.emplace_back(RemoteAddress{argument(0)}, static_cast<uint32_t>(argument(2)));
  private_ = (argument(1) & FUTEX_PRIVATE_FLAG) != 0;
  if (Changed()) Invalid(EAGAIN);
}

void TimedWait::ParseFutexes(int64_t realtime_offset) {
  kind_ = Kind::kFutex;
  const uint64_t count = static_cast<uint32_t>(argument(1));
  const int clock = static_cast<int>(argument(4));
  std::vector<FutexWaiter> waiters(std::min(count, kMostFutexes));
  const auto time = memory_.ReadObject<timespec>(RemoteAddress{argument(3)});
  if (count == 0 || count > kMostFutexes || argument(2) != 0 ||
      (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME)) {
    return Invalid(EINVAL);
  }
  if (!time ||
      !memory_.Read(RemoteAddress{argument(0)}, waiters.data(), count * sizeof(FutexWaiter))) {
    return Invalid(EFAULT);
  }
  if (!Valid(*time)) return Invalid(EINVAL);
  deadline_ = InstantOf(clock, *time, realtime_offset);
  for (const FutexWaiter& waiter : waiters) {
    words_.emplace_back(RemoteAddress{waiter.address}, static_cast<uint32_t>(waiter.value));
  }
  if (Changed()) Invalid(EAGAIN);
}

void TimedWait::ParseQueue(int64_t realtime_offset) {
  kind_ = Kind::kQueue;
  const auto time = memory_.ReadObject<timespec>(RemoteAddress{argument(4)});
  if (!time) return Invalid(EFAULT);
  if (!Valid(*time)) return Invalid(EINVAL);
  deadline_ = InstantOf(CLOCK_REALTIME, *time, realtime_offset);
  const bool sends = notification_.data.nr == SYS_mq_timedsend;
  watches_.push_back({static_cast<int>(argument(0)), sends ? uint32_t{EPOLLOUT} : EPOLLIN});
}

void TimedWait::ParseSemaphores(VirtualTime now) {
  kind_ = Kind::kSemaphore;
  Relative(now, argument(3));
  if (verdict_ == Verdict::kWait && SemaphoresReady()) verdict_ = Verdict::kContinue;
}

bool TimedWait::SemaphoresReady() const {
  const uint64_t count = static_cast<uint32_t>(argument(2));
  std::vector<sembuf> operations(std::min(count, kMostSemaphores));
  if (!memory_.Read(RemoteAddress{argument(1)}, operations.data(),
                    operations.size() * sizeof(sembuf))) {
    return true;
  }
  for (const sembuf& operation : operations) {
    if ((operation.sem_flg & IPC_NOWAIT) != 0) return true;
    const int value = semctl(static_cast<int>(argument(0)), operation.sem_num, GETVAL);
    if (value < 0) return true;  // the kernel says why
    // Several operations on one semaphore may add up; then the kernel waits, not we.
    if (operation.sem_op == 0 ? value != 0 : value + operation.sem_op < 0) return false;
  }
  return true;
}

std::optional<uint64_t> TimedWait::ChangedWord() const {
  for (size_t i = 0; i < words_.size(); ++i) {
    const auto word = memory_.ReadObject<uint32_t>(words_[i].first);
    if (!word || *word != words_[i].second) return i;
  }
  return std::nullopt;
}

bool TimedWait::Changed() const {
  return kind_ == Kind::kSemaphore ? SemaphoresReady() : ChangedWord().has_value();
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
    case Kind::kDescriptor:
      return "call on a descriptor";
    case Kind::kQueue:
      return "message queue";
    case Kind::kSemaphore:
      return "semtimedop";
    case Kind::kClock:
      return "clock read";
  }
  return "";
}

std::optional<uint64_t> TimedWait::mask() const {
  uint64_t address = 0;
  switch (notification_.data.nr) {
    case SYS_ppoll:
      address = argument(3);
      break;
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      address = argument(4);
      break;
    case SYS_pselect6:
      // A pointer to a pointer to the mask, and its size.
      address = memory_.ReadObject<uint64_t>(RemoteAddress{argument(5)}).value_or(0);
      break;
  }
  return address == 0 ? std::nullopt : memory_.ReadObject<uint64_t>(RemoteAddress{address});
}

bool TimedWait::AwaitsSignal(uint64_t pending) const {
  if (kind_ != Kind::kSignal) return (signals_ & pending) != 0;
  const auto wanted = memory_.ReadObject<uint64_t>(RemoteAddress{argument(0)});
  return !wanted || (*wanted & pending) != 0;
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
    if (const uint64_t signals = SignalfdMask(copy.get()); signals != 0) {
      signals_ |= signals;
      continue;
    }
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

bool TimedWait::CollectReady() {
  // A signalfd has no copy here: only the caller can look at it.
  if (kind_ != Kind::kPoll || watches_.empty() || copies_.size() != watches_.size()) return true;
  std::vector<pollfd> polls;
  for (size_t i = 0; i < watches_.size(); ++i) {
    polls.push_back({copies_[i].get(), static_cast<short>(watches_[i].events), 0});
  }
  if (poll(polls.data(), polls.size(), 0) <= 0) return false;
  ready_.clear();
  for (const pollfd& poll : polls) ready_.push_back(poll.revents);
  return true;
}

bool TimedWait::AnswerPoll(NotifyListener& listener) const {
  if (ready_.size() != watches_.size() || ready_.empty()) return false;
  std::vector<pollfd> polls(static_cast<uint32_t>(argument(1)));
  const RemoteAddress at{argument(0)};
  if (!memory_.Read(at, polls.data(), polls.size() * sizeof(pollfd))) return false;
  size_t watch = 0;
  int64_t count = 0;
  for (pollfd& poll : polls) {
    poll.revents = 0;
    if (poll.fd < 0) continue;
    // Somebody may have written there meanwhile.
    if (watch >= watches_.size() || poll.fd != watches_[watch].descriptor) return false;
    poll.revents = ready_[watch++];
    count += poll.revents != 0 ? 1 : 0;
  }
  if (!memory_.Write(at, polls.data(), polls.size() * sizeof(pollfd))) return false;
  listener.ReplyValue(id(), count);
  return true;
}

void TimedWait::WriteRemaining(VirtualTime now, bool interrupted) const {
  const int64_t left = deadline_ == VirtualTime::Infinity() || deadline_ <= now
                           ? 0
                           : (deadline_ - now).nanoseconds();
  const timespec remaining{.tv_sec = left / kNanosecondsPerSecond,
                           .tv_nsec = left % kNanosecondsPerSecond};
  switch (notification_.data.nr) {
    case SYS_nanosleep:
      if (interrupted) memory_.WriteObject(RemoteAddress{argument(1)}, remaining);
      break;
    case SYS_clock_nanosleep:
      if (interrupted && (argument(1) & TIMER_ABSTIME) == 0) {
        memory_.WriteObject(RemoteAddress{argument(3)}, remaining);
      }
      break;
    // Where it cannot be written, the kernel would not complain either.
    case SYS_ppoll:
      memory_.WriteObject(RemoteAddress{argument(2)}, remaining);
      break;
    case SYS_pselect6:
      memory_.WriteObject(RemoteAddress{argument(4)}, remaining);
      break;
    case SYS_select:
      memory_.WriteObject(RemoteAddress{argument(4)},
                          timeval{.tv_sec = remaining.tv_sec, .tv_usec = remaining.tv_nsec / 1000});
      break;
  }
}

void TimedWait::TimeOut(NotifyListener& listener, VirtualTime now) const {
  WriteRemaining(now, false);
  switch (kind_) {
    case Kind::kFutex:
    case Kind::kQueue:
      listener.ReplyError(id(), ETIMEDOUT);
      return;
    case Kind::kSignal:
    case Kind::kDescriptor:
    case Kind::kSemaphore:
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
      const std::vector<uint8_t> zeros((static_cast<uint32_t>(argument(0)) + 63) / 64 * 8);
      for (int set = 1; set <= 3; ++set) {
        if (argument(set) == 0) continue;
        memory_.Write(RemoteAddress{argument(set)}, zeros.data(), zeros.size());
      }
      break;
    }
    case Kind::kSleep:
    case Kind::kEpoll:
    case Kind::kClock:
      break;
  }
  listener.ReplyValue(id(), 0);
}

void TimedWait::Ready(NotifyListener& listener, VirtualTime now) const {
  if (kind_ == Kind::kFutex) {
    const bool many = notification_.data.nr == SYS_futex_waitv;
    listener.ReplyValue(id(), many ? static_cast<int64_t>(ChangedWord().value_or(0)) : 0);
    return;
  }
  WriteRemaining(now, false);
  if (kind_ == Kind::kPoll && AnswerPoll(listener)) return;
  listener.ReplyContinue(id());  // it finds what it waits for
}

void TimedWait::Interrupt(NotifyListener& listener, VirtualTime now) const {
  if (kind_ == Kind::kDescriptor || mask()) {
    // The kernel restarts it after the handler, or does not, as the handler was set; and
    // it runs the handler with the signal unblocked.
    listener.ReplyContinue(id());
    return;
  }
  WriteRemaining(now, true);
  listener.ReplyError(id(), EINTR);
}

}  // namespace phantora
