// Calls about timers, made by this process, which gets the signals and owns the descriptors.
#include "trap/time/timers/virtual_timers.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

constexpr VirtualTime kNow = VirtualTime::FromNanoseconds(10'000 * kNanosecondsPerSecond);
constexpr int64_t kRealtimeOffset = 1'700'000'000 * kNanosecondsPerSecond;
constexpr uint64_t kNowhere = 8;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

VirtualTime Later(int64_t nanoseconds) { return kNow + VirtualSpan::Nanoseconds(nanoseconds); }
template <typename T>
uint64_t AddressOf(T* object) {
  return reinterpret_cast<uint64_t>(object);
}

// The kernel's struct sigevent.
struct Event {
  uint64_t value = 0;
  int32_t signal = 0, notify = SIGEV_SIGNAL, thread = 0;
};

class VirtualTimersTest : public ::testing::Test {
 protected:
  VirtualTimersTest() : self_(getpid()) {
    self_.pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    sigemptyset(&signals_);
    for (const int signal : {SIGALRM, SIGUSR1, SIGRTMIN}) sigaddset(&signals_, signal);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
    while (Taken()) {
    }
  }

  FakeListener::Answer Serve(int call, std::initializer_list<uint64_t> arguments,
                             VirtualTime now = kNow) {
    EXPECT_TRUE(VirtualTimers::Serves(call));
    FakeListener listener;
    timers_.Serve(TrappedCall(CallOf(getpid(), 1, call, arguments), self_, listener), now);
    EXPECT_EQ(listener.doubles(), 0);
    return listener.AnswerOf(1).value();
  }
  int Create(Event event, int clock = CLOCK_MONOTONIC) {
    int id = 0;
    EXPECT_EQ(
        Serve(SYS_timer_create, {static_cast<uint64_t>(clock), AddressOf(&event), AddressOf(&id)}),
        FakeListener::Value(0));
    return id;
  }
  FakeListener::Answer SetTime(int id, itimerspec setting, int flags = 0, VirtualTime now = kNow) {
    return Serve(SYS_timer_settime,
                 {static_cast<uint64_t>(id), static_cast<uint64_t>(flags), AddressOf(&setting), 0},
                 now);
  }
  // The next signal that was sent, if there is one.
  std::optional<siginfo_t> Taken() {
    siginfo_t info{};
    const timespec at_once{};
    return sigtimedwait(&signals_, &info, &at_once) > 0 ? std::optional(info) : std::nullopt;
  }
  bool Expire(VirtualTime now) { return timers_.ExpireDue(getpid(), now); }

  Tracee self_;
  sigset_t signals_;
  VirtualTimers timers_{kRealtimeOffset, [this] {
                          return std::vector<std::pair<pid_t, int>>{{getpid(), self_.pidfd.get()}};
                        }};
};

TEST_F(VirtualTimersTest, ServesTimersOnly) {
  EXPECT_FALSE(VirtualTimers::Serves(SYS_timerfd_create));
  EXPECT_FALSE(VirtualTimers::Serves(SYS_nanosleep));
  EXPECT_EQ(timers_.Earliest(), VirtualTimers::Due());
  EXPECT_FALSE(Expire(VirtualTime::Infinity()));
}

// --- alarm and setitimer -------------------------------------------------------------------------

TEST_F(VirtualTimersTest, AlarmSendsOneSignalAndTellsTheRestInWholeSeconds) {
  EXPECT_EQ(Serve(SYS_alarm, {10}), FakeListener::Value(0));
  EXPECT_EQ(timers_.Earliest(), (VirtualTimers::Due{Later(10 * kNanosecondsPerSecond), getpid()}));
  EXPECT_EQ(Serve(SYS_alarm, {3}, Later(5'400'000'000)), FakeListener::Value(5)) << "4.6 s";
  EXPECT_EQ(Serve(SYS_alarm, {2}, Later(8'390'000'000)), FakeListener::Value(1)) << "0.01 s";
  EXPECT_FALSE(Expire(Later(9'000'000'000)));
  EXPECT_TRUE(Expire(Later(10'390'000'000)));
  const auto signal = Taken();
  ASSERT_TRUE(signal.has_value());
  EXPECT_EQ(signal->si_signo, SIGALRM);
  EXPECT_EQ(Taken(), std::nullopt);
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
  EXPECT_EQ(Serve(SYS_alarm, {0}), FakeListener::Value(0));
  EXPECT_EQ(Serve(SYS_alarm, {0xffffffff}), FakeListener::Value(0));
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity()) << "136 years";
}

TEST_F(VirtualTimersTest, IntervalTimersRepeatAndTellWhatIsLeft) {
  itimerval setting{.it_interval = {1, 0}, .it_value = {0, 500'000}}, left{}, old{};
  EXPECT_EQ(Serve(SYS_setitimer, {ITIMER_REAL, AddressOf(&setting), 0}), FakeListener::Value(0));
  EXPECT_EQ(Serve(SYS_getitimer, {ITIMER_REAL, AddressOf(&left)}, Later(100'000'500)),
            FakeListener::Value(0));
  EXPECT_EQ(left.it_value.tv_usec, 400'000) << "rounded up";
  EXPECT_EQ(left.it_interval.tv_sec, 1);
  EXPECT_TRUE(Expire(Later(500'000'000)));
  EXPECT_TRUE(Taken().has_value());
  EXPECT_EQ(timers_.Earliest().time, Later(1'500'000'000));
  // A null pointer disarms, and tells what was.
  EXPECT_EQ(Serve(SYS_setitimer, {ITIMER_REAL, 0, AddressOf(&old)}, Later(700'000'000)),
            FakeListener::Value(0));
  EXPECT_EQ(old.it_value.tv_usec, 800'000);
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
}

TEST_F(VirtualTimersTest, IntervalTimersWithBadArguments) {
  itimerval setting{};
  for (const timeval& bad : {timeval{-1, 0}, {0, -1}, {0, 1'000'000}}) {
    setting = {.it_interval = {}, .it_value = bad};
    EXPECT_EQ(Serve(SYS_setitimer, {0, AddressOf(&setting), 0}), FakeListener::Error(EINVAL));
    setting = {.it_interval = bad, .it_value = {1, 0}};
    EXPECT_EQ(Serve(SYS_setitimer, {0, AddressOf(&setting), 0}), FakeListener::Error(EINVAL));
  }
  EXPECT_EQ(Serve(SYS_setitimer, {0, kNowhere, 0}), FakeListener::Error(EFAULT));
  EXPECT_EQ(Serve(SYS_getitimer, {0, kNowhere}), FakeListener::Error(EFAULT));
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
  setting = {.it_interval = {kMost, 0}, .it_value = {kMost, 999'999}};
  EXPECT_EQ(Serve(SYS_setitimer, {0, AddressOf(&setting), kNowhere}), FakeListener::Error(EFAULT))
      << "set, as the kernel does";
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
}

// --- POSIX timers --------------------------------------------------------------------------------

TEST_F(VirtualTimersTest, PosixTimersSendTheirSignalWithItsValue) {
  const int id = Create({.value = 77, .signal = SIGUSR1});
  EXPECT_EQ(SetTime(id, {.it_interval = {}, .it_value = {1, 0}}), FakeListener::Value(0));
  EXPECT_FALSE(Expire(Later(999'999'999)));
  EXPECT_TRUE(Expire(Later(1'000'000'000)));
  const auto signal = Taken();
  ASSERT_TRUE(signal.has_value());
  EXPECT_EQ(signal->si_signo, SIGUSR1);
  EXPECT_EQ(signal->si_code, SI_TIMER);
  EXPECT_EQ(signal->si_value.sival_ptr, reinterpret_cast<void*>(77));
  EXPECT_EQ(signal->si_overrun, 0);
  EXPECT_FALSE(Expire(VirtualTime::Infinity()));
  itimerspec left{.it_interval = {}, .it_value = {9, 9}};
  EXPECT_EQ(Serve(SYS_timer_gettime, {static_cast<uint64_t>(id), AddressOf(&left)}),
            FakeListener::Value(0));
  EXPECT_TRUE(IsZero(left.it_value));
}

TEST_F(VirtualTimersTest, AThreadMayGetTheSignal) {
  const int id = Create({.signal = SIGRTMIN, .notify = SIGEV_THREAD_ID, .thread = getpid()});
  SetTime(id, {.it_interval = {}, .it_value = {0, 1}});
  EXPECT_TRUE(Expire(Later(1)));
  EXPECT_TRUE(Taken().has_value());
}

TEST_F(VirtualTimersTest, ExpirationsWhileTheSignalIsPendingAreOverruns) {
  const auto id = static_cast<uint64_t>(Create({.signal = SIGUSR1}));
  SetTime(static_cast<int>(id), {.it_interval = {1, 0}, .it_value = {1, 0}});
  EXPECT_TRUE(Expire(Later(3 * kNanosecondsPerSecond)));
  EXPECT_EQ(Serve(SYS_timer_getoverrun, {id}), FakeListener::Value(2));
  EXPECT_TRUE(Expire(Later(4 * kNanosecondsPerSecond)));
  EXPECT_EQ(Serve(SYS_timer_getoverrun, {id}), FakeListener::Value(3));
  EXPECT_TRUE(Taken().has_value());
  EXPECT_EQ(Taken(), std::nullopt) << "one signal is queued at most";
  EXPECT_TRUE(Expire(Later(5 * kNanosecondsPerSecond)));
  EXPECT_EQ(Serve(SYS_timer_getoverrun, {id}), FakeListener::Value(0));
  SetTime(static_cast<int>(id), {.it_interval = {}, .it_value = {}});
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
}

TEST_F(VirtualTimersTest, SignalsOfSeveralTimersComeInTheOrderOfTheirDeadlines) {
  const int first = Create({.value = 1, .signal = SIGRTMIN});
  const int second = Create({.value = 2, .signal = SIGRTMIN + 1});
  sigaddset(&signals_, SIGRTMIN + 1);
  sigprocmask(SIG_BLOCK, &signals_, nullptr);
  SetTime(first, {.it_interval = {}, .it_value = {0, 2'000}});
  SetTime(second, {.it_interval = {}, .it_value = {0, 1'000}});
  EXPECT_EQ(timers_.Earliest().time, Later(1'000));
  EXPECT_TRUE(Expire(Later(1'500)));
  EXPECT_EQ(Taken()->si_signo, SIGRTMIN + 1);
  EXPECT_EQ(timers_.Earliest().time, Later(2'000));
}

TEST_F(VirtualTimersTest, AbsolutePosixTimersOfBothClocks) {
  const int monotonic = Create({.signal = SIGUSR1});
  const int realtime = Create({.signal = SIGUSR1}, CLOCK_REALTIME);
  SetTime(monotonic, {.it_interval = {}, .it_value = {10'005, 0}}, TIMER_ABSTIME);
  SetTime(realtime, {.it_interval = {}, .it_value = {1'700'010'004, 0}}, TIMER_ABSTIME);
  EXPECT_EQ(timers_.Earliest().time, Later(4 * kNanosecondsPerSecond));
  SetTime(realtime, {.it_interval = {}, .it_value = {3, 0}}, TIMER_ABSTIME);
  EXPECT_LE(timers_.Earliest().time, kNow) << "in the past: at once";
  EXPECT_TRUE(Expire(kNow));
  EXPECT_TRUE(Taken().has_value());
}

TEST_F(VirtualTimersTest, TimersThatNobodyIsToldOfDoNotMoveTime) {
  const int id = Create({.notify = SIGEV_NONE});
  SetTime(id, {.it_interval = {2, 0}, .it_value = {1, 0}});
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
  EXPECT_TRUE(timers_.Processes().empty());
  itimerspec left{};
  Serve(SYS_timer_gettime, {static_cast<uint64_t>(id), AddressOf(&left)},
        Later(2 * kNanosecondsPerSecond));
  EXPECT_EQ(left.it_value.tv_sec, 1);
}

TEST_F(VirtualTimersTest, PosixTimersWithBadArguments) {
  int id = 0;
  Event event{.signal = SIGUSR1};
  const uint64_t out = AddressOf(&id);
  EXPECT_EQ(Serve(SYS_timer_create, {CLOCK_MONOTONIC, kNowhere, out}), FakeListener::Error(EFAULT));
  EXPECT_EQ(Serve(SYS_timer_create, {CLOCK_MONOTONIC, 0, kNowhere}), FakeListener::Error(EFAULT));
  for (const Event& bad :
       {Event{.signal = 0}, {.signal = 65}, {.signal = -1}, {.signal = SIGUSR1, .notify = 99}}) {
    event = bad;
    EXPECT_EQ(Serve(SYS_timer_create, {CLOCK_MONOTONIC, AddressOf(&event), out}),
              FakeListener::Error(EINVAL));
  }
  for (const int clock : {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW,
                          CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, 12, -6}) {
    EXPECT_EQ(Serve(SYS_timer_create, {static_cast<uint64_t>(clock), 0, out}),
              FakeListener::Continue())
        << clock;
  }
  id = Create({.signal = SIGUSR1});
  EXPECT_EQ(SetTime(id, {.it_interval = {}, .it_value = {0, 1'000'000'000}}),
            FakeListener::Error(EINVAL));
  EXPECT_EQ(SetTime(id, {.it_interval = {-1, 0}, .it_value = {1, 0}}), FakeListener::Error(EINVAL));
  const auto number = static_cast<uint64_t>(id);
  EXPECT_EQ(Serve(SYS_timer_settime, {number, 0, kNowhere, 0}), FakeListener::Error(EFAULT));
  itimerspec setting{.it_interval = {}, .it_value = {1, 0}};
  EXPECT_EQ(Serve(SYS_timer_settime, {number, 0, AddressOf(&setting), kNowhere}),
            FakeListener::Error(EFAULT));
  EXPECT_EQ(Serve(SYS_timer_gettime, {number, kNowhere}), FakeListener::Error(EFAULT));
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
  for (const int call :
       {SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete}) {
    EXPECT_EQ(Serve(call, {3, 0, 0, 0}), FakeListener::Continue()) << "the kernel's own";
  }
}

TEST_F(VirtualTimersTest, AProcessHasOnlySoManyTimersAndLosesThemWithItsProgram) {
  int id = 0;
  std::vector<int> ids;
  for (int i = 0; i < 4096; ++i) ids.push_back(Create({.signal = SIGUSR1}));
  EXPECT_EQ(Serve(SYS_timer_create, {CLOCK_MONOTONIC, 0, AddressOf(&id)}),
            FakeListener::Error(EAGAIN));
  EXPECT_EQ(Serve(SYS_timer_delete, {static_cast<uint64_t>(ids[7])}), FakeListener::Value(0));
  EXPECT_EQ(Serve(SYS_timer_delete, {static_cast<uint64_t>(ids[7])}), FakeListener::Continue());
  Create({.signal = SIGUSR1});
  SetTime(ids[9], {.it_interval = {}, .it_value = {1, 0}});
  Serve(SYS_alarm, {5});
  timers_.NewProgram(getpid());
  EXPECT_EQ(timers_.Earliest().time, Later(5 * kNanosecondsPerSecond)) << "alarms stay";
  EXPECT_EQ(SetTime(ids[9], {}), FakeListener::Continue());
  timers_.ProcessDied(getpid());
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
}

// --- timerfd -------------------------------------------------------------------------------------

class TimerfdTest : public VirtualTimersTest {
 protected:
  FakeListener::Answer Set(itimerspec setting, uint64_t flags = 0, VirtualTime now = kNow) {
    return Serve(SYS_timerfd_settime, {number(), flags, AddressOf(&setting), 0}, now);
  }
  itimerspec Left(VirtualTime now) {
    itimerspec left{};
    EXPECT_EQ(Serve(SYS_timerfd_gettime, {number(), AddressOf(&left)}, now),
              FakeListener::Value(0));
    return left;
  }
  bool Readable() {
    pollfd look{file_.get(), POLLIN, 0};
    return poll(&look, 1, 0) > 0;
  }
  uint64_t ReadTicks() {
    uint64_t ticks = 0;
    timers_.BeforeRead(file_.get());
    return read(file_.get(), &ticks, sizeof ticks) == sizeof ticks ? ticks : 0;
  }
  uint64_t number() const { return static_cast<uint64_t>(file_.get()); }

  UniqueFd file_{timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
};

TEST_F(TimerfdTest, BecomesReadableInSimulatedTimeOnly) {
  EXPECT_TRUE(IsZero(Left(kNow).it_value));
  EXPECT_EQ(Set({.it_interval = {}, .it_value = {0, 1}}), FakeListener::Value(0));
  EXPECT_EQ(timers_.Earliest(), (VirtualTimers::Due{Later(1), getpid()}));
  EXPECT_FALSE(Readable());
  EXPECT_TRUE(Expire(Later(1)));
  EXPECT_TRUE(Readable());
  EXPECT_EQ(ReadTicks(), 1u);
  EXPECT_FALSE(Readable());
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
}

TEST_F(TimerfdTest, TellsHowOftenItHasExpired) {
  Set({.it_interval = {1, 0}, .it_value = {1, 0}});
  EXPECT_TRUE(Expire(Later(1'000'000'000)));
  EXPECT_TRUE(Expire(Later(4'500'000'000)));
  EXPECT_EQ(ReadTicks(), 4u) << "at 1, 2, 3 and 4 s";
  EXPECT_EQ(Left(Later(4'500'000'000)).it_value.tv_nsec, 500'000'000);
  EXPECT_TRUE(Expire(Later(5'000'000'000)));
  EXPECT_EQ(ReadTicks(), 1u);
}

TEST_F(TimerfdTest, SettingItTakesBackWhatNobodyHasRead) {
  Set({.it_interval = {}, .it_value = {0, 1}});
  Expire(Later(1));
  Set({.it_interval = {}, .it_value = {10'007, 0}}, TFD_TIMER_ABSTIME);
  EXPECT_FALSE(Readable());
  itimerspec old{}, none{};
  EXPECT_EQ(Serve(SYS_timerfd_settime, {number(), 0, AddressOf(&none), AddressOf(&old)}),
            FakeListener::Value(0));
  EXPECT_EQ(old.it_value.tv_sec, 7);
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
}

TEST_F(TimerfdTest, BadArguments) {
  EXPECT_EQ(Set({.it_interval = {}, .it_value = {0, -1}}), FakeListener::Error(EINVAL));
  EXPECT_EQ(Set({.it_interval = {0, 1'000'000'000}, .it_value = {1, 0}}),
            FakeListener::Error(EINVAL));
  EXPECT_EQ(Set({.it_interval = {}, .it_value = {1, 0}}, 8), FakeListener::Error(EINVAL));
  EXPECT_EQ(Serve(SYS_timerfd_settime, {number(), 0, kNowhere, 0}), FakeListener::Error(EFAULT));
  EXPECT_EQ(Serve(SYS_timerfd_gettime, {number(), kNowhere}), FakeListener::Error(EFAULT));
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
  for (const uint64_t other : {uint64_t{1'000'000}, ~uint64_t{0}, uint64_t{0}}) {
    EXPECT_EQ(Serve(SYS_timerfd_gettime, {other, 0}), FakeListener::Continue()) << "no timerfd";
    EXPECT_EQ(Serve(SYS_timerfd_settime, {other, 0, 0, 0}), FakeListener::Continue());
  }
}

TEST_F(TimerfdTest, IsFoundWhereverItHasGoneAndForgottenWhenItIsClosed) {
  Set({.it_interval = {1, 0}, .it_value = {1, 0}});
  UniqueFd moved(dup(file_.get()));
  file_ = std::move(moved);
  EXPECT_TRUE(Expire(Later(1'000'000'000)));
  EXPECT_EQ(ReadTicks(), 1u);
  // Whoever set it has died; somebody still has it.
  timers_.ProcessDied(getpid());
  EXPECT_EQ(timers_.Earliest().time, Later(2'000'000'000));
  file_.reset();
  EXPECT_TRUE(Expire(Later(2'000'000'000)));
  EXPECT_EQ(timers_.Earliest().time, VirtualTime::Infinity());
}

}  // namespace
}  // namespace phantora
