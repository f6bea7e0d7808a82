// Waits for descriptors, which are this process's own, from their arguments to their answers.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <vector>

#include "trap/time/waits/transfer_wait.h"
#include "trap/time/waits/waits_harness.h"

namespace phantora {
namespace {

using WatchedWaitsTest = WaitsTest;

TEST_F(WatchedWaitsTest, PollTimesOut) {
  memory_->PutAll(kArray, std::vector<pollfd>{{3, POLLIN, 9}, {-1, POLLIN, 9}, {4, POLLOUT, 9}});
  const auto wait = Parse(SYS_poll, {kArray, 3, 250});
  EXPECT_EQ(wait->verdict(), Verdict::kWait);
  EXPECT_EQ(wait->deadline(), Later(250'000'000));
  EXPECT_EQ(TimeOut(*wait, wait->deadline()), FakeListener::Value(0));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(memory_->Get<pollfd>(kArray + 8 * i).revents, 0) << i;
  EXPECT_EQ(memory_->Get<pollfd>(kArray).fd, 3);
  EXPECT_EQ(Interrupt(*wait, kNow), FakeListener::Error(EINTR));
}

TEST_F(WatchedWaitsTest, PollThatDoesNotWaitIsTheKernels) {
  memory_->PutAll(kArray, std::vector<pollfd>{{3, POLLIN, 0}});
  EXPECT_EQ(Parse(SYS_poll, {kArray, 1, 0})->verdict(), Verdict::kContinue);
  // Where such calls are trapped.
  const auto without_end = Parse(SYS_poll, {kArray, 1, static_cast<uint32_t>(-1)});
  EXPECT_EQ(without_end->verdict(), Verdict::kWait);
  EXPECT_EQ(without_end->deadline(), VirtualTime::Infinity());
  EXPECT_EQ(Parse(SYS_ppoll, {kArray, 1, 0, 0})->deadline(), VirtualTime::Infinity());
  ExpectError(EFAULT, SYS_poll, {kNowhere, 1, 10});
  ExpectError(EFAULT, SYS_poll, {kArray, 2, 10});
  for (const uint64_t count : {uint64_t{4097}, uint64_t{0xffffffff}}) {
    const auto wait = Parse(SYS_poll, {kArray, count, 10});
    EXPECT_EQ(wait->verdict(), Verdict::kContinue);
    EXPECT_NE(wait->left_to_kernel(), nullptr);
  }
  EXPECT_EQ(Parse(SYS_poll, {0, 0, 10})->verdict(), Verdict::kWait) << "a sleep";
}

TEST_F(WatchedWaitsTest, PollAnswersWhatIsReadyByTheEntriesItBeganWith) {
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

TEST_F(WatchedWaitsTest, PollWaitsOnWhenSomebodyElseHasReadWhatWasReady) {
  const UniqueFd file(eventfd(1, EFD_NONBLOCK));
  memory_->PutAll(kArray, std::vector<pollfd>{{file.get(), POLLIN, 0}});
  const auto wait = Parse(SYS_poll, {kArray, 1, 250});
  ASSERT_GE(wait->WatchDescriptors(self_.get(), 10), 0);
  EXPECT_TRUE(wait->CollectReady());
  eventfd_t value;
  ASSERT_EQ(eventfd_read(file.get(), &value), 0);
  EXPECT_FALSE(wait->CollectReady());
}

TEST_F(WatchedWaitsTest, DescriptorsThatCannotBeWatchedAreTheKernels) {
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

TEST_F(WatchedWaitsTest, ASignalfdIsWaitedForByItsSignals) {
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

TEST_F(WatchedWaitsTest, PpollTellsWhatIsLeft) {
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

TEST_F(WatchedWaitsTest, SelectWatchesTheUnionOfItsSetsAndClearsThemAtItsEnd) {
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

TEST_F(WatchedWaitsTest, SelectWithBadArguments) {
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

TEST_F(WatchedWaitsTest, Pselect6TellsWhatIsLeftAsATimespec) {
  const auto wait = Parse(SYS_pselect6, {0, 0, 0, 0, kTimeout, 0});
  EXPECT_EQ(wait->deadline(), Later(kNanosecondsPerSecond + 500));
  EXPECT_EQ(Interrupt(*wait, Later(400)), FakeListener::Error(EINTR));
  EXPECT_EQ(memory_->Get<timespec>(kTimeout).tv_nsec, 100);
  ExpectTimeoutIsChecked(SYS_pselect6, {0, 0, 0, 0, kTimeout, 0});
}

TEST_F(WatchedWaitsTest, EpollWaitsForItsSet) {
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
  EXPECT_EQ(Parse(SYS_epoll_pwait, {number, kArray, 1, ~uint64_t{0}})->deadline(),
            VirtualTime::Infinity());
  EXPECT_EQ(Parse(SYS_epoll_pwait2, {number, kArray, 1, 0, 0})->deadline(),
            VirtualTime::Infinity());
  EXPECT_EQ(Parse(SYS_epoll_pwait2, {number, kArray, 1, kTimeout, 0})->deadline(),
            Later(kNanosecondsPerSecond + 500));
  ExpectTimeoutIsChecked(SYS_epoll_pwait2, {number, kArray, 1, kTimeout, 0});
}

TEST_F(WatchedWaitsTest, MessageQueuesHaveAbsoluteTimeouts) {
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

TEST_F(WatchedWaitsTest, TransfersWaitForTheirDescriptor) {
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

}  // namespace
}  // namespace phantora
