#include "trap/nccl/reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <type_traits>

#include "fabric/library/wire.h"

namespace phantora {
namespace {

// ncclDataType_t, with the numbers that nccl.h gives them.
constexpr uint8_t kInt8 = 0, kUint8 = 1, kInt32 = 2, kUint32 = 3, kInt64 = 4, kUint64 = 5,
                  kHalf = 6, kFloat = 7, kDouble = 8, kBfloat16 = 9, kE4m3 = 10, kE5m2 = 11,
                  kTypes = 12;

size_t BytesOf(uint8_t type) {
  switch (type) {
    case kInt8:
    case kUint8:
    case kE4m3:
    case kE5m2:
      return 1;
    case kHalf:
    case kBfloat16:
      return 2;
    case kInt32:
    case kUint32:
    case kFloat:
      return 4;
    default:
      return 8;
  }
}

// Elements as bits, one of each rank.
std::vector<uint64_t> Reduce(uint8_t type, uint8_t operation,
                             const std::vector<std::vector<uint64_t>>& ranks,
                             const std::vector<uint64_t>& scalars = {}) {
  const size_t size = BytesOf(type), elements = ranks[0].size();
  Reduction reduction(type, operation, elements * size);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<uint8_t> bytes(elements * size);
    for (size_t i = 0; i < elements; ++i) std::memcpy(&bytes[i * size], &ranks[rank][i], size);
    reduction.Add(bytes, scalars.empty() ? 0 : scalars[rank]);
  }
  const std::vector<uint8_t> result = reduction.Result(static_cast<int>(ranks.size()));
  EXPECT_EQ(result.size(), elements * size);
  std::vector<uint64_t> bits(elements);
  for (size_t i = 0; i < elements; ++i) std::memcpy(&bits[i], &result[i * size], size);
  return bits;
}

uint64_t ReduceOne(uint8_t type, uint8_t operation, const std::vector<uint64_t>& ranks,
                   const std::vector<uint64_t>& scalars = {}) {
  std::vector<std::vector<uint64_t>> contributions;
  for (const uint64_t bits : ranks) contributions.push_back({bits});
  return Reduce(type, operation, contributions, scalars)[0];
}

template <typename T>
uint64_t BitsOf(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A floating-point format as the table of all its numbers that are not negative.
class Table {
 public:
  Table(int exponent_bits, int mantissa_bits, bool has_infinity)
      : sign_(1u << (exponent_bits + mantissa_bits)), has_infinity_(has_infinity) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint32_t steps = 1u << mantissa_bits;
    for (uint32_t bits = 0; bits < sign_; ++bits) {
      const uint32_t exponent = bits / steps;
      const long double fraction = static_cast<long double>(bits % steps) / steps;
      const bool largest = exponent == (1u << exponent_bits) - 1;
      if (has_infinity ? largest : bits == sign_ - 1) break;
      numbers_.push_back(exponent == 0
                             ? fraction * std::pow(2.0L, 1 - bias)
                             : (1 + fraction) * std::pow(2.0L, static_cast<int>(exponent) - bias));
    }
  }

  long double ValueOf(uint64_t bits) const {
    const uint64_t magnitude = bits & (sign_ - 1);
    long double value = magnitude < numbers_.size() ? numbers_[magnitude]
                        : has_infinity_ && magnitude == numbers_.size()
                            ? std::numeric_limits<long double>::infinity()
                            : std::numeric_limits<long double>::quiet_NaN();
    return (bits & sign_) != 0 ? -value : value;
  }
  bool IsNan(uint64_t bits) const { return std::isnan(ValueOf(bits)); }

  // The nearest number; of two, the one with an even encoding. Eight bits saturate.
  uint64_t Nearest(long double value) const {
    const uint64_t sign = std::signbit(value) ? sign_ : 0;
    const long double magnitude = std::fabs(value);
    const uint64_t last = numbers_.size() - 1, beyond = sign_ == 0x80 ? last : last + 1;
    const auto above = std::lower_bound(numbers_.begin(), numbers_.end(), magnitude);
    const uint64_t up = static_cast<uint64_t>(above - numbers_.begin());
    if (up == 0) return sign;
    const long double below = numbers_[up - 1];
    const long double next = up <= last ? *above : 2 * numbers_[last] - numbers_[last - 1];
    const long double to_below = magnitude - below, to_next = next - magnitude;
    const bool rounds_up = to_next < to_below || (to_next == to_below && up % 2 == 0);
    return sign | (!rounds_up ? up - 1 : up <= last ? up : beyond);
  }
  uint64_t count() const { return 2 * sign_; }

 private:
  const uint32_t sign_;
  const bool has_infinity_;
  std::vector<long double> numbers_;  // by their bits
};

const std::map<uint8_t, Table>& Tables() {
  static const std::map<uint8_t, Table> tables = {{kHalf, Table(5, 10, true)},
                                                  {kBfloat16, Table(8, 7, true)},
                                                  {kE4m3, Table(4, 3, false)},
                                                  {kE5m2, Table(5, 2, true)}};
  return tables;
}

TEST(ReductionTest, KnownNumbersOfTheTables) {
  EXPECT_EQ(Tables().at(kHalf).ValueOf(0x3c00), 1);
  EXPECT_EQ(Tables().at(kHalf).ValueOf(0x7bff), 65504);
  EXPECT_EQ(Tables().at(kHalf).ValueOf(0x8001), -std::pow(2.0L, -24));
  EXPECT_EQ(Tables().at(kBfloat16).ValueOf(0xbf80), -1);
  EXPECT_EQ(Tables().at(kE4m3).ValueOf(0x7e), 448);
  EXPECT_EQ(Tables().at(kE4m3).ValueOf(0x38), 1);
  EXPECT_TRUE(Tables().at(kE4m3).IsNan(0xff));
  EXPECT_EQ(Tables().at(kE5m2).ValueOf(0x7b), 57344);
}

TEST(ReductionTest, AllSmallFloatsStayWhatTheyAre) {
  for (const auto& [type, table] : Tables()) {
    std::vector<uint64_t> all(table.count());
    for (uint64_t bits = 0; bits < all.size(); ++bits) all[bits] = bits;
    for (const uint8_t operation : {nccl::kSum, nccl::kProd, nccl::kMax, nccl::kMin, nccl::kAvg}) {
      const auto result = Reduce(type, operation, {all});
      for (uint64_t bits = 0; bits < all.size(); ++bits) {
        if (table.IsNan(bits)) {
          ASSERT_TRUE(table.IsNan(result[bits])) << int{type} << " " << bits;
        } else if (std::isinf(table.ValueOf(bits)) && table.count() == 256) {
          ASSERT_EQ(result[bits], bits - 1);  // eight bits saturate
        } else {
          ASSERT_EQ(result[bits], bits) << int{type} << " " << bits;
        }
      }
    }
  }
}

// One line for each number of nccl.h, in bits that no other type of its size reads alike.
TEST(ReductionTest, TypesAreThoseOfTheirNumbers) {
  constexpr struct {
    uint8_t type, operation;
    uint64_t a, b, result;
  } kCases[] = {
      {0, nccl::kMax, 0xff, 0x01, 0x01},                                            // -1, 1
      {1, nccl::kMax, 0xff, 0x01, 0xff},                                            // 255, 1
      {2, nccl::kMax, 0xffffffff, 1, 1},                                            // -1, 1
      {3, nccl::kMax, 0xffffffff, 1, 0xffffffff},                                   //
      {4, nccl::kMax, ~uint64_t{0}, 1, 1},                                          // -1, 1
      {5, nccl::kMax, ~uint64_t{0}, 1, ~uint64_t{0}},                               //
      {6, nccl::kSum, 0x3c00, 0x3c00, 0x4000},                                      // 1 + 1
      {7, nccl::kSum, 0x3f800000, 0x3f800000, 0x40000000},                          // 1 + 1
      {8, nccl::kSum, 0x3ff0000000000000, 0x3ff0000000000000, 0x4000000000000000},  // 1 + 1
      {9, nccl::kSum, 0x3f80, 0x3f80, 0x4000},                                      // 1 + 1
      {10, nccl::kSum, 0x38, 0x38, 0x40},                                           // 1 + 1
      {11, nccl::kSum, 0x3c, 0x3c, 0x40},                                           // 1 + 1
  };
  for (const auto& one : kCases) {
    EXPECT_EQ(ReduceOne(one.type, one.operation, {one.a, one.b}), one.result) << int{one.type};
  }
}

// Every float near a number of the table, or between two.
TEST(ReductionTest, FloatsAreRoundedToTheNearestOrEven) {
  std::mt19937_64 random(1);
  for (const auto& [type, table] : Tables()) {
    std::vector<uint64_t> left, right;
    for (int i = 0; i < 200000; ++i) {
      left.push_back(random() % table.count());
      // The same exponent or one near it, or any.
      right.push_back(i % 2 == 0 ? random() % table.count()
                                 : (left.back() + random() % (table.count() / 16)) % table.count());
    }
    for (const uint8_t operation : {nccl::kSum, nccl::kProd}) {
      const auto result = Reduce(type, operation, {left, right});
      int ties = 0;
      for (size_t i = 0; i < left.size(); ++i) {
        const long double a = table.ValueOf(left[i]), b = table.ValueOf(right[i]);
        // What 24 bits of the sum or product make of it; more than twice those of the type.
        const auto exact = static_cast<float>(operation == nccl::kSum ? a + b : a * b);
        if (std::isnan(exact)) {
          ASSERT_TRUE(table.IsNan(result[i]));
          continue;
        }
        ASSERT_EQ(result[i], table.Nearest(exact))
            << int{type} << ": " << a << (operation == nccl::kSum ? " + " : " * ") << b;
        ties += table.ValueOf(result[i]) != exact;
      }
      EXPECT_GT(ties, 1000);  // the test is one of rounding
    }
  }
}

TEST(ReductionTest, KnownRoundings) {
  const auto sum = [](uint8_t type, std::initializer_list<long double> values) {
    const Table& table = Tables().at(type);
    std::vector<uint64_t> bits;
    for (const long double value : values) {
      bits.push_back(table.Nearest(value));
      EXPECT_EQ(table.ValueOf(bits.back()), value);
    }
    return table.ValueOf(ReduceOne(type, nccl::kSum, bits));
  };
  constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
  EXPECT_EQ(sum(kHalf, {2048, 1}), 2048);
  EXPECT_EQ(sum(kHalf, {2050, 1}), 2052);
  EXPECT_EQ(sum(kHalf, {-2050, -1}), -2052);
  EXPECT_EQ(sum(kHalf, {2048, 1, 1}), 2050);  // rounded once
  EXPECT_EQ(sum(kHalf, {65504, 15.9921875L}), 65504);
  EXPECT_EQ(sum(kHalf, {65504, 16}), kInfinity);
  EXPECT_EQ(sum(kHalf, {-65504, -16}), -kInfinity);
  EXPECT_EQ(sum(kHalf, {65504, 65504, -65504}), 65504);  // in 32 bits there is room
  EXPECT_EQ(sum(kBfloat16, {256, 1}), 256);
  EXPECT_EQ(sum(kBfloat16, {258, 1}), 260);
  const long double most = Tables().at(kBfloat16).ValueOf(0x7f7f);
  EXPECT_EQ(sum(kBfloat16, {most, most}), kInfinity);
  EXPECT_EQ(sum(kE4m3, {16, 1}), 16);
  EXPECT_EQ(sum(kE4m3, {18, 1}), 20);
  EXPECT_EQ(sum(kE4m3, {448, 448}), 448);
  EXPECT_EQ(sum(kE4m3, {-448, -448}), -448);
  EXPECT_EQ(sum(kE5m2, {57344, 57344}), 57344);
  // From subnormal to normal numbers.
  EXPECT_EQ(sum(kHalf, {std::pow(2.0L, -15), std::pow(2.0L, -15)}), std::pow(2.0L, -14));
  EXPECT_EQ(sum(kE4m3, {std::pow(2.0L, -9), 7 * std::pow(2.0L, -9)}), std::pow(2.0L, -6));
}

// --- Against another computation --------------------------------------------------------

// Of a type that C++ has.
template <typename T>
T Expected(uint8_t operation, std::vector<T> values, const std::vector<T>& scalars) {
  // Integers wrap.
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, unsigned __int128>;
  Wide result = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    Wide value = static_cast<Wide>(values[i]);
    if (operation == nccl::kPreMulSum) value *= static_cast<Wide>(scalars[i]);
    if (i == 0) {
      result = value;
    } else if (operation == nccl::kProd) {
      result *= value;
    } else if (operation == nccl::kMax) {
      result = static_cast<Wide>(std::max(static_cast<T>(result), values[i]));
    } else if (operation == nccl::kMin) {
      result = static_cast<Wide>(std::min(static_cast<T>(result), values[i]));
    } else {
      result += value;
    }
  }
  auto narrow = static_cast<T>(result);
  if (operation == nccl::kAvg) narrow = static_cast<T>(narrow / static_cast<T>(values.size()));
  return narrow;
}

