#include "trap/time/thread_gate.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_real_clock.h"

namespace phantora {
namespace {

constexpr pid_t kProcess = 100, kMain = 100, kOther = 101, kThird = 102;
constexpr int64_t kMillisecond = 1'000'000;

class ThreadGateTest : public ::testing::Test {
 protected:
  ThreadGateTest() : gate_(epoll_.get(), &proc_, &clock_) {
    gate_.Attach(listener_);
    for (const pid_t thread : {kMain, kOther, kThird}) Runs(thread);
  }

  void Runs(pid_t thread) { proc_.Set(kProcess, thread, 'R', 1, "running"); }
  // The thread stops in a call; returns its number.
  uint64_t Stop(pid_t thread, pid_t process = kProcess) {
    const auto call = listener_.Call(thread, SYS_gettid);
    gate_.Stopped(call.id, process, thread);
    return call.id;
  }
  void Answer(uint64_t call) { gate_.ReplyValue(call, 0); }
  bool IsAnswered(uint64_t call) const { return listener_.Answered(call); }
  // Some time later.
  void Tick(int64_t nanoseconds = 2 * kMillisecond) {
    clock_.Pass(nanoseconds);
    gate_.TakeTick();
  }

  const UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  FakeListener listener_;
  FakeProc proc_;
  FakeRealClock clock_;
  ThreadGate gate_;
};

TEST_F(ThreadGateTest, OneThreadGoesAtOnce) {
  const uint64_t call = Stop(kMain);
  Answer(call);
  EXPECT_TRUE(IsAnswered(call));
  EXPECT_FALSE(gate_.IsUnsettled(kProcess));
}

TEST_F(ThreadGateTest, WhoIsAnsweredWhileAnotherRunsGoesWhenThatOneStops) {
  const uint64_t first = Stop(kMain), second = Stop(kOther);
  Answer(first);
  Answer(second);
  EXPECT_FALSE(IsAnswered(second));
  EXPECT_TRUE(gate_.IsUnsettled(kProcess)) << "time may not pass over it";
  gate_.Release();
  EXPECT_FALSE(IsAnswered(second));
  Stop(kMain);  // and is held
  gate_.Release();
  EXPECT_TRUE(IsAnswered(second));
  EXPECT_FALSE(gate_.IsUnsettled(kProcess));
}

TEST_F(ThreadGateTest, ThoseWhoWaitGoInTheOrderOfTheirAnswers) {
  const uint64_t first = Stop(kMain), second = Stop(kOther), third = Stop(kThird);
  Answer(first);
  Answer(third);
  Answer(second);
  Answer(Stop(kMain));  // behind both
  gate_.Release();
  Stop(kThird);
  gate_.Release();
  Stop(kOther);
  gate_.Release();
  EXPECT_EQ(listener_.order()[1], third);
  EXPECT_EQ(listener_.order()[2], second);
  EXPECT_EQ(listener_.order().size(), 4u);
}

TEST_F(ThreadGateTest, ProcessesDoNotWaitForEachOther) {
  const uint64_t one = Stop(kMain), other = Stop(200, 200);
  Answer(one);
  Answer(other);
  EXPECT_TRUE(IsAnswered(other));
}

TEST_F(ThreadGateTest, NobodyGoesBeforeANewThreadHasBeenHeardOf) {
  const uint64_t clone = Stop(kMain);
  gate_.StartsThread(clone);
  Answer(clone);
  EXPECT_TRUE(IsAnswered(clone)) << "or there never would be one";
  const uint64_t next = Stop(kMain);
  Answer(next);
  gate_.Release();
  EXPECT_FALSE(IsAnswered(next));
  const uint64_t born = Stop(kOther);
  Answer(born);
  gate_.Release();
  EXPECT_TRUE(IsAnswered(born)) << "first, though its maker was answered before";
  EXPECT_FALSE(IsAnswered(next));
}

TEST_F(ThreadGateTest, ANewThreadGoesFirstIfItIsHeardOfBeforeItsMaker) {
  const uint64_t clone = Stop(kMain);
  gate_.StartsThread(clone);
  Answer(clone);
  const uint64_t born = Stop(kOther);
  Answer(born);
  EXPECT_FALSE(IsAnswered(born)) << "its maker runs";
  const uint64_t next = Stop(kMain);
  Answer(next);
  gate_.Release();
  EXPECT_TRUE(IsAnswered(born));
  EXPECT_FALSE(IsAnswered(next));
}

TEST_F(ThreadGateTest, AThreadThatCouldNotBeMadeIsNotWaitedFor) {
  proc_.End(kProcess, kOther);
  proc_.End(kProcess, kThird);
  const uint64_t clone = Stop(kMain);
  gate_.StartsThread(clone);
  Answer(clone);
  const uint64_t next = Stop(kMain);
  Answer(next);
  Tick();
  EXPECT_TRUE(IsAnswered(next));
  EXPECT_EQ(gate_.counters().not_born, 1u);
}

TEST_F(ThreadGateTest, AThreadThatIsThereAndSaysNothingIsNotWaitedForForEver) {
  const uint64_t clone = Stop(kMain);
  gate_.StartsThread(clone);
  Answer(clone);
  const uint64_t next = Stop(kMain);
  Answer(next);
  Tick();
  EXPECT_FALSE(IsAnswered(next));
  Tick(ThreadGate::kPatienceWithBirth);
  EXPECT_TRUE(IsAnswered(next));
}

TEST_F(ThreadGateTest, WhoEndsIsWaitedForUntilItIsGone) {
  const uint64_t last = Stop(kOther), call = Stop(kMain);
  gate_.Ends(last);
  Answer(last);
  Answer(call);
  gate_.Release();
  EXPECT_FALSE(IsAnswered(call));
  proc_.End(kProcess, kOther);
  gate_.Release();
  EXPECT_TRUE(IsAnswered(call));
  EXPECT_TRUE(gate_.IsUnsettled(kProcess)) << "somebody may join it";
  const auto ended = gate_.TakeEnded();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].process, kProcess);
  EXPECT_EQ(ended[0].thread, kOther);
  EXPECT_FALSE(gate_.IsUnsettled(kProcess));
}

