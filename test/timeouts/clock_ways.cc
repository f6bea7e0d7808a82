// Reading clocks: all of them, through every call there is.
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <chrono>

#include "test/timeouts/ways.h"

namespace {

struct NamedClock {
  const char* name;
  clockid_t id;
};

constexpr NamedClock kClocks[] = {
    {"realtime", CLOCK_REALTIME},
    {"monotonic", CLOCK_MONOTONIC},
    {"monotonic_raw", CLOCK_MONOTONIC_RAW},
    {"boottime", CLOCK_BOOTTIME},
    {"realtime_coarse", CLOCK_REALTIME_COARSE},
    {"monotonic_coarse", CLOCK_MONOTONIC_COARSE},
    {"tai", CLOCK_TAI},
};

int64_t NowBySyscall(clockid_t clock) {
  timespec time;
  CHECK(syscall(SYS_clock_gettime, clock, &time) == 0);
  return Nanoseconds(time);
}

void EveryClock(int64_t (*now)(clockid_t)) {
  int64_t begin[std::size(kClocks)];
  for (size_t i = 0; i < std::size(kClocks); ++i) begin[i] = now(kClocks[i].id);
  Sleep(10);
  for (size_t i = 0; i < std::size(kClocks); ++i) {
    Row(kClocks[i].name, 10, InUnits(now(kClocks[i].id) - begin[i]));
  }
}

int64_t Nanoseconds(const timeval& time) {
  return time.tv_sec * kNanosecondsPerSecond + time.tv_usec * 1000;
}

template <typename Clock>
void ChronoClock(const char* name) {
  const auto begin = Clock::now();
  Sleep(2);
  const std::chrono::nanoseconds took = Clock::now() - begin;
  Row(name, 2, InUnits(took.count()));
}

}  // namespace

WAY(clock_gettime_libc, 10) { EveryClock(Now); }

WAY(clock_gettime_syscall, 10) { EveryClock(NowBySyscall); }

WAY(clock_reads_never_go_back, 0) {
  int64_t last = Now();
  for (int i = 0; i < 100; ++i) {
    const int64_t by_syscall = NowBySyscall(CLOCK_MONOTONIC);
    const int64_t by_libc = Now();
    CHECK(last <= by_syscall);
    CHECK(by_syscall <= by_libc);
    last = by_libc;
  }
}

WAY(clocks_keep_their_distance, 10) {
  // What a program computes from a pair of clocks stays right.
  const int64_t monotonic = Now(CLOCK_REALTIME) - Now(CLOCK_MONOTONIC);
  const int64_t boottime = Now(CLOCK_BOOTTIME) - Now(CLOCK_MONOTONIC);
  Sleep(10);
  Row("realtime", 10, 10 + InUnits(Now(CLOCK_REALTIME) - Now(CLOCK_MONOTONIC) - monotonic));
  Row("boottime", 10, 10 + InUnits(Now(CLOCK_BOOTTIME) - Now(CLOCK_MONOTONIC) - boottime));
}

WAY(gettimeofday_libc, 10) {
  timeval begin, end;
  CHECK(gettimeofday(&begin, nullptr) == 0);
  Sleep(10);
  CHECK(gettimeofday(&end, nullptr) == 0);
  Row("elapsed", 10, InUnits(Nanoseconds(end) - Nanoseconds(begin)));
}

WAY(gettimeofday_syscall, 10) {
  timeval begin, end;
  CHECK(syscall(SYS_gettimeofday, &begin, nullptr) == 0);
  Sleep(10);
  CHECK(syscall(SYS_gettimeofday, &end, nullptr) == 0);
  Row("elapsed", 10, InUnits(Nanoseconds(end) - Nanoseconds(begin)));
}

WAY(time_libc_and_syscall, 10) {
  // Whole seconds: compared with the clock that they are the seconds of, before and after.
  for (int i = 0; i < 10; ++i) {
    const int64_t before = Now(CLOCK_REALTIME_COARSE) / kNanosecondsPerSecond;
    const int64_t libc = time(nullptr);
    time_t by_argument = 0;
    const int64_t by_syscall = syscall(SYS_time, &by_argument);
    const int64_t after = Now(CLOCK_REALTIME) / kNanosecondsPerSecond;
    CHECK(before <= libc && libc <= by_syscall && by_syscall <= after);
    CHECK(by_argument == by_syscall);
    Sleep(1);
  }
}

WAY(timespec_get_call, 10) {
  timespec begin, end;
  const int64_t before = Now(CLOCK_REALTIME);
  CHECK(timespec_get(&begin, TIME_UTC) == TIME_UTC);
  CHECK(before <= Nanoseconds(begin) && Nanoseconds(begin) <= Now(CLOCK_REALTIME));
  Sleep(10);
  CHECK(timespec_get(&end, TIME_UTC) == TIME_UTC);
  Row("elapsed", 10, InUnits(Nanoseconds(end) - Nanoseconds(begin)));
}

WAY(chrono_clocks, 6) {
  ChronoClock<std::chrono::system_clock>("system");
  ChronoClock<std::chrono::steady_clock>("steady");
  ChronoClock<std::chrono::high_resolution_clock>("high_resolution");
}

WAY(clock_getres_libc_and_syscall, 0) {
  for (const NamedClock& clock : kClocks) {
    timespec libc{-1, -1}, by_syscall{-1, -1};
    CHECK(clock_getres(clock.id, &libc) == 0);
    CHECK(syscall(SYS_clock_getres, clock.id, &by_syscall) == 0);
    CHECK(Nanoseconds(libc) == Nanoseconds(by_syscall));
    CHECK(Nanoseconds(libc) > 0 && Nanoseconds(libc) <= 10'000'000);
  }
}

WAY(clock_errors, 0) {
  timespec time;
  CHECK_ERROR(clock_gettime(123, &time), EINVAL);
  CHECK_ERROR(syscall(SYS_clock_gettime, 123, &time), EINVAL);
  CHECK_ERROR(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, nullptr), EFAULT);
}

WAY(processor_time_is_not_time, 10) {
  // A sleeping program uses next to none.
  const int64_t process = Now(CLOCK_PROCESS_CPUTIME_ID), thread = Now(CLOCK_THREAD_CPUTIME_ID);
  Sleep(10);
  CHECK(Now(CLOCK_PROCESS_CPUTIME_ID) >= process);
  CHECK(UnitsSince(process, CLOCK_PROCESS_CPUTIME_ID) < 5);
  CHECK(UnitsSince(thread, CLOCK_THREAD_CPUTIME_ID) < 5);
}

// Short: where processor time does not count, every turn is charged for.
WAY(busy_clock_gettime, 0.001) { Compute(0.001); }

WAY(busy_chrono, 0.001) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(UnitNanoseconds() / 1000);
  while (std::chrono::steady_clock::now() < end) {
  }
}

WAY(busy_rdtsc, 0) {
  const int64_t begin = Now();
  const uint64_t cycles = __rdtsc();
  while (__rdtsc() - cycles < 1'000'000) {
  }
  Remark("seconds_for_a_million_cycles", static_cast<double>(Now() - begin) / 1e9);
  ExpectNothing();
}

WAY(io_uring, 0) {
  // Its timeouts would be the kernel's: a program must either get it whole or not at all.
  io_uring_params parameters{};
  const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
  CHECK(ring >= 0 || errno == ENOSYS || errno == EPERM);
  Remark("works", ring >= 0);
  if (ring >= 0) close(ring);
}
