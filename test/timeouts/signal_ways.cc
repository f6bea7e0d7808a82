// Waiting for signals, and signals that end other waits.
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "test/timeouts/ways.h"

namespace {

sigset_t SetOf(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

// alarm() knows only whole seconds: the fewest that are 10 units or more.
unsigned AlarmSeconds() {
  return static_cast<unsigned>(std::ceil(10 * static_cast<double>(UnitNanoseconds()) / 1e9));
}

double AlarmUnits() { return InUnits(AlarmSeconds() * kNanosecondsPerSecond); }

void SetAlarm(double units, double period = 0) {
  const itimerval timer{UnitsTimeval(period), UnitsTimeval(units)};
  CHECK(setitimer(ITIMER_REAL, &timer, nullptr) == 0);
}

double AlarmUnitsLeft() {
  itimerval timer;
  CHECK(getitimer(ITIMER_REAL, &timer) == 0);
  return InUnits(timer.it_value.tv_sec * kNanosecondsPerSecond + timer.it_value.tv_usec * 1000);
}

}  // namespace

WAY(sigtimedwait_call, 10) {
  BlockSignal(SIGUSR1);
  const sigset_t set = SetOf(SIGUSR1);
  const timespec time = Units(10);
  CHECK_ERROR(sigtimedwait(&set, nullptr, &time), EAGAIN);
}

WAY(sigtimedwait_gets_it, 10) {
  BlockSignal(SIGUSR1);
  const Thread thread([] {
    Sleep(10);
    sigval value;
    value.sival_int = 77;
    sigqueue(getpid(), SIGUSR1, value);
  });
  const sigset_t set = SetOf(SIGUSR1);
  const timespec time = Units(100);
  siginfo_t info;
  CHECK(sigtimedwait(&set, &info, &time) == SIGUSR1);
  CHECK(info.si_code == SI_QUEUE && info.si_value.sival_int == 77);
}

WAY(sigtimedwait_ended_by_another, 10) {
  BlockSignal(SIGUSR1);
  volatile int* count = CountSignal(SIGALRM);
  const sigset_t set = SetOf(SIGUSR1);
  const timespec time = Units(100);
  SetAlarm(10);
  CHECK_ERROR(sigtimedwait(&set, nullptr, &time), EINTR);
  CHECK(*count == 1);
}

WAY(alarm_call, 0) {
  BlockSignal(SIGALRM);
  const sigset_t set = SetOf(SIGALRM);
  CHECK(alarm(AlarmSeconds()) == 0);
  CHECK(sigwaitinfo(&set, nullptr) == SIGALRM);
  CHECK(alarm(1000) == 0);
  CHECK(alarm(0) == 1000);
  Expect(AlarmUnits());
}

WAY(setitimer_once, 10) {
  BlockSignal(SIGALRM);
  const sigset_t set = SetOf(SIGALRM);
  SetAlarm(10);
  Sleep(5);
  Row("half_way", 5, 10 - AlarmUnitsLeft());
  siginfo_t info;
  CHECK(sigwaitinfo(&set, &info) == SIGALRM);
  CHECK(info.si_code == SI_KERNEL);
  CHECK(AlarmUnitsLeft() == 0);
}

WAY(setitimer_periodic, 10) {
  BlockSignal(SIGALRM);
  const sigset_t set = SetOf(SIGALRM);
  const int64_t begin = Now();
  SetAlarm(4, 2);
  for (int i = 0; i < 4; ++i) {
    CHECK(sigwaitinfo(&set, nullptr) == SIGALRM);
    Row(std::to_string(i), 4 + 2 * i, UnitsSince(begin));
  }
  SetAlarm(0);
}

WAY(setitimer_periodic_with_a_handler, 10) {
  volatile int* count = CountSignal(SIGALRM);
  SetAlarm(2, 2);
  while (*count < 5) pause();
  SetAlarm(0);
}

WAY(setitimer_disarmed, 10) {
  volatile int* count = CountSignal(SIGALRM);
  SetAlarm(5);
  Sleep(2);
  SetAlarm(0);
  Sleep(8);
  CHECK(*count == 0);
}

WAY(setitimer_returns_the_old_value, 4) {
  volatile int* count = CountSignal(SIGALRM);
  SetAlarm(10, 3);
  Sleep(4);
  itimerval none{}, old;
  CHECK(setitimer(ITIMER_REAL, &none, &old) == 0);
  Row("elapsed", 4,
      10 - InUnits(old.it_value.tv_sec * kNanosecondsPerSecond + old.it_value.tv_usec * 1000));
  CHECK(InUnits(old.it_interval.tv_sec * kNanosecondsPerSecond + old.it_interval.tv_usec * 1000) ==
        3);
  CHECK(*count == 0);
}

WAY(setitimer_is_not_inherited, 20) {
  CountSignal(SIGALRM);
  SetAlarm(20);
  WaitForChild(ForkChild([] {
    volatile int* count = CountSignal(SIGALRM);
    CHECK(AlarmUnitsLeft() == 0);
    Sleep(10);
    CHECK(*count == 0);
  }));
  pause();
}

WAY(setitimer_survives_exec, 10) {
  const pid_t child = ForkChild([] {
    SetAlarm(10);
    execl("/bin/sleep", "sleep", "100000", nullptr);
  });
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

WAY(alarm_kills, 10) {
  const pid_t child = ForkChild([] {
    signal(SIGALRM, SIG_DFL);
    UnblockSignal(SIGALRM);
    SetAlarm(10);
    pause();
  });
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

WAY(alarm_interrupts_nanosleep, 0) {
  volatile int* count = CountSignal(SIGALRM);
  const timespec time = Timespec(2 * AlarmSeconds() * kNanosecondsPerSecond);
  timespec left{};
  alarm(AlarmSeconds());
  CHECK_ERROR(nanosleep(&time, &left), EINTR);
  CHECK(*count == 1);
  Row("elapsed", AlarmUnits(), InUnits(time) - InUnits(left));
  Expect(AlarmUnits());
}

WAY(interrupted_clock_nanosleep_says_what_is_left, 10) {
  volatile int* count = CountSignal(SIGALRM);
  const timespec time = Units(100);
  timespec left{};
  SetAlarm(10);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left) == EINTR);
  CHECK(*count == 1);
  Row("elapsed", 10, 100 - InUnits(left));
}

WAY(interrupted_nanosleep_is_not_restarted, 10) {
  CountSignal(SIGALRM, SA_RESTART);
  const timespec time = Units(100);
  SetAlarm(10);
  CHECK_ERROR(nanosleep(&time, nullptr), EINTR);
}

WAY(ignored_signal_does_not_interrupt, 20) {
  signal(SIGALRM, SIG_IGN);
  SetAlarm(5, 5);
  const timespec time = Units(20);
  CHECK(nanosleep(&time, nullptr) == 0);
  SetAlarm(0);
}

WAY(pause_ended_by_alarm, 0) {
  volatile int* count = CountSignal(SIGALRM);
  alarm(AlarmSeconds());
  CHECK_ERROR(pause(), EINTR);
  CHECK(*count == 1);
  Expect(AlarmUnits());
}

WAY(sigsuspend_ended_by_timer, 10) {
  volatile int* count = CountSignal(SIGALRM);
  BlockSignal(SIGALRM);
  SetAlarm(10);
  Sleep(5);
  sigset_t none;
  sigemptyset(&none);
  CHECK_ERROR(sigsuspend(&none), EINTR);
  CHECK(*count == 1);
}

WAY(sigsuspend_of_a_pending_signal, 10) {
  volatile int* count = CountSignal(SIGALRM);
  BlockSignal(SIGALRM);
  SetAlarm(5);
  Sleep(10);
  CHECK(*count == 0);
  sigset_t none;
  sigemptyset(&none);
  CHECK_ERROR(sigsuspend(&none), EINTR);
  CHECK(*count == 1);
}

WAY(signalfd_of_an_alarm, 10) {
  BlockSignal(SIGALRM);
  const sigset_t set = SetOf(SIGALRM);
  const int descriptor = signalfd(-1, &set, SFD_CLOEXEC);
  SetAlarm(5, 5);
  pollfd poll_descriptor{descriptor, POLLIN, 0};
  CHECK(poll(&poll_descriptor, 1, UnitsMilliseconds(100)) == 1);
  signalfd_siginfo info;
  CHECK(read(descriptor, &info, sizeof info) == sizeof info);
  CHECK(read(descriptor, &info, sizeof info) == sizeof info);  // blocks
  CHECK(info.ssi_signo == SIGALRM);
  SetAlarm(0);
  close(descriptor);
}

WAY(timer_interrupts_read, 10) {
  volatile int* count = CountSignal(SIGALRM);
  const Pipe pipe;
  char byte;
  SetAlarm(10);
  CHECK_ERROR(read(pipe.reader, &byte, 1), EINTR);
  CHECK(*count == 1);
}

WAY(timer_restarts_read, 20) {
  volatile int* count = CountSignal(SIGALRM, SA_RESTART);
  const Pipe pipe;
  const Thread thread([&] {
    BlockSignal(SIGALRM);
    Sleep(20);
    pipe.Put();
  });
  SetAlarm(10);
  pipe.Take();
  CHECK(*count == 1);
}

WAY(timer_interrupts_waitpid, 10) {
  volatile int* count = CountSignal(SIGALRM);
  const pid_t child = ForkChild([] { pause(); });
  SetAlarm(10);
  CHECK_ERROR(waitpid(child, nullptr, 0), EINTR);
  CHECK(*count == 1);
  KillChild(child);
}

WAY(timer_interrupts_poll, 10) {
  volatile int* count = CountSignal(SIGALRM, SA_RESTART);  // never restarted
  const Pipe pipe;
  pollfd descriptor{pipe.reader, POLLIN, 0};
  SetAlarm(5);
  CHECK_ERROR(poll(&descriptor, 1, UnitsMilliseconds(100)), EINTR);
  SetAlarm(5);
  CHECK_ERROR(poll(&descriptor, 1, -1), EINTR);
  CHECK(*count == 2);
}

WAY(timer_interrupts_select, 10) {
  volatile int* count = CountSignal(SIGALRM, SA_RESTART);
  timeval time = UnitsTimeval(100);
  SetAlarm(5);
  CHECK_ERROR(select(0, nullptr, nullptr, nullptr, &time), EINTR);
  SetAlarm(5);
  CHECK_ERROR(select(0, nullptr, nullptr, nullptr, nullptr), EINTR);
  CHECK(*count == 2);
}

WAY(timer_interrupts_epoll_wait, 10) {
  volatile int* count = CountSignal(SIGALRM, SA_RESTART);
  const int set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event;
  SetAlarm(5);
  CHECK_ERROR(epoll_wait(set, &event, 1, UnitsMilliseconds(100)), EINTR);
  SetAlarm(5);
  CHECK_ERROR(epoll_wait(set, &event, 1, -1), EINTR);
  CHECK(*count == 2);
  close(set);
}

WAY(timer_interrupts_sem_timedwait, 10) {
  volatile int* count = CountSignal(SIGALRM);
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  SetAlarm(10);
  const timespec end = After(100, CLOCK_REALTIME);
  CHECK_ERROR(sem_timedwait(&semaphore, &end), EINTR);
  CHECK(*count == 1);
}

WAY(timer_interrupts_sem_timedwait_with_sa_restart, 10) {
  // The kernel restarts waits for a futex only if they have no limit.
  volatile int* count = CountSignal(SIGALRM, SA_RESTART);
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  SetAlarm(10);
  const timespec end = After(100, CLOCK_REALTIME);
  CHECK_ERROR(sem_timedwait(&semaphore, &end), EINTR);
  CHECK(*count == 1);
}

WAY(timer_restarts_sem_wait, 20) {
  volatile int* count = CountSignal(SIGALRM, SA_RESTART);
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  const Thread thread([&] {
    BlockSignal(SIGALRM);
    Sleep(20);
    sem_post(&semaphore);
  });
  SetAlarm(6, 6);
  CHECK(sem_wait(&semaphore) == 0);
  SetAlarm(0);
  Row("signals", 3, *count);
}

WAY(killed_sleep_ends_at_once, 10) {
  // On a busy machine it takes the one who is killed a while to die; no time passes meanwhile.
  for (int i = 0; i < 5; ++i) {
    const pid_t child = ForkChild([] { Sleep(1000); });
    const pid_t bystander = ForkChild([] { Sleep(500); });
    Sleep(2);
    KillChild(child);
    KillChild(bystander);
  }
}

WAY(stopped_sleep_ends_in_time, 20) {
  const pid_t child = ForkChild([] {
    const timespec time = Units(20);
    CHECK(nanosleep(&time, nullptr) == 0);
  });
  Sleep(5);
  CHECK(kill(child, SIGSTOP) == 0);
  Sleep(5);
  CHECK(kill(child, SIGCONT) == 0);
  WaitForChild(child);
}

WAY(stopped_sleep_ends_when_continued, 20) {
  const pid_t child = ForkChild([] {
    const timespec time = Units(10);
    CHECK(nanosleep(&time, nullptr) == 0);
  });
  Sleep(5);
  CHECK(kill(child, SIGSTOP) == 0);
  Sleep(15);
  CHECK(kill(child, SIGCONT) == 0);
  WaitForChild(child);
}

// Nobody else stops it: time is not to wait for a debugger.
WAY(a_timer_that_stops_its_process, 20) {
  const pid_t child = ForkChild([] {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGSTOP;
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    const itimerspec time{{0, 0}, Units(5)};
    CHECK(timer_settime(timer, 0, &time, nullptr) == 0);
    for (;;) pause();
  });
  Sleep(20);
  KillChild(child);
}

WAY(a_timer_that_stops_threads_at_work, 20) {
  const pid_t child = ForkChild([] {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGSTOP;
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    const itimerspec time{{0, 0}, Units(5)};
    CHECK(timer_settime(timer, 0, &time, nullptr) == 0);
    const auto work = [] {
      for (;;) Sleep(0.01);
    };
    const Thread thread(work);
    work();
  });
  Sleep(20);
  KillChild(child);
}

WAY(a_descriptor_that_stops_its_process, 20) {
  const pid_t child = ForkChild([] {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(fcntl(ends[0], F_SETOWN, getpid()) == 0 && fcntl(ends[0], F_SETSIG, SIGSTOP) == 0);
    CHECK(fcntl(ends[0], F_SETFL, O_ASYNC) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    for (;;) pause();
  });
  Sleep(20);
  KillChild(child);
}

WAY(a_child_whose_end_stops_its_parent, 20) {
  const pid_t child = ForkChild([] {
    const long grandchild = syscall(SYS_clone, SIGSTOP, nullptr, nullptr, nullptr, nullptr);
    if (grandchild == 0) _exit(0);
    for (;;) pause();
  });
  Sleep(20);
  KillChild(child);
}

WAY(timer_interrupts_a_computation, 0.001) {
  volatile int* count = CountSignal(SIGALRM);
  SetAlarm(0.001);
  while (*count == 0) Now();
}