TEST_F(ThreadGateTest, WhoIsStoppedOnItsWayOutKeepsNobody) {
  const uint64_t last = Stop(kOther), call = Stop(kMain);
  gate_.Ends(last);
  Answer(last);
  Answer(call);
  proc_.Set(kProcess, kOther, 't', 1, "running");
  Tick();
  EXPECT_FALSE(IsAnswered(call)) << "its stop may be the run's own";
  Tick(ThreadGate::kPatienceWithStop);
  EXPECT_TRUE(IsAnswered(call));
  EXPECT_FALSE(gate_.IsUnsettled(kProcess));
  EXPECT_EQ(gate_.counters().stopped, 1u);
  EXPECT_TRUE(gate_.TakeEnded().empty());
  // The debugger lets it go on.
  proc_.End(kProcess, kOther);
  Tick();
  EXPECT_EQ(gate_.TakeEnded().size(), 1u);
}

// Its signal has been told of: it would keep the others of its process, and with them all, for
// good.
TEST_F(ThreadGateTest, OneThatTheRunItselfHasStoppedKeepsNobody) {
  bool by_run = false;
  gate_.SetStoppedByRun([&](pid_t process) { return by_run && process == kProcess; });
  const uint64_t first = Stop(kMain), second = Stop(kOther);
  Answer(first);
  Answer(second);
  proc_.Set(kProcess, kMain, 'T', 1, "running");
  clock_.Pass(10 * kMillisecond);
  gate_.TakeTick();
  EXPECT_FALSE(IsAnswered(second));
  EXPECT_TRUE(gate_.IsUnsettled(kProcess));
  by_run = true;
  gate_.TakeTick();
  EXPECT_TRUE(IsAnswered(second));
}

TEST_F(ThreadGateTest, ADebuggerThatAttachesStopsThoseWhoWaitForTheirTurn) {
  const uint64_t first = Stop(kMain), second = Stop(kOther), third = Stop(kThird);
  Answer(first);
  Answer(second);
  Answer(third);
  // It has stopped the one that ran, and waits for the next.
  proc_.Set(kProcess, kMain, 't', 1, "running");
  proc_.SetFile(kProcess, kOther, "status", "SigPnd:\t0000000000040000\nShdPnd:\t0\n");
  Tick();
  EXPECT_TRUE(IsAnswered(second)) << "or it would not stop";
  EXPECT_FALSE(IsAnswered(third));
  Runs(kMain);
  Stop(kMain);
  gate_.Release();
  EXPECT_TRUE(IsAnswered(third));
}

TEST_F(ThreadGateTest, WhoMakesItsCallAgainIsNobodysTurn) {
  const uint64_t first = Stop(kMain), waits = Stop(kOther);
  Answer(first);
  gate_.ReplyRestart(waits);
  EXPECT_TRUE(IsAnswered(waits)) << "though another runs";
  const uint64_t again = Stop(kOther), next = Stop(kMain);
  Answer(next);
  EXPECT_TRUE(IsAnswered(next));
  EXPECT_FALSE(IsAnswered(again));
}

TEST_F(ThreadGateTest, WhoSleepsInTheKernelLetsOthersGo) {
  const uint64_t first = Stop(kMain), second = Stop(kOther);
  Answer(first);
  Answer(second);
  Tick();
  EXPECT_FALSE(IsAnswered(second)) << "it runs";
  proc_.Sleeps(kProcess, kMain, 1, SYS_flock);
  gate_.Release();
  EXPECT_FALSE(IsAnswered(second)) << "only a tick looks";
  Tick();
  EXPECT_TRUE(IsAnswered(second));
  EXPECT_EQ(gate_.counters().slept, 1u);
}

