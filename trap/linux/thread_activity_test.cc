#include "trap/linux/thread_activity.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_real_clock.h"

namespace phantora {
namespace {

class ThreadActivityTest : public ::testing::Test {
 protected:
  bool AllBlocked(std::vector<pid_t> processes = {10}) {
    return activity_.AllBlocked(processes, [this](pid_t thread) { return held_.contains(thread); });
  }

  FakeProc files_;
  // Of processes that no test has run it knows nothing, as of such that are gone.
  FakeRealClock clock_;
  ThreadActivity activity_{&files_, &clock_};
  std::set<pid_t> held_;
};

TEST_F(ThreadActivityTest, WhoSleepsIsBlocked) {
  files_.Sleeps(10, 10, 5);
  files_.Sleeps(10, 11, 7);
  EXPECT_TRUE(AllBlocked());
  EXPECT_TRUE(AllBlocked());
}

TEST_F(ThreadActivityTest, WhoRunsIsNot) {
  files_.Sleeps(10, 10, 5);
  files_.Set(10, 11, 'R', 7, "running");
  EXPECT_FALSE(AllBlocked());
  EXPECT_EQ(activity_.running(), 11);
  EXPECT_FALSE(activity_.saw_dying());
}

TEST_F(ThreadActivityTest, HeldThreadsAreNotAskedFor) {
  files_.Sleeps(10, 10, 5);
  files_.Set(10, 11, 'R', 7, "running");
  held_ = {11};
  EXPECT_TRUE(AllBlocked());
}

TEST_F(ThreadActivityTest, WhoIsAboutToSleepMayYetFindThatItNeedNot) {
  files_.AboutToSleep(10, 10, 5);
  EXPECT_FALSE(AllBlocked());
  EXPECT_EQ(activity_.running(), 10);
  files_.Sleeps(10, 10, 6);
  EXPECT_TRUE(AllBlocked());
}

TEST_F(ThreadActivityTest, WhoHasBeenWokenRunsThoughItHasNotRunYet) {
  files_.Sleeps(10, 10, 5);
  ASSERT_TRUE(AllBlocked());
  // Same time slices: it waits for a processor.
  files_.Set(10, 10, 'R', 5, "running");
  EXPECT_FALSE(AllBlocked());
}

TEST_F(ThreadActivityTest, WhoIsOnItsWayToAProcessorIsAsleepByItsCallOnly) {
  for (const bool exact : {true, false}) {
    files_.channels_are_exact = exact;
    ThreadActivity activity(&files_, &clock_);
    const auto held = [](pid_t) { return false; };
    files_.Sleeps(10, 10, 5);
    EXPECT_TRUE(activity.AllBlocked({10}, held));
    files_.Woken(10, 10, 5);
    EXPECT_FALSE(activity.AllBlocked({10}, held));
    EXPECT_FALSE(activity.AllBlocked({10}, held)) << "who ran last";
    files_.Sleeps(10, 10, 6);
    EXPECT_TRUE(activity.AllBlocked({10}, held));
  }
}

TEST_F(ThreadActivityTest, AChannelThatIsNotToldIsNotMissed) {
  // Without the kernel's symbols all channels are 0.
  files_.Sleeps(10, 10, 5);
  files_.SetFile(10, 10, "wchan", "0");
  EXPECT_TRUE(AllBlocked());
  EXPECT_TRUE(AllBlocked());
  files_.AboutToSleep(10, 10, 5);
  EXPECT_FALSE(AllBlocked());
}

TEST_F(ThreadActivityTest, WhoHasRunBetweenTheTwoLooksWasWoken) {
  files_.Sleeps(10, 10, 5);
  files_.Sleeps(10, 11, 5);
  // The second thread wakes the first after that was looked at, and sleeps before it is itself.
  int looks_at_second = 0;
  files_.on_read = [&](pid_t thread, const std::string& name) {
    if (thread == 11 && name == "schedstat" && ++looks_at_second == 1) files_.Sleeps(10, 10, 6);
  };
  EXPECT_FALSE(AllBlocked());
  EXPECT_EQ(activity_.running(), 10);
  EXPECT_TRUE(AllBlocked());
}

TEST_F(ThreadActivityTest, OneLookIsEnoughIfNobodyHasRunMeanwhile) {
  files_.Sleeps(10, 10, 5);
  files_.Sleeps(20, 20, 5);
  clock_.RunProcess(10, 1000);
  clock_.RunProcess(20, 1000);
  ASSERT_TRUE(AllBlocked({10, 20}));
  EXPECT_EQ(files_.lists, 2) << "one look at each";
  // Nor are those asked whether they have run that have not.
  std::vector<std::string> read;
  files_.on_read = [&](pid_t, const std::string& name) { read.push_back(name); };
  EXPECT_TRUE(AllBlocked({10, 20}));
  EXPECT_EQ(read, (std::vector<std::string>{"wchan", "wchan"}));
  files_.AboutToSleep(20, 20, 5);
  EXPECT_FALSE(AllBlocked({10, 20})) << "woken, though it has not run yet";
  EXPECT_EQ(activity_.running(), 20);
}

TEST_F(ThreadActivityTest, WhoWaitsForAFutexIsNotAskedAgainUntilSomebodyMayHaveWokenIt) {
  const std::string own = "202 0x7f00 0x189 0x0 0x0 0x0 0xffffffff 0x7ff0 0x7ff1";
  const std::string shared = "202 0x7f00 0x109 0x0 0x0 0x0 0xffffffff 0x7ff0 0x7ff1";
  const std::string timed = "202 0x7f00 0x189 0x0 0x7f80 0x0 0xffffffff 0x7ff0 0x7ff1";
  const std::string owned = "202 0x7f00 0x86 0x0 0x0 0x0 0xffffffff 0x7ff0 0x7ff1";
  for (const pid_t process : {10, 20, 30, 40}) clock_.RunProcess(process, 1000);
  files_.Set(10, 10, 'S', 5, own);
  files_.Set(20, 20, 'S', 5, shared);
  files_.Set(20, 21, 'S', 5, own);
  files_.Set(30, 30, 'S', 5, timed);
  files_.Set(30, 31, 'S', 5, own);
  files_.Set(40, 40, 'S', 5, owned);
  const std::vector<pid_t> all = {10, 20, 30, 40};
  ASSERT_TRUE(AllBlocked(all));
  EXPECT_EQ(activity_.woken_by(10), WokenBy::kItself);
  EXPECT_EQ(activity_.woken_by(20), WokenBy::kSharedFutex);
  EXPECT_EQ(activity_.woken_by(30), WokenBy::kAnything);
  EXPECT_EQ(activity_.woken_by(40), WokenBy::kAnything);
  std::vector<pid_t> read;
  files_.on_read = [&](pid_t thread, const std::string&) { read.push_back(thread); };
  EXPECT_TRUE(AllBlocked(all));
  EXPECT_EQ(read, (std::vector<pid_t>{30, 40}));
  EXPECT_EQ(activity_.woken_by(20), WokenBy::kSharedFutex);
  // Another process has woken somebody, and one of its own.
  activity_.SharedFutexWoken();
  files_.AboutToSleep(20, 20, 5);
  EXPECT_FALSE(AllBlocked(all));
  files_.Set(20, 20, 'S', 5, shared);
  read.clear();
  EXPECT_TRUE(AllBlocked(all));
  EXPECT_EQ(read, (std::vector<pid_t>{20, 20, 30, 40})) << "first whether it runs still";
  clock_.RunProcess(10, 1);
  files_.AboutToSleep(10, 10, 5);
  EXPECT_FALSE(AllBlocked(all));
}

TEST_F(ThreadActivityTest, WhoWaitsForFutexesInSharedMemoryIsNamed) {
  const std::string own = "202 0x7f00 0x189 0x0 0x0 0x0 0xffffffff 0x7ff0 0x7ff1";
  const auto shared = [](const std::string& word) {
    return "202 " + word + " 0x109 0x0 0x0 0x0 0xffffffff 0x7ff0 0x7ff1";
  };
  for (const pid_t process : {10, 20}) clock_.RunProcess(process, 1000);
  files_.Set(10, 10, 'S', 5, shared("0x7f10"));
  files_.Set(10, 11, 'S', 5, own);
  files_.Set(20, 20, 'S', 5, shared("0x7f20"));
  held_ = {20};
  const auto named = [&] {
    std::vector<std::pair<pid_t, uint64_t>> waiters;
    const auto held = [this](pid_t thread) { return held_.contains(thread); };
    for (const auto& waiter : activity_.SharedFutexWaiters({10, 20}, held)) {
      waiters.emplace_back(waiter.thread, waiter.address);
    }
    return waiters;
  };
  using Named = std::vector<std::pair<pid_t, uint64_t>>;
  EXPECT_EQ(named(), (Named{{10, 0x7f10}})) << "nobody has been looked at yet";
  ASSERT_TRUE(AllBlocked({10}));
  int reads = 0;
  files_.on_read = [&](pid_t thread, const std::string&) { reads += thread == 10 ? 1 : 0; };
  held_ = {};
  EXPECT_EQ(named(), (Named{{10, 0x7f10}, {20, 0x7f20}}));
  EXPECT_EQ(reads, 0) << "it rests";
  clock_.RunProcess(10, 1);
  files_.Set(10, 10, 'S', 6, shared("0x7f30"));
  EXPECT_EQ(named(), (Named{{10, 0x7f30}, {20, 0x7f20}}));
}

TEST_F(ThreadActivityTest, WhoWasHeldMayRunWhereItSleptBefore) {
  clock_.RunProcess(10, 1000);
  files_.Set(10, 10, 'S', 5, "202 0x7f00 0x189 0x0 0x0");
  ASSERT_TRUE(AllBlocked());
  // It goes on, stops in a call that is held, and is let go; the kernel has not accounted for it.
  clock_.RunProcess(10, 1);
  held_ = {10};
  ASSERT_TRUE(AllBlocked());
  EXPECT_EQ(activity_.woken_by(10), WokenBy::kItself) << "of those that are not held";
  held_ = {};
  files_.AboutToSleep(10, 10, 5);
  EXPECT_FALSE(AllBlocked());
}

TEST_F(ThreadActivityTest, ASignalWakesWhoWaitsForAFutex) {
  clock_.RunProcess(10, 1000);
  files_.Set(10, 10, 'S', 5, "202 0x7f00 0x189 0x0 0x0");
  ASSERT_TRUE(AllBlocked());
  activity_.Signalled();
  files_.AboutToSleep(10, 10, 5);
  EXPECT_FALSE(AllBlocked()) << "it has not run yet";
  clock_.RunProcess(10, 1);
  files_.Set(10, 10, 'S', 6, "202 0x7f00 0x189 0x0 0x0");
  EXPECT_TRUE(AllBlocked());
  EXPECT_EQ(activity_.woken_by(10), WokenBy::kItself);
}

TEST_F(ThreadActivityTest, AThreadThatEndsWakesWhoJoinsIt) {
  clock_.RunProcess(10, 1000);
  // The kernel wakes a futex that the C library takes to be shared (CLONE_CHILD_CLEARTID).
  files_.Set(10, 10, 'S', 5, "202 0x7f00 0x109 0x0 0x0");
  files_.Sleeps(10, 11, 5, 230);
  held_ = {11};
  ASSERT_TRUE(AllBlocked());
  // It is let go, and has run for too short a time to be seen in its process's.
  held_ = {};
  files_.End(10, 11);
  files_.AboutToSleep(10, 10, 5);
  EXPECT_FALSE(AllBlocked());
  EXPECT_EQ(activity_.running(), 10);
}

TEST_F(ThreadActivityTest, WhoHasRunDuringTheLookMayHaveWokenOthers) {
  files_.Sleeps(10, 10, 5);
  files_.Sleeps(20, 20, 5);
  clock_.RunProcess(10, 1000);
  clock_.RunProcess(20, 1000);
  bool woken = false;
  files_.on_read = [&](pid_t thread, const std::string&) {
    if (thread != 20 || std::exchange(woken, true)) return;
    clock_.RunProcess(20, 1);
    files_.AboutToSleep(10, 10, 5);
  };
  EXPECT_FALSE(AllBlocked({10, 20}));
  EXPECT_EQ(activity_.running(), 10);
  files_.Sleeps(10, 10, 6);
  clock_.RunProcess(10, 1);
  EXPECT_TRUE(AllBlocked({10, 20}));
}

TEST_F(ThreadActivityTest, AThreadThatAppearsBetweenTheTwoLooksMayRun) {
  files_.Sleeps(10, 10, 5);
  bool made = false;
  files_.on_read = [&](pid_t, const std::string&) {
    if (!std::exchange(made, true)) files_.Sleeps(10, 12, 1);
  };
  EXPECT_FALSE(AllBlocked());
  EXPECT_TRUE(AllBlocked());
}

TEST_F(ThreadActivityTest, AThreadThatEndsBetweenTheTwoLooksHasRun) {
  files_.Sleeps(10, 10, 5);
  files_.Sleeps(10, 11, 5);
  int looks = 0;
  files_.on_read = [&](pid_t thread, const std::string& name) {
    if (thread == 11 && name == "schedstat" && ++looks == 2) files_.End(10, 11);
  };
  EXPECT_FALSE(AllBlocked());
  files_.on_read = nullptr;
  EXPECT_TRUE(AllBlocked());
}

TEST_F(ThreadActivityTest, NewThreadsOfACompleteProcessAreFoundWhenToldOf) {
  files_.Sleeps(10, 10, 5);
  ASSERT_TRUE(AllBlocked());
  files_.Set(10, 11, 'R', 1, "running");
  EXPECT_TRUE(AllBlocked()) << "its threads are not listed again";
  activity_.StartsThread(10);
  EXPECT_FALSE(AllBlocked());
  EXPECT_EQ(activity_.running(), 11);
}

TEST_F(ThreadActivityTest, TheDyingGoOnAndAreTold) {
  for (const char state : {'Z', 'X'}) {
    files_.Set(10, 10, state, 5, "-1 0x0 0x0");
    EXPECT_FALSE(AllBlocked());
    EXPECT_TRUE(activity_.saw_dying());
  }
  files_.Sleeps(10, 10, 6);
  EXPECT_TRUE(AllBlocked());
  EXPECT_FALSE(activity_.saw_dying());
}

TEST_F(ThreadActivityTest, UninterruptibleSleepIsShortUnlessItIsThatOfVfork) {
  files_.Set(10, 10, 'D', 5, "0 0x1");  // read, of a disk
  EXPECT_FALSE(AllBlocked());
  for (const int call : {SYS_vfork, SYS_clone, SYS_clone3}) {
    files_.Set(10, 10, 'D', 6 + call, std::to_string(call) + " 0x1");
    EXPECT_TRUE(AllBlocked()) << call;
  }
}

TEST_F(ThreadActivityTest, WhoIsGoneIsBlocked) {
  files_.Sleeps(10, 10, 5);
  ASSERT_TRUE(AllBlocked());
  files_.EndProcess(10);
  EXPECT_TRUE(AllBlocked());
  EXPECT_TRUE(AllBlocked({77})) << "it never was";
}

// Of a debugger that comes, or of Control-Z: the world outside decides when they go on.
TEST_F(ThreadActivityTest, WhoIsStoppedFromOutsideIsNotBlocked) {
  const auto stopped = [this](char state, const char* channel, const char* tracer) {
    files_.Set(10, 10, state, 5, "202 0x1 0x2 0x3");
    files_.SetFile(10, 10, "wchan", channel);
    files_.SetFile(10, 10, "status", std::string("Tgid:\t10\nTracerPid:\t") + tracer + "\n");
  };
  stopped('t', "ptrace_stop", "99");
  EXPECT_FALSE(AllBlocked());
  EXPECT_FALSE(AllBlocked());
  files_.Sleeps(10, 10, 5);
  EXPECT_TRUE(AllBlocked());
  stopped('t', "ptrace_stop", "99");
  EXPECT_FALSE(AllBlocked());
  stopped('T', "do_signal_stop", "0");
  EXPECT_FALSE(AllBlocked());
}

TEST_F(ThreadActivityTest, HoweverLongSomebodyIsStoppedFromOutsideAndThatIsToldOnce) {
  testing::internal::CaptureStderr();
  files_.Set(10, 10, 't', 5, "202 0x1 0x2 0x3");
  files_.SetFile(10, 10, "wchan", "ptrace_stop");
  files_.SetFile(10, 10, "status", "Tgid:\t10\nTracerPid:\t99\n");
  for (int second = 0; second < 60; ++second) {
    EXPECT_FALSE(AllBlocked());
    clock_.Pass(1'000'000'000);
  }
  files_.Sleeps(10, 10, 6);
  EXPECT_TRUE(AllBlocked());
  const std::string told = testing::internal::GetCapturedStderr();
  const size_t first = told.find("is stopped from outside of the run, by process 99");
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find("is stopped", first + 1), std::string::npos) << told;
}

TEST_F(ThreadActivityTest, ATracerThatKeepsAThreadIsToldOf) {
  clock_.Pass(1'000'000'000);
  files_.Set(10, 10, 't', 5, "202 0x1 0x2 0x3");
  files_.SetFile(10, 10, "wchan", "ptrace_stop");
  files_.SetFile(10, 10, "status", "Tgid:\t10\nTracerPid:\t99\n");
  EXPECT_FALSE(AllBlocked());
  EXPECT_EQ(activity_.keeping_tracer(), 0) << "it may have been told of a call";
  clock_.Pass(200'000'000);
  EXPECT_FALSE(AllBlocked());
  EXPECT_EQ(activity_.keeping_tracer(), 99);
  clock_.Pass(2'000'000'000);
  EXPECT_EQ(activity_.keeping_tracer(), 0) << "nobody has found it stopped since";
}

TEST_F(ThreadActivityTest, WhoIsStoppedByTheRunIs) {
  files_.Sleeps(11, 11, 5);
  files_.Set(10, 10, 'T', 5, "202 0x1 0x2 0x3");
  files_.SetFile(10, 10, "wchan", "do_signal_stop");
  files_.SetFile(10, 10, "status", "Tgid:\t10\nTracerPid:\t0\n");
  activity_.StopsByRun(10);
  EXPECT_TRUE(AllBlocked({10, 11}));
  activity_.ContinuesByRun(10);
  EXPECT_FALSE(AllBlocked({10, 11}));
  activity_.StopsByRun(0);  // everybody
  EXPECT_TRUE(AllBlocked({10, 11}));
  activity_.ContinuesByRun(0);
  EXPECT_FALSE(AllBlocked({10, 11}));
  activity_.MayStopByRun(10);  // by a timer of its own
  activity_.ContinuesByRun(10);
  EXPECT_TRUE(AllBlocked({10, 11}));
  // And by a tracer that is of the run.
  files_.Set(10, 10, 't', 5, "202 0x1 0x2 0x3");
  files_.SetFile(10, 10, "status", "Tgid:\t10\nTracerPid:\t11\n");
  EXPECT_TRUE(AllBlocked({10, 11}));
}

TEST_F(ThreadActivityTest, OnlyThoseAreLookedAtThatAreAskedFor) {
  files_.Sleeps(10, 10, 5);
  files_.Set(20, 20, 'R', 5, "running");
  EXPECT_TRUE(AllBlocked({10}));
  EXPECT_FALSE(AllBlocked({10, 20}));
  EXPECT_TRUE(AllBlocked({10})) << "who ran last is not among them";
}

TEST_F(ThreadActivityTest, ForgottenProcessesAreListedAnew) {
  files_.Sleeps(10, 10, 5);
  files_.Sleeps(20, 20, 5);
  files_.Sleeps(30, 30, 5);
  ASSERT_TRUE(AllBlocked({10, 20, 30}));
  activity_.KeepOnly({30, 10});
  files_.lists = 0;
  EXPECT_TRUE(AllBlocked({10, 30}));
  EXPECT_EQ(files_.lists, 0);
  EXPECT_TRUE(AllBlocked({10, 20, 30}));
  EXPECT_EQ(files_.lists, 2) << "two looks at the one that was forgotten";
}

TEST_F(ThreadActivityTest, TextThatMakesNoSenseIsNotBelieved) {
  files_.Sleeps(10, 10, 5);
  files_.SetFile(10, 10, "schedstat", "12345");
  // No time slices: like a thread that ends between the looks, each time.
  EXPECT_FALSE(AllBlocked());
  EXPECT_FALSE(AllBlocked());
  files_.Sleeps(20, 20, 5);
  files_.SetFile(20, 20, "stat", "20 (no end of a name");
  EXPECT_TRUE(AllBlocked({20})) << "asleep, by its call";
}

TEST(ThreadSignalsTest, AreReadFromStatus) {
  FakeProc files;
  files.SetFile(10, 11, "status",
                "Name:\tpython\nTgid:\t10\nSigQ:\t1/1000\n"
                "SigPnd:\t0000000000000001\nShdPnd:\t0000000000002000\n"
                "SigBlk:\t0000000000000004\nSigIgn:\t0000000000001000\n"
                "SigCgt:\t0000000180004002\n");
  const ThreadSignals signals = SignalsOf(11, files);
  EXPECT_EQ(signals.own, SignalBit(SIGHUP));
  EXPECT_EQ(signals.shared, SignalBit(SIGALRM));
  EXPECT_EQ(signals.pending(), SignalBit(SIGHUP) | SignalBit(SIGALRM));
  EXPECT_EQ(signals.blocked, SignalBit(SIGQUIT));
  EXPECT_EQ(signals.ignored, SignalBit(SIGPIPE));
  EXPECT_EQ(signals.caught, 0x180004002u);
  EXPECT_FALSE(signals.killed());
  EXPECT_EQ(SignalsOf(12, files).pending(), 0u) << "no such thread";
}

TEST(ThreadSignalsTest, DueIsWhatHasAHandlerOrDumpsCoreAndIsNotBlocked) {
  ThreadSignals signals;
  signals.caught = SignalBit(SIGALRM) | SignalBit(SIGUSR1);
  signals.blocked = SignalBit(SIGUSR1);
  signals.ignored = SignalBit(SIGQUIT);
  EXPECT_EQ(signals.Due(SignalBit(SIGALRM), std::nullopt), SignalBit(SIGALRM));
  EXPECT_EQ(signals.Due(SignalBit(SIGUSR1), std::nullopt), 0u) << "blocked";
  EXPECT_EQ(signals.Due(SignalBit(SIGUSR1), 0), SignalBit(SIGUSR1)) << "not by the call's mask";
  EXPECT_EQ(signals.Due(SignalBit(SIGALRM), SignalBit(SIGALRM)), 0u) << "by the call's mask";
  EXPECT_EQ(signals.Due(SignalBit(SIGCHLD), std::nullopt), 0u) << "nobody handles it";
  EXPECT_EQ(signals.Due(SignalBit(SIGABRT), std::nullopt), SignalBit(SIGABRT)) << "a core dump";
  EXPECT_EQ(signals.Due(SignalBit(SIGQUIT), std::nullopt), 0u) << "ignored";
  signals.own = SignalBit(SIGKILL);
  EXPECT_TRUE(signals.killed());
}

TEST(ThreadNameTest, IsThatOfTheThread) {
  FakeProc files;
  files.SetFile(10, 11, "comm", "cuda-EvtHandlr\n");
  EXPECT_EQ(ThreadName(11, files).rfind("cuda", 0), 0u);
  EXPECT_EQ(ThreadName(12, files), "");
}

// The host's own: this process, whose only thread is the one that asks.
TEST(HostProcTest, TellOfThisProcess) {
  const Proc& files = Proc::Host();
  const auto threads = files.Threads(getpid());
  ASSERT_TRUE(threads.has_value());
  EXPECT_EQ(*threads, std::vector<pid_t>{getpid()});
  EXPECT_EQ(files.Threads(1 << 30), std::nullopt);
  char text[512];
  EXPECT_FALSE(files.Read(1 << 30, "stat", text));
  EXPECT_STREQ(text, "");
  const UniqueFd kept = files.Open(getpid(), "stat");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(files.Read(getpid(), "stat", text, kept)) << "from the beginning each time";
    EXPECT_EQ(atoi(text), getpid());
  }
  char little[4];
  ASSERT_TRUE(files.Read(getpid(), "status", little));
  EXPECT_STREQ(little, "Nam");
  ThreadActivity activity;
  EXPECT_FALSE(activity.AllBlocked({getpid()}, [](pid_t) { return false; }));
  EXPECT_EQ(activity.running(), getpid());
  EXPECT_TRUE(activity.AllBlocked({getpid()}, [](pid_t) { return true; }));
}

// A thread that has been woken runs from then on, whatever the processor it is to run on does.
TEST(HostProcTest, WhoHasBeenWokenIsFoundRunning) {
  std::atomic<int> word{0}, seen{0};
  std::atomic<pid_t> number{0};
  const auto futex = [&](int operation, int value) {
    syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
  };
  std::thread sleeper([&] {
    number = gettid();
    for (int round = 0; round >= 0; round = word) {
      futex(FUTEX_WAIT, round);
      while (word > seen) {
      }
    }
  });
  while (number == 0) std::this_thread::yield();
  const pid_t self = getpid();
  ThreadActivity activity;
  activity.StartsThread(self);
  const auto held = [self](pid_t thread) { return thread == self; };
  for (int round = 1; round <= 200; ++round) {
    while (!activity.AllBlocked({self}, held)) usleep(100);
    word = round;
    futex(FUTEX_WAKE, 1);
    EXPECT_FALSE(activity.AllBlocked({self}, held)) << round;
    EXPECT_EQ(activity.running(), number) << round;
    seen = round;
  }
  word = -1;
  futex(FUTEX_WAKE, 1);
  sleeper.join();
}

}  // namespace
}  // namespace phantora
