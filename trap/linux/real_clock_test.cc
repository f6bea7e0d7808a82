#include "trap/linux/real_clock.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "trap/linux/fake_real_clock.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

int64_t Nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

TEST(RealClockTest, TellsTheHostsClocks) {
  const RealClock& clock = RealClock::Host();
  for (const auto& [id, read] : {std::pair{CLOCK_MONOTONIC, &RealClock::Monotonic},
                                 {CLOCK_REALTIME, &RealClock::Realtime}}) {
    const int64_t before = Nanoseconds(id);
    const int64_t told = (clock.*read)();
    EXPECT_LE(before, told);
    EXPECT_LE(told, Nanoseconds(id));
  }
  const int64_t before = Nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  const int64_t told = clock.ProcessorTime(getpid());
  EXPECT_LE(before, told);
  EXPECT_LE(told, Nanoseconds(CLOCK_PROCESS_CPUTIME_ID));
}

TEST(RealClockTest, AsleepItDoesNotWakeEarly) {
  const RealClock& clock = RealClock::Host();
  const int64_t before = clock.Monotonic();
  clock.Sleep(2'000'000);
  EXPECT_GE(clock.Monotonic() - before, 2'000'000);
}

TEST(RealClockTest, TellsHowLongOthersHaveRun) {
  const pid_t child = fork();
  if (child == 0) {
    while (Nanoseconds(CLOCK_PROCESS_CPUTIME_ID) < 5'000'000) {
    }
    kill(getpid(), SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  const RealClock& clock = RealClock::Host();
  EXPECT_GE(clock.ProcessorTime(child), 5'000'000);
  // Its only thread, which has been off the processor since.
  EXPECT_GE(clock.ThreadProcessorTime(child), 5'000'000);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(clock.ProcessorTime(child), 0) << "it is gone";
  EXPECT_EQ(clock.ThreadProcessorTime(child), 0) << "it is gone";
}

TEST(FakeRealClockTest, MovesOnlyWhenTold) {
  FakeRealClock clock(7, 1'000);
  EXPECT_EQ(clock.Monotonic(), 7);
  EXPECT_EQ(clock.Realtime(), 1'000);
  clock.Pass(3);
  clock.Sleep(10);
  EXPECT_EQ(clock.Monotonic(), 20);
  EXPECT_EQ(clock.Realtime(), 1'013);
  EXPECT_EQ(clock.ProcessorTime(1), 0);
  clock.RunProcess(1, 5);
  clock.RunThread(1, 2);
  EXPECT_EQ(clock.ProcessorTime(1), 5);
  EXPECT_EQ(clock.ThreadProcessorTime(1), 2);
  EXPECT_EQ(clock.Monotonic(), 20);
}

// Whether `timer` is readable, after waiting so many milliseconds at most.
bool IsReadable(int timer, int milliseconds) {
  pollfd readable{timer, POLLIN, 0};
  return poll(&readable, 1, milliseconds) == 1;
}

TEST(RealClockTest, ArmsATimerOnce) {
  const UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  const RealClock& clock = RealClock::Host();
  const int64_t before = clock.Monotonic();
  clock.ArmTimer(timer.get(), 2'000'000);
  ASSERT_TRUE(IsReadable(timer.get(), -1));
  EXPECT_GE(clock.Monotonic() - before, 2'000'000);
  uint64_t expirations = 0;
  ASSERT_EQ(read(timer.get(), &expirations, sizeof expirations), 8);
  EXPECT_EQ(expirations, 1u);
  clock.ArmTimer(timer.get(), 1);
  clock.ArmTimer(timer.get(), 0);
  EXPECT_FALSE(IsReadable(timer.get(), 0)) << "disarmed";
}

TEST(FakeRealClockTest, TimersExpireWhenItPasses) {
  const UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  const FakeRealClock clock;
  clock.ArmTimer(timer.get(), 10);
  clock.Pass(9);
  EXPECT_FALSE(IsReadable(timer.get(), 5));
  clock.Pass(1);
  EXPECT_TRUE(IsReadable(timer.get(), 0));
  clock.ArmTimer(timer.get(), 10);
  EXPECT_FALSE(IsReadable(timer.get(), 0)) << "armed anew";
  clock.ArmTimer(timer.get(), 0);
  clock.Pass(100);
  EXPECT_FALSE(IsReadable(timer.get(), 0)) << "disarmed";
}

}  // namespace
}  // namespace phantora