template <typename T>
void CheckAll(uint8_t type, T (*make)(std::mt19937_64&)) {
  std::mt19937_64 random(type);
  for (uint8_t operation = 0; operation <= nccl::kPreMulSum; ++operation) {
    for (const size_t ranks : {1, 2, 3, 7}) {
      constexpr size_t kElements = 500;
      std::vector<std::vector<uint64_t>> contributions(ranks);
      std::vector<T> scalars;
      std::vector<uint64_t> scalar_bits;
      for (auto& contribution : contributions) {
        for (size_t i = 0; i < kElements; ++i) contribution.push_back(BitsOf(make(random)));
        scalars.push_back(make(random));
        scalar_bits.push_back(BitsOf(scalars.back()) |
                              (sizeof(T) < 8 ? random() << (8 * sizeof(T) % 64) : 0));
      }
      const auto result = Reduce(type, operation, contributions, scalar_bits);
      for (size_t i = 0; i < kElements; ++i) {
        std::vector<T> values;
        for (const auto& contribution : contributions) {
          values.push_back(FromBits<T>(contribution[i]));
        }
        ASSERT_EQ(result[i], BitsOf(Expected(operation, values, scalars)))
            << "type " << int{type} << ", operation " << int{operation} << ", " << ranks
            << " ranks";
      }
    }
  }
}

