#include "trap/memory/without_zeros.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

TEST(WithoutZerosTest, WhatALookFoundTheNextKnows) {
  WithoutZeros memory;
  memory.Begin(false);
  EXPECT_FALSE(memory.FirstOf(0x1000, 0x9000).known);
  memory.Note(0x2000, 0x3000);
  memory.Note(0x3000, 0x5000);
  memory.Note(0x7000, 0x8000);
  memory.Begin(false);
  // Between them it is to be read, in as many parts.
  const struct {
    uint64_t begin, bytes;
    bool known;
  } parts[] = {{0x1000, 0x1000, false},
               {0x2000, 0x3000, true},
               {0x5000, 0x2000, false},
               {0x7000, 0x1000, true},
               {0x8000, 0x1000, false}};
  for (const auto& [begin, bytes, known] : parts) {
    const WithoutZeros::Part part = memory.FirstOf(begin, 0x9000);
    EXPECT_EQ(part.bytes, bytes) << begin;
    EXPECT_EQ(part.known, known) << begin;
  }
}

TEST(WithoutZerosTest, APartEndsWhereWhatIsAskedForDoes) {
  WithoutZeros memory;
  memory.Begin(false);
  memory.Note(0x2000, 0x6000);
  memory.Begin(false);
  EXPECT_EQ(memory.FirstOf(0x1000, 0x2000).bytes, 0x1000u);
  const WithoutZeros::Part part = memory.FirstOf(0x3000, 0x4000);
  EXPECT_EQ(part.bytes, 0x1000u);
  EXPECT_TRUE(part.known);
}

TEST(WithoutZerosTest, WhatIsForgottenIsReadAgain) {
  WithoutZeros memory;
  memory.Begin(false);
  memory.Note(0x2000, 0x6000);
  memory.Begin(true);
  EXPECT_FALSE(memory.FirstOf(0x2000, 0x6000).known);
  // Nor is known what the look before the last found.
  memory.Begin(false);
  EXPECT_FALSE(memory.FirstOf(0x2000, 0x6000).known);
}

}  // namespace
}  // namespace phantora
