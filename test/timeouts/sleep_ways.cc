// Sleeping, and waiting for descriptors.
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "test/timeouts/ways.h"

namespace {

void SleepAbsolute(clockid_t clock) {
  const timespec end = After(10, clock);
  CHECK(clock_nanosleep(clock, TIMER_ABSTIME, &end, nullptr) == 0);
  CHECK(Now(clock) >= Nanoseconds(end));
}

void SleepRelative(clockid_t clock) {
  const timespec time = Units(10);
  CHECK(clock_nanosleep(clock, 0, &time, nullptr) == 0);
}

// Waits for a descriptor by some call; returns what the call returned.
using Waiter = int (*)(int descriptor, double units);

int Poll(int descriptor, double units) {
  pollfd poll_descriptor{descriptor, POLLIN, 0};
  return poll(&poll_descriptor, 1, UnitsMilliseconds(units));
}

int Ppoll(int descriptor, double units) {
  pollfd poll_descriptor{descriptor, POLLIN, 0};
  const timespec time = Units(units);
  return ppoll(&poll_descriptor, 1, &time, nullptr);
}

int Select(int descriptor, double units) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(descriptor, &set);
  timeval time = UnitsTimeval(units);
  return select(descriptor + 1, &set, nullptr, nullptr, &time);
}

int Pselect(int descriptor, double units) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(descriptor, &set);
  const timespec time = Units(units);
  return pselect(descriptor + 1, &set, nullptr, nullptr, &time, nullptr);
}

int EpollBy(int (*wait)(int set, epoll_event* event, double units), int descriptor, double units) {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  CHECK(epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0);
  const int result = wait(set, &event, units);
  const int error = errno;
  close(set);
  errno = error;
  return result;
}

int EpollWait(int descriptor, double units) {
  return EpollBy([](int set, epoll_event* event,
                    double time) { return epoll_wait(set, event, 1, UnitsMilliseconds(time)); },
                 descriptor, units);
}

int EpollPwait(int descriptor, double units) {
  return EpollBy(
      [](int set, epoll_event* event, double time) {
        return epoll_pwait(set, event, 1, UnitsMilliseconds(time), nullptr);
      },
      descriptor, units);
}

int EpollPwait2(int descriptor, double units) {
  return EpollBy(
      [](int set, epoll_event* event, double time) {
        const timespec limit = Units(time);
        return epoll_pwait2(set, event, 1, &limit, nullptr);
      },
      descriptor, units);
}

void TimesOut(Waiter wait) {
  const Pipe pipe;
  const int result = wait(pipe.reader, 20);
  if (result == -1 && errno == ENOSYS) return NotHere();
  CHECK(result == 0);
}

void WokenBy(Waiter wait) {
  const Pipe pipe;
  const Thread thread([&] {
    Sleep(10);
    pipe.Put();
  });
  const int result = wait(pipe.reader, 100);
  if (result == -1 && errno == ENOSYS) return NotHere();
  CHECK(result == 1);
}

}  // namespace

WAY(nanosleep_call, 10) {
  const timespec time = Units(10);
  CHECK(nanosleep(&time, nullptr) == 0);
}

WAY(nanosleep_syscall, 10) {
  const timespec time = Units(10);
  CHECK(syscall(SYS_nanosleep, &time, nullptr) == 0);
}

WAY(usleep_call, 10) { CHECK(usleep(static_cast<useconds_t>(10 * UnitNanoseconds() / 1000)) == 0); }

WAY(thrd_sleep_call, 10) {
  const timespec time = Units(10);
  CHECK(thrd_sleep(&time, nullptr) == 0);
}

WAY(sleep_for, 10) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(10 * UnitNanoseconds()));
}

WAY(sleep_until, 10) {
  const std::chrono::nanoseconds five(5 * UnitNanoseconds());
  std::this_thread::sleep_until(std::chrono::steady_clock::now() + five);
  std::this_thread::sleep_until(std::chrono::system_clock::now() + five);
}

WAY(clock_nanosleep_realtime, 10) { SleepRelative(CLOCK_REALTIME); }
WAY(clock_nanosleep_monotonic, 10) { SleepRelative(CLOCK_MONOTONIC); }
WAY(clock_nanosleep_boottime, 10) { SleepRelative(CLOCK_BOOTTIME); }
WAY(clock_nanosleep_tai, 10) { SleepRelative(CLOCK_TAI); }
WAY(clock_nanosleep_realtime_absolute, 10) { SleepAbsolute(CLOCK_REALTIME); }
WAY(clock_nanosleep_monotonic_absolute, 10) { SleepAbsolute(CLOCK_MONOTONIC); }
WAY(clock_nanosleep_boottime_absolute, 10) { SleepAbsolute(CLOCK_BOOTTIME); }
WAY(clock_nanosleep_tai_absolute, 10) { SleepAbsolute(CLOCK_TAI); }