TEST_F(ThreadGateTest, WhoHasMadeACallThatIsNotReceivedDoesNotSleep) {
  const uint64_t first = Stop(kMain), second = Stop(kOther);
  Answer(first);
  Answer(second);
  proc_.Sleeps(kProcess, kMain, 1, SYS_gettid);
  listener_.Call(CallOf(kMain, 7, SYS_gettid, {}));
  Tick();
  EXPECT_FALSE(IsAnswered(second));
}

TEST_F(ThreadGateTest, WhoStandsInACallThatIsServedLaterKeepsItsTurn) {
  const uint64_t first = Stop(kMain), second = Stop(kOther);
  Answer(first);
  Answer(second);
  gate_.StandsUnserved(kProcess);
  proc_.Sleeps(kProcess, kMain, 1, SYS_gettid);
  Tick();
  EXPECT_FALSE(IsAnswered(second));
  EXPECT_FALSE(gate_.HasJustGone(kProcess)) << "nor does it run";
  Stop(kMain);
  gate_.Release();
  EXPECT_TRUE(IsAnswered(second));
}

TEST_F(ThreadGateTest, WhoRunsForLongLetsOthersGo) {
  const uint64_t first = Stop(kMain), second = Stop(kOther);
  Answer(first);
  Answer(second);
  Tick();
  clock_.RunThread(kMain, ThreadGate::kLongestRun);
  Tick();
  EXPECT_FALSE(IsAnswered(second));
  clock_.RunThread(kMain, kMillisecond);
  Tick();
  EXPECT_TRUE(IsAnswered(second));
  EXPECT_EQ(gate_.counters().ran_long, 1u);
}

TEST_F(ThreadGateTest, AnsweringOneThatHasDiedLetsTheNextGo) {
  const uint64_t first = Stop(kMain), second = Stop(kOther), third = Stop(kThird);
  Answer(first);
  Answer(second);
  Answer(third);
  listener_.Die(second);
  Stop(kMain);
  gate_.Release();
  EXPECT_TRUE(IsAnswered(third));
}

TEST_F(ThreadGateTest, ANewProgramHasOneThread) {
  const uint64_t first = Stop(kOther), second = Stop(kThird);
  Answer(first);
  Answer(second);
  const uint64_t begins = Stop(kMain);
  gate_.NewProgram(kProcess, kMain);
  Answer(begins);
  EXPECT_TRUE(IsAnswered(begins));
  gate_.Release();
  EXPECT_FALSE(IsAnswered(second)) << "it has ended with its program";
}

TEST_F(ThreadGateTest, AProcessThatDiesLeavesNothing) {
  const uint64_t first = Stop(kMain), second = Stop(kOther);
  Answer(first);
  Answer(second);
  gate_.ProcessDied(kProcess);
  gate_.Release();
  EXPECT_FALSE(IsAnswered(second));
  EXPECT_FALSE(gate_.IsUnsettled(kProcess));
  EXPECT_TRUE(gate_.AllOthersStand(1));
}

TEST_F(ThreadGateTest, WhetherOthersStand) {
  EXPECT_TRUE(gate_.AllOthersStand(200));
  const uint64_t call = Stop(kMain);
  EXPECT_TRUE(gate_.AllOthersStand(200));
  Answer(call);
  EXPECT_FALSE(gate_.AllOthersStand(200));
  EXPECT_TRUE(gate_.AllOthersStand(kProcess)) << "it is the one";
  EXPECT_TRUE(gate_.HasJustGone(kProcess));
  clock_.Pass(2 * kMillisecond);
  EXPECT_FALSE(gate_.HasJustGone(kProcess)) << "time to look whether it sleeps";
  gate_.FoundAsleep(kProcess);
  EXPECT_FALSE(gate_.AllOthersStand(200)) << "it may have been woken since";
  Stop(kMain);
  EXPECT_TRUE(gate_.AllOthersStand(200));
}

TEST_F(ThreadGateTest, WhereOthersDecideAThreadGoesWhenItIsLet) {
  bool may_go = false;
  gate_.SetMayGo([&](pid_t) { return may_go; });
  const uint64_t call = Stop(kMain);
  Answer(call);
  gate_.Release();
  EXPECT_FALSE(IsAnswered(call));
  EXPECT_TRUE(gate_.IsUnsettled(kProcess));
  gate_.LetGo(kProcess);
  EXPECT_TRUE(IsAnswered(call));
}

TEST_F(ThreadGateTest, TicksComeWhileSomebodyIsKept) {
  const auto ticks = [&](int timeout) {
    pollfd timer{gate_.timer(), POLLIN, 0};
    return poll(&timer, 1, timeout) > 0;
  };
  const uint64_t first = Stop(kMain), second = Stop(kOther);
  Answer(first);
  EXPECT_FALSE(ticks(5));
  Answer(second);
  EXPECT_TRUE(ticks(1000));
  Stop(kMain);
  gate_.Release();
  gate_.TakeTick();
  EXPECT_FALSE(ticks(5));
}

}  // namespace
}  // namespace phantora
