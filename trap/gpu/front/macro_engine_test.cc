#include "trap/gpu/front/macro_engine.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace phantora {
namespace {

using State = MacroEngine::State;
constexpr uint32_t kInlineData = 0x1b4;

// As libcuda 580 gives them to an H200: so many words of one value, and so many words from an
// address, as inline data.
constexpr uint32_t kFill[] = {0x140003,   0x1d00001b, 0x71c08300, 0x3,        0x18c00000,
                              0xb01c5f00, 0x200003,   0x18c00000, 0x300c0300, 0x3,
                              0x18c00000, 0x318c0301, 0x3,        0x18c00000, 0x318c0300};
constexpr uint32_t kCopy[] = {0x3,        0x1d080000, 0x31c00300, 0x540003, 0xc00455,   0x31c00300,
                              0x2a200003, 0xc00056,   0x301c0300, 0x7,      0x18c00400, 0x359c1f00,
                              0x1801b7,   0x18c00000, 0xb00c5f00, 0x600003, 0x18c00000, 0x318c0300,
                              0x3,        0x18c00000, 0x318c0301, 0x3,      0x18c00000, 0x318c0300};

class MacroEngineTest : public ::testing::Test {
 protected:
  MacroEngineTest() {
    engine_.SetInstructionPointer(0);
    for (const uint32_t word : kFill) engine_.AddInstruction(word);
    for (const uint32_t word : kCopy) engine_.AddInstruction(word);
    engine_.SetStartPointer(0);
    engine_.AddStart(0);
    engine_.AddStart(std::size(kFill));
  }
  State Run() {
    return engine_.Run([](uint32_t) { return 0; });
  }
  void ExpectEmit(uint32_t method, uint32_t data) {
    ASSERT_EQ(Run(), State::kEmits) << engine_.refusal();
    EXPECT_EQ(engine_.emit().method, method);
    EXPECT_EQ(engine_.emit().data, data);
  }
  // An instruction: the fields that differ from one that does nothing.
  struct Fields {
    uint32_t operation = 0, destination = 24, first = 24, second = 24, immediate = 0;
    uint32_t method = 0, emit = 0, predicate_mode = 0, predicate = 24, ends = 0;
  };
  void Add(const Fields& of) {
    const uint64_t nothing = 24 << 5 | 24 << 10 | 24 << 15;
    const uint64_t alu = of.operation | of.destination << 5 | of.first << 10 | of.second << 15;
    const auto low = of.ends | of.predicate_mode << 1 | of.predicate << 5 | alu << 10 |
                     uint64_t{of.immediate} << 30 | nothing << 46;
    const uint64_t high = nothing >> 18 | uint64_t{of.method | of.emit << 3} << 18;
    for (const uint64_t word : {high, low >> 32, low}) {
      engine_.AddInstruction(static_cast<uint32_t>(word));
    }
  }

  MacroEngine engine_;
};

TEST_F(MacroEngineTest, FillsWords) {
  engine_.Call(0, 3);
  EXPECT_EQ(Run(), State::kWaits);  // for the value
  engine_.AddParameter(0xabababab);
  for (int i = 0; i < 3; ++i) ExpectEmit(kInlineData, 0xabababab);
  EXPECT_EQ(Run(), State::kWaits);
  EXPECT_GT(engine_.TakeWork(), 3u);
  EXPECT_EQ(engine_.TakeWork(), 0u);
}

TEST_F(MacroEngineTest, ReadsWordsFromMemory) {
  engine_.Call(1, 0x7f);
  for (const uint32_t parameter : {0x1000, 2}) engine_.AddParameter(parameter);
  ExpectEmit(0x550, 0x7f);
  ExpectEmit(0x554, 0x1000);
  ExpectEmit(0x560, 2);
  ASSERT_EQ(Run(), State::kReads);
  engine_.SetParameters({11, 12});
  ExpectEmit(kInlineData, 11);
  ExpectEmit(kInlineData, 12);
  EXPECT_EQ(Run(), State::kWaits);
}

TEST_F(MacroEngineTest, BranchesAndPredicatesAndMemory) {
  engine_.SetInstructionPointer(300);
  engine_.SetStartPointer(7);
  engine_.AddStart(300);
  // r0 = load0; memory[5] = r0; r1 = memory[5] - 1; if r1 == 0, 4 to method 0x40; again while it is
  // not.
  Add({.destination = 0, .first = 28});
  Add({.destination = 2, .first = 25, .immediate = 5});
  Add({.operation = 31, .first = 2, .second = 0});
  Add({.operation = 30, .destination = 0, .first = 2});
  Add({.operation = 2, .destination = 0, .first = 0, .second = 25, .immediate = 1});
  Add({.immediate = 0x10,
       .method = 5,
       .predicate_mode = 12,
       .predicate = 0});  // FF: outputs if zero
  Add({.first = 25, .immediate = 4, .emit = 1, .predicate_mode = 12, .predicate = 0});
  Add({.operation = 29, .first = 0, .immediate = 0x1ffb});  // to -5 if r0 != 0
  Add({.ends = 1});
  Add({});
  engine_.Call(7, 3);
  ExpectEmit(0x40, 4);
  EXPECT_EQ(Run(), State::kWaits);
}

TEST_F(MacroEngineTest, RefusesWhatItDoesNotKnow) {
  engine_.SetInstructionPointer(300);
  engine_.SetStartPointer(0);
  engine_.AddStart(300);
  Add({.operation = 7, .first = 25, .immediate = 0x2000});
  engine_.Call(0, 0);
  EXPECT_EQ(Run(), State::kRefuses);
  EXPECT_STREQ(engine_.refusal(), "an operation");
  EXPECT_EQ(Run(), State::kWaits);
  engine_.SetStartPointer(0);
  engine_.AddStart(MacroEngine::kInstructionWords);
  engine_.Call(0, 0);
  EXPECT_EQ(Run(), State::kRefuses);
  for (const uint32_t macro : {50u, MacroEngine::kMacros}) {
    engine_.Call(macro, 0);
    EXPECT_EQ(Run(), State::kRefuses);
    EXPECT_EQ(Run(), State::kWaits);
  }
}

TEST_F(MacroEngineTest, AnEndlessOneIsRefused) {
  engine_.SetInstructionPointer(300);
  engine_.SetStartPointer(0);
  engine_.AddStart(300);
  Add({.operation = 24, .immediate = 0x8000});
  engine_.Call(0, 0);
  EXPECT_EQ(Run(), State::kRefuses);
}

TEST_F(MacroEngineTest, AnyCodeEnds) {
  std::mt19937 random(3);
  for (int program = 0; program < 300; ++program) {
    engine_.SetInstructionPointer(0);
    for (uint32_t i = 0; i < 300; ++i) engine_.AddInstruction(random());
    engine_.SetStartPointer(0);
    engine_.AddStart(0);
    engine_.Call(0, random());
    for (int i = 0; i < 10; ++i) engine_.AddParameter(random());
    State state = State::kEmits;
    for (int step = 0; step < 2000 && (state == State::kEmits || state == State::kReads); ++step) {
      state = Run();
    }
  }
}

}  // namespace
}  // namespace phantora
