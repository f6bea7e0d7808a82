#include "trap/time/process_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_real_clock.h"
#include "trap/time/fake_device.h"
#include "trap/time/host_segments.h"

namespace phantora {
namespace {

// Process ids that no process of a test's machine has: Linux gives none above 2^22.
constexpr pid_t kRank = 5'000'000;
constexpr int64_t kMicrosecond = 1'000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;

std::map<pid_t, pid_t>& Parents() {
  static auto* const parents = new std::map<pid_t, pid_t>;
  return *parents;
}
pid_t FakeParentOf(pid_t process) {
  const auto it = Parents().find(process);
  return it == Parents().end() ? 0 : it->second;
}

VirtualTime At(int64_t microseconds) {
  return ProcessClocks::Start() + VirtualSpan::Microseconds(microseconds);
}

class ProcessClocksTest : public ::testing::Test {
 protected:
  struct Wait {
    pid_t process, thread;
    VirtualTime since, until;
  };

  ProcessClocksTest() { Parents().clear(); }

  ProcessClocks Make(HostTimeMode mode, double scale = 1.0, HostSegments* segments = nullptr) {
    return ProcessClocks(
        {.host = {.mode = mode, .scale = scale},
         .device = &device_,
         .machine_lock = &lock_,
         .waited =
             [this](pid_t process, pid_t thread, VirtualTime since, VirtualTime until) {
               waits_.push_back({process, thread, since, until});
             },
         .segments = segments,
         .clock = &clock_,
         .threads = &threads_,
         .parent_of = FakeParentOf});
  }
  // The process runs on one processor, all the time that passes.
  void Run(pid_t process, int64_t nanoseconds) {
    clock_.RunProcess(process, nanoseconds);
    clock_.Pass(nanoseconds);
  }

  FakeRealClock clock_{200 * 86'400 * kSecond};  // up for 200 days
  FakeProc threads_;
  FakeDevice device_;
  TurnLock lock_;
  std::vector<Wait> waits_;
};

TEST_F(ProcessClocksTest, ProcessorTimeCountsAtItsScaleLessTheTrap) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured, 0.5);
  EXPECT_EQ(clocks.Of(kRank).now, ProcessClocks::Start());
  Run(kRank, 103 * kMicrosecond);
  EXPECT_EQ(clocks.Stopped(kRank, kRank).now, At(50));
  clock_.Pass(kSecond);
  EXPECT_EQ(clocks.Stopped(kRank, kRank).now, At(50)) << "it was blocked";
}

TEST_F(ProcessClocksTest, ThreadsAtTheSameTimeCountOnce) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  clocks.Of(kRank);
  clock_.RunProcess(kRank, 400 * kMicrosecond);  // four processors
  clock_.Pass(103 * kMicrosecond);
  EXPECT_EQ(clocks.Stopped(kRank, kRank).now, At(100));
}

TEST_F(ProcessClocksTest, WhatIsShorterThanATrapIsKeptForLater) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  clocks.Of(kRank);
  Run(kRank, 2 * kMicrosecond);
  EXPECT_EQ(clocks.Stopped(kRank, kRank).now, At(0));
  Run(kRank, 2 * kMicrosecond);
  EXPECT_EQ(clocks.Stopped(kRank, kRank).now, At(1));
}

TEST_F(ProcessClocksTest, DiscardedTimeDoesNotCount) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  auto& process = clocks.Of(kRank);
  Run(kRank, kSecond);
  clocks.DiscardProcessorTime(process, kRank);
  Run(kRank, 13 * kMicrosecond);
  EXPECT_EQ(clocks.Stopped(kRank, kRank).now, At(10));
}

TEST_F(ProcessClocksTest, DiscardedTimeIsInNoSegment) {
  HostSegments segments({.host = {.mode = HostTimeMode::kLearned}});
  ProcessClocks clocks = Make(HostTimeMode::kLearned, 1.0, &segments);
  auto& process = clocks.Of(kRank);
  clocks.EndSegment(kRank, kRank, 1, false);
  Run(kRank, kSecond);
  clocks.DiscardProcessorTime(process, kRank);
  Run(kRank, 13 * kMicrosecond);
  clocks.EndSegment(kRank, kRank, 2, false);
  EXPECT_EQ(clocks.TimeOf(kRank, kRank), At(10));
}

