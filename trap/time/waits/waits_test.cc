// Waits for time, memory and signals, from their arguments to their answers.
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "trap/time/waits/clock_wait.h"
#include "trap/time/waits/waits_harness.h"

namespace phantora {
namespace {

TEST_F(WaitsTest, OtherCallsAreNone) {
  EXPECT_EQ(Parse(SYS_read, {}), nullptr);
  EXPECT_FALSE(IsWait(SYS_read));
  EXPECT_FALSE(IsWait(-1));
  EXPECT_TRUE(IsWait(SYS_semtimedop));
}

TEST_F(WaitsTest, ATimeoutIsReadOnceSoThatNobodyCanChangeItBehindTheCheck) {
  memory_->after_read = [this](uint64_t address) {
    if (address == kTimeout) memory_->Put(kTimeout, timespec{-7, -7});
  };
  const uint64_t bitset = FUTEX_WAIT_BITSET;
  memory_->Put(kArray, uint32_t{3});
  const auto check = [this](int call, std::initializer_list<uint64_t> arguments,
                            VirtualTime expected) {
    memory_->Put(kTimeout, timespec{10'001, 500});
    memory_->reads = 0;
    const auto wait = Parse(call, arguments);
    EXPECT_EQ(wait->verdict(), Verdict::kWait) << wait->name();
    EXPECT_EQ(wait->deadline(), expected) << wait->name();
  };
  check(SYS_clock_nanosleep, {CLOCK_MONOTONIC, TIMER_ABSTIME, kTimeout, 0},
        Later(kNanosecondsPerSecond + 500));
  check(SYS_clock_nanosleep, {CLOCK_MONOTONIC, 0, kTimeout, 0},
        Later(10'001 * kNanosecondsPerSecond + 500));
  check(SYS_futex, {kArray, bitset, 3, kTimeout, 0, 1}, Later(kNanosecondsPerSecond + 500));
  check(SYS_futex, {kArray, FUTEX_WAIT, 3, kTimeout}, Later(10'001 * kNanosecondsPerSecond + 500));
}

TEST_F(WaitsTest, MasksAndSetsOfSignalsAreThoseOfTheBeginning) {
  memory_->Put(kMask, uint64_t{0x10});
  memory_->PutAll(kArray, std::vector<pollfd>{{0, POLLIN, 0}});
  const auto poll = Parse(SYS_ppoll, {kArray, 1, kTimeout, kMask, 8});
  const auto epoll = Parse(SYS_epoll_pwait, {5, kArray, 1, 100, kMask, 8});
  memory_->PutAll(kOut, std::vector<uint64_t>{kMask, 8});
  const auto select = Parse(SYS_pselect6, {0, 0, 0, 0, kTimeout, kOut});
  const auto signal = Parse(SYS_rt_sigtimedwait, {kMask, 0, kTimeout, 8});
  memory_->Put(kMask, uint64_t{0});
  for (const auto* wait : {poll.get(), epoll.get(), select.get()}) {
    EXPECT_EQ(wait->mask(), 0x10u) << wait->name();
    // The kernel runs the handler with its own mask.
    EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Continue());
  }
  EXPECT_EQ(signal->mask(), std::nullopt);
  EXPECT_TRUE(signal->AwaitsSignal(0x30));
  EXPECT_FALSE(signal->AwaitsSignal(0x20));
  EXPECT_EQ(Parse(SYS_epoll_wait, {5, kArray, 1, 100, kMask, 8})->mask(), std::nullopt);
  EXPECT_EQ(Parse(SYS_ppoll, {kArray, 1, kTimeout, kNowhere, 8})->mask(), std::nullopt);
}

TEST_F(WaitsTest, Nanosleep) {
  const auto wait = Parse(SYS_nanosleep, {kTimeout, kOut});
  EXPECT_EQ(wait->verdict(), Verdict::kWait);
  EXPECT_EQ(wait->deadline(), Later(kNanosecondsPerSecond + 500));
  EXPECT_STREQ(wait->name(), "sleep");
  EXPECT_FALSE(wait->is_polled());
  EXPECT_EQ(TimeOut(*wait, wait->deadline()), FakeListener::Value(0));
  EXPECT_EQ(memory_->Get<timespec>(kOut).tv_sec, -1) << "only who is interrupted is told";
  EXPECT_EQ(Interrupt(*wait, Later(200)), FakeListener::Error(EINTR));
  EXPECT_EQ(memory_->Get<timespec>(kOut).tv_sec, 1);
  EXPECT_EQ(memory_->Get<timespec>(kOut).tv_nsec, 300);
  ExpectTimeoutIsChecked(SYS_nanosleep, {kTimeout, kOut});
  EXPECT_EQ(Interrupt(*Parse(SYS_nanosleep, {kTimeout, 0}), kNow), FakeListener::Error(EINTR));
}

TEST_F(WaitsTest, SleepsAtTheEndsOfTheRange) {
  memory_->Put(kTimeout, timespec{0, 0});
  EXPECT_EQ(Parse(SYS_nanosleep, {kTimeout, 0})->deadline(), kNow);
  EXPECT_EQ(Parse(SYS_nanosleep, {kTimeout, 0})->verdict(), Verdict::kWait);
  memory_->Put(kTimeout, timespec{kMost, 999'999'999});
  const auto wait = Parse(SYS_nanosleep, {kTimeout, kOut});
  EXPECT_EQ(wait->deadline(), VirtualTime::Infinity());
  EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Error(EINTR));
}

TEST_F(WaitsTest, WhatHasNoTimeoutIsTheKernelsWhenASignalComes) {
  memory_->Put(kArray, uint32_t{3});
  const uint64_t wait = FUTEX_WAIT | FUTEX_PRIVATE_FLAG;
  const auto futex = Parse(SYS_futex, {kArray, wait, 3, 0});
  EXPECT_EQ(futex->verdict(), Verdict::kWait);
  EXPECT_EQ(futex->deadline(), VirtualTime::Infinity());
  EXPECT_EQ(Interrupt(*futex, kNow), FakeListener::Continue()) << "it may go on after that";
  EXPECT_EQ(Interrupt(*Parse(SYS_futex, {kArray, wait, 3, kTimeout}), kNow),
            FakeListener::Error(EINTR));
  EXPECT_EQ(Interrupt(*Parse(SYS_poll, {0, 0, ~uint64_t{0}}), kNow), FakeListener::Continue());
  EXPECT_EQ(Interrupt(*Parse(SYS_select, {0, 0, 0, 0, 0}), kNow), FakeListener::Continue());
  EXPECT_EQ(Parse(SYS_nanosleep, {0, 0})->error(), EFAULT) << "a sleep has one";
}

TEST_F(WaitsTest, WhereWakesAreSeenWordsNeedNotBeLookedAt) {
  memory_->Put(kArray, uint32_t{3});
  const auto parse = [this](uint64_t operation, uint64_t bits) {
    return ParseWait(CallOf(getpid(), kCall, SYS_futex, {kArray, operation, 3, 0, 0, bits}),
                     {.now = kNow, .sees_wakes = true}, memory_);
  };
  EXPECT_FALSE(parse(FUTEX_WAIT, 0)->is_polled());
  EXPECT_EQ(parse(FUTEX_WAIT, 0)->woken_with(), ~uint32_t{0});
  EXPECT_EQ(parse(FUTEX_WAIT_BITSET, 6)->woken_with(), 6u);
  EXPECT_EQ(parse(FUTEX_WAIT_BITSET, 0)->error(), EINVAL);
  EXPECT_TRUE(Parse(SYS_futex, {kArray, FUTEX_WAIT, 3, kTimeout})->is_polled());
}

TEST_F(WaitsTest, ClockNanosleep) {
  memory_->Put(kTimeout, timespec{10'003, 0});
  const uint64_t absolute = TIMER_ABSTIME;
  for (const uint64_t clock : {CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_BOOTTIME_ALARM}) {
    const auto wait = Parse(SYS_clock_nanosleep, {clock, absolute, kTimeout, kOut});
    EXPECT_EQ(wait->deadline(), Later(3 * kNanosecondsPerSecond));
    EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Error(EINTR));
    EXPECT_EQ(memory_->Get<timespec>(kOut).tv_sec, -1) << "an absolute one has no rest";
  }
  memory_->Put(kTimeout, timespec{1'700'010'003, 0});
  for (const uint64_t clock : {CLOCK_REALTIME, CLOCK_REALTIME_ALARM, CLOCK_TAI}) {
    EXPECT_EQ(Parse(SYS_clock_nanosleep, {clock, absolute, kTimeout, 0})->deadline(),
              Later(3 * kNanosecondsPerSecond));
  }
  memory_->Put(kTimeout, timespec{5, 0});
  EXPECT_LT(Parse(SYS_clock_nanosleep, {CLOCK_MONOTONIC, absolute, kTimeout, 0})->deadline(), kNow);
  const auto relative = Parse(SYS_clock_nanosleep, {CLOCK_REALTIME, 0, kTimeout, kOut});
  EXPECT_EQ(relative->deadline(), Later(5 * kNanosecondsPerSecond));
  EXPECT_EQ(Interrupt(*relative, kNow), FakeListener::Error(EINTR));
  EXPECT_EQ(memory_->Get<timespec>(kOut).tv_sec, 5);
  // Processor time, coarse clocks (which the kernel refuses), and what is no clock.
  for (const uint64_t clock : {uint64_t{CLOCK_PROCESS_CPUTIME_ID}, uint64_t{CLOCK_MONOTONIC_RAW},
                               uint64_t{CLOCK_MONOTONIC_COARSE}, uint64_t{77}, ~uint64_t{0}}) {
    const auto wait = Parse(SYS_clock_nanosleep, {clock, 0, kTimeout, 0});
    EXPECT_EQ(wait->verdict(), Verdict::kContinue) << clock;
    EXPECT_EQ(wait->left_to_kernel(), nullptr);
  }
  ExpectTimeoutIsChecked(SYS_clock_nanosleep, {CLOCK_MONOTONIC, absolute, kTimeout, 0});
}

TEST_F(WaitsTest, FutexWaitsForItsWordToChange) {
  memory_->Put(kArray, uint32_t{3});
  const auto wait = Parse(SYS_futex, {kArray, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 3, kTimeout});
  EXPECT_EQ(wait->verdict(), Verdict::kWait);
  EXPECT_EQ(wait->deadline(), Later(kNanosecondsPerSecond + 500)) << "relative";
  EXPECT_TRUE(wait->is_polled());
  EXPECT_TRUE(wait->is_private());
  ASSERT_EQ(wait->words().size(), 1u);
  EXPECT_EQ(wait->words()[0], (std::pair{RemoteAddress{kArray}, uint32_t{3}}));
  EXPECT_FALSE(wait->Changed());
  memory_->Put(kArray, uint32_t{4});
  EXPECT_TRUE(wait->Changed());
  EXPECT_EQ(Ready(*wait, kNow), FakeListener::Value(0));
  EXPECT_EQ(TimeOut(*wait, kNow), FakeListener::Error(ETIMEDOUT));
  EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Error(EINTR));
  ExpectError(EAGAIN, SYS_futex, {kArray, FUTEX_WAIT, 3, kTimeout});
  ExpectError(EAGAIN, SYS_futex, {kNowhere, FUTEX_WAIT, 3, kTimeout});
  EXPECT_FALSE(Parse(SYS_futex, {kArray, FUTEX_WAIT, 4, kTimeout})->is_private());
}

TEST_F(WaitsTest, FutexWithABitSetIsAbsolute) {
  memory_->Put(kArray, uint32_t{3});
  memory_->Put(kTimeout, timespec{10'002, 0});
  EXPECT_EQ(Parse(SYS_futex, {kArray, FUTEX_WAIT_BITSET, 3, kTimeout, 0, 1})->deadline(),
            Later(2 * kNanosecondsPerSecond));
  memory_->Put(kTimeout, timespec{1'700'010'002, 0});
  EXPECT_EQ(Parse(SYS_futex, {kArray, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 3, kTimeout, 0, 1})
                ->deadline(),
            Later(2 * kNanosecondsPerSecond));
  ExpectTimeoutIsChecked(SYS_futex, {kArray, FUTEX_WAIT_BITSET, 3, kTimeout, 0, 1});
  ExpectTimeoutIsChecked(SYS_futex, {kArray, FUTEX_WAIT, 3, kTimeout});
  const auto wait = Parse(SYS_futex, {kArray, FUTEX_LOCK_PI, 3, kTimeout});
  EXPECT_EQ(wait->verdict(), Verdict::kContinue);
  EXPECT_NE(wait->left_to_kernel(), nullptr);
}

TEST_F(WaitsTest, ManyFutexesTellWhichHasChanged) {
  // struct futex_waitv: value, address, flags and a reserved word.
  memory_->PutAll(kArray, std::vector<uint64_t>{1, kOut, 2, 2, kOut + 4, 2, 3, kOut + 8, 2});
  memory_->PutAll(kOut, std::vector<uint32_t>{1, 2, 3});
  memory_->Put(kTimeout, timespec{10'002, 0});
  const uint64_t clock = CLOCK_MONOTONIC;
  const auto wait = Parse(SYS_futex_waitv, {kArray, 3, 0, kTimeout, clock});
  EXPECT_EQ(wait->verdict(), Verdict::kWait);
  EXPECT_EQ(wait->deadline(), Later(2 * kNanosecondsPerSecond));
  EXPECT_FALSE(wait->is_private());
  EXPECT_EQ(wait->words().size(), 3u);
  // The waiters were copied: what is written over them later does not count.
  memory_->PutAll(kArray, std::vector<uint64_t>(9));
  EXPECT_FALSE(wait->Changed());
  memory_->Put(kOut + 8, uint32_t{9});
  EXPECT_TRUE(wait->Changed());
  EXPECT_EQ(Ready(*wait, kNow), FakeListener::Value(2));
  EXPECT_EQ(TimeOut(*wait, kNow), FakeListener::Error(ETIMEDOUT));
}

TEST_F(WaitsTest, ManyFutexesWithBadArguments) {
  const uint64_t clock = CLOCK_MONOTONIC;
  memory_->PutAll(kArray, std::vector<uint64_t>{1, kOut, 2});
  ExpectError(EINVAL, SYS_futex_waitv, {kArray, 0, 0, kTimeout, clock});
  ExpectError(EINVAL, SYS_futex_waitv, {kArray, 129, 0, kTimeout, clock});
  ExpectError(EINVAL, SYS_futex_waitv, {kArray, 0xffffffff, 0, kTimeout, clock});
  ExpectError(EINVAL, SYS_futex_waitv, {kArray, 1, 1, kTimeout, clock});
  ExpectError(EINVAL, SYS_futex_waitv, {kArray, 1, 0, kTimeout, CLOCK_BOOTTIME});
  ExpectError(EFAULT, SYS_futex_waitv, {kArray, 2, 0, kTimeout, clock});
  ExpectError(EAGAIN, SYS_futex_waitv, {kArray, 1, 0, kTimeout, clock});
  ExpectTimeoutIsChecked(SYS_futex_waitv, {kArray, 1, 0, kTimeout, clock});
}

TEST_F(WaitsTest, Sigtimedwait) {
  memory_->Put(kMask, uint64_t{1} << (SIGUSR1 - 1));
  const auto wait = Parse(SYS_rt_sigtimedwait, {kMask, 0, kTimeout, 8});
  EXPECT_EQ(wait->deadline(), Later(kNanosecondsPerSecond + 500));
  EXPECT_EQ(TimeOut(*wait, kNow), FakeListener::Error(EAGAIN));
  EXPECT_EQ(Ready(*wait, kNow), FakeListener::Continue());
  EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Error(EINTR));
  ExpectError(EFAULT, SYS_rt_sigtimedwait, {kNowhere, 0, kTimeout, 8});
  ExpectTimeoutIsChecked(SYS_rt_sigtimedwait, {kMask, 0, kTimeout, 8});
  memory_->Put(kTimeout, timespec{0, 0});
  EXPECT_EQ(Parse(SYS_rt_sigtimedwait, {kMask, 0, kTimeout, 8})->verdict(), Verdict::kContinue);
}

TEST_F(WaitsTest, SemaphoresAreLookedAt) {
  const int set = semget(IPC_PRIVATE, 2, 0600);
  ASSERT_GE(set, 0);
  const auto number = static_cast<uint64_t>(set);
  memory_->PutAll(kArray, std::vector<sembuf>{{0, -1, 0}});
  const auto wait = Parse(SYS_semtimedop, {number, kArray, 1, kTimeout});
  EXPECT_EQ(wait->verdict(), Verdict::kWait);
  EXPECT_EQ(wait->deadline(), Later(kNanosecondsPerSecond + 500));
  EXPECT_TRUE(wait->is_polled());
  EXPECT_TRUE(wait->words().empty());
  EXPECT_FALSE(wait->Changed());
  // What it would do was read when it began.
  memory_->PutAll(kArray, std::vector<sembuf>{{0, 1, 0}});
  EXPECT_FALSE(wait->Changed());
  sembuf up{0, 1, 0};
  ASSERT_EQ(semop(set, &up, 1), 0);
  EXPECT_TRUE(wait->Changed());
  EXPECT_EQ(Ready(*wait, kNow), FakeListener::Continue());
  EXPECT_EQ(TimeOut(*wait, kNow), FakeListener::Error(EAGAIN));
  memory_->PutAll(kArray, std::vector<sembuf>{{0, 0, 0}});
  EXPECT_EQ(Parse(SYS_semtimedop, {number, kArray, 1, kTimeout})->verdict(), Verdict::kWait)
      << "for zero";
  memory_->PutAll(kArray, std::vector<sembuf>{{1, -1, IPC_NOWAIT}});
  EXPECT_EQ(Parse(SYS_semtimedop, {number, kArray, 1, kTimeout})->verdict(), Verdict::kContinue);
  memory_->PutAll(kArray, std::vector<sembuf>{{9, -1, 0}});
  EXPECT_EQ(Parse(SYS_semtimedop, {number, kArray, 1, kTimeout})->verdict(), Verdict::kContinue)
      << "no such semaphore: the kernel says so";
  EXPECT_EQ(Parse(SYS_semtimedop, {number, kNowhere, 1, kTimeout})->verdict(), Verdict::kContinue);
  EXPECT_EQ(Parse(SYS_semtimedop, {number, kNowhere, 0xffffffff, kTimeout})->verdict(),
            Verdict::kContinue);
  ExpectTimeoutIsChecked(SYS_semtimedop, {number, kArray, 1, kTimeout});
  semctl(set, 0, IPC_RMID);
  EXPECT_TRUE(wait->Changed()) << "it is gone: the kernel says so";
}

TEST_F(WaitsTest, ClockReadsWaitUntilTheirDeadline) {
  const ClockWait wait(CallOf(getpid(), kCall, SYS_clock_gettime, {}), kNow);
  EXPECT_TRUE(wait.is_clock());
  EXPECT_EQ(wait.verdict(), Verdict::kWait);
  EXPECT_EQ(wait.deadline(), kNow);
  EXPECT_EQ(wait.id(), kCall);
  EXPECT_EQ(wait.thread(), getpid());
  EXPECT_FALSE(Parse(SYS_nanosleep, {kTimeout, 0})->is_clock());
}

}  // namespace
}  // namespace phantora
