#include "trap/time/host_segments.h"

#include <string>

#include "gtest/gtest.h"

namespace phantora {
namespace {

using std::string_literals::operator""s;

constexpr pid_t kProcess = 100, kOther = 200;
constexpr uint32_t kCall = 1 << 16;

HostSegments::Options Learning() { return {.host = {.mode = HostTimeMode::kLearned}}; }

TEST(HostSegmentsTest, RanksHaveOneNameWhateverTheyAreTold) {
  EXPECT_EQ(ProgramName("/usr/bin/python3\0-u\0/home/a/train.py\0--local-rank=3\0"s),
            "python3 train.py");
  EXPECT_EQ(ProgramName("python\0-m\0torch.distributed.run\0x.py\0"s),
            "python torch.distributed.run");
  EXPECT_EQ(ProgramName("a/b"), "b");
  EXPECT_EQ(ProgramName(""), "");
}

TEST(HostSegmentsTest, WhatIsNewCostsWhatItTakesAndRepeatsCostTheirMean) {
  HostSegments segments(Learning());
  // Once the last eight stops are all of one kind, and it is not one of the first 32 times.
  for (int i = 0; i < 50; ++i) segments.Ends(kProcess, kProcess, kCall, 0, 1000);
  EXPECT_EQ(segments.Ends(kProcess, kProcess, kCall, 0, 9000), VirtualSpan::Nanoseconds(1000));
  // Of another number of launches, nothing is known.
  EXPECT_EQ(segments.Ends(kProcess, kProcess, kCall, 5, 9000), VirtualSpan::Nanoseconds(9000));
  EXPECT_GT(segments.counters().taken.segments, 0u);
  EXPECT_GT(segments.counters().repeated.segments, 0u);
}

TEST(HostSegmentsTest, RanksLearnFromEachOther) {
  HostSegments segments(Learning());
  for (pid_t rank = 1; rank <= 4; ++rank) {
    segments.NewProgram(rank, "python train.py");
    EXPECT_EQ(segments.Ends(rank, rank, kCall, 0, rank * 100),
              VirtualSpan::Nanoseconds(rank * 100));
  }
  segments.NewProgram(5, "python train.py");
  EXPECT_EQ(segments.Ends(5, 5, kCall, 0, 7000), VirtualSpan::Nanoseconds(250));
  segments.NewProgram(6, "python other.py");
  EXPECT_EQ(segments.Ends(6, 6, kCall, 0, 7000), VirtualSpan::Nanoseconds(7000));
}

TEST(HostSegmentsTest, AProfileIsAllThatCounts) {
  HostSegments learning(Learning());
  learning.NewProgram(kProcess, "a");
  learning.Ends(kProcess, kProcess, kCall, 0, 500);
  HostSegments known(
      {.host = {.mode = HostTimeMode::kLearned, .scale = 2.0}, .known = &learning.learned()});
  known.NewProgram(kOther, "a");
  EXPECT_EQ(known.Ends(kOther, kOther, kCall, 0, 123456), VirtualSpan::Nanoseconds(1000));
  EXPECT_EQ(known.counters().full.segments, 1u);
  // A launch of what is not known costs a launch.
  EXPECT_EQ(known.Ends(kOther, kOther, 2 * kCall, 3, 123456), HostTime().submission * 3);
  EXPECT_EQ(known.counters().unknown.segments, 1u);
  EXPECT_EQ(known.learned().size(), 0u);
}

TEST(HostSegmentsTest, ThreadsAreToldApart) {
  HostSegments learning(Learning());
  learning.Ends(kProcess, kProcess, kCall, 0, 500);
  learning.Ends(kProcess, kProcess + 1, kCall, 0, 100);
  HostSegments known({.host = {.mode = HostTimeMode::kLearned}, .known = &learning.learned()});
  EXPECT_EQ(known.Ends(kOther, kOther, kCall, 0, 0), VirtualSpan::Nanoseconds(500));
  EXPECT_EQ(known.Ends(kOther, kOther + 1, kCall, 0, 0), VirtualSpan::Nanoseconds(100));
}

TEST(HostSegmentsTest, ACallThatComesAgainIsNotNew) {
  HostSegments segments(Learning());
  EXPECT_TRUE(segments.IsNew(kProcess, kProcess, 7));
  EXPECT_FALSE(segments.IsNew(kProcess, kProcess, 7));
  EXPECT_TRUE(segments.IsNew(kProcess, kProcess, 8));
  EXPECT_TRUE(segments.IsNew(kProcess, kProcess + 1, 8));
}

TEST(HostSegmentsTest, AForkIsNotItsParent) {
  HostSegments learning(Learning());
  learning.NewProgram(kProcess, "a");
  learning.Begins(kOther, kProcess);
  learning.Ends(kProcess, kProcess, kCall, 0, 500);
  learning.Ends(kOther, kOther, kCall, 0, 100);
  HostSegments known({.host = {.mode = HostTimeMode::kLearned}, .known = &learning.learned()});
  known.NewProgram(1, "a");
  known.Begins(2, 1);
  EXPECT_EQ(known.Ends(2, 2, kCall, 0, 0), VirtualSpan::Nanoseconds(100));
  EXPECT_EQ(known.Ends(1, 1, kCall, 0, 0), VirtualSpan::Nanoseconds(500));
}

}  // namespace
}  // namespace phantora
