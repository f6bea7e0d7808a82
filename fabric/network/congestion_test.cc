#include "fabric/network/congestion.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace phantora {
namespace {

constexpr VirtualSpan Us(int64_t us) { return VirtualSpan::Microseconds(us); }

TEST(CongestionTest, WhatALinkHasIsNoCongestion) {
  for (const double asked : {0.0, 0.5, 1.0, 1.005}) {
    const auto present = CongestionControl::At(asked, Us(1000));
    EXPECT_EQ(present.share, 1);
    EXPECT_FALSE(present.until);
  }
}

TEST(CongestionTest, BuffersComeFirstThenTheFallThenTheRecovery) {
  for (const double asked : {2.0, 4.0, 8.0, 16.0}) {
    EXPECT_EQ(CongestionControl::At(asked, Us(0)).share, 1) << asked;
    double least = 1;
    VirtualSpan since;
    size_t steps = 1;
    for (auto at = CongestionControl::At(asked, since); at.until; ++steps) {
      EXPECT_GT(*at.until, since);
      since = *at.until;
      at = CongestionControl::At(asked, since);
      EXPECT_GT(at.share, 0);
      EXPECT_LE(at.share, 1);
      least = std::min(least, at.share);
    }
    EXPECT_EQ(steps, CongestionControl::kSteps);
    EXPECT_LT(least, 0.6) << asked;
    EXPECT_GT(CongestionControl::At(asked, since).share, 0.85) << asked;
    EXPECT_GT(CongestionControl::At(asked, Us(1'000'000)).share, 0.85) << asked;
  }
}

TEST(CongestionTest, BetweenAndBeyondWhatIsKnown) {
  const auto end = [](double asked) { return CongestionControl::At(asked, Us(90)).until.value(); };
  EXPECT_GT(end(3), end(2));
  EXPECT_LT(end(3), end(4));
  EXPECT_EQ(end(1000), end(32));
}

}  // namespace
}  // namespace phantora
