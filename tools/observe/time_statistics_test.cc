#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "tools/observe/interval_union.h"
#include "tools/observe/time_bins.h"

namespace phantora {
namespace {

VirtualTime At(int64_t us) { return VirtualTime() + VirtualSpan::Microseconds(us); }
VirtualSpan Us(int64_t us) { return VirtualSpan::Microseconds(us); }
int64_t Sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

TEST(IntervalUnionTest, CountsOverlapsOnceInAnyOrder) {
  const std::vector<std::pair<int, int>> intervals = {{10, 20}, {15, 30}, {40, 50},
                                                      {0, 5},   {45, 46}, {5, 10}};
  IntervalUnion forward, backward;
  for (auto [start, end] : intervals) forward.Add(At(start), At(end));
  for (size_t i = intervals.size(); i-- > 0;) {
    backward.Add(At(intervals[i].first), At(intervals[i].second));
  }
  EXPECT_EQ(forward.total(), Us(40));
  EXPECT_EQ(backward.total(), Us(40));
  EXPECT_EQ(forward.size(), 2u);  // [0, 30) and [40, 50)
}

TEST(IntervalUnionTest, TellsWhatIsNew) {
  IntervalUnion all;
  std::vector<std::pair<int64_t, int64_t>> parts;
  const auto note = [&parts](VirtualTime from, VirtualTime to) {
    parts.emplace_back(from.nanoseconds() / 1000, to.nanoseconds() / 1000);
  };
  all.Add(At(2), At(4), note);
  all.Add(At(6), At(8), note);
  all.Add(At(0), At(10), note);
  all.Add(At(3), At(3), note);
  EXPECT_EQ(parts,
            (std::vector<std::pair<int64_t, int64_t>>{{2, 4}, {6, 8}, {0, 2}, {4, 6}, {8, 10}}));
}

TEST(IntervalUnionTest, StaysBoundedAndNeverCountsTwice) {
  IntervalUnion all(8);
  for (int i = 0; i < 1000; ++i) all.Add(At(2 * i), At(2 * i + 1));
  EXPECT_LE(all.size(), 8u);
  EXPECT_EQ(all.total(), Us(1000));
  all.Add(At(0), At(2000));  // most gaps are forgotten
  EXPECT_GE(all.total(), Us(1000));
  EXPECT_LE(all.total(), Us(1008));
}

TEST(BusyBinsTest, KeepsTheSumWhenItCoarsens) {
  BusyBins bins;
  for (int i = 0; i < 10000; ++i) bins.Add(Us(3 * i), Us(3 * i + 1));
  EXPECT_LE(bins.values().size(), BusyBins::kMostBins);
  EXPECT_EQ(Sum(bins.values()), Us(10000).picoseconds());
  EXPECT_EQ(bins.width(), Us(64));
  for (const int64_t value : bins.values()) EXPECT_LE(value, bins.width().picoseconds());
}

TEST(BusyBinsTest, GrowsToTheLeftToo) {
  BusyBins late_first, early_first;
  late_first.Add(Us(100'000), Us(100'010));
  late_first.Add(Us(7), Us(9));
  early_first.Add(Us(7), Us(9));
  early_first.Add(Us(100'000), Us(100'010));
  EXPECT_EQ(late_first.values(), early_first.values());
  EXPECT_EQ(late_first.start(), early_first.start());
}

TEST(BusyBinsTest, OneLongSpanFillsItsBins) {
  BusyBins bins;
  bins.Add(Us(0), Us(1'000'000));
  EXPECT_EQ(Sum(bins.values()), Us(1'000'000).picoseconds());
  EXPECT_EQ(bins.values().front(), bins.width().picoseconds());
}

TEST(LevelBinsTest, CarriesTheLevelAndKeepsPeaks) {
  LevelBins bins;
  bins.Set(Us(0), 5);
  bins.Set(Us(3), 9);
  bins.Set(Us(3), 1);
  bins.Set(Us(5), 2);
  EXPECT_EQ(bins.values(), (std::vector<int64_t>{5, 5, 5, 9, 1, 2}));
  bins.Set(Us(600), 0);
  EXPECT_EQ(bins.width(), Us(2));
  EXPECT_EQ(bins.values()[0], 5);
  EXPECT_EQ(bins.values()[1], 9);
  EXPECT_EQ(bins.values()[2], 2);
  EXPECT_EQ(bins.values()[299], 2);
  EXPECT_EQ(bins.level(), 0);
}

TEST(LevelBinsTest, ABinThatIsEnteredStartsAtTheLevelBefore) {
  LevelBins bins;
  bins.Set(Us(0), 7);
  bins.Set(Us(1), 3);
  EXPECT_EQ(bins.values(), (std::vector<int64_t>{7, 7}));
}

}  // namespace
}  // namespace phantora
