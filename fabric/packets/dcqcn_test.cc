#include "fabric/packets/dcqcn.h"

#include <gtest/gtest.h>

namespace phantora {
namespace {

constexpr double kLine = 5e9;  // bytes/s: 40 Gbit/s

TEST(DcqcnTest, UntoldItSendsAtTheLinksSpeed) {
  const DcqcnOptions options;
  DcqcnRate rate(&options, kLine);
  rate.OnSent(1e9);
  EXPECT_EQ(rate.bytes_per_s(), kLine);
  EXPECT_FALSE(rate.limited());
}

TEST(DcqcnTest, TheFirstNotificationHalvesIt) {
  const DcqcnOptions options;
  DcqcnRate rate(&options, kLine);
  rate.OnCnp();
  EXPECT_DOUBLE_EQ(rate.bytes_per_s(), kLine / 2);
  EXPECT_TRUE(rate.limited());
}

TEST(DcqcnTest, AlphaFollowsNotifications) {
  const DcqcnOptions options;
  // What the second notification leaves of the rate, after so many periods: 1 - alpha/2.
  const auto left_after = [&options](int periods) {
    DcqcnRate rate(&options, kLine);
    rate.OnCnp();
    for (int i = 0; i < periods; ++i) rate.OnAlphaTimer();
    const double before = rate.bytes_per_s();
    rate.OnCnp();
    return rate.bytes_per_s() / before;
  };
  // The first period saw a notification: 255/256 of 1, and 1/256.
  EXPECT_DOUBLE_EQ(left_after(1), 1 - 1.0 / 2);
  EXPECT_DOUBLE_EQ(left_after(2), 1 - 255.0 / 256 / 2);
  EXPECT_DOUBLE_EQ(left_after(3), 1 - 255.0 / 256 * 255 / 256 / 2);
}

TEST(DcqcnTest, RecoversByHalvesThenAddsThenHurries) {
  DcqcnOptions options;
  options.increase_bytes = 0;
  DcqcnRate rate(&options, kLine);
  rate.OnCnp();
  rate.OnCnp();  // its target is where the first left it
  const double target = kLine / 2;
  double distance = target - rate.bytes_per_s();
  for (int i = 0; i < options.fast_recoveries; ++i) {
    rate.OnIncreaseTimer();
    distance /= 2;
    EXPECT_DOUBLE_EQ(rate.bytes_per_s(), target - distance);
  }
  double current = rate.bytes_per_s();
  rate.OnIncreaseTimer();
  EXPECT_DOUBLE_EQ(rate.bytes_per_s(), (current + target + options.additive_bytes_per_s) / 2);
  current = rate.bytes_per_s();
  rate.OnIncreaseTimer();
  EXPECT_DOUBLE_EQ(
      rate.bytes_per_s(),
      (current + target + options.additive_bytes_per_s + options.hyper_bytes_per_s) / 2);
}

TEST(DcqcnTest, BytesCountAsTimeDoesAndBothAreNeededToHurry) {
  const DcqcnOptions options;
  DcqcnRate rate(&options, kLine);
  rate.OnCnp();
  rate.OnCnp();
  for (int i = 0; i < 20; ++i) rate.OnSent(options.increase_bytes);
  // Twenty rounds by bytes, five of them recoveries; the last additions are not reached in full.
  EXPECT_LT(rate.bytes_per_s(), kLine / 2 + 15 * options.additive_bytes_per_s);
  EXPECT_GT(rate.bytes_per_s(), kLine / 2 + 13 * options.additive_bytes_per_s);
}

TEST(DcqcnTest, BackAtTheLinksSpeedItIsFree) {
  DcqcnOptions options;
  options.increase_bytes = 0;
  DcqcnRate rate(&options, kLine);
  rate.OnCnp();
  for (int i = 0; i < 20; ++i) rate.OnIncreaseTimer();
  EXPECT_EQ(rate.bytes_per_s(), kLine);
  EXPECT_FALSE(rate.limited());
}

TEST(DcqcnTest, AKeptTargetIsComeBackTo) {
  DcqcnOptions options = DcqcnOptions::Vendor(kLine);
  DcqcnRate rate(&options, kLine);
  for (int i = 0; i < 100; ++i) rate.OnCnp();
  EXPECT_DOUBLE_EQ(rate.bytes_per_s(), options.least_bytes_per_s);
  rate.OnIncreaseTimer();
  EXPECT_DOUBLE_EQ(rate.bytes_per_s(), (kLine + options.least_bytes_per_s) / 2);
}

TEST(DcqcnTest, BytesAreInProportionToTheLink) {
  EXPECT_DOUBLE_EQ(DcqcnOptions::Paper(kLine).additive_bytes_per_s,
                   DcqcnOptions().additive_bytes_per_s);
  EXPECT_DOUBLE_EQ(DcqcnOptions::Paper(10 * kLine).increase_bytes, 100e6);
  EXPECT_DOUBLE_EQ(DcqcnOptions::Vendor(50e9).additive_bytes_per_s, 80e6 / 8);
}

}  // namespace
}  // namespace phantora
