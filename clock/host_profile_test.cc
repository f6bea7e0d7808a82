#include "clock/host_profile.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace phantora {
namespace {

using Detail = HostProfile::Detail;
using ::testing::HasSubstr;

HostSegment Segment(uint32_t ends_in = 1, uint32_t submissions = 0, uint32_t occurrence = 0) {
  return {.role = 7,
          .stops = {ends_in, 2, 3, 4, 5, 6, 7, 8},
          .submissions = submissions,
          .occurrence = occurrence};
}

TEST(HostProfileTest, NothingIsKnownOfWhatWasNotLearned) {
  EXPECT_EQ(HostProfile().CostOf(Segment()).detail, Detail::kUnknown);
}

TEST(HostProfileTest, ACostIsTheMean) {
  HostProfile profile;
  profile.Learn(Segment(), 100);
  profile.Learn(Segment(), 300);
  EXPECT_EQ(profile.CostOf(Segment()).nanoseconds, 200);
  EXPECT_EQ(profile.CostOf(Segment()).detail, Detail::kFull);
}

TEST(HostProfileTest, TheFirstTimeIsSomethingElseThanTheNext) {
  HostProfile profile;
  profile.Learn(Segment(1, 0, 0), 1'000'000);
  profile.Learn(Segment(1, 0, 1), 100);
  profile.Learn(Segment(1, 0, 40), 10);
  EXPECT_EQ(profile.CostOf(Segment(1, 0, 0)).nanoseconds, 1'000'000);
  EXPECT_EQ(profile.CostOf(Segment(1, 0, 1)).nanoseconds, 100);
  EXPECT_EQ(profile.CostOf(Segment(1, 0, 1000)).nanoseconds, 10);
}

TEST(HostProfileTest, LessDetailWhereThereIsNoMore) {
  HostProfile profile;
  profile.Learn(Segment(), 100);
  HostSegment other = Segment();
  other.stops[5] = 99;
  EXPECT_EQ(profile.CostOf(other).detail, Detail::kShort);
  EXPECT_EQ(profile.CostOf(other).nanoseconds, 100);
  other.role = 8;
  EXPECT_EQ(profile.CostOf(other).detail, Detail::kBounds);
  other.stops[0] = 99;
  EXPECT_EQ(profile.CostOf(other).detail, Detail::kUnknown);
}

TEST(HostProfileTest, OtherNumbersOfSubmissionsAreInProportion) {
  HostProfile profile;
  profile.Learn(Segment(1, 9), 1000);
  EXPECT_EQ(profile.CostOf(Segment(1, 9)).detail, Detail::kFull);
  const HostProfile::Cost more = profile.CostOf(Segment(1, 19));
  EXPECT_EQ(more.detail, Detail::kShort);
  EXPECT_EQ(more.nanoseconds, 2000);
}

TEST(HostProfileTest, RepeatsAreAskedFor) {
  HostProfile profile;
  profile.Learn(Segment(), 100);
  EXPECT_EQ(profile.RepeatedCostOf(Segment(), 2).detail, Detail::kUnknown);
  profile.Learn(Segment(), 100);
  EXPECT_EQ(profile.RepeatedCostOf(Segment(), 2).detail, Detail::kFull);
}

TEST(HostProfileTest, AFileHoldsAllOfIt) {
  HostProfile profile;
  for (uint32_t i = 0; i < 100; ++i) profile.Learn(Segment(i % 7, i % 3, i), i * 1000);
  const auto again = HostProfile::Parse(profile.Text());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->size(), profile.size());
  EXPECT_EQ(again->Text(), profile.Text());
  for (uint32_t i = 0; i < 7; ++i) {
    EXPECT_EQ(again->CostOf(Segment(i, 1, 3)).nanoseconds,
              profile.CostOf(Segment(i, 1, 3)).nanoseconds);
  }
}

TEST(HostProfileTest, KeysDoNotDependOnTheMachine) {
  HostProfile profile;
  profile.Learn({.role = 1}, 5);
  EXPECT_THAT(profile.Text(), HasSubstr("\n34dadaea8ef90de1\t1\t5\t0\n"));
}

TEST(HostProfileTest, WhatIsWrongWithAFileIsSaid) {
  const std::string begin = "phantora host profile 1\nkey\tsamples\tnanoseconds\tsubmissions\n";
  ASSERT_TRUE(HostProfile::Parse(begin).ok());
  const auto says = [](const std::string& text) {
    return std::string(HostProfile::Parse(text).status().message());
  };
  EXPECT_THAT(says(""), HasSubstr("line 1: a host profile begins with"));
  EXPECT_THAT(says("phantora host profile 2\n"), HasSubstr("line 1"));
  EXPECT_THAT(says("phantora host profile 1"), HasSubstr("line 2"));
  EXPECT_THAT(says(begin + "12\t1\t5\n"), HasSubstr("line 3: 3 fields for 4"));
  EXPECT_THAT(says(begin + "xyz\t1\t5\t0\n"), HasSubstr("line 3: no key: xyz"));
  EXPECT_THAT(says(begin + "12\t1\t-5\t0\n"), HasSubstr("line 3: no nanoseconds: -5"));
  EXPECT_THAT(says(begin + "12\t0\t5\t0\n"), HasSubstr("without samples"));
  EXPECT_THAT(says(begin + "12\t1\t5\t0\n12\t1\t5\t0\n"), HasSubstr("line 4: a key that is there"));
  EXPECT_THAT(says(begin + "12\t9223372036854775807\t5\t0\n"), HasSubstr("no samples"));
}

}  // namespace
}  // namespace phantora