TEST_F(ProcessClocksTest, AProcessThatIsGoneHasRunNoFurther) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  clocks.Of(kRank);
  clock_.Pass(kSecond);  // its processor time reads 0
  EXPECT_EQ(clocks.Stopped(kRank, kRank).now, At(0));
}

TEST_F(ProcessClocksTest, SoMuchTimeThatItDoesNotFitIsForEver) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured, 1e6);
  clocks.Of(kRank);
  Run(kRank, 86'400 * kSecond);
  EXPECT_EQ(clocks.Stopped(kRank, kRank).now, VirtualTime::Infinity());
}

TEST_F(ProcessClocksTest, OtherModesCountNoProcessorTime) {
  for (const HostTimeMode mode : {HostTimeMode::kFixed, HostTimeMode::kZero}) {
    ProcessClocks clocks = Make(mode);
    clocks.Of(kRank);
    Run(kRank, kSecond);
    EXPECT_EQ(clocks.Stopped(kRank, kRank).now, At(0));
  }
}

TEST_F(ProcessClocksTest, AChildStartsWithWhatItsParentKnowsAndAParentIsNotBeforeItsEnd) {
  ProcessClocks clocks = Make(HostTimeMode::kFixed);
  Parents()[kRank + 1] = kRank;
  clocks.Of(kRank).now = At(70);
  EXPECT_EQ(clocks.Of(kRank + 1).now, At(70));
  EXPECT_EQ(clocks.Find(kRank)->children, std::vector<pid_t>{kRank + 1});
  clocks.Find(kRank + 1)->now = At(90);
  clocks.Died(kRank + 1);
  EXPECT_EQ(clocks.Find(kRank)->now, At(90));
  EXPECT_TRUE(clocks.Find(kRank)->children.empty());
  EXPECT_EQ(clocks.Find(kRank + 1), nullptr);
  clocks.Died(kRank + 1);  // once more is harmless
}

TEST_F(ProcessClocksTest, AChildStartsWithWhatAThreadHasReadAhead) {
  ProcessClocks clocks = Make(HostTimeMode::kFixed);
  Parents()[kRank + 1] = kRank;
  auto& parent = clocks.Of(kRank);
  const VirtualTime read = clocks.ReadClock(parent, kRank);
  EXPECT_EQ(read, At(0) + VirtualSpan::Nanoseconds(25));
  EXPECT_EQ(parent.now, At(0)) << "a thread's own affair";
  EXPECT_EQ(clocks.Of(kRank + 1).now, read);
}

