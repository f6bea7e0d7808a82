#include "tools/replay/rank_pace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace phantora {
namespace {

constexpr VirtualSpan kAlone = VirtualSpan::Microseconds(100);

double Factor(const RankPaces& paces, int rank, uint32_t node) {
  return static_cast<double>(paces.Of(rank, node, kAlone).picoseconds()) /
         static_cast<double>(kAlone.picoseconds());
}

TEST(RankPacesTest, EvenByDefault) {
  EXPECT_TRUE(RankPaces().even());
  EXPECT_EQ(RankPaces().Of(3, 4, kAlone), kAlone);
}

TEST(RankPacesTest, SomeAreSlower) {
  const RankPaces paces = {.slower = {{3, 1.25}}};
  EXPECT_FALSE(paces.even());
  EXPECT_EQ(Factor(paces, 3, 7), 1.25);
  EXPECT_EQ(Factor(paces, 2, 7), 1);
}

TEST(RankPacesTest, DrawsHaveTheirMeanAndSpread) {
  const RankPaces paces = {.jitter = 0.1};
  double sum = 0, of_logs = 0, of_squares = 0;
  constexpr int kRanks = 100, kNodes = 1000, kAll = kRanks * kNodes;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (uint32_t node = 0; node < kNodes; ++node) {
      const double factor = Factor(paces, rank, node), log = std::log(factor);
      sum += factor;
      of_logs += log;
      of_squares += log * log;
    }
  }
  const double mean = of_logs / kAll;
  // 100,000 draws: the mean is known to 0.03 % (one standard deviation).
  EXPECT_NEAR(sum / kAll, 1, 0.0015);
  EXPECT_NEAR(std::sqrt(of_squares / kAll - mean * mean), 0.1, 0.001);
}

TEST(RankPacesTest, DrawsDependOnAllAndRepeat) {
  const RankPaces paces = {.jitter = 0.1}, other = {.jitter = 0.1, .seed = 2};
  const std::set<double> draws = {Factor(paces, 0, 0), Factor(paces, 0, 1), Factor(paces, 1, 0),
                                  Factor(paces, 1, 1), Factor(other, 0, 0)};
  EXPECT_EQ(draws.size(), 5u);
  EXPECT_EQ(Factor(paces, 1, 1), Factor(paces, 1, 1));
}

}  // namespace
}  // namespace phantora
