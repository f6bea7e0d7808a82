// Timers that are descriptors.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "test/timeouts/ways.h"

namespace {

class TimerDescriptor {
 public:
  explicit TimerDescriptor(clockid_t clock = CLOCK_MONOTONIC, int flags = 0)
      : descriptor_(timerfd_create(clock, flags | TFD_CLOEXEC)) {
    CHECK(descriptor_ >= 0);
  }
  ~TimerDescriptor() { Close(); }
  TimerDescriptor(const TimerDescriptor&) = delete;
  TimerDescriptor& operator=(const TimerDescriptor&) = delete;

  void Set(double first, double period = 0) const {
    const itimerspec time = Timer(first, period);
    CHECK(timerfd_settime(descriptor_, 0, &time, nullptr) == 0);
  }
  void SetAbsolute(const timespec& first, double period = 0) const {
    const itimerspec time{Units(period), first};
    CHECK(timerfd_settime(descriptor_, TFD_TIMER_ABSTIME, &time, nullptr) == 0);
  }
  // Reads, and returns how often it has expired.
  double Take() const {
    uint64_t count = 0;
    CHECK(read(descriptor_, &count, sizeof count) == sizeof count);
    return static_cast<double>(count);
  }
  double Left() const {
    itimerspec time;
    CHECK(timerfd_gettime(descriptor_, &time) == 0);
    return InUnits(time.it_value);
  }
  bool Poll(double units) const {
    pollfd descriptor{descriptor_, POLLIN, 0};
    const int result = poll(&descriptor, 1, units < 0 ? -1 : UnitsMilliseconds(units));
    CHECK(result >= 0);
    return result == 1;
  }
  void CheckNotReadable() const {
    uint64_t count;
    CHECK_ERROR(read(descriptor_, &count, sizeof count), EAGAIN);
  }
  void Close() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

class EpollSet {
 public:
  EpollSet() : set_(epoll_create1(EPOLL_CLOEXEC)) {}
  ~EpollSet() { close(set_); }
  EpollSet(const EpollSet&) = delete;
  EpollSet& operator=(const EpollSet&) = delete;

  void Add(int descriptor, uint32_t events = EPOLLIN) const {
    epoll_event event{};
    event.events = events;
    event.data.fd = descriptor;
    CHECK(epoll_ctl(set_, EPOLL_CTL_ADD, descriptor, &event) == 0);
  }
  // The descriptor that is ready, or -1.
  int Wait(double units) const {
    epoll_event event{};
    const int result = epoll_wait(set_, &event, 1, units < 0 ? -1 : UnitsMilliseconds(units));
    CHECK(result >= 0);
    return result == 1 ? event.data.fd : -1;
  }
  int get() const { return set_; }

