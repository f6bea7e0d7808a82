#include "trap/gpu/products/number.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "trap/gpu/products/blas.h"

namespace phantora {
namespace {

TEST(Number, RoundsToTheNearestToEvenOfTwo) {
  const float values[] = {
      1.0f, 1.00390625f, 1.01171875f, -2.5f, std::numeric_limits<float>::infinity(), std::nanf("")};
  uint16_t bits[6];
  FromFloats(Number::kBfloat, values, 6, reinterpret_cast<uint8_t*>(bits));
  // 1 + 2^-8 and 1 + 3 * 2^-8 lie in the middle.
  EXPECT_EQ(bits[0], 0x3f80);
  EXPECT_EQ(bits[1], 0x3f80);
  EXPECT_EQ(bits[2], 0x3f82);
  EXPECT_EQ(bits[3], 0xc020);
  EXPECT_EQ(bits[4], 0x7f80);
  EXPECT_EQ(bits[5], 0x7fff);
  FromFloats(Number::kHalf, values, 6, reinterpret_cast<uint8_t*>(bits));
  EXPECT_EQ(bits[0], 0x3c00);
  EXPECT_EQ(bits[3], 0xc100);
  EXPECT_EQ(bits[4], 0x7c00);
  EXPECT_EQ(bits[5], 0x7fff);
}

TEST(Number, OfTf32TheLowestBitsAreNotLookedAt) {
  const uint32_t bits = 0x3f801fff;
  float value;
  ToFloats(Number::kTf32, reinterpret_cast<const uint8_t*>(&bits), 1, &value);
  EXPECT_EQ(value, 1.0f);
  EXPECT_EQ(ToDouble(Number::kTf32, reinterpret_cast<const uint8_t*>(&bits)), 1.0);
  EXPECT_NE(ToDouble(Number::kFloat, reinterpret_cast<const uint8_t*>(&bits)), 1.0);
}

TEST(Number, Tf32IsRoundedInThreeWays) {
  const auto of = [](Number way, uint32_t bits) {
    float value;
    ToFloats(way, reinterpret_cast<const uint8_t*>(&bits), 1, &value);
    return std::bit_cast<uint32_t>(value);
  };
  // A half above an even one and above an odd one, and a little more than the half.
  EXPECT_EQ(of(Number::kTf32Even, 0x3f801000), 0x3f800000);
  EXPECT_EQ(of(Number::kTf32Even, 0x3f803000), 0x3f804000);
  EXPECT_EQ(of(Number::kTf32Even, 0x3f801001), 0x3f802000);
  EXPECT_EQ(of(Number::kTf32Away, 0x3f801000), 0x3f802000);
  EXPECT_EQ(of(Number::kTf32Away, 0xbf800fff), 0xbf800000);
  for (const Number way : {Number::kTf32, Number::kTf32Even, Number::kTf32Away}) {
    EXPECT_EQ(of(way, 0x7f800000), 0x7f800000) << "infinity";
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(of(way, 0x7fffffff))));
  }
}

TEST(Blas, MultipliesInEachLayout) {
  std::string why;
  const auto blas = Blas::Load(why);
  if (blas == nullptr) GTEST_SKIP() << why;
  constexpr int64_t kX = 5, kY = 7, kDepth = 3;
  for (const bool a_by_depth : {true, false}) {
    for (const bool b_by_depth : {true, false}) {
      std::vector<float> a(kX * kDepth), b(kY * kDepth), results(kX * kY);
      const auto at = [](bool by_depth, int64_t side, int64_t sides, int64_t k) {
        return static_cast<size_t>(by_depth ? side * kDepth + k : k * sides + side);
      };
      for (int64_t k = 0; k < kDepth; ++k) {
        for (int64_t x = 0; x < kX; ++x)
          a[at(a_by_depth, x, kX, k)] = static_cast<float>(x + 10 * k);
        for (int64_t y = 0; y < kY; ++y) b[at(b_by_depth, y, kY, k)] = static_cast<float>(y - k);
      }
      blas->Multiply(kX, kY, kDepth, a.data(), {a_by_depth, a_by_depth ? kDepth : kX}, b.data(),
                     {b_by_depth, b_by_depth ? kDepth : kY}, results.data());
      for (int64_t x = 0; x < kX; ++x) {
        for (int64_t y = 0; y < kY; ++y) {
          float expected = 0;
          for (int64_t k = 0; k < kDepth; ++k) {
            expected += static_cast<float>((x + 10 * k) * (y - k));
          }
          EXPECT_EQ(results[static_cast<size_t>(y * kX + x)], expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace phantora
