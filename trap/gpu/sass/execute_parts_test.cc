// Launches of which parts are executed at one time: what comes of them is what comes of blocks that
// run one after the other.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "trap/gpu/sass/execute.h"
#include "trap/gpu/sass/programs_for_test.h"
#include "trap/gpu/sass/special_registers.h"
#include "uvm_model/device_memory.h"

namespace phantora::sass {
namespace {

constexpr uint64_t kAt = 0x7f1000000000, kBytes = 16 << 20;
constexpr uint32_t kParameters = 0x160, kBlocks = 20'000;
constexpr int kEqual = 2;

// ATOMG.E.ADD.STRONG.GPU R<d>, [R<a>.64], R<b>
Word AtomicAdd(int d, int a, int b) {
  return {0x79a8 | static_cast<uint64_t>(d) << 16 | static_cast<uint64_t>(a) << 24 |
              static_cast<uint64_t>(b) << 32,
          0x081ee1c4};
}
// LDG.E.STRONG.GPU
Word LoadStrong(int d, int a) {
  const Word plain = LoadWord(d, a);
  return {plain.low, (plain.high & ~uint64_t{0x1e000}) | uint64_t{7} << 13};
}

class ExecutePartsTest : public testing::TestWithParam<int> {
 protected:
  ExecutePartsTest() : pages_(std::make_shared<PageStore>(uint64_t{64} << 20)) {
    space_.Map(kAt, kBytes, std::make_shared<DeviceMemory>(pages_, kBytes), 0);
    std::memcpy(&bank_[kParameters], &kAt, sizeof kAt);
    launch_ = {.grid = {kBlocks, 1, 1}, .block = {32, 1, 1}, .cluster = {}, .constants = {}};
    launch_.constants[0] = bank_;
  }
  Outcome Run(const std::vector<Word>& words, uint64_t most = 1'000'000'000) {
    program_ = std::make_unique<const Program>(CodeOf(words), 80);
    return executor_.Run(launch_, *program_, space_, most, NeverInterrupted);
  }
  std::vector<uint32_t> Words(size_t count) {
    std::vector<uint32_t> words(count);
    EXPECT_FALSE(space_.Read(kAt, words.data(), 4 * count));
    return words;
  }
  // R0: the thread's number in the launch, times `stride` of blocks; R4 and R5: its word's address.
  static std::vector<Word> WithAddress(uint32_t stride) {
    return {ReadSpecialRegister(0, kThreadX),      ReadSpecialRegister(1, kBlockX),
            MultiplyAddImmediate(0, 1, stride, 0), MoveConstant(2, kParameters),
            MoveConstant(3, kParameters + 4),      MultiplyAddWideImmediate(4, 0, 4, 2)};
  }
  static std::vector<Word> Joined(std::vector<Word> a, const std::vector<Word>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  std::shared_ptr<PageStore> pages_;
  AddressSpace space_;
  std::vector<uint8_t> bank_ = std::vector<uint8_t>(0x200);
  Launch launch_;
  Executor executor_{GetParam()};
  std::unique_ptr<const Program> program_;
};

TEST_P(ExecutePartsTest, EachBlockWritesItsOwn) {
  const Outcome outcome =
      Run(Joined(WithAddress(32), {MultiplyAddImmediate(6, 0, 3, 1), StoreWord(4, 6), Exit()}));
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  EXPECT_EQ(outcome.thread_instructions, uint64_t{kBlocks} * 32 * 9);
  const auto words = Words(kBlocks * 32);
  for (uint32_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], 3 * i + i / 32) << i;
  EXPECT_FALSE(program_->needs_order());
}

// All write the same words: of those whom nothing orders, the last block is the last in any case.
TEST_P(ExecutePartsTest, TheLastBlockIsTheLastToWrite) {
  ASSERT_TRUE(Run(Joined(WithAddress(0), {StoreWord(4, 1), Exit()})).done());
  for (const uint32_t word : Words(32)) EXPECT_EQ(word, kBlocks - 1);
}

// Pages in which parts meet: each block writes one byte of words that its neighbours write, too.
TEST_P(ExecutePartsTest, NeighboursDoNotUndoEachOther) {
  const Word store_byte = {StoreWord(4, 1).low, StoreWord(4, 1).high & ~uint64_t{0xe00}};
  launch_.block = {1, 1, 1};
  launch_.grid = {400'000, 1, 1};
  ASSERT_TRUE(Run({ReadSpecialRegister(1, kBlockX), MoveConstant(2, kParameters),
                   MoveConstant(3, kParameters + 4), MultiplyAddWideImmediate(4, 1, 1, 2),
                   store_byte, Exit()})
                  .done());
  const auto words = Words(100'000);
  for (uint32_t i = 0; i < words.size(); ++i) {
    uint32_t expected = 0;
    for (uint32_t byte = 0; byte < 4; ++byte) expected |= ((4 * i + byte) & 0xff) << 8 * byte;
    ASSERT_EQ(words[i], expected) << i;
  }
}

TEST_P(ExecutePartsTest, AtomicOperationsAreInOrder) {
  // word[1 + thread] = what was in word[0], to which each adds one.
  const auto words = Joined(WithAddress(32), {MoveImmediate(6, 1),
                                              AtomicAdd(7, 2, 6),
                                              MultiplyAddImmediate(4, 4, 1, 255),
                                              {0x0000000404047810, 0x07ffe0ff},
                                              StoreWord(4, 7),
                                              Exit()});
  for (int time = 0; time < 2; ++time) {
    const uint32_t zero = 0;
    ASSERT_FALSE(space_.Write(kAt, &zero, 4));
    const Outcome outcome = Run(words);
    ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
    EXPECT_TRUE(program_->needs_order());
    const auto there = Words(1 + kBlocks * 32);
    EXPECT_EQ(there[0], kBlocks * 32);
    for (uint32_t i = 0; i < kBlocks * 32; ++i) ASSERT_EQ(there[1 + i], i);
  }
}

// Also where the first blocks do nothing of the kind.
TEST_P(ExecutePartsTest, AnAtomicOperationLaterOn) {
  const Outcome outcome = Run(
      Joined(WithAddress(32), {CompareImmediate(0, 4, 1, 15'000), MoveImmediate(6, 1),  // greater
                               Guarded(AtomicAdd(7, 2, 6), 0), Exit()}));
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  EXPECT_TRUE(program_->needs_order());
  EXPECT_EQ(Words(1)[0], (kBlocks - 1 - 15'000) * 32);
}

TEST_P(ExecutePartsTest, StrongLoadsSeeTheBlocksBefore) {
  // word[0] = word[0] + 1, by the first thread of each block.
  const Outcome outcome = Run(
      {ReadSpecialRegister(0, kThreadX), CompareImmediate(0, kEqual, 0, 0),
       MoveConstant(2, kParameters), MoveConstant(3, kParameters + 4), Guarded(LoadStrong(6, 2), 0),
       Guarded({0x0000000106067810, 0x07ffe0ff}, 0), Guarded(StoreWord(2, 6), 0), Exit()});
  ASSERT_TRUE(outcome.done()) << Describe(outcome, *program_);
  EXPECT_EQ(Words(1)[0], kBlocks);
}

TEST_P(ExecutePartsTest, AFaultIsTheFirstOneAndLeavesNothingBehind) {
  // From block 7,000 on addresses are wrong, each in its own way.
  const Outcome outcome = Run(Joined(
      WithAddress(32), {CompareImmediate(0, 6, 1, 7000),  // greater or equal
                        Guarded(MultiplyAddImmediate(5, 1, 16, 255), 0), StoreWord(4, 1), Exit()}));
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kUnmapped);
  EXPECT_EQ(outcome.stop.address >> 32, 7000u * 16);
  for (const uint32_t word : Words(kBlocks * 32)) ASSERT_EQ(word, 0u);
}

TEST_P(ExecutePartsTest, WhatTakesTooLongIsGivenUpAndChangesNothing) {
  // The first blocks say that it is little, later ones never end.
  const Outcome outcome =
      Run(Joined(WithAddress(32), {StoreWord(4, 1), CompareImmediate(0, 4, 1, 10'000),
                                   Guarded(BranchBy(-2), 0), Exit()}),
          20'000'000);
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kTooLong);
  for (const uint32_t word : Words(kBlocks * 32)) ASSERT_EQ(word, 0u);
}

TEST_P(ExecutePartsTest, WhatIsInterruptedChangesNothing) {
  program_ = std::make_unique<const Program>(
      CodeOf(Joined(WithAddress(32), {StoreWord(4, 1), CompareImmediate(0, 4, 1, 10'000),
                                      Guarded(BranchBy(-2), 0), Exit()})),
      80);
  int questions = 0;
  const Outcome outcome =
      executor_.Run(launch_, *program_, space_, 100'000'000'000, [&] { return ++questions > 2; });
  EXPECT_EQ(outcome.stop.reason, Stop::Reason::kInterrupted);
  for (const uint32_t word : Words(kBlocks * 32)) ASSERT_EQ(word, 0u);
}

INSTANTIATE_TEST_SUITE_P(Processors, ExecutePartsTest, testing::Values(1, 2, 7));

}  // namespace
}  // namespace phantora::sass
