#include "trap/gpu/sass/execute.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "trap/gpu/sass/programs_for_test.h"
#include "trap/gpu/sass/special_registers.h"
#include "uvm_model/device_memory.h"

namespace phantora::sass {
namespace {

constexpr uint64_t kAt = 0x7f1000000000, kBytes = 1 << 20;
constexpr uint32_t kParameters = 0x160;
constexpr int kLess = 1, kEqual = 2;

class ExecuteTest : public testing::Test {
 protected:
  ExecuteTest() : pages_(std::make_shared<PageStore>(64 << 20)) {
    space_.Map(kAt, kBytes, std::make_shared<DeviceMemory>(pages_, kBytes), 0);
    std::memcpy(&bank_[kParameters], &kAt, sizeof kAt);
    launch_ = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {}, .constants = {}};
    launch_.constants[0] = bank_;
  }

  Outcome Run(const std::vector<Word>& words, uint64_t most = 1'000'000) {
    const auto code = CodeOf(words);
    program_ = std::make_shared<const Program>(code, 80);
    for (uint32_t i = 0; i < program_->size(); ++i) {
      EXPECT_TRUE(program_->IsUnderstood(i)) << i << ": " << program_->Refusal(i);
    }
    return executor_.Run(launch_, *program_, space_, most, NeverInterrupted);
  }
  uint32_t At(uint64_t index) {
    uint32_t value = 0;
    EXPECT_FALSE(space_.Read(kAt + 4 * index, &value, 4));
    return value;
  }
  // R4 and R5: the address of the thread's word, by its number in R0.
  static std::vector<Word> WithAddress() {
    return {ReadSpecialRegister(0, kThreadX), MoveConstant(2, kParameters),
            MoveConstant(3, kParameters + 4), MultiplyAddWideImmediate(4, 0, 4, 2)};
  }
  static std::vector<Word> Joined(std::vector<Word> a, const std::vector<Word>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  std::shared_ptr<PageStore> pages_;
  AddressSpace space_;
  std::vector<uint8_t> bank_ = std::vector<uint8_t>(0x200);
  Launch launch_;
  Executor executor_{2};
  std::shared_ptr<const Program> program_;
};

TEST_F(ExecuteTest, EachThreadWritesItsNumber) {
  const Outcome outcome =
      Run(Joined(WithAddress(), {MultiplyAddImmediate(6, 0, 3, 255), StoreWord(4, 6), Exit()}));
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(At(i), 3 * i);
  EXPECT_EQ(outcome.thread_instructions, 32u * 7);
}

TEST_F(ExecuteTest, WhatIsMadeOfTaintedBytesIsTaintedAndNothingElse) {
  // Each thread's word becomes three times the thread's number; or, with `reads`, of its word.
  const auto run = [this](bool reads, Tracking tracking) {
    launch_.tracking = tracking;
    return Run(Joined(
        WithAddress(),
        reads ? std::vector<Word>{LoadWord(6, 4), MultiplyAddImmediate(6, 6, 3, 255),
                                  StoreWord(4, 6), Exit()}
              : std::vector<Word>{MultiplyAddImmediate(6, 0, 3, 255), StoreWord(4, 6), Exit()}));
  };
  space_.SetTaint(kAt + 4 * 31, 8, true);  // the last thread's, and one behind it
  // Who does not read it writes over it.
  ASSERT_TRUE(run(false, Tracking::kLooking).done());
  EXPECT_FALSE(space_.IsTainted(kAt, 4 * 32));
  EXPECT_TRUE(space_.IsTainted(kAt + 4 * 32, 4));
  // A page of which some is tainted may be read elsewhere.
  ASSERT_TRUE(run(true, Tracking::kLooking).done());
  EXPECT_EQ(At(31), 9 * 31u);
  space_.SetTaint(kAt + 4 * 7, 1, true);
  const Outcome outcome = run(true, Tracking::kLooking);
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kTainted);
  EXPECT_EQ(At(31), 9 * 31u);
  ASSERT_TRUE(run(true, Tracking::kTainted).done());
  EXPECT_EQ(At(31), 27 * 31u);
  for (uint64_t i = 0; i < 32; ++i) EXPECT_TRUE(space_.IsTainted(kAt + 4 * i + 3, 1));
  EXPECT_FALSE(space_.IsTainted(kAt + 4 * 33, 4));
}

TEST_F(ExecuteTest, ASampleIsWhatBlocksWriteAndNothingIsWritten) {
  // Each block writes 128 bytes at 256 times its number.
  launch_.grid = {1000, 1, 1};
  Run({Exit()});
  const auto code = CodeOf(
      Joined(WithAddress(), {ReadSpecialRegister(8, kBlockX),
                             MultiplyAddWideImmediate(4, 8, 256, 4), StoreWord(4, 0), Exit()}));
  const Program program(code, 80);
  Sample sample = executor_.Try(launch_, program, space_, 100'000, 1000, NeverInterrupted);
  EXPECT_TRUE(sample.is_complete);
  EXPECT_FALSE(sample.is_all);
  EXPECT_EQ(sample.clusters, 1000u);
  EXPECT_EQ(sample.most_of_cluster, 128u);
  ASSERT_EQ(sample.written.size(), 5u);  // both ends and three between them
  EXPECT_EQ(sample.written.front(), std::pair(kAt, kAt + 128));
  EXPECT_EQ(sample.written.back(), std::pair(kAt + 999 * 256, kAt + 999 * 256 + 128));
  EXPECT_EQ(sample.constants_read, (std::vector{std::pair(kParameters, kParameters + 8)}));
  sample = executor_.Try(launch_, program, space_, 1'000'000, 1'000'000, NeverInterrupted);
  EXPECT_TRUE(sample.is_all);
  EXPECT_EQ(sample.written.size(), 1000u);
  sample = executor_.Try(launch_, program, space_, 300, 300, NeverInterrupted);
  EXPECT_FALSE(sample.is_complete);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(At(i), 0u);
}

TEST_F(ExecuteTest, ThreadsThatWentDifferentWaysComeTogether) {
  // if (thread < 10) a = 1; else a = 2; and who is here, within and after that.
  const Outcome outcome =
      Run(Joined(WithAddress(), {SetConvergence(0, 6), CompareImmediate(0, kLess, 0, 10),
                                 Guarded(BranchBy(2), 0),    // to "then"
                                 WhoIsHere(7), BranchBy(2),  // else
                                 WhoIsHere(7), BranchBy(0),  // then
                                 Converge(0), WhoIsHere(8), StoreWord(4, 7), Exit()}));
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  EXPECT_EQ(At(0), 0x3ffu);
  EXPECT_EQ(At(31), ~0x3ffu);
}

TEST_F(ExecuteTest, LoopsRunAsOftenAsEachThreadWants) {
  // R6 counts to the thread's number.
  const Outcome outcome =
      Run(Joined(WithAddress(),
                 {MoveImmediate(6, 0), MoveImmediate(7, 0), SetConvergence(1, 5),
                  MultiplyAddImmediate(8, 6, ~0u, 0),  // number - count
                  CompareImmediate(1, kEqual, 8, 0), Guarded(MultiplyAddImmediate(6, 6, 1, 255), 9),
                  Guarded({0x0000000106067810, 0x07ffe0ff}, 9),  // IADD3 R6, R6, 1, RZ
                  Guarded(BranchBy(-5), 9), Converge(1), WhoIsHere(7), StoreWord(4, 6), Exit()}));
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(At(i), i);
}

TEST_F(ExecuteTest, CodeElsewhereIsAskedForAndThenCalled) {
  constexpr uint64_t kElsewhere = 0x7f3000000000;
  launch_.code_address = 0x7f2000000000;
  // A function that gives three times the number, and returns to R20.
  const std::vector<Word> function = {Exit(), MultiplyAddImmediate(6, 0, 3, 255), ReturnTo(20)};
  std::vector<Word> words =
      Joined(WithAddress(), {MoveImmediate(20, 7 * kWordBytes), MoveImmediate(21, 0x7f20),
                             CallAt(kElsewhere + kWordBytes), StoreWord(4, 6), JumpTo(kElsewhere)});
  const Outcome alone = Run(words);
  EXPECT_EQ(alone.stop.reason, Stop::Reason::kElsewhere);
  EXPECT_EQ(alone.stop.address, kElsewhere + kWordBytes);
  const Program with(CodeOf(words), 80, {{.address = kElsewhere, .code = CodeOf(function)}});
  const Outcome outcome = executor_.Run(launch_, with, space_, 1'000'000, NeverInterrupted);
  ASSERT_TRUE(outcome.done()) << Describe(outcome, with);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(At(i), 3 * i);
  EXPECT_EQ(outcome.thread_instructions, 32u * 12);
}

TEST_F(ExecuteTest, NobodyRunsOnFromOnePieceOfCodeToTheNext) {
  constexpr uint64_t kElsewhere = 0x7f3000000000;
  const auto words = Joined(WithAddress(), {StoreWord(4, 0), BranchBy(1), Exit()});
  const Program with(CodeOf(words), 80, {{.address = kElsewhere, .code = CodeOf({Exit()})}});
  const Outcome outcome = executor_.Run(launch_, with, space_, 1'000'000, NeverInterrupted);
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kBadTarget);
  const Program over(CodeOf(WithAddress()), 80,
                     {{.address = kElsewhere, .code = CodeOf({Exit()})}});
  EXPECT_EQ(executor_.Run(launch_, over, space_, 1'000'000, NeverInterrupted).stop.reason,
            Stop::Reason::kRefused);
}

TEST_F(ExecuteTest, BlocksOfACooperativeLaunchWaitForEachOther) {
  // Each block adds one to a word, and waits until all have.
  launch_.grid = {600, 1, 1};
  const std::vector<Word> words = {MoveConstant(2, kParameters),
                                   MoveConstant(3, kParameters + 4),
                                   MoveImmediate(6, 1),
                                   // RED.E.ADD [R2], R6
                                   {0x000000000200798e | uint64_t{6} << 32, 0x00100100},
                                   LoadWord(7, 2),
                                   CompareImmediate(0, kLess, 7, 32 * 600),
                                   Guarded(BranchBy(-3), 0),
                                   Exit()};
  launch_.together = true;
  const Outcome outcome = Run(words, 1'000'000'000);
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  EXPECT_EQ(At(0), 32u * 600);
  launch_.grid = {1 << 20, 1, 1};
  EXPECT_EQ(Run(words).stop.reason, Stop::Reason::kRefused);
}

TEST_F(ExecuteTest, AFaultLeavesNothingBehind) {
  // All write, then the last thread goes where nothing is mapped.
  const Outcome outcome =
      Run(Joined(WithAddress(), {StoreWord(4, 0), CompareImmediate(0, kEqual, 0, 31),
                                 Guarded(MoveImmediate(5, 0x1234), 0), StoreWord(4, 0), Exit()}));
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kUnmapped);
  EXPECT_EQ(outcome.stop.address >> 32, 0x1234u);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(At(i), 0u);
}

TEST_F(ExecuteTest, WhatATrappedLaunchHasWrittenIsKeptIfThatIsWanted) {
  // BPT.TRAP
  const auto words = Joined(WithAddress(), {StoreWord(4, 0), {0x000000040000795c, 0x00300000}});
  EXPECT_EQ(Run(words).stop.reason, Stop::Reason::kTrap);
  EXPECT_EQ(At(5), 0u);
  launch_.keeps_trapped = true;
  EXPECT_EQ(Run(words).stop.reason, Stop::Reason::kTrap);
  EXPECT_EQ(At(5), 5u);
}

TEST_F(ExecuteTest, MisalignedAccessesFail) {
  const Outcome outcome =
      Run(Joined(WithAddress(), {MultiplyAddImmediate(4, 4, 1, 0), StoreWord(4, 0), Exit()}));
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kMisaligned);
}