TEST_F(ProcessClocksTest, ReadsOfAClockAreLaterEachTimeAndALoopOfThemTakesTime) {
  for (const HostTimeMode mode :
       {HostTimeMode::kMeasured, HostTimeMode::kFixed, HostTimeMode::kZero}) {
    ProcessClocks clocks = Make(mode);
    auto& process = clocks.Of(kRank);
    VirtualTime last = process.now;
    for (int i = 0; i < 3'000; ++i) {
      const VirtualTime read = clocks.ReadClock(process, kRank);
      EXPECT_GT(read, last);
      last = read;
    }
    EXPECT_GE(last, process.now);
    // The process itself is not left behind for long.
    EXPECT_LE(last - process.now, VirtualSpan::Microseconds(1));
    const bool charged = mode != HostTimeMode::kMeasured;
    EXPECT_EQ(last > At(2'000), charged) << "a turn of a loop takes a microsecond";
  }
}

TEST_F(ProcessClocksTest, ReadsFarApartAreNoLoop) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  auto& process = clocks.Of(kRank);
  auto& thread = process.threads[kRank];
  thread.reads = 500;
  clocks.NoteRead(process, thread);
  process.now = process.now + VirtualSpan::Microseconds(50);
  clocks.NoteRead(process, thread);
  EXPECT_EQ(thread.reads, 0u) << "the first came long after the start";
  thread.reads = 500;
  process.now = process.now + VirtualSpan::Microseconds(50);
  clocks.NoteRead(process, thread);
  EXPECT_EQ(thread.reads, 500u);
  process.now = process.now + VirtualSpan::Microseconds(51);
  clocks.NoteRead(process, thread);
  EXPECT_EQ(thread.reads, 0u);
}

TEST_F(ProcessClocksTest, LooksAtNamesOfFilesAreCharged) {
  ProcessClocks fixed = Make(HostTimeMode::kFixed);
  auto& process = fixed.Of(kRank);
  for (int i = 0; i < 3; ++i) fixed.PathCall(kRank, kRank);
  EXPECT_EQ(ProcessClocks::SeenBy(process, kRank), At(3));
  fixed.PathCall(kRank + 9, kRank + 9);  // not known: nothing
  EXPECT_EQ(fixed.Find(kRank + 9), nullptr);
  ProcessClocks measured = Make(HostTimeMode::kMeasured);
  auto& other = measured.Of(kRank);
  measured.PathCall(kRank, kRank);
  EXPECT_EQ(ProcessClocks::SeenBy(other, kRank), At(0));
}

TEST_F(ProcessClocksTest, LibcudasThreadsArePassedOver) {
  ProcessClocks clocks = Make(HostTimeMode::kFixed);
  auto& process = clocks.Of(kRank);
  clocks.SetUsesGpu(process, kRank);
  threads_.SetFile(kRank, kRank, "comm", "python3\n");
  threads_.SetFile(kRank, kRank + 1, "comm", "cuda-EvtHandlr\n");
  threads_.SetFile(kRank, kRank + 2, "comm", "loader\n");
  threads_.SetFile(kRank, kRank + 3, "comm", "python3\n");
  EXPECT_FALSE(clocks.PassesOver(process, kRank));
  EXPECT_TRUE(clocks.PassesOver(process, kRank + 1));
  EXPECT_FALSE(clocks.PassesOver(process, kRank + 2));
  // It has its maker's name, and may be about to take its own: for a while.
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(clocks.PassesOver(process, kRank + 3)) << i;
  EXPECT_FALSE(clocks.PassesOver(process, kRank + 3));
  // What is passed over costs nothing.
  EXPECT_EQ(clocks.ReadClock(process, kRank + 1), At(0));
  EXPECT_GT(clocks.ReadClock(process, kRank + 2), At(0));
}

TEST_F(ProcessClocksTest, SubmissionsCostAndAreFoundByWhoCounts) {
  ProcessClocks clocks = Make(HostTimeMode::kFixed);
  auto& process = clocks.Of(kRank);
  clocks.SetUsesGpu(process, kRank);
  EXPECT_EQ(clocks.gpu_processes(), 1);
  threads_.SetFile(kRank, kRank, "comm", "python3\n");
  device_.Of(kRank).unsubmitted = 2;
  EXPECT_TRUE(clocks.HasHiddenWork());
  clocks.Stopped(kRank, kRank, true);
  EXPECT_EQ(process.submissions, 0) << "whether it stops to wait depends on the host";
  clocks.Stopped(kRank, kRank);
  EXPECT_EQ(process.submissions, 2);
  EXPECT_EQ(process.now, At(0) + VirtualSpan::Nanoseconds(4'400));
  EXPECT_FALSE(clocks.HasHiddenWork());
  ProcessClocks measured = Make(HostTimeMode::kMeasured);
  measured.SetUsesGpu(measured.Of(kRank), kRank);
  device_.Of(kRank).unsubmitted = 2;
  measured.Stopped(kRank, kRank, true);
  EXPECT_EQ(measured.Find(kRank)->submissions, 2);
  EXPECT_EQ(measured.Find(kRank)->now, At(0)) << "its own time is counted already";
}

TEST_F(ProcessClocksTest, WhoRestsDoesSoUntilItRunsOrIsStirred) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  auto& process = clocks.Of(kRank);
  Run(kRank, kMillisecond);
  EXPECT_FALSE(clocks.RestsStill(process));
  clocks.BeginLook(process);
  clocks.NoteRest(process, WokenBy::kAnything);
  EXPECT_TRUE(clocks.RestsStill(process));
  clocks.Stir(kRank + 1);
  EXPECT_TRUE(clocks.RestsStill(process)) << "that was for another";
  clocks.Stir(kRank);
  EXPECT_FALSE(clocks.RestsStill(process));
  clocks.NoteRest(process, WokenBy::kAnything);
  clocks.Stir(0);
  EXPECT_FALSE(clocks.RestsStill(process)) << "for all";
  clocks.NoteRest(process, WokenBy::kAnything);
  Run(kRank, 1);
  EXPECT_FALSE(clocks.RestsStill(process)) << "it has run";
}

TEST_F(ProcessClocksTest, WhoWaitsForFutexesRestsUntilOneIsWoken) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  Parents()[kRank + 1] = kRank;
  Parents()[kRank + 2] = kRank;
  clocks.SetUsesGpu(clocks.Of(kRank), kRank);
  auto& own = clocks.Of(kRank + 1);
  auto& shared = clocks.Of(kRank + 2);
  const auto rest = [&] {
    clocks.NoteRest(own, WokenBy::kItself);
    clocks.NoteRest(shared, WokenBy::kSharedFutex);
  };
  rest();
  EXPECT_TRUE(own.at_rest && shared.at_rest) << "workers of a rank as well";
  clocks.StirReceivers();
  EXPECT_TRUE(clocks.RestsStill(own) && clocks.RestsStill(shared)) << "they wait for no bytes";
  clocks.StirFutexes();
  EXPECT_TRUE(clocks.RestsStill(own)) << "only itself can wake it";
  EXPECT_FALSE(clocks.RestsStill(shared));
  rest();
  clocks.Stir(0);
  EXPECT_FALSE(clocks.RestsStill(own) || clocks.RestsStill(shared)) << "a signal, perhaps";
}

TEST_F(ProcessClocksTest, WhoMayBeWokenThroughMemoryIsNotTakenToRest) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  Parents()[kRank + 1] = kRank;
  auto& parent = clocks.Of(kRank);
  auto& child = clocks.Of(kRank + 1);
  Run(kRank, kMillisecond);
  Run(kRank + 1, kMillisecond);
  for (auto* process : {&parent, &child}) {
    clocks.BeginLook(*process);
    clocks.NoteRest(*process, WokenBy::kAnything);
  }
  EXPECT_FALSE(parent.at_rest) << "it has a child";
  EXPECT_TRUE(child.at_rest);
  clocks.SetUsesGpu(parent, kRank);
  clocks.NoteRest(child, WokenBy::kAnything);
  EXPECT_FALSE(child.at_rest) << "a rank's worker";
  auto& gone = clocks.Of(kRank + 2);
  clocks.BeginLook(gone);
  clocks.NoteRest(gone, WokenBy::kAnything);
  EXPECT_FALSE(gone.at_rest) << "its processor time cannot be read";
}