template <typename T>
T AnyInteger(std::mt19937_64& random) {
  // Small ones, and those at the ends, as often as others.
  const uint64_t any = random();
  return static_cast<T>(any % 3 == 0 ? any >> 60
                        : any % 3 == 1
                            ? static_cast<uint64_t>(std::numeric_limits<T>::max()) + (any >> 62)
                            : any >> 3);
}
template <typename T>
T AnyFloat(std::mt19937_64& random) {
  return static_cast<T>(
      std::ldexp(static_cast<double>(random()) - 0x1p63, static_cast<int>(random() % 20) - 70));
}

TEST(ReductionTest, IntegersWrap) {
  CheckAll<int8_t>(kInt8, AnyInteger<int8_t>);
  CheckAll<uint8_t>(kUint8, AnyInteger<uint8_t>);
  CheckAll<int32_t>(kInt32, AnyInteger<int32_t>);
  CheckAll<uint32_t>(kUint32, AnyInteger<uint32_t>);
  CheckAll<int64_t>(kInt64, AnyInteger<int64_t>);
  CheckAll<uint64_t>(kUint64, AnyInteger<uint64_t>);
}

TEST(ReductionTest, FloatsAndDoublesAreReducedInTheOrderOfRanks) {
  CheckAll<float>(kFloat, AnyFloat<float>);
  CheckAll<double>(kDouble, AnyFloat<double>);
}

