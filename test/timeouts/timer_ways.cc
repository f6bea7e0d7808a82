// POSIX timers.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/timeouts/ways.h"

namespace {

class PosixTimer {
 public:
  PosixTimer(clockid_t clock, const sigevent& event) {
    sigevent copy = event;
    CHECK(timer_create(clock, &copy, &timer_) == 0);
  }
  ~PosixTimer() { CHECK(timer_delete(timer_) == 0); }
  PosixTimer(const PosixTimer&) = delete;
  PosixTimer& operator=(const PosixTimer&) = delete;

  void Set(double first, double period = 0) const {
    const itimerspec time = Timer(first, period);
    CHECK(timer_settime(timer_, 0, &time, nullptr) == 0);
  }
  void SetAbsolute(const timespec& first) const {
    const itimerspec time{{}, first};
    CHECK(timer_settime(timer_, TIMER_ABSTIME, &time, nullptr) == 0);
  }
  double Left() const {
    itimerspec time;
    CHECK(timer_gettime(timer_, &time) == 0);
    return InUnits(time.it_value);
  }
  timer_t get() const { return timer_; }

 private:
  timer_t timer_;
};

sigevent SignalEvent(int signal, int value = 0) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = signal;
  event.sigev_value.sival_int = value;
  return event;
}

sigevent NoEvent() {
  sigevent event{};
  event.sigev_notify = SIGEV_NONE;
  return event;
}

sigevent ThreadEvent(sem_t* semaphore) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD;
  event.sigev_value.sival_ptr = semaphore;
  event.sigev_notify_function = [](sigval value) {
    sem_post(static_cast<sem_t*>(value.sival_ptr));
  };
  return event;
}

sigset_t Blocked(int signal) {
  BlockSignal(signal);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

void AbsoluteTimer(clockid_t clock) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer timer(clock, SignalEvent(SIGRTMIN));
  const timespec end = After(10, clock);
  timer.SetAbsolute(end);
  Sleep(5);
  Row("half_way", 5, 10 - timer.Left());  // relative, all the same
  CHECK(sigwaitinfo(&set, nullptr) == SIGRTMIN);
  CHECK(Now(clock) >= Nanoseconds(end));
}

}  // namespace

WAY(timer_signal, 10) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer timer(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN, 42));
  CHECK(timer.Left() == 0);
  timer.Set(10);
  Sleep(5);
  Row("half_way", 5, 10 - timer.Left());
  siginfo_t info{};
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
  CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == 42);
  CHECK(timer.Left() == 0);
}

WAY(timer_default_event, 10) {
  // Without a sigevent: SIGALRM, with the timer's number as its value.
  const sigset_t set = Blocked(SIGALRM);
  int number = -1;  // as the kernel has it; the C library's own is something else
  CHECK(syscall(SYS_timer_create, CLOCK_MONOTONIC, nullptr, &number) == 0);
  const itimerspec time = Timer(10);
  CHECK(syscall(SYS_timer_settime, number, 0, &time, nullptr) == 0);
  siginfo_t info{};
  CHECK(sigwaitinfo(&set, &info) == SIGALRM);
  CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == number);
  CHECK(syscall(SYS_timer_delete, number) == 0);
}

WAY(timer_signal_periodic, 12) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer timer(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN, 42));
  const int64_t begin = Now();
  timer.Set(4, 2);
  for (int expired = 0; expired < 5;) {
    siginfo_t info{};
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
    CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == 42);
    expired += 1 + info.si_overrun;
    Row(std::to_string(expired), 2 + 2 * expired, UnitsSince(begin));
  }
}

WAY(timer_signal_handler, 10) {
  static volatile int code, value;
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    value = info->si_value.sival_int;
    code = info->si_code;
  };
  CHECK(sigaction(SIGRTMIN, &action, nullptr) == 0);
  UnblockSignal(SIGRTMIN);
  code = 0;
  const PosixTimer timer(CLOCK_REALTIME, SignalEvent(SIGRTMIN, 43));
  timer.Set(10);
  CHECK_ERROR(pause(), EINTR);
  CHECK(code == SI_TIMER && value == 43);
}

WAY(timer_overruns, 10.5) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer timer(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN));
  timer.Set(1, 1);
  Sleep(10.5);
  siginfo_t info{};
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
  CHECK(timer_getoverrun(timer.get()) == info.si_overrun);
  Row("expirations", 10, 1 + info.si_overrun);
}

WAY(timer_thread, 10) {
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  const PosixTimer timer(CLOCK_MONOTONIC, ThreadEvent(&semaphore));
  timer.Set(10);
  CHECK(sem_wait(&semaphore) == 0);
}

WAY(timer_thread_periodic, 10) {
  sem_t semaphore;
  CHECK(sem_init(&semaphore, 0, 0) == 0);
  const PosixTimer timer(CLOCK_REALTIME, ThreadEvent(&semaphore));
  timer.Set(2, 2);
  for (int i = 0; i < 5; ++i) CHECK(sem_wait(&semaphore) == 0);
  timer.Set(0);
}

