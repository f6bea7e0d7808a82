#include "profiles/work/code_summary.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "profiles/work/work_form.h"

namespace phantora {
namespace {

constexpr uint32_t kParametersAt = 0x160;

class Code {
 public:
  void Add(uint64_t low, uint64_t high = 0) {
    const size_t at = bytes_.size();
    bytes_.resize(at + 16);
    std::memcpy(bytes_.data() + at, &low, 8);
    std::memcpy(bytes_.data() + at + 8, &high, 8);
  }
  // LDG.E of 16 bytes.
  void Load(uint64_t eviction = 1) { Add(0x981, 6 << 9 | eviction << 20); }
  // IADD3 R, R, immediate
  void Count(uint64_t reg, int32_t step) {
    Add(0x810 | reg << 16 | reg << 24 | uint64_t{static_cast<uint32_t>(step)} << 32);
  }
  void CompareWithNumber(uint64_t reg, uint64_t bound) { Add(0x80c | reg << 24 | bound << 32); }
  void CompareWithConstant(uint64_t reg, uint64_t offset) { Add(0xa0c | reg << 24 | offset << 38); }
  void CompareWithRegister(uint64_t reg, uint64_t other) { Add(0x20c | reg << 24 | other << 32); }
  void MoveConstant(uint64_t reg, uint64_t offset) { Add(0xa02 | reg << 16 | offset << 38); }
  // As Ampere encodes it: bytes from the next instruction.
  void BranchTo(size_t instruction, uint64_t guard = 0) {
    const auto words = (static_cast<int64_t>(instruction) - static_cast<int64_t>(size()) - 1) * 4;
    Add(0x947 | guard << 12 | static_cast<uint64_t>(words) << 34);
  }
  // As Hopper does: its low eight bits elsewhere.
  void HopperBranchTo(size_t instruction) {
    const auto words = (static_cast<int64_t>(instruction) - static_cast<int64_t>(size()) - 1) * 4;
    Add(0x947 | (static_cast<uint64_t>(words) & 255) << 16 |
        static_cast<uint64_t>(words >> 8) << 34);
  }
  size_t size() const { return bytes_.size() / 16; }
  CodeSummary Read() const { return Summarise(bytes_, kParametersAt); }