TEST(ReductionTest, SmallFloatsAreReducedInFloats) {
  std::mt19937_64 random(3);
  for (const auto& [type, table] : Tables()) {
    for (uint8_t operation = 0; operation <= nccl::kPreMulSum; ++operation) {
      for (int i = 0; i < 3000; ++i) {
        std::vector<uint64_t> bits, scalar_bits;
        std::vector<float> values, scalars;
        while (bits.size() < 5) {
          const uint64_t value = random() % table.count(), scalar = random() % table.count();
          if (table.IsNan(value) || table.IsNan(scalar)) continue;
          bits.push_back(value), scalar_bits.push_back(scalar);
          values.push_back(static_cast<float>(table.ValueOf(value)));
          scalars.push_back(static_cast<float>(table.ValueOf(scalar)));
        }
        const float expected = Expected(operation, values, scalars);
        const uint64_t result = ReduceOne(type, operation, bits, scalar_bits);
        if (std::isnan(expected)) {
          ASSERT_TRUE(table.IsNan(result));
        } else if (expected == 0) {
          ASSERT_EQ(table.ValueOf(result), 0);  // of either sign
        } else {
          ASSERT_EQ(result, table.Nearest(expected)) << int{type} << " " << int{operation};
        }
      }
    }
  }
}

// --- Single cases -----------------------------------------------------------------------

