#include "trap/gpu/front/parameters_read.h"

#include <gtest/gtest.h>

#include <cstring>

namespace phantora {
namespace {

constexpr GridAndBlock kShape = {64, 1, 1, 128, 1, 1};

// A count of four bytes, a gap, a pointer, a factor, a double, a table of pointers.
struct Parameters {
  uint32_t count = 1000, gap = 0;
  uint64_t pointer = 0x7f0000000000;
  float factor = 0.5F;
  uint32_t other = 7;
  double rate = 1e-3;
  uint64_t table[4] = {0x7f0000001000, 0x7f0000002000, 0, 0};

  absl::Span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(this), sizeof *this};
  }
};

class ParametersReadTest : public testing::Test {
 protected:
  uint64_t Hash(const Parameters& parameters) const {
    return read_.HashOf(parameters.bytes(), pointers_);
  }
  void Learn(const Parameters& parameters, uint64_t width = 4000,
             const GridAndBlock& shape = kShape) {
    LaunchOutputs outputs = {.known = true};
    outputs.regions = {{.parameter = 8, .width = width, .stride = width}};
    read_.Learn(shape, parameters.bytes(), pointers_, outputs);
  }

  // All but the gap, and of the table the first.
  ParametersRead read_{{{0, 4}, {8, 48}}};
  const std::vector<uint32_t> pointers_ = {8, 32, 40};
};

TEST_F(ParametersReadTest, APointerIsReadWhole) {
  const ByteRanges ranges = {{0, 4}, {8, 12}, {16, 32}};
  EXPECT_FALSE(HasPointer(ranges, 0));
  EXPECT_FALSE(HasPointer(ranges, 8));
  EXPECT_TRUE(HasPointer(ranges, 16));
  EXPECT_TRUE(HasPointer(ranges, 24));
  EXPECT_FALSE(HasPointer(ranges, 32));
  EXPECT_FALSE(HasPointer({}, 0));
}

TEST_F(ParametersReadTest, WhatIsNotReadAndWherePointersPointTellsNothing) {
  Parameters other;
  other.gap = 12345;
  other.pointer += 0x100000;
  other.table[1] = 0x7f0000777000;
  EXPECT_NE(Hash(other), Hash({.count = 1001}));
  EXPECT_EQ(Hash(other), Hash({.table = {0x7f0000009000, 0x7f0000002000, 1, 2}}));
  EXPECT_EQ(Hash(other), Hash({}));
  // Of the last word that is read, bytes.
  const ParametersRead one_byte({{4, 5}});
  EXPECT_EQ(one_byte.HashOf(Parameters({.gap = 0x100}).bytes(), {}),
            one_byte.HashOf(Parameters().bytes(), {}));
  EXPECT_NE(one_byte.HashOf(Parameters({.gap = 1}).bytes(), {}),
            one_byte.HashOf(Parameters().bytes(), {}));
}

TEST_F(ParametersReadTest, APointerIsNoNumberThatIsTheSame) {
  const ParametersRead read({{8, 16}});
  const Parameters parameters;
  EXPECT_NE(read.HashOf(parameters.bytes(), {}), read.HashOf(parameters.bytes(), pointers_));
}

TEST_F(ParametersReadTest, FactorsTellNothingOnceTheyWereSeenTo) {
  Parameters parameters;
  Learn(parameters);
  for (const float factor : {0.25F, 0.125F}) {
    parameters.factor = factor;
    EXPECT_NE(Hash(parameters), Hash({}));
    Learn(parameters);
  }
  EXPECT_EQ(Hash(parameters), Hash({}));
  EXPECT_EQ(Hash({.factor = 1e-8F}), Hash({}));
  EXPECT_NE(Hash({.rate = 1e-4}), Hash({}));
  // And doubles, whose lower halves may be anything.
  for (const double rate : {1.1e-3, 1.3e-3}) {
    parameters.rate = rate;
    Learn(parameters);
  }
  EXPECT_EQ(Hash({.rate = 1e-4}), Hash({}));
}

TEST_F(ParametersReadTest, SizesTellAlways) {
  for (const uint32_t count : {1000u, 1001u, 1002u, 1003u}) Learn({.count = count});
  EXPECT_NE(Hash({.count = 1004}), Hash({}));
}

TEST_F(ParametersReadTest, FactorsThatMadeADifferenceTell) {
  Learn({});
  Learn({.factor = 0.25F}, 2000);
  Learn({.factor = 0.125F}, 2000);
  Learn({.factor = 0.75F}, 2000);
  EXPECT_NE(Hash({.factor = 0.625F}), Hash({}));
}

TEST_F(ParametersReadTest, LaunchesOfOtherShapesSayNothing) {
  Learn({});
  Learn({.factor = 0.25F}, 4000, {128, 1, 1, 128, 1, 1});
  Learn({.factor = 0.125F});
  EXPECT_NE(Hash({.factor = 0.625F}), Hash({}));
}

TEST_F(ParametersReadTest, ParametersThatAreTooFewAreZeros) {
  const ParametersRead read({{0, 16}});
  const uint8_t few[6] = {1, 0, 0, 0, 2, 0};
  const uint8_t all[16] = {1, 0, 0, 0, 2, 0};
  EXPECT_EQ(read.HashOf(few, {}), read.HashOf(all, {}));
}

}  // namespace
}  // namespace phantora