TEST_F(ExecuteTest, WhatTakesTooLongIsGivenUpAndChangesNothing) {
  launch_.grid = {1000, 1, 1};
  const auto words = Joined(WithAddress(), {StoreWord(4, 0), Exit()});
  const Outcome outcome = Run(words, 100'000);
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kTooLong);
  EXPECT_GT(outcome.thread_instructions, 100'000u);
  EXPECT_LT(outcome.thread_instructions, 110'000u);
  EXPECT_EQ(At(1), 0u);
  EXPECT_TRUE(Run(words, 1000u * 32 * 6).done());
  EXPECT_EQ(At(1), 1u);
}

TEST_F(ExecuteTest, RegistersHaveNothingOfTheLaunchBefore) {
  EXPECT_TRUE(Run({MoveImmediate(200, 0x5ec2e7), Exit()}).done());
  launch_.registers = 0;  // as the launch says, of which nothing is believed
  EXPECT_TRUE(Run(Joined(WithAddress(), {StoreWord(4, 200), Exit()})).done());
  EXPECT_EQ(At(0), 0u);
}

TEST_F(ExecuteTest, WhatNeverEndsIsGivenUp) {
  const Outcome outcome = Run({BranchBy(-1)}, 100'000);
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kTooLong);
}

TEST_F(ExecuteTest, WhatIsInterruptedChangesNothing) {
  const auto code = CodeOf(Joined(WithAddress(), {StoreWord(4, 0), BranchBy(-1)}));
  const Program program(code, 80);
  const Outcome outcome =
      executor_.Run(launch_, program, space_, 100'000'000'000, [] { return true; });
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kInterrupted);
  EXPECT_EQ(At(1), 0u);
}

TEST_F(ExecuteTest, JumpsOutOfTheCodeFail) {
  EXPECT_EQ(Run({BranchBy(100)}).stop.reason, Stop::Reason::kBadTarget);
  EXPECT_EQ(Run({BranchBy(-100)}).stop.reason, Stop::Reason::kBadTarget);
  EXPECT_EQ(Run({MoveImmediate(0, 0)}).stop.reason, Stop::Reason::kBadTarget);
}

TEST_F(ExecuteTest, AnUnknownWordRefusesALaunchThatComesToIt) {
  const auto code = CodeOf({Guarded(BranchBy(1), 0), Exit(), {0x0000000000007fff, 0}});
  const Program program(code, 80);
  EXPECT_TRUE(
      executor_.Run(launch_, program, space_, 1000, NeverInterrupted).done());  // P0 does not hold
  const auto reached = CodeOf({{0x0000000000007fff, 0}});
  const Program refused(reached, 80);
  const Outcome outcome = executor_.Run(launch_, refused, space_, 1000, NeverInterrupted);
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kRefused);
  EXPECT_NE(Describe(outcome, refused).find("fff"), std::string::npos);
}

TEST_F(ExecuteTest, PartsOfWarpsAndManyBlocks) {
  launch_.grid = {3, 1, 1};
  launch_.block = {40, 1, 1};
  // word[block * 40 + thread] = block
  const Outcome outcome = Run({ReadSpecialRegister(0, kThreadX), ReadSpecialRegister(1, kBlockX),
                               MultiplyAddImmediate(6, 1, 40, 0), MoveConstant(2, kParameters),
                               MoveConstant(3, kParameters + 4),
                               MultiplyAddWideImmediate(4, 6, 4, 2), StoreWord(4, 1), Exit()});
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  for (uint32_t i = 0; i < 120; ++i) EXPECT_EQ(At(i), i / 40);
  EXPECT_EQ(At(120), 0u);
}

TEST_F(ExecuteTest, ReadsSeeWhatTheLaunchHasWritten) {
  const Outcome outcome =
      Run(Joined(WithAddress(), {StoreWord(4, 0), LoadWord(7, 4),
                                 MultiplyAddImmediate(7, 7, 2, 255), StoreWord(4, 7), Exit()}));
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  EXPECT_EQ(At(31), 62u);
}

TEST_F(ExecuteTest, ShapesThatNoGpuHasAreRefused) {
  launch_.block = {2000, 1, 1};
  EXPECT_EQ(Run({Exit()}).stop.reason, Stop::Reason::kRefused);
  launch_.block = {0, 1, 1};
  EXPECT_EQ(Run({Exit()}).stop.reason, Stop::Reason::kRefused);
}

TEST_F(ExecuteTest, ZerosThatAreWrittenTakeNoMemory) {
  ASSERT_TRUE(Run(Joined(WithAddress(), {StoreWord(4, 255), Exit()})).done());
  EXPECT_EQ(pages_->used(), 0u);
}

}  // namespace
}  // namespace phantora::sass