WAY(timer_thread_id, 10) {
  const sigset_t set = Blocked(SIGRTMIN);
  volatile pid_t wanted = 0;
  const Pipe ready, go;
  const Thread thread([&] {
    wanted = gettid();
    ready.Put();
    go.Take();
    siginfo_t info{};
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
    CHECK(info.si_code == SI_TIMER && info.si_value.sival_int == 44);
  });
  ready.Take();
  sigevent event = SignalEvent(SIGRTMIN, 44);
  event.sigev_notify = SIGEV_THREAD_ID;
  event._sigev_un._tid = wanted;
  const PosixTimer timer(CLOCK_MONOTONIC, event);
  timer.Set(10);
  go.Put();
  // It is for that thread alone.
  const timespec time = Units(5);
  CHECK_ERROR(sigtimedwait(&set, nullptr, &time), EAGAIN);
  Sleep(5);
}

WAY(timer_none, 20) {
  const PosixTimer timer(CLOCK_MONOTONIC, NoEvent());
  timer.Set(10);
  Sleep(5);
  Row("half_way", 5, 10 - timer.Left());
  Sleep(15);
  CHECK(timer.Left() == 0);
}

WAY(timer_none_periodic, 10) {
  const PosixTimer timer(CLOCK_MONOTONIC, NoEvent());
  timer.Set(4, 4);
  Sleep(10);
  Row("since_the_second", 2, 4 - timer.Left());
}

WAY(timer_realtime_absolute, 10) { AbsoluteTimer(CLOCK_REALTIME); }
WAY(timer_monotonic_absolute, 10) { AbsoluteTimer(CLOCK_MONOTONIC); }
WAY(timer_boottime_absolute, 10) { AbsoluteTimer(CLOCK_BOOTTIME); }
WAY(timer_tai_absolute, 10) { AbsoluteTimer(CLOCK_TAI); }

WAY(timer_of_the_past, 0) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer timer(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN));
  timer.SetAbsolute(Timespec(Now() - 1));
  CHECK(sigwaitinfo(&set, nullptr) == SIGRTMIN);
}

WAY(timer_deleted_before_expiry, 12) {
  const sigset_t set = Blocked(SIGRTMIN);
  {
    const PosixTimer timer(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN));
    timer.Set(5);
    Sleep(2);
  }
  const timespec time = Units(10);
  CHECK_ERROR(sigtimedwait(&set, nullptr, &time), EAGAIN);
}

WAY(timer_disarmed, 12) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer timer(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN));
  timer.Set(5, 1);
  Sleep(2);
  itimerspec none{}, old;
  CHECK(timer_settime(timer.get(), 0, &none, &old) == 0);
  Row("elapsed", 2, 5 - InUnits(old.it_value));
  CHECK(InUnits(old.it_interval) == 1);
  const timespec time = Units(10);
  CHECK_ERROR(sigtimedwait(&set, nullptr, &time), EAGAIN);
}

WAY(timer_rearmed, 15) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer timer(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN));
  timer.Set(10);
  Sleep(5);
  timer.Set(10);
  CHECK(sigwaitinfo(&set, nullptr) == SIGRTMIN);
}

WAY(timers_side_by_side, 12) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer late(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN, 3));
  const PosixTimer early(CLOCK_REALTIME, SignalEvent(SIGRTMIN, 1));
  const PosixTimer middle(CLOCK_BOOTTIME, SignalEvent(SIGRTMIN, 2));
  late.Set(12);
  middle.Set(8);
  early.Set(4);
  const int64_t begin = Now();
  for (int i = 1; i <= 3; ++i) {
    siginfo_t info{};
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN);
    CHECK(info.si_value.sival_int == i);
    Row(std::to_string(i), 4 * i, UnitsSince(begin));
  }
}

WAY(timer_is_not_inherited, 10) {
  const sigset_t set = Blocked(SIGRTMIN);
  const PosixTimer timer(CLOCK_MONOTONIC, SignalEvent(SIGRTMIN));
  timer.Set(5);
  WaitForChild(ForkChild([&] {
    itimerspec time;
    CHECK_ERROR(timer_gettime(timer.get(), &time), EINVAL);
    const timespec limit = Units(10);
    CHECK_ERROR(sigtimedwait(&set, nullptr, &limit), EAGAIN);
  }));
  CHECK(sigwaitinfo(&set, nullptr) == SIGRTMIN);
}

WAY(timer_errors, 0) {
  timer_t timer;
  sigevent event = SignalEvent(SIGRTMIN);
  CHECK_ERROR(timer_create(123, &event, &timer), EINVAL);
  event.sigev_signo = 1000;
  CHECK_ERROR(timer_create(CLOCK_MONOTONIC, &event, &timer), EINVAL);
  const PosixTimer good(CLOCK_MONOTONIC, NoEvent());
  const itimerspec wrong{{}, {0, kNanosecondsPerSecond}};
  CHECK_ERROR(timer_settime(good.get(), 0, &wrong, nullptr), EINVAL);
  CHECK_ERROR(syscall(SYS_timer_delete, 123456), EINVAL);
}