TEST(ReductionTest, AveragesOfIntegers) {
  const auto average = [](uint8_t type, std::initializer_list<int> values) {
    std::vector<uint64_t> bits;
    for (const int value : values) {
      bits.push_back(static_cast<uint64_t>(value) & (BytesOf(type) == 1 ? 0xff : 0xffffffff));
    }
    return ReduceOne(type, nccl::kAvg, bits);
  };
  EXPECT_EQ(average(kInt32, {7, 8}), 7u);
  EXPECT_EQ(average(kInt32, {-7, -8}), static_cast<uint32_t>(-7));  // towards zero
  EXPECT_EQ(average(kUint8, {200, 100}), 22u);                      // 300 is 44
  EXPECT_EQ(average(kInt8, {100, 100}), 0xe4u);                     // 200 is -56
}

TEST(ReductionTest, NoNumberIsOverlookedByMaximaOnly) {
  for (const uint8_t type : {kHalf, kFloat, kDouble}) {
    const uint64_t one = type == kHalf ? 0x3c00 : type == kFloat ? BitsOf(1.0f) : BitsOf(1.0);
    const uint64_t nan = type == kHalf    ? 0x7e00
                         : type == kFloat ? BitsOf(std::nanf(""))
                                          : BitsOf(std::nan(""));
    for (const uint8_t operation : {nccl::kMax, nccl::kMin}) {
      EXPECT_EQ(ReduceOne(type, operation, {nan, one}), one);
      EXPECT_EQ(ReduceOne(type, operation, {one, nan}), one);
    }
    EXPECT_NE(ReduceOne(type, nccl::kSum, {one, nan}), one);
  }
}

TEST(ReductionTest, EachRankHasItsOwnScalar) {
  EXPECT_EQ(ReduceOne(kFloat, nccl::kPreMulSum, {BitsOf(2.0f), BitsOf(3.0f)},
                      {BitsOf(0.5f), BitsOf(10.0f)}),
            BitsOf(31.0f));
  EXPECT_EQ(ReduceOne(kHalf, nccl::kPreMulSum, {0x4000, 0x4200}, {0x3800, 0x4900}), 0x4fc0u);
  // It is of no interest to others.
  EXPECT_EQ(ReduceOne(kFloat, nccl::kSum, {BitsOf(2.0f)}, {BitsOf(0.5f)}), BitsOf(2.0f));
}

TEST(ReductionTest, NothingIsReducedToNothing) {
  for (uint8_t type = 0; type < kTypes; ++type) {
    Reduction reduction(type, nccl::kAvg, 0);
    reduction.Add({}, 0);
    EXPECT_TRUE(reduction.Result(1).empty());
  }
}

}  // namespace
}  // namespace phantora
