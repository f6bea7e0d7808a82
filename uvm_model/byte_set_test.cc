#include "uvm_model/byte_set.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace phantora {
namespace {

TEST(ByteSet, RangesMergeAndAreCut) {
  ByteSet taint;
  EXPECT_FALSE(taint.Any(0, 100));
  taint.Add(10, 10);
  taint.Add(20, 10);
  EXPECT_EQ(taint.ranges(), 1u);
  EXPECT_TRUE(taint.All(10, 20));
  EXPECT_FALSE(taint.All(10, 21));
  EXPECT_FALSE(taint.Any(0, 10));
  EXPECT_FALSE(taint.Any(30, 10));
  EXPECT_FALSE(taint.Any(15, 0));
  taint.Remove(15, 5);
  EXPECT_EQ(taint.ranges(), 2u);
  EXPECT_FALSE(taint.Any(15, 5));
  EXPECT_TRUE(taint.Any(0, 11));
}

TEST(ByteSet, CopiesWhatIsTaintedAndWhatIsNot) {
  ByteSet from, to;
  from.Add(0, 8);
  from.Add(16, 8);
  to.Add(100, 100);
  to.Copy(120, &from, 4, 16);  // 4 tainted, 8 not, 4 tainted
  EXPECT_TRUE(to.All(100, 24));
  EXPECT_FALSE(to.Any(124, 8));
  EXPECT_TRUE(to.All(132, 68));
  to.Copy(100, nullptr, 0, 100);
  EXPECT_TRUE(to.empty());
  from.Copy(32, &from, 0, 24);
  EXPECT_TRUE(from.All(32, 8));
  EXPECT_FALSE(from.Any(40, 8));
}

TEST(ByteSet, IsWhatASetOfBytesIs) {
  constexpr uint64_t kBytes = 300;
  std::mt19937 random(1);
  ByteSet taint;
  std::vector<bool> bytes(kBytes);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t begin = random() % kBytes, length = random() % (kBytes - begin + 1);
    const uint64_t from = random() % (kBytes - length + 1);
    switch (random() % 3) {
      case 0:
        taint.Add(begin, length / 8);
        for (uint64_t at = 0; at < length / 8; ++at) bytes[begin + at] = true;
        break;
      case 1:
        taint.Remove(begin, length / 4);
        for (uint64_t at = 0; at < length / 4; ++at) bytes[begin + at] = false;
        break;
      default: {
        taint.Copy(begin, &taint, from, length);
        const std::vector<bool> was = bytes;
        for (uint64_t at = 0; at < length; ++at) bytes[begin + at] = was[from + at];
      }
    }
    const uint64_t at = random() % kBytes, count = random() % (kBytes - at);
    bool any = false, all = true;
    for (uint64_t k = at; k < at + count; ++k) any |= bytes[k], all &= bytes[k];
    ASSERT_EQ(taint.Any(at, count), any);
    ASSERT_EQ(taint.All(at, count), all);
  }
}

TEST(ByteSet, TooManyRangesBecomeCoarserAndForgetNothing) {
  ByteSet taint;
  for (uint64_t i = 0; i < 100'000; ++i) taint.Add(i * 32, 1);
  EXPECT_LE(taint.ranges(), ByteSet::kMostRanges);
  for (uint64_t i = 0; i < 100'000; ++i) ASSERT_TRUE(taint.Any(i * 32, 1));
  taint.Remove(1, 30);  // less than its grain
  EXPECT_TRUE(taint.Any(0, 1));
  taint.Remove(0, 100'000 * 32 + 4096);
  EXPECT_TRUE(taint.empty());
}

}  // namespace
}  // namespace phantora