TEST_F(ProcessClocksTest, MemoryIsLookedAtAgainWhenItsProcessMayHaveRun) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  auto& process = clocks.Of(kRank);
  Run(kRank, kMillisecond);
  EXPECT_FALSE(clocks.HasLookedAt(process));
  // It may be running without that being seen, for a tick of the kernel.
  EXPECT_FALSE(clocks.HasLookedAt(process));
  clock_.Pass(5 * kMillisecond);
  EXPECT_TRUE(clocks.HasLookedAt(process));
  Run(kRank, kMillisecond);
  EXPECT_FALSE(clocks.HasLookedAt(process));
  clock_.Pass(5 * kMillisecond);
  EXPECT_TRUE(clocks.HasLookedAt(process));
  clocks.BeginLook(process);
  clocks.NoteRest(process, WokenBy::kAnything);
  EXPECT_FALSE(clocks.HasLookedAt(process));
  EXPECT_TRUE(clocks.HasLookedAt(process)) << "at rest, it does not run";
}

TEST_F(ProcessClocksTest, LoopsOfFruitlessCallsTakeTimeByThread) {
  ProcessClocks clocks = Make(HostTimeMode::kZero);
  auto& process = clocks.Of(kRank);
  for (uint32_t i = 0; i < ProcessClocks::kReadsOfWait; ++i) {
    EXPECT_FALSE(ProcessClocks::ChargeFruitless(process, kRank));
  }
  EXPECT_FALSE(ProcessClocks::ChargeFruitless(process, kRank + 1)) << "another thread's first";
  EXPECT_EQ(process.now, At(0));
  EXPECT_TRUE(ProcessClocks::ChargeFruitless(process, kRank));
  EXPECT_EQ(process.now, At(1));
  // One that makes threads without end takes no memory without end.
  for (int i = 0; i < 200'000; ++i) ProcessClocks::ChargeFruitless(process, kRank + 2 + i);
  EXPECT_LE(process.fruitless.size(), (size_t{1} << 16) + 1);
}

TEST_F(ProcessClocksTest, WhoHasOnlyBeenSeenIsForgottenWhenItIsGone) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  clocks.Of(kRank);
  clocks.Stopped(kRank + 1, kRank + 1);
  clocks.KeepOnly({kRank});
  EXPECT_NE(clocks.Find(kRank), nullptr);
  EXPECT_NE(clocks.Find(kRank + 1), nullptr) << "its end is told";
  clocks.KeepOnly({});
  EXPECT_EQ(clocks.Find(kRank), nullptr);
}