 private:
  std::vector<uint8_t> bytes_;
};

TEST(CodeSummaryTest, CountsSelects) {
  Code code;
  code.Add(0x207);  // SEL
  code.Add(0x808);  // FSEL
  code.Add(0x210);  // IADD3
  EXPECT_EQ(code.Read().selects, 2);
}

TEST(CodeSummaryTest, LoadsAndStoresByTheirWidth) {
  Code code;
  code.Add(0x981, 4 << 9);  // LDG.E
  code.Add(0x981, 6 << 9);  // LDG.E.128
  code.Add(0x986, 5 << 9);  // STG.E.64
  EXPECT_EQ(code.Read().loaded, 20);
  EXPECT_EQ(code.Read().stored, 8);
  EXPECT_EQ(code.Read().parts.size(), 1);
}

// LDG.E of 4 bytes: into a register, from an address.
uint64_t LoadInto(uint64_t reg, uint64_t address) { return 0x981 | reg << 16 | address << 24; }
constexpr uint64_t kWord = 4 << 9;
// FADD of two registers.
uint64_t AddOf(uint64_t reg, uint64_t a, uint64_t b) {
  return 0x221 | reg << 16 | a << 24 | b << 32;
}
constexpr uint64_t kNoThird = 255;

TEST(CodeSummaryTest, LoadsThatAreAskedForTogetherAreWaitedForOnce) {
  Code code;
  for (uint64_t reg = 10; reg < 18; ++reg) code.Add(LoadInto(reg, 2), kWord);
  code.Add(AddOf(20, 10, 11), kNoThird);
  EXPECT_EQ(code.Read().parts[0].rounds, 1);
  code.Add(LoadInto(30, 20), kWord);  // its address depends on them
  code.Add(AddOf(31, 30, 10), kNoThird);
  EXPECT_EQ(code.Read().parts[0].rounds, 2);
  code.Add(LoadInto(32, 2), kWord);
  EXPECT_EQ(code.Read().parts[0].rounds, 2) << "nobody waits for it";
  code.Add(LoadInto(32, 2), kWord);
  EXPECT_EQ(code.Read().parts[0].rounds, 3) << "its register is taken";
}

TEST(CodeSummaryTest, OfTwoSidesOfABranchTheOneThatMovesMoreCounts) {
  Code code;
  code.BranchTo(4);  // @P0, over one side
  code.Add(LoadInto(10, 2), kWord);
  code.Add(AddOf(11, 10, 10), kNoThird);
  code.Add(0x794d, 7 << 23);  // EXIT
  code.Add(LoadInto(10, 2), 6 << 9);
  code.Add(LoadInto(14, 2), 6 << 9);
  code.Add(0x794d, 7 << 23);
  const CodeSummary summary = code.Read();
  EXPECT_EQ(summary.loaded, 36) << "of all code";
  EXPECT_EQ(summary.parts[0].loaded, 32);
  EXPECT_EQ(summary.parts[0].rounds, 0);
}

TEST(CodeSummaryTest, ALoopUpToANumber) {
  for (const bool hopper : {false, true}) {
    Code code;
    code.Load();
    code.Load();
    code.Count(3, 0x240);
    code.CompareWithNumber(3, 0xfc0);
    hopper ? code.HopperBranchTo(1) : code.BranchTo(1);
    const CodeSummary summary = code.Read();
    ASSERT_EQ(summary.parts.size(), 2) << hopper;
    EXPECT_EQ(summary.parts[0].loaded, 16);
    EXPECT_EQ(summary.parts[1].loaded, 16);
    EXPECT_EQ(summary.parts[1].trips.step, 0x240);
    EXPECT_EQ(summary.parts[1].trips.bound, 0xfc0);
  }
}

TEST(CodeSummaryTest, ALoopUpToAParameter) {
  Code code;
  code.Load();
  code.Count(9, 32);
  code.CompareWithConstant(9, kParametersAt + 0x20);
  code.BranchTo(0);
  const auto trips = code.Read().parts.at(1).trips;
  EXPECT_EQ(trips.parameter_at, 0x20);
  EXPECT_EQ(trips.step, 32);
}

TEST(CodeSummaryTest, ALoopUpToAParameterInARegister) {
  Code code;
  code.MoveConstant(7, kParametersAt + 8);
  code.Count(7, -64);
  code.Load();
  code.Count(9, 32);
  code.CompareWithRegister(9, 7);
  code.BranchTo(2);
  const auto trips = code.Read().parts.at(1).trips;
  EXPECT_EQ(trips.parameter_at, 8);
  EXPECT_EQ(trips.bound, -64);
}

TEST(CodeSummaryTest, AComparisonThatDoesNotEndTheLoopDoesNotCount) {
  Code code;
  code.Load();
  code.Count(9, 1);
  code.CompareWithNumber(9, 100);  // sets P0
  code.BranchTo(0, 3);             // @P3
  EXPECT_EQ(code.Read().parts.at(1).trips.step, 0);
}

TEST(CodeSummaryTest, ALoopThatCannotBeCounted) {
  Code code;
  code.Load();
  code.CompareWithRegister(9, 7);
  code.BranchTo(0);
  EXPECT_EQ(code.Read().parts.at(1).trips.step, 0);
}

TEST(CodeSummaryTest, LoopsInLoops) {
  Code code;
  code.Load();
  code.Load();
  code.Count(3, 1);
  code.CompareWithNumber(3, 10);
  code.BranchTo(1);
  code.Count(4, 1);
  code.CompareWithNumber(4, 5);
  code.BranchTo(0);
  const CodeSummary summary = code.Read();
  ASSERT_EQ(summary.parts.size(), 3);
  EXPECT_EQ(summary.parts[2].outer, 1);
  const FoundForm found = FromCode({.symbol = "f", .parameters = {}, .code = &summary});
  // A load in each of 5 turns, and another in each of 10 within each.
  const KernelWork work = found.form->Of({.grid = {2, 1, 1}, .block = {1, 1, 1}, .parameters = {}});
  EXPECT_EQ(work.bytes, 2 * (5 + 50) * 16);
  EXPECT_FALSE(work.guessed);
}

TEST(CodeSummaryTest, WhatIsToStayInTheCacheIsReadAgain) {
  Code code;
  code.Load(2);  // LDG.E.EL
  code.Load(0);  // LDG.E.EF
  const CodeSummary summary = code.Read();
  const FoundForm found = FromCode({.symbol = "f", .parameters = {}, .code = &summary});
  const KernelWork work = found.form->Of({});
  EXPECT_EQ(work.bytes, 16);
  EXPECT_EQ(work.cached_bytes, 32);
}

TEST(CodeSummaryTest, CodeThatIsNothingButComparisonsInLoops) {
  // As large as code may be: what it costs to look at must not grow with its square.
  Code code;
  for (int i = 0; i < 200'000; ++i) {
    code.Count(static_cast<uint64_t>(i % 250), 1);
    code.CompareWithRegister(static_cast<uint64_t>(i % 250), 251);
  }
  for (int i = 0; i < 100; ++i) code.BranchTo(static_cast<size_t>(i));
  EXPECT_EQ(code.Read().parts.size(), 65);
}

TEST(CodeSummaryTest, AnyBytesAreCode) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    Code code;
    for (uint64_t n = random() % 200; n > 0; --n) {
      const uint64_t operations[] = {0x947, 0x810, 0x80c, 0xa0c, 0x20c, 0x981, 0xa02, 0xc0c};
      const uint64_t low = (random() & ~uint64_t{0xfff}) | operations[random() % 8];
      code.Add(random() % 4 == 0 ? low | 0xffff'ff00'0000'0000 : low, random());
    }
    const CodeSummary summary = code.Read();
    const FoundForm found = FromCode({.symbol = "f", .parameters = {}, .code = &summary});
    const KernelWork work =
        found.form->Of({.grid = {3, 1, 1}, .block = {1, 1, 1}, .parameters = {}});
    EXPECT_GE(work.bytes, 0);
    EXPECT_LE(summary.parts.size(), 65);
  }
}

}  // namespace
}  // namespace phantora
