// Calls that wait, and clocks and timers: times out of range, wrong pointers, sets that name
// themselves.
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <sys/times.h>

#include "test/fuzz/hostile_attacker.h"

namespace phantora::hostile {
namespace {

// Mostly some microseconds; now and then a time that no kernel takes, or one that never comes.
timespec SomeTime(Random& random) {
  timespec time{0, static_cast<int64_t>(random.Below(50000))};
  if (random.OneIn(8)) time.tv_nsec = static_cast<int64_t>(random.Boundary());
  if (random.OneIn(2000)) time.tv_sec = static_cast<int64_t>(random.Boundary());
  return time;
}

clockid_t SomeClock(Random& random) {
  if (random.OneIn(4)) return static_cast<clockid_t>(random.Boundary());
  return static_cast<clockid_t>(random.Below(16));
}

}  // namespace

uint64_t Attacker::OrSomePointer(const void* pointer) {
  return random_.OneIn(8) ? SomePointer() : reinterpret_cast<uint64_t>(pointer);
}

// Many of the others are a wait for ever, which ends when somebody is killed: rarely.
uint64_t Attacker::OrSomeLimit(const timespec* time) {
  return random_.OneIn(512) ? SomePointer() : reinterpret_cast<uint64_t>(time);
}

void Attacker::Sleeps() {
  timespec time = SomeTime(random_);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t until = OrSomeLimit(&time);
  switch (random_.Below(7)) {
    case 0:
      syscall(SYS_nanosleep, until, OrSomePointer(&now));
      break;
    case 1: {
      // Of this clock only: a processor's would take as long to get there.
      const bool absolute = random_.OneIn(2);
      if (absolute) time.tv_sec += now.tv_sec;
      syscall(SYS_clock_nanosleep, absolute ? CLOCK_MONOTONIC : SomeClock(random_),
              absolute ? TIMER_ABSTIME : random_.Below(4), until, OrSomePointer(&now));
      break;
    }
    case 2:
      syscall(SYS_clock_gettime, SomeClock(random_), OrSomePointer(&now));
      break;
    case 3:
      syscall(SYS_gettimeofday, OrSomePointer(&now), random_.OneIn(2) ? 0 : SomePointer());
      break;
    case 4:
      syscall(SYS_times, OrSomePointer(block_.data()));
      break;
    case 5:
      sched_yield();
      break;
    default:
      syscall(SYS_clock_getres, SomeClock(random_), OrSomePointer(&now));
      break;
  }
}

void Attacker::Waits() {
  timespec time = SomeTime(random_);
  const uint64_t limit = OrSomeLimit(&time);
  const int event = eventfd(random_.Below(2), EFD_CLOEXEC | EFD_NONBLOCK);
  switch (random_.Below(6)) {
    case 0: {
      pollfd files[4] = {{event, static_cast<int16_t>(random_.Next()), 0},
                         {SomeFile(), POLLIN, 0},
                         {static_cast<int>(random_.Boundary()), POLLIN, 0},
                         {event, POLLIN, 0}};
      const uint64_t count = random_.OneIn(16) ? random_.Boundary() : random_.Below(5);
      syscall(SYS_ppoll, OrSomePointer(files), count, limit, 0, 8);
      break;
    }
    case 1: {
      fd_set in, out;
      memset(&in, random_.OneIn(2) ? 0 : 0xff, sizeof in);
      memset(&out, 0, sizeof out);
      if (event >= 0) FD_SET(event, &in);
      syscall(SYS_pselect6, random_.OneIn(16) ? random_.Boundary() : random_.Below(1025),
              OrSomePointer(&in), OrSomePointer(&out), 0, limit, 0);
      break;
    }
    case 2: {
      const int set = epoll_create1(EPOLL_CLOEXEC), other = epoll_create1(EPOLL_CLOEXEC);
      epoll_event wanted{static_cast<uint32_t>(random_.Next()), {}};
      epoll_event seen[4];
      const int copy = dup(event);
      epoll_ctl(set, EPOLL_CTL_ADD, copy, &wanted);
      close(copy);  // the set keeps what the number no longer names
      epoll_ctl(set, EPOLL_CTL_ADD, random_.OneIn(2) ? other : set, &wanted);
      epoll_ctl(other, EPOLL_CTL_ADD, random_.OneIn(2) ? set : event, &wanted);
      syscall(SYS_epoll_pwait, set, OrSomePointer(seen), random_.OneIn(8) ? random_.Boundary() : 4,
              random_.OneIn(1000) ? random_.Boundary() : random_.Below(3), 0, 8);
      close(other);
      close(set);
      break;
    }
    case 3: {
      const uint32_t bits =
          random_.OneIn(2) ? FUTEX_BITSET_MATCH_ANY : static_cast<uint32_t>(random_.Next());
      // The words of all threads of the process, wherever they may point.
      static uint32_t words[4];
      const int operation =
          static_cast<int>(random_.OneIn(8) ? random_.Below(256) : random_.Below(14)) |
          (random_.OneIn(2) ? FUTEX_PRIVATE_FLAG : 0);
      const bool pi = (operation & FUTEX_CMD_MASK) == FUTEX_LOCK_PI ||
                      (operation & FUTEX_CMD_MASK) == FUTEX_LOCK_PI2;
      if (pi) break;  // a lock whose owner is gone is waited for without end
      syscall(SYS_futex, OrSomePointer(&words[random_.Below(4)]), operation, random_.Below(2),
              random_.OneIn(512) ? random_.Boundary() : limit, &words[random_.Below(4)], bits);
      break;
    }
    case 4: {
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, SIGUSR1);
      syscall(SYS_rt_sigtimedwait, OrSomePointer(&set), SomePointer(), limit,
              random_.OneIn(8) ? random_.Boundary() : 8);
      break;
    }
    default: {
      const mqd_t queue = static_cast<mqd_t>(random_.OneIn(2) ? event : SomeFile());
      syscall(SYS_mq_timedreceive, queue, SomePointer(), random_.Boundary(), 0, limit);
      break;
    }
  }
  close(event);
}

void Attacker::Timers() {
  const timespec first = SomeTime(random_);
  itimerspec setting{{0, random_.OneIn(4) ? static_cast<int64_t>(random_.Boundary()) : 0}, first};
  if (random_.OneIn(2)) {
    const int file = timerfd_create(SomeClock(random_), TFD_NONBLOCK | TFD_CLOEXEC);
    if (file < 0) return;
    syscall(SYS_timerfd_settime, random_.OneIn(8) ? SomeFile() : file, random_.Below(4),
            OrSomePointer(&setting), random_.OneIn(2) ? 0 : SomePointer());
    uint64_t expired;
    const ssize_t result = read(file, &expired, random_.Below(9));
    (void)result;
    syscall(SYS_timerfd_gettime, file, OrSomePointer(&setting));
    close(file);
    return;
  }
  sigevent event{};
  event.sigev_notify = SIGEV_NONE;
  int timer = 0;
  if (syscall(SYS_timer_create, SomeClock(random_), OrSomePointer(&event), OrSomePointer(&timer)) !=
      0)
    return;
  const int named = random_.OneIn(8) ? static_cast<int>(random_.Boundary()) : timer;
  syscall(SYS_timer_settime, named, random_.Below(4), OrSomePointer(&setting),
          random_.OneIn(2) ? 0 : SomePointer());
  syscall(SYS_timer_gettime, named, OrSomePointer(&setting));
  syscall(SYS_timer_getoverrun, named);
  syscall(SYS_timer_delete, timer);
}

}  // namespace phantora::hostile