TEST_F(ProcessClocksTest, TheEarliestOfTheOthers) {
  ProcessClocks clocks = Make(HostTimeMode::kZero);
  EXPECT_EQ(clocks.EarliestBut(kRank, At(0)), VirtualTime::Infinity());
  clocks.Of(kRank).now = At(5);
  EXPECT_EQ(clocks.EarliestBut(kRank, At(0)), VirtualTime::Infinity()) << "not itself";
  clocks.Of(kRank + 1).now = At(7);
  clocks.Of(kRank + 2).now = At(6);
  clocks.Of(kRank + 3).now = At(4);
  EXPECT_EQ(clocks.EarliestBut(kRank, At(5)), At(6)) << "and none that is before";
  EXPECT_EQ(clocks.EarliestBut(kRank, At(6)), At(6));
  EXPECT_EQ(clocks.EarliestBut(kRank, At(8)), VirtualTime::Infinity());
}

TEST_F(ProcessClocksTest, WaitsAreToldOnceTheyAreOver) {
  ProcessClocks clocks = Make(HostTimeMode::kFixed);
  auto& process = clocks.Of(kRank);
  auto& thread = process.threads[kRank];
  clocks.EndWait(thread, kRank, kRank);
  EXPECT_TRUE(waits_.empty());
  thread.waiting_since = At(3);
  thread.waited_until = At(9);
  clocks.ForgetThread(process, kRank, kRank);
  ASSERT_EQ(waits_.size(), 1u);
  EXPECT_EQ(waits_[0].since, At(3));
  EXPECT_EQ(waits_[0].until, At(9));
  clocks.ForgetThread(process, kRank, kRank);
  EXPECT_EQ(waits_.size(), 1u);
}

TEST_F(ProcessClocksTest, LiftsThoseWhoAreBehind) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  clocks.Of(kRank).now = At(5);
  clocks.Of(kRank + 1).now = At(20);
  Run(kRank, 4 * kMicrosecond);
  clocks.LiftAll(At(10), true);
  EXPECT_EQ(clocks.Find(kRank)->now, At(10)) << "what it has used was before";
  EXPECT_EQ(clocks.Find(kRank + 1)->now, At(20));
  EXPECT_EQ(clocks.Latest(), At(20));
  EXPECT_EQ(clocks.NowOf(kRank), At(10));
  EXPECT_EQ(clocks.NowOf(kRank + 7), At(0));
}

TEST_F(ProcessClocksTest, OrderDependsOnTimesAndIdsOnly) {
  // The same processes, heard of in any order.
  std::vector<pid_t> ids;
  for (pid_t id = kRank; id < kRank + 40; ++id) ids.push_back(id);
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(ids.begin(), ids.end(), random);
    ProcessClocks clocks = Make(HostTimeMode::kFixed);
    for (const pid_t id : ids) {
      auto& process = clocks.Of(id);
      process.now = At(id % 3);
      process.next_event = At(id % 5 == 0 ? 100 : 200);
    }
    EXPECT_EQ(clocks.EarliestEvent(), (std::pair<pid_t, VirtualTime>{kRank, At(100)}));
    const auto earlier = clocks.EarlierThan(At(2));
    ASSERT_GT(earlier.size(), 20u);
    for (size_t i = 1; i < earlier.size(); ++i) {
      EXPECT_LT((std::pair{earlier[i - 1]->now, earlier[i - 1]->id}),
                (std::pair{earlier[i]->now, earlier[i]->id}));
    }
    pid_t last = 0;
    for (const auto& [id, process] : clocks.all()) EXPECT_LT(std::exchange(last, id), id);
  }
}

TEST_F(ProcessClocksTest, YieldsInVainAskForQueuesMoreRarely) {
  ProcessClocks clocks = Make(HostTimeMode::kFixed);
  auto& process = clocks.Of(kRank);
  int looks = 0;
  for (int i = 0; i < 64 + 160; ++i) {
    looks += ProcessClocks::IsYieldOfInterest(process) ? 1 : 0;
    ProcessClocks::NoteYield(process, false);
  }
  EXPECT_EQ(looks, 64 + 10);
  ProcessClocks::NoteYield(process, true);
  EXPECT_TRUE(ProcessClocks::IsYieldOfInterest(process)) << "a queue was full: the next one asks";
  for (int i = 0; i < 70; ++i) ProcessClocks::NoteYield(process, false);
  EXPECT_FALSE(ProcessClocks::IsYieldOfInterest(process));
  clocks.SetUsesGpu(process, kRank);
  device_.Of(kRank).unsubmitted = 1;
  clocks.Submit(process, kRank, process.now);
  EXPECT_TRUE(ProcessClocks::IsYieldOfInterest(process)) << "it has submitted something";
}

