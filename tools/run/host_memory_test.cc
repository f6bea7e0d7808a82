#include "tools/run/host_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_real_clock.h"

namespace phantora {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;

class HostMemoryTest : public testing::Test {
 protected:
  HostMemory::Options Options() {
    return {.working_for = [] { return 12; },
            .add =
                [this](MemoryUse* use) {
                  use->gpu_pages = gpus_;
                  use->gpu_unshared = 4 * kGiB;
                  use->gpu_allocated = 80 * kGiB;
                },
            .name = [](pid_t process) { return absl::StrCat("rank ", process - 10); },
            .error = [this](const std::string& what) { errors_.push_back(what); },
            .warn = [this](const std::string& what) { warnings_.push_back(what); },
            .end = [this](pid_t process) { ended_.push_back(process); },
            .processes =
                [] {
                  return std::vector<pid_t>{11, 12, 13};
                },
            .proc = &proc_,
            .clock = &clock_};
  }
  void Process(pid_t process, uint64_t own) {
    proc_.SetFile(process, process, "statm",
                  absl::StrCat("999999 ", own / 4096 + 100, " 100 1 0 5 0\n"));
  }

  FakeProc proc_;
  FakeRealClock clock_;
  uint64_t gpus_ = 0;
  std::vector<std::string> errors_, warnings_;
  std::vector<pid_t> ended_;
};

TEST_F(HostMemoryTest, WhatProcessesShareCountsOnce) {
  Process(11, 4 * kGiB);
  EXPECT_EQ(OwnBytes(proc_, 11), 4 * kGiB);
  proc_.SetText(11, "smaps_rollup",
                "5581c6f5b000-7fff3a5d2000 ---p 00000000 00:00 0 [rollup]\n"
                "Rss:             9999999 kB\nPss:             5000000 kB\n"
                "Pss_Dirty:       1000000 kB\nPss_Anon:        2097152 kB\n");
  EXPECT_EQ(OwnBytes(proc_, 11), 2 * kGiB);
  EXPECT_EQ(OwnBytes(proc_, 99), 0u);
}

TEST_F(HostMemoryTest, LeavesSomeOfTheMachines) {
  HostMemory memory(Options());
  proc_.memory = {.total = 16 * kGiB, .available = 2 * kGiB};
  EXPECT_TRUE(memory.Take(kGiB));
  EXPECT_FALSE(memory.Take(7 * kGiB / 4));  // half a gigabyte stays
  EXPECT_TRUE(memory.MayAllocate());
  proc_.memory.available = 550 * kMiB;
  EXPECT_TRUE(warnings_.empty());
  EXPECT_TRUE(memory.MayAllocate());  // it was asked a moment ago
  clock_.Pass(10'000'000);
  EXPECT_FALSE(memory.MayAllocate());
  EXPECT_FALSE(memory.MayAllocate());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0].substr(0, 79),
            "GPU memory is refused from now on, as if the GPUs had no more: the memory of th");
  EXPECT_TRUE(memory.Take(32 * kMiB));
  EXPECT_TRUE(ended_.empty());
  // A kernel that says nothing forbids nothing.
  proc_.memory = {};
  EXPECT_TRUE(memory.Take(100 * kGiB));
  EXPECT_TRUE(memory.MayAllocate());
  memory.Look();
  EXPECT_TRUE(ended_.empty());
}

TEST_F(HostMemoryTest, AllocationsMayGoOnUntilTheEnd) {
  auto options = Options();
  options.out_of_memory = OutOfMemory::kKill;
  HostMemory memory(options);
  proc_.memory = {.total = 16 * kGiB, .available = 1};
  EXPECT_TRUE(memory.MayAllocate());
  EXPECT_FALSE(memory.Take(1));
}

TEST_F(HostMemoryTest, WhoNeedsWhatIsNotThereIsEndedOnceAndTold) {
  HostMemory memory(Options());
  Process(11, kGiB);
  Process(12, 3 * kGiB);
  gpus_ = 2 * kGiB;
  memory.Look();
  memory.UsedUp();
  memory.UsedUp();
  EXPECT_EQ(ended_, std::vector<pid_t>{12});
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(
      errors_[0],
      "the memory of this machine, or of the control group around this run, is used up; GPU "
      "work of rank 2 is ended. Taken are 6.0 GiB: processes 4.0 (the largest, rank 2, "
      "3.0), GPUs' memory 2.0 (of 80.0 allocated, 4.0 are not zeros), pinned and managed 0.0, "
      "the emulator 0.0. Fewer ranks (--ranks-per-host), shared memory (--share-memory on) "
      "or a smaller model take less");
}

TEST_F(HostMemoryTest, TheLargestProcessIsEndedBeforeTheMachineHasNone) {
  HostMemory memory(Options());
  Process(11, kGiB);
  Process(13, 2 * kGiB);
  proc_.memory = {.total = 16 * kGiB, .available = 300 * kMiB};
  EXPECT_TRUE(memory.IsNearTheEnd());
  memory.Look();
  EXPECT_TRUE(ended_.empty());
  proc_.memory.available = 200 * kMiB;
  memory.Look();
  EXPECT_EQ(ended_, std::vector<pid_t>{13});
}

TEST_F(HostMemoryTest, WhatIsGoneSinceTheLastLookCountsTowardsTheLimit) {
  auto options = Options();
  options.limit = 9 * kGiB;
  HostMemory memory(options);
  Process(11, 4 * kGiB);
  proc_.memory = {.total = 64 * kGiB, .available = 50 * kGiB};
  memory.Look();
  EXPECT_FALSE(memory.IsTight());
  proc_.memory.available = 47 * kGiB;
  memory.SeeWhetherTight(proc_.memory);
  EXPECT_TRUE(memory.IsTight());
  proc_.memory.available = 60 * kGiB;
  memory.SeeWhetherTight(proc_.memory);
  EXPECT_FALSE(memory.IsTight());
}

TEST_F(HostMemoryTest, ALimitCountsWhatTheRunTakes) {
  auto options = Options();
  options.limit = 8 * kGiB;
  HostMemory memory(options);
  Process(11, 4 * kGiB);
  gpus_ = 2 * kGiB;
  memory.Look();
  EXPECT_EQ(memory.used(), 6 * kGiB);
  EXPECT_FALSE(memory.IsNearTheEnd());
  EXPECT_TRUE(memory.IsTight());
  EXPECT_TRUE(memory.Take(kGiB));
  EXPECT_FALSE(memory.Take(kGiB));  // a sixteenth is kept for what processes take
  EXPECT_TRUE(memory.IsNearTheEnd());
  Process(12, 5 * kGiB);
  memory.Look();
  EXPECT_EQ(ended_, std::vector<pid_t>{12});
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0].substr(0, 107),
            "the run has taken the 8.0 GiB of memory that it may (--memory-limit); the largest "
            "process, rank 2 is ended.");
  EXPECT_EQ(memory.peak().total(), 11 * kGiB);
  EXPECT_EQ(Json(memory.peak())["processes"], 9 * kGiB);
}

}  // namespace
}  // namespace phantora
