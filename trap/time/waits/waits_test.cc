// Every kind of wait, from its arguments to its answers. What they wait for is this process's own.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_memory.h"
#include "trap/time/waits/clock_wait.h"
#include "trap/time/waits/parse_wait.h"
#include "trap/time/waits/transfer_wait.h"
#include "trap/time/waits/wait_arguments.h"

namespace phantora {
namespace {

constexpr uint64_t kCall = 42;  // notification id
// Addresses.
constexpr uint64_t kTimeout = 0x1000, kOut = 0x2000, kArray = 0x3000, kMask = 0x4000;
constexpr uint64_t kNowhere = 0xdead0000;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr VirtualTime kNow = VirtualTime::FromNanoseconds(10'000 * kNanosecondsPerSecond);
constexpr int64_t kRealtimeOffset = 1'700'000'000 * kNanosecondsPerSecond;
using Verdict = TimedWait::Verdict;

VirtualTime Later(int64_t nanoseconds) { return kNow + VirtualSpan::Nanoseconds(nanoseconds); }

class WaitsTest : public ::testing::Test {
 protected:
  WaitsTest() : self_(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))) {
    memory_->Put(kTimeout, timespec{1, 500});
    memory_->Put(kOut, timespec{-1, -1});
  }

  std::unique_ptr<TimedWait> Parse(int call, std::initializer_list<uint64_t> arguments) {
    return ParseWait(CallOf(getpid(), kCall, call, arguments),
                     {.now = kNow, .realtime_offset = kRealtimeOffset}, memory_);
  }
  void ExpectError(int error, int call, std::initializer_list<uint64_t> arguments) {
    const auto wait = Parse(call, arguments);
    EXPECT_EQ(wait->verdict(), Verdict::kInvalid);
    EXPECT_EQ(wait->error(), error);
  }
  // The timeout is neither readable nor a time.
  void ExpectTimeoutIsChecked(int call, std::initializer_list<uint64_t> arguments) {
    for (const timespec& time : {timespec{-1, 0}, {0, -1}, {0, 1'000'000'000}, {1, kMost}}) {
      memory_->Put(kTimeout, time);
      ExpectError(EINVAL, call, arguments);
    }
    auto elsewhere = std::vector<uint64_t>(arguments);
    std::replace(elsewhere.begin(), elsewhere.end(), kTimeout, kNowhere);
    auto notification = CallOf(getpid(), kCall, call, {});
    std::copy(elsewhere.begin(), elsewhere.end(), notification.data.args);
    const auto wait = ParseWait(notification, {.now = kNow}, memory_);
    EXPECT_EQ(wait->error(), EFAULT);
    memory_->Put(kTimeout, timespec{1, 500});
  }

  FakeListener::Answer TimeOut(const TimedWait& wait, VirtualTime now) {
    FakeListener listener;
    wait.TimeOut(listener, now);
    return listener.AnswerOf(kCall).value();
  }
  FakeListener::Answer Ready(const TimedWait& wait, VirtualTime now) {
    FakeListener listener;
    wait.Ready(listener, now);
    return listener.AnswerOf(kCall).value();
  }
  FakeListener::Answer Interrupt(const TimedWait& wait, VirtualTime now) {
    FakeListener listener;
    wait.Interrupt(listener, now);
    return listener.AnswerOf(kCall).value();
  }

  const std::shared_ptr<FakeMemory> memory_ = std::make_shared<FakeMemory>();
  const UniqueFd self_;
};

// --- All -----------------------------------------------------------------------------------------

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
  check(SYS_futex, {kArray, bitset, 3, kTimeout}, Later(kNanosecondsPerSecond + 500));
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

// --- Sleep ---------------------------------------------------------------------------------------

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

// --- Poll ----------------------------------------------------------------------------------------

TEST_F(WaitsTest, PollTimesOut) {
  memory_->PutAll(kArray, std::vector<pollfd>{{3, POLLIN, 9}, {-1, POLLIN, 9}, {4, POLLOUT, 9}});
  const auto wait = Parse(SYS_poll, {kArray, 3, 250});
  EXPECT_EQ(wait->verdict(), Verdict::kWait);
  EXPECT_EQ(wait->deadline(), Later(250'000'000));
  EXPECT_EQ(TimeOut(*wait, wait->deadline()), FakeListener::Value(0));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(memory_->Get<pollfd>(kArray + 8 * i).revents, 0) << i;
  EXPECT_EQ(memory_->Get<pollfd>(kArray).fd, 3);
  EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Error(EINTR));
}

TEST_F(WaitsTest, PollThatDoesNotWaitOrHasNoTimeoutIsTheKernels) {
  memory_->PutAll(kArray, std::vector<pollfd>{{3, POLLIN, 0}});
  EXPECT_EQ(Parse(SYS_poll, {kArray, 1, 0})->verdict(), Verdict::kContinue);
  EXPECT_EQ(Parse(SYS_poll, {kArray, 1, static_cast<uint32_t>(-1)})->verdict(), Verdict::kContinue);
  ExpectError(EFAULT, SYS_poll, {kNowhere, 1, 10});
  ExpectError(EFAULT, SYS_poll, {kArray, 2, 10});
  for (const uint64_t count : {uint64_t{4097}, uint64_t{0xffffffff}}) {
    const auto wait = Parse(SYS_poll, {kArray, count, 10});
    EXPECT_EQ(wait->verdict(), Verdict::kContinue);
    EXPECT_NE(wait->left_to_kernel(), nullptr);
  }
  EXPECT_EQ(Parse(SYS_poll, {0, 0, 10})->verdict(), Verdict::kWait) << "a sleep";
}

TEST_F(WaitsTest, PollAnswersWhatIsReadyByTheEntriesItBeganWith) {
  const UniqueFd quiet(eventfd(0, EFD_NONBLOCK)), rings(eventfd(0, EFD_NONBLOCK));
  memory_->PutAll(
      kArray, std::vector<pollfd>{
                  {quiet.get(), POLLIN, 0}, {-5, POLLIN, 0}, {rings.get(), POLLIN | POLLOUT, 0}});
  const auto wait = Parse(SYS_poll, {kArray, 3, 250});
  const int watched = wait->WatchDescriptors(self_.get(), 10);
  ASSERT_GE(watched, 0);
  EXPECT_EQ(wait->watched(), watched);
  EXPECT_EQ(wait->copies(), 2u);
  pollfd look{watched, POLLIN, 0};
  EXPECT_EQ(poll(&look, 1, 0), 1) << "an eventfd can be written to";
  eventfd_write(rings.get(), 1);
  ASSERT_TRUE(wait->CollectReady());
  // Somebody changes the entries meanwhile: that is left alone, and does not count.
  memory_->Put(kArray + 16, pollfd{77, POLLHUP, 0});
  EXPECT_EQ(Ready(*wait, kNow), FakeListener::Value(1));
  EXPECT_EQ(memory_->Get<pollfd>(kArray).revents, 0);
  EXPECT_EQ(memory_->Get<pollfd>(kArray + 16).revents, POLLIN | POLLOUT);
  EXPECT_EQ(memory_->Get<pollfd>(kArray + 16).fd, 77);
  memory_->MakeReadOnly();
  EXPECT_EQ(Ready(*wait, kNow), FakeListener::Continue()) << "the kernel says why";
  wait->ReleaseDescriptors();
  EXPECT_EQ(wait->copies(), 0u);
  EXPECT_EQ(wait->watched(), -1);
}

TEST_F(WaitsTest, PollWaitsOnWhenSomebodyElseHasReadWhatWasReady) {
  const UniqueFd file(eventfd(1, EFD_NONBLOCK));
  memory_->PutAll(kArray, std::vector<pollfd>{{file.get(), POLLIN, 0}});
  const auto wait = Parse(SYS_poll, {kArray, 1, 250});
  ASSERT_GE(wait->WatchDescriptors(self_.get(), 10), 0);
  EXPECT_TRUE(wait->CollectReady());
  eventfd_t value;
  ASSERT_EQ(eventfd_read(file.get(), &value), 0);
  EXPECT_FALSE(wait->CollectReady());
}

TEST_F(WaitsTest, DescriptorsThatCannotBeWatchedAreTheKernels) {
  memory_->PutAll(kArray, std::vector<pollfd>{{1'000'000, POLLIN, 0}});
  auto wait = Parse(SYS_poll, {kArray, 1, 250});
  EXPECT_EQ(wait->WatchDescriptors(self_.get(), 10), -1);
  EXPECT_EQ(wait->verdict(), Verdict::kContinue) << "not open";
  EXPECT_EQ(wait->left_to_kernel(), nullptr);
  const UniqueFd regular(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  memory_->PutAll(kArray, std::vector<pollfd>{{regular.get(), POLLIN, 0}});
  wait = Parse(SYS_poll, {kArray, 1, 250});
  EXPECT_EQ(wait->WatchDescriptors(self_.get(), 10), -1);
  EXPECT_EQ(wait->verdict(), Verdict::kContinue) << "a regular file is always ready";
  const UniqueFd one(eventfd(0, 0)), two(eventfd(0, 0));
  memory_->PutAll(kArray, std::vector<pollfd>{{one.get(), POLLIN, 0}, {two.get(), POLLIN, 0}});
  wait = Parse(SYS_poll, {kArray, 2, 250});
  EXPECT_EQ(wait->WatchDescriptors(self_.get(), 1), -1);
  EXPECT_NE(wait->left_to_kernel(), nullptr) << "more than may be copied";
}

TEST_F(WaitsTest, ASignalfdIsWaitedForByItsSignals) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  const UniqueFd signals(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  ASSERT_TRUE(signals.valid());
  memory_->PutAll(kArray, std::vector<pollfd>{{signals.get(), POLLIN, 0}});
  const auto wait = Parse(SYS_poll, {kArray, 1, 250});
  EXPECT_GE(wait->WatchDescriptors(self_.get(), 10), 0);
  EXPECT_EQ(wait->copies(), 0u);
  EXPECT_TRUE(wait->AwaitsSignal(uint64_t{1} << (SIGUSR1 - 1)));
  EXPECT_FALSE(wait->AwaitsSignal(uint64_t{1} << (SIGUSR2 - 1)));
  EXPECT_TRUE(wait->CollectReady()) << "only the caller can look at it";
  EXPECT_EQ(Ready(*wait, kNow), FakeListener::Continue());
}

TEST_F(WaitsTest, PpollTellsWhatIsLeft) {
  memory_->PutAll(kArray, std::vector<pollfd>{{3, POLLIN, 0}});
  const auto wait = Parse(SYS_ppoll, {kArray, 1, kTimeout, 0, 8});
  EXPECT_EQ(wait->deadline(), Later(kNanosecondsPerSecond + 500));
  EXPECT_EQ(Ready(*wait, Later(kNanosecondsPerSecond)), FakeListener::Continue());
  EXPECT_EQ(memory_->Get<timespec>(kTimeout).tv_sec, 0);
  EXPECT_EQ(memory_->Get<timespec>(kTimeout).tv_nsec, 500);
  EXPECT_EQ(TimeOut(*wait, wait->deadline()), FakeListener::Value(0));
  EXPECT_EQ(memory_->Get<timespec>(kTimeout).tv_nsec, 0);
  ExpectTimeoutIsChecked(SYS_ppoll, {kArray, 1, kTimeout, 0, 8});
}

// --- Select --------------------------------------------------------------------------------------

TEST_F(WaitsTest, SelectWatchesTheUnionOfItsSetsAndClearsThemAtItsEnd) {
  const UniqueFd file(eventfd(0, EFD_NONBLOCK));
  ASSERT_LT(file.get(), 64);
  memory_->Put(kTimeout, timeval{2, 500});
  memory_->Put(kArray, uint64_t{1} << file.get());
  memory_->Put(kOut, uint64_t{1} << file.get());
  const auto count = static_cast<uint64_t>(file.get() + 1);
  const auto wait = Parse(SYS_select, {count, kArray, kOut, 0, kTimeout});
  EXPECT_EQ(wait->deadline(), Later(2 * kNanosecondsPerSecond + 500'000));
  const int watched = wait->WatchDescriptors(self_.get(), 10);
  EXPECT_EQ(wait->copies(), 1u);
  pollfd look{watched, POLLIN, 0};
  EXPECT_EQ(poll(&look, 1, 0), 1) << "it may be written to";
  EXPECT_EQ(Ready(*wait, Later(kNanosecondsPerSecond)), FakeListener::Continue());
  EXPECT_EQ(memory_->Get<timeval>(kTimeout).tv_sec, 1);
  EXPECT_EQ(memory_->Get<timeval>(kTimeout).tv_usec, 500);
  EXPECT_EQ(TimeOut(*wait, wait->deadline()), FakeListener::Value(0));
  EXPECT_EQ(memory_->Get<uint64_t>(kArray), 0u);
  EXPECT_EQ(memory_->Get<uint64_t>(kOut), 0u);
  EXPECT_EQ(memory_->Get<timeval>(kTimeout).tv_usec, 0);
  EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Error(EINTR));
}

TEST_F(WaitsTest, SelectWithBadArguments) {
  memory_->Put(kArray, uint64_t{1});
  for (const timeval& time : {timeval{-1, 0}, {0, -1}}) {
    memory_->Put(kTimeout, time);
    ExpectError(EINVAL, SYS_select, {1, kArray, 0, 0, kTimeout});
  }
  ExpectError(EFAULT, SYS_select, {1, kArray, 0, 0, kNowhere});
  memory_->Put(kTimeout, timeval{1, 0});
  ExpectError(EFAULT, SYS_select, {1, kNowhere, 0, 0, kTimeout});
  ExpectError(EFAULT, SYS_select, {1, 0, 0, kNowhere, kTimeout});
  ExpectError(EFAULT, SYS_select, {4096, kArray, 0, 0, kTimeout});
  for (const uint64_t count : {uint64_t{4097}, uint64_t{0xffffffff}, uint64_t{0x80000000}}) {
    const auto wait = Parse(SYS_select, {count, kArray, 0, 0, kTimeout});
    EXPECT_EQ(wait->verdict(), Verdict::kContinue);
    EXPECT_NE(wait->left_to_kernel(), nullptr);
  }
  memory_->Put(kTimeout, timeval{kMost, kMost});
  EXPECT_EQ(Parse(SYS_select, {0, 0, 0, 0, kTimeout})->deadline(), VirtualTime::Infinity());
  memory_->Put(kTimeout, timeval{0, 0});
  EXPECT_EQ(Parse(SYS_select, {1, kArray, 0, 0, kTimeout})->verdict(), Verdict::kContinue);
}

TEST_F(WaitsTest, Pselect6TellsWhatIsLeftAsATimespec) {
  const auto wait = Parse(SYS_pselect6, {0, 0, 0, 0, kTimeout, 0});
  EXPECT_EQ(wait->deadline(), Later(kNanosecondsPerSecond + 500));
  EXPECT_EQ(Interrupt(*wait, Later(400)), FakeListener::Error(EINTR));
  EXPECT_EQ(memory_->Get<timespec>(kTimeout).tv_nsec, 100);
  ExpectTimeoutIsChecked(SYS_pselect6, {0, 0, 0, 0, kTimeout, 0});
}

// --- Epoll ---------------------------------------------------------------------------------------

TEST_F(WaitsTest, EpollWaitsForItsSet) {
  const UniqueFd set(epoll_create1(EPOLL_CLOEXEC)), file(eventfd(0, EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(set.get(), EPOLL_CTL_ADD, file.get(), &event), 0);
  const auto number = static_cast<uint64_t>(set.get());
  const auto wait = Parse(SYS_epoll_wait, {number, kArray, 1, 30});
  EXPECT_EQ(wait->deadline(), Later(30'000'000));
  const int watched = wait->WatchDescriptors(self_.get(), 10);
  pollfd look{watched, POLLIN, 0};
  EXPECT_EQ(poll(&look, 1, 0), 0);
  eventfd_write(file.get(), 1);
  EXPECT_EQ(poll(&look, 1, 0), 1);
  EXPECT_EQ(Ready(*wait, kNow), FakeListener::Continue());
  EXPECT_EQ(TimeOut(*wait, wait->deadline()), FakeListener::Value(0));
  EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Error(EINTR));
  EXPECT_EQ(Parse(SYS_epoll_wait, {number, kArray, 1, 0})->verdict(), Verdict::kContinue);
  EXPECT_EQ(Parse(SYS_epoll_pwait, {number, kArray, 1, ~uint64_t{0}})->verdict(),
            Verdict::kContinue);
  EXPECT_EQ(Parse(SYS_epoll_pwait2, {number, kArray, 1, kTimeout, 0})->deadline(),
            Later(kNanosecondsPerSecond + 500));
  ExpectTimeoutIsChecked(SYS_epoll_pwait2, {number, kArray, 1, kTimeout, 0});
}

// --- Futexes -------------------------------------------------------------------------------------

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
  EXPECT_EQ(Parse(SYS_futex, {kArray, FUTEX_WAIT_BITSET, 3, kTimeout})->deadline(),
            Later(2 * kNanosecondsPerSecond));
  memory_->Put(kTimeout, timespec{1'700'010'002, 0});
  EXPECT_EQ(
      Parse(SYS_futex, {kArray, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 3, kTimeout})->deadline(),
      Later(2 * kNanosecondsPerSecond));
  ExpectTimeoutIsChecked(SYS_futex, {kArray, FUTEX_WAIT_BITSET, 3, kTimeout});
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

// --- Signals, queues, semaphores, transfers, clocks ----------------------------------------------

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

TEST_F(WaitsTest, MessageQueuesHaveAbsoluteTimeouts) {
  const UniqueFd file(eventfd(0, EFD_NONBLOCK));
  memory_->Put(kTimeout, timespec{1'700'010'002, 0});
  for (const int call : {SYS_mq_timedsend, SYS_mq_timedreceive}) {
    const auto wait = Parse(call, {static_cast<uint64_t>(file.get()), 0, 0, 0, kTimeout});
    EXPECT_EQ(wait->deadline(), Later(2 * kNanosecondsPerSecond));
    pollfd look{wait->WatchDescriptors(self_.get(), 10), POLLIN, 0};
    EXPECT_EQ(poll(&look, 1, 0), call == SYS_mq_timedsend ? 1 : 0);
    EXPECT_EQ(TimeOut(*wait, kNow), FakeListener::Error(ETIMEDOUT));
    EXPECT_EQ(Ready(*wait, kNow), FakeListener::Continue());
    ExpectTimeoutIsChecked(call, {0, 0, 0, 0, kTimeout});
    memory_->Put(kTimeout, timespec{1'700'010'002, 0});
  }
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

TEST_F(WaitsTest, TransfersWaitForTheirDescriptor) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd first(ends[0]), second(ends[1]);
  const TransferCall call{
      .kind = TransferCall::Kind::kReceive, .descriptor = first.get(), .bytes = 10};
  TransferWait wait(CallOf(getpid(), kCall, SYS_read, {}), call, VirtualTime::Infinity());
  EXPECT_EQ(wait.copy(), -1);
  pollfd look{wait.WatchDescriptors(self_.get(), 10), POLLIN, 0};
  EXPECT_EQ(poll(&look, 1, 0), 0);
  EXPECT_GE(wait.copy(), 0);
  ASSERT_EQ(write(second.get(), "x", 1), 1);
  EXPECT_EQ(poll(&look, 1, 0), 1);
  EXPECT_TRUE(wait.CollectReady());
  ASSERT_NE(wait.transfer(), nullptr);
  EXPECT_EQ(wait.transfer()->bytes, 10u);
  EXPECT_EQ(Ready(wait, kNow), FakeListener::Continue());
  EXPECT_EQ(Interrupt(wait, kNow), FakeListener::Continue()) << "restarted, or not, by the kernel";
  EXPECT_EQ(TimeOut(wait, kNow), FakeListener::Error(EAGAIN));
  EXPECT_EQ(Parse(SYS_nanosleep, {kTimeout, 0})->transfer(), nullptr);
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