WAY(sleep_until_the_past, 0) {
  const timespec past = Timespec(Now() - 1);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, nullptr) == 0);
  const timespec begin_of_time{};
  CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &begin_of_time, nullptr) == 0);
}

WAY(sleep_errors, 0) {
  const timespec too_many{0, kNanosecondsPerSecond}, negative{-1, 0};
  CHECK_ERROR(nanosleep(&too_many, nullptr), EINVAL);
  CHECK_ERROR(nanosleep(&negative, nullptr), EINVAL);
  CHECK_ERROR(syscall(SYS_nanosleep, nullptr, nullptr), EFAULT);
  const timespec time = Units(10);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC_COARSE, 0, &time, nullptr) == ENOTSUP);
  CHECK(clock_nanosleep(123, 0, &time, nullptr) == EINVAL);
}

WAY(poll_call, 20) { TimesOut(Poll); }
WAY(ppoll_call, 20) { TimesOut(Ppoll); }
WAY(select_call, 20) { TimesOut(Select); }
WAY(pselect_call, 20) { TimesOut(Pselect); }
WAY(epoll_wait_call, 20) { TimesOut(EpollWait); }
WAY(epoll_pwait_call, 20) { TimesOut(EpollPwait); }
WAY(epoll_pwait2_call, 20) { TimesOut(EpollPwait2); }

WAY(poll_woken, 10) { WokenBy(Poll); }
WAY(ppoll_woken, 10) { WokenBy(Ppoll); }
WAY(select_woken, 10) { WokenBy(Select); }
WAY(pselect_woken, 10) { WokenBy(Pselect); }
WAY(epoll_wait_woken, 10) { WokenBy(EpollWait); }
WAY(epoll_pwait_woken, 10) { WokenBy(EpollPwait); }
WAY(epoll_pwait2_woken, 10) { WokenBy(EpollPwait2); }

WAY(poll_of_nothing, 10) { CHECK(poll(nullptr, 0, UnitsMilliseconds(10)) == 0); }

WAY(select_of_nothing, 10) {
  timeval time = UnitsTimeval(10);
  CHECK(select(0, nullptr, nullptr, nullptr, &time) == 0);
}

WAY(poll_without_waiting, 0) {
  const Pipe pipe;
  for (int i = 0; i < 10; ++i) CHECK(Poll(pipe.reader, 0) == 0);
  pipe.Put();
  CHECK(Poll(pipe.reader, 0) == 1);
  CHECK(Poll(pipe.reader, 20) == 1);
}

WAY(poll_without_a_limit, 10) {
  const Pipe pipe;
  const Thread thread([&] {
    Sleep(10);
    pipe.Put();
  });
  pollfd descriptor{pipe.reader, POLLIN, 0};
  CHECK(poll(&descriptor, 1, -1) == 1);
  CHECK(descriptor.revents == POLLIN);
}

WAY(select_says_what_is_left, 10) {
  const Pipe pipe;
  const Thread thread([&] {
    Sleep(10);
    pipe.Put();
  });
  fd_set set;
  FD_ZERO(&set);
  FD_SET(pipe.reader, &set);
  timeval time = UnitsTimeval(100);
  CHECK(syscall(SYS_select, pipe.reader + 1, &set, nullptr, nullptr, &time) == 1);
  CHECK(FD_ISSET(pipe.reader, &set));
  Row("elapsed", 10, 100 - InUnits(time.tv_sec * kNanosecondsPerSecond + time.tv_usec * 1000));
}

WAY(ppoll_says_what_is_left, 10) {
  const Pipe pipe;
  const Thread thread([&] {
    Sleep(10);
    pipe.Put();
  });
  pollfd descriptor{pipe.reader, POLLIN, 0};
  timespec time = Units(100);
  CHECK(syscall(SYS_ppoll, &descriptor, 1, &time, nullptr, 0) == 1);
  Row("elapsed", 10, 100 - InUnits(time));
}

WAY(ppoll_lets_a_signal_in, 10) {
  BlockSignal(SIGUSR1);
  volatile int* count = CountSignal(SIGUSR1);
  BlockSignal(SIGUSR1);
  const pthread_t self = pthread_self();
  const Thread thread([&] {
    Sleep(10);
    pthread_kill(self, SIGUSR1);
  });
  sigset_t none;
  sigemptyset(&none);
  const timespec time = Units(100);
  CHECK_ERROR(ppoll(nullptr, 0, &time, &none), EINTR);
  CHECK(*count == 1);
}

WAY(ppoll_keeps_a_signal_out, 20) {
  volatile int* count = CountSignal(SIGUSR1);
  const pthread_t self = pthread_self();
  const Thread thread([&] {
    Sleep(10);
    pthread_kill(self, SIGUSR1);
  });
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  const timespec time = Units(20);
  CHECK(ppoll(nullptr, 0, &time, &mask) == 0);
  CHECK(*count == 1);  // delivered when the mask was taken back
}