TEST_F(ProcessClocksTest, ASpinnerWithWorkIsTakenAlongWithItsGpus) {
  ProcessClocks clocks = Make(HostTimeMode::kFixed);
  auto& process = clocks.Of(kRank);
  clocks.SetUsesGpu(process, kRank);
  const auto nobody = [](pid_t) { return false; };
  device_.Of(kRank).events = {At(10), At(20), At(30)};
  Run(kRank, kSecond);
  EXPECT_EQ(clocks.Nudge(nobody), 0) << "first it is noted";
  Run(kRank, kSecond / 4);
  EXPECT_EQ(clocks.Nudge(nobody), 0) << "it may have something else to do";
  Run(kRank, kSecond / 4);
  EXPECT_EQ(clocks.Nudge([](pid_t) { return true; }), 0) << "it waits for its GPUs anyhow";
  EXPECT_EQ(clocks.Nudge(nobody), 1);
  EXPECT_EQ(process.now, At(10));
  Run(kRank, 2 * kMillisecond);
  EXPECT_EQ(clocks.Nudge(nobody), 1) << "from then on sooner";
  EXPECT_EQ(process.now, At(20));
}

TEST_F(ProcessClocksTest, MeasuredNudgesOnlyLookForWork) {
  ProcessClocks clocks = Make(HostTimeMode::kMeasured);
  auto& process = clocks.Of(kRank);
  clocks.SetUsesGpu(process, kRank);
  const auto nobody = [](pid_t) { return false; };
  Run(kRank, 3 * kMicrosecond + kMillisecond);
  EXPECT_EQ(clocks.Nudge(nobody), 0);
  ASSERT_EQ(device_.submits.size(), 1u);
  EXPECT_EQ(device_.submits[0].second, At(1'000));
  EXPECT_EQ(clocks.Nudge(nobody), 0);
  EXPECT_EQ(device_.submits.size(), 1u) << "it has not run since";
  device_.Of(kRank).events = {At(1'000)};
  clocks.Nudge(nobody);
  EXPECT_EQ(device_.submits.size(), 2u) << "something is due";
  process.at_rest = true;
  Run(kRank, kMillisecond);
  clocks.Nudge(nobody);
  EXPECT_EQ(device_.submits.size(), 2u);
}

TEST_F(ProcessClocksTest, WhoseParentEndsIsHisGrandparentsChildIfThatAskedForIt) {
  for (const bool asked : {true, false}) {
    Parents().clear();
    ProcessClocks clocks = Make(HostTimeMode::kFixed);
    const pid_t maker = kRank + 1, copy = kRank + 2;
    Parents()[maker] = kRank;
    Parents()[copy] = maker;
    clocks.Of(kRank);
    clocks.Of(maker);
    clocks.Of(copy).now = At(50);
    // PR_SET_CHILD_SUBREAPER, or some other process of the kernel's choice.
    Parents()[copy] = asked ? kRank : 1;
    clocks.Died(maker);
    clocks.Died(copy);
    EXPECT_EQ(clocks.NowOf(kRank) >= At(50), asked);
  }
  Parents().clear();
}

TEST_F(ProcessClocksTest, TellsOfRanksThatLiveAndHaveDied) {
  ProcessClocks clocks = Make(HostTimeMode::kFixed);
  EXPECT_EQ(clocks.last_finished(), nullptr);
  for (int i = 0; i < 3; ++i) clocks.SetUsesGpu(clocks.Of(kRank + i), kRank + i);
  clocks.Of(kRank + 3);  // no rank
  clocks.Find(kRank + 1)->now = At(42);
  clocks.Died(kRank + 1);
  ASSERT_NE(clocks.last_finished(), nullptr);
  EXPECT_EQ(clocks.last_finished()->elapsed, VirtualSpan::Microseconds(42));
  const auto ranks = clocks.ranks();
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0].process, kRank + 1);
  EXPECT_EQ(ranks[1].process, kRank);
  EXPECT_EQ(ranks[2].process, kRank + 2);
  EXPECT_EQ(clocks.gpu_processes(), 2);
}

}  // namespace
}  // namespace phantora