 private:
  int set_;
};

void AbsoluteRead(clockid_t clock) {
  const TimerDescriptor timer(clock);
  const timespec end = After(10, clock);
  timer.SetAbsolute(end);
  CHECK(timer.Take() == 1);
  CHECK(Now(clock) >= Nanoseconds(end));
}

}  // namespace

WAY(timerfd_read, 10) {
  const TimerDescriptor timer;
  timer.Set(10);
  CHECK(timer.Take() == 1);
  CHECK(timer.Left() == 0);
}

WAY(timerfd_poll, 10) {
  const TimerDescriptor timer;
  timer.Set(10);
  CHECK(timer.Poll(100));
  CHECK(timer.Take() == 1);
}

WAY(timerfd_poll_without_a_limit, 10) {
  const TimerDescriptor timer;
  timer.Set(10);
  CHECK(timer.Poll(-1));
  CHECK(timer.Take() == 1);
}

WAY(timerfd_poll_with_an_earlier_limit, 15) {
  const TimerDescriptor timer;
  timer.Set(15);
  CHECK(!timer.Poll(10));
  CHECK(timer.Poll(10));
}

WAY(timerfd_select, 10) {
  const TimerDescriptor timer;
  timer.Set(10);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(timer.get(), &set);
  timeval limit{1000, 0};
  CHECK(select(timer.get() + 1, &set, nullptr, nullptr, &limit) == 1);
  CHECK(FD_ISSET(timer.get(), &set));
}

WAY(timerfd_boottime, 10) {
  const TimerDescriptor timer(CLOCK_BOOTTIME);
  timer.Set(10);
  CHECK(timer.Take() == 1);
}

WAY(timerfd_realtime_absolute, 10) { AbsoluteRead(CLOCK_REALTIME); }
WAY(timerfd_monotonic_absolute, 10) { AbsoluteRead(CLOCK_MONOTONIC); }
WAY(timerfd_boottime_absolute, 10) { AbsoluteRead(CLOCK_BOOTTIME); }

WAY(timerfd_of_the_past, 0) {
  const TimerDescriptor timer;
  timer.SetAbsolute(Timespec(Now() - 1));
  CHECK(timer.Take() == 1);
}

WAY(timerfd_of_the_past_periodic, 10.5) {
  // Counts the periods since then.
  const TimerDescriptor timer;
  timer.SetAbsolute(After(-10), 1);
  Sleep(10.5);
  Row("expirations", 21, timer.Take());
}

WAY(timerfd_periodic_with_poll, 12) {
  const TimerDescriptor timer;
  const int64_t begin = Now();
  timer.Set(4, 2);
  for (double expired = 0; expired < 5;) {
    CHECK(timer.Poll(100));
    expired += timer.Take();
    Row(std::to_string(static_cast<int>(expired)), 2 + 2 * expired, UnitsSince(begin));
  }
}

WAY(timerfd_periodic_blocking, 12) {
  const TimerDescriptor timer;
  timer.Set(4, 2);
  for (double expired = 0; expired < 5;) expired += timer.Take();
}

WAY(timerfd_periodic_read_late, 12) {
  const TimerDescriptor timer;
  timer.Set(1, 1);
  Sleep(10.5);
  const double expired = timer.Take();
  Row("expirations", 10, expired);
  Row("expirations_later", 12, expired + timer.Take() + timer.Take());
}

WAY(timerfd_half_way, 10) {
  const TimerDescriptor timer;
  CHECK(timer.Left() == 0);
  timer.Set(10);
  Sleep(5);
  Row("elapsed", 5, 10 - timer.Left());
  itimerspec old;
  const itimerspec again = Timer(5);
  CHECK(timerfd_settime(timer.get(), 0, &again, &old) == 0);
  Row("elapsed_by_settime", 5, 10 - InUnits(old.it_value));
  timer.Take();
}

WAY(timerfd_disarmed, 12) {
  const TimerDescriptor timer(CLOCK_MONOTONIC, TFD_NONBLOCK);
  timer.Set(5);
  Sleep(2);
  timer.Set(0);
  CHECK(timer.Left() == 0);
  CHECK(!timer.Poll(10));
  timer.CheckNotReadable();
}

WAY(timerfd_disarmed_after_expiry, 15) {
  const TimerDescriptor timer(CLOCK_MONOTONIC, TFD_NONBLOCK);
  timer.Set(5);
  Sleep(10);
  timer.Set(0);  // forgets the expiration
  CHECK(!timer.Poll(5));
  timer.CheckNotReadable();
}

WAY(timerfd_non_blocking, 10) {
  const TimerDescriptor timer(CLOCK_MONOTONIC, TFD_NONBLOCK);
  timer.CheckNotReadable();
  timer.Set(10);
  timer.CheckNotReadable();
  Sleep(5);
  timer.CheckNotReadable();
  Sleep(5);
  CHECK(timer.Take() == 1);
  timer.CheckNotReadable();
}

WAY(timerfd_becomes_non_blocking, 0) {
  const TimerDescriptor timer;
  timer.Set(10);
  CHECK(fcntl(timer.get(), F_SETFL, O_NONBLOCK) == 0);
  timer.CheckNotReadable();
}

WAY(timerfd_epoll, 10) {
  const TimerDescriptor timer;
  const EpollSet set;
  set.Add(timer.get());
  timer.Set(10);
  CHECK(set.Wait(100) == timer.get());
  CHECK(set.Wait(100) == timer.get());  // until it is read
  CHECK(timer.Take() == 1);
  CHECK(set.Wait(0) == -1);
}

WAY(timerfd_epoll_without_a_limit, 10) {
  const TimerDescriptor timer;
  const EpollSet set;
  set.Add(timer.get());
  timer.Set(10);
  CHECK(set.Wait(-1) == timer.get());
}

WAY(timerfd_epoll_of_several, 15) {
  const TimerDescriptor late, early, middle;
  const Pipe pipe;
  const EpollSet set;
  set.Add(pipe.reader);
  for (const TimerDescriptor* timer : {&late, &early, &middle}) set.Add(timer->get());
  late.Set(15);
  middle.Set(10);
  early.Set(5);
  const int64_t begin = Now();
  double at = 5;
  for (const TimerDescriptor* timer : {&early, &middle, &late}) {
    CHECK(set.Wait(100) == timer->get());
    CHECK(timer->Take() == 1);
    Row(std::to_string(static_cast<int>(at)), at, UnitsSince(begin));
    at += 5;
  }
}

WAY(timerfd_epoll_edge, 10) {
  // The kernel starts the next period of a timer when it is read: no edge comes before.
  const TimerDescriptor timer;
  const EpollSet set;
  set.Add(timer.get(), EPOLLIN | EPOLLET);
  timer.Set(2, 4);
  CHECK(set.Wait(100) == timer.get());
  CHECK(set.Wait(7) == -1);
  Row("expirations", 2, timer.Take());
  CHECK(set.Wait(100) == timer.get());
}

WAY(timerfd_in_a_set_in_a_set, 10) {
  const TimerDescriptor timer;
  const EpollSet inner, outer;
  inner.Add(timer.get());
  outer.Add(inner.get());
  timer.Set(10);
  CHECK(outer.Wait(100) == inner.get());
  CHECK(inner.Wait(0) == timer.get());
}

WAY(timerfd_shared_with_a_child, 10) {
  const TimerDescriptor timer;
  timer.Set(10);
  WaitForChild(ForkChild([&] {
    const int64_t begin = Now();
    CHECK(timer.Take() == 1);
    CHECK(UnitsSince(begin) > 5);
  }));
}

WAY(timerfd_set_by_a_child, 10) {
  const TimerDescriptor timer;
  const pid_t child = ForkChild([&] {
    timer.Set(10);
    Sleep(20);
  });
  CHECK(timer.Take() == 1);
  KillChild(child);
}

WAY(timerfd_survives_its_maker, 10) {
  const TimerDescriptor timer;
  WaitForChild(ForkChild([&] { timer.Set(10); }));
  CHECK(timer.Take() == 1);
}

WAY(timerfd_duplicated, 10) {
  TimerDescriptor timer;
  const int copy = dup(timer.get());
  timer.Set(10);
  timer.Close();
  uint64_t count;
  CHECK(read(copy, &count, sizeof count) == sizeof count && count == 1);
  close(copy);
}

WAY(timerfd_closed_while_armed, 20) {
  TimerDescriptor timer;
  const EpollSet set;
  set.Add(timer.get());
  timer.Set(5);
  timer.Close();
  CHECK(set.Wait(20) == -1);
}

WAY(timerfd_closed_after_expiry, 20) {
  TimerDescriptor timer;
  const EpollSet set;
  set.Add(timer.get());
  timer.Set(5);
  Sleep(10);
  timer.Close();
  CHECK(set.Wait(10) == -1);
}

WAY(timerfd_closed_and_number_reused, 20) {
  // What gets the number of a closed timer has nothing of it.
  TimerDescriptor timer;
  timer.Set(5);
  const int number = timer.get();
  timer.Close();
  const Pipe pipe;
  CHECK(pipe.reader == number || pipe.writer == number);
  pollfd descriptor{pipe.reader, POLLIN, 0};
  CHECK(poll(&descriptor, 1, UnitsMilliseconds(20)) == 0);
}

WAY(timerfd_removed_from_a_set, 20) {
  const TimerDescriptor timer;
  const EpollSet set;
  set.Add(timer.get());
  timer.Set(5);
  CHECK(epoll_ctl(set.get(), EPOLL_CTL_DEL, timer.get(), nullptr) == 0);
  CHECK(set.Wait(20) == -1);
}

WAY(timerfd_armed_while_read, 15) {
  const TimerDescriptor timer;
  const Thread thread([&] {
    Sleep(5);
    timer.Set(10);
  });
  CHECK(timer.Take() == 1);
}

WAY(timerfd_rearmed_while_polled, 15) {
  const TimerDescriptor timer;
  timer.Set(10);
  const Thread thread([&] {
    Sleep(5);
    timer.Set(10);
  });
  CHECK(timer.Poll(100));
  CHECK(timer.Take() == 1);
}

WAY(timerfd_read_by_two, 20) {
  // One expiration is for one reader.
  const TimerDescriptor timer;
  timer.Set(10, 10);
  const Thread thread([&] { CHECK(timer.Take() == 1); });
  CHECK(timer.Take() == 1);
}

WAY(timerfd_errors, 0) {
  CHECK_ERROR(timerfd_create(123, 0), EINVAL);
  CHECK_ERROR(timerfd_create(CLOCK_MONOTONIC, 1), EINVAL);
  const TimerDescriptor timer;
  const itimerspec wrong{{}, {0, kNanosecondsPerSecond}};
  CHECK_ERROR(timerfd_settime(timer.get(), 0, &wrong, nullptr), EINVAL);
  itimerspec time;
  CHECK_ERROR(timerfd_gettime(STDERR_FILENO, &time), EINVAL);
  CHECK_ERROR(timerfd_gettime(-1, &time), EBADF);
  uint32_t half;
  CHECK_ERROR(read(timer.get(), &half, sizeof half), EINVAL);
  CHECK_ERROR(write(timer.get(), "12345678", 8), EINVAL);
}
