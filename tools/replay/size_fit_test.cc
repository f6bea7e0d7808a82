#include "tools/replay/size_fit.h"

#include <gtest/gtest.h>

#include "tools/replay/run_for_test.h"

namespace phantora {
namespace {

// Replicas that gather `all` elements, compute for 100 us, and work for 120 us together on parts.
StepRecord Sharded(int ranks, uint64_t all) {
  RunForTest run(ranks);
  run.Communicators(1, ranks);
  run.record.names = {"product", "adam"};
  const auto gather = run.Operation(
      0, {EntryForTest(nccl::Operation::kAllGather, all / static_cast<uint64_t>(ranks))});
  run.Add(0, 0, 0, {}, gather);
  run.record.roles[0].nodes[run.Add(0, 1, 100, {0})].name = 0;
  run.record.roles[0].nodes[run.Add(0, 1, 120 / ranks, {1})].name = 1;
  for (auto& rank : run.record.ranks) rank.memory = 1000 + 4800 / ranks;
  return run.record;
}

// All of it is steps.
const std::vector<StepPeriod> kFromTheStart(2, {1, {0, 0}});

RankAxes Axes(int dp) { return RankAxes({{"dp", dp}}); }

std::string ErrorOf(const StepRecord& a, const StepRecord& b) {
  return std::string(FitSizes(a, Axes(2), kFromTheStart, b, Axes(4), 8).status().message());
}

TEST(SizeFitTest, SomeStaysAndSomeBecomesLess) {
  for (const bool larger_first : {false, true}) {
    const int first = larger_first ? 4 : 2, second = larger_first ? 2 : 4;
    const auto fitted = FitSizes(Sharded(first, 1 << 20), Axes(first), kFromTheStart,
                                 Sharded(second, 1 << 20), Axes(second), 12);
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    const auto& nodes = fitted->roles[0].nodes;
    EXPECT_EQ(nodes[1].alone, VirtualSpan::Microseconds(100));
    EXPECT_EQ(nodes[2].alone, VirtualSpan::Microseconds(10));
    EXPECT_EQ(fitted->operations[static_cast<size_t>(nodes[0].operation)].entries[0].count,
              uint64_t{(1 << 20) + 6} / 12);
    EXPECT_EQ(fitted->ranks[0].memory, 1400);
  }
  // As it was.
  const auto same = FitSizes(Sharded(2, 64), Axes(2), kFromTheStart, Sharded(4, 64), Axes(4), 2);
  EXPECT_EQ(same->roles[0].nodes[2].alone, VirtualSpan::Microseconds(60));
}

TEST(SizeFitTest, LargerPartsTakeMoreLaunches) {
  // 60 us in two launches on two ranks, 30 in one on four.
  StepRecord a = Sharded(2, 64);
  StepRecord::Node& half = a.roles[0].nodes[2];
  half.alone = VirtualSpan::Microseconds(20);
  a.roles[0].nodes.push_back(half);
  a.roles[0].nodes[3].alone = VirtualSpan::Microseconds(40);
  const auto fitted = FitSizes(a, Axes(2), kFromTheStart, Sharded(4, 64), Axes(4), 12);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  const auto& nodes = fitted->roles[0].nodes;
  EXPECT_EQ(nodes[2].alone + nodes[3].alone, VirtualSpan::Microseconds(10));
  EXPECT_EQ(nodes[3].alone.picoseconds() / 2, nodes[2].alone.picoseconds());
}

TEST(SizeFitTest, NothingBecomesNegative) {
  // What is more on more ranks has no part that is shared.
  StepRecord a = Sharded(2, 64), b = Sharded(4, 64);
  a.ranks[0].memory = 1;
  b.ranks[0].memory = 100;
  EXPECT_EQ(FitSizes(a, Axes(2), kFromTheStart, b, Axes(4), 1)->ranks[0].memory, 0);
}

TEST(SizeFitTest, OtherProgramsAreRefused) {
  const StepRecord a = Sharded(2, 64);
  StepRecord b = Sharded(4, 64);
  EXPECT_EQ(ErrorOf(a, b), "");
  b.names[1] = "sgd";
  EXPECT_EQ(ErrorOf(a, b),
            "rank 0 of the one recording and rank 0 of the other did adam and sgd in channel 1, 1 "
            "kinds of work before its end");
  b = Sharded(4, 64);
  b.roles[0].nodes.erase(b.roles[0].nodes.begin() + 1);
  EXPECT_NE(ErrorOf(a, b).find("did product and nothing in channel 1"), std::string::npos);
  // Before the first step that does not matter.
  EXPECT_TRUE(FitSizes(a, Axes(2), std::vector<StepPeriod>(1, {1, {2, 2}}), b, Axes(4), 8).ok());
  b = Sharded(4, 64);
  b.operations[0].entries[0].type = 0;
  EXPECT_NE(ErrorOf(a, b).find("did other NCCL operations"), std::string::npos);
  b = Sharded(4, 64);
  b.roles.push_back(b.roles[0]);
  b.ranks[1].role = 1;
  EXPECT_EQ(ErrorOf(a, b), "rank 1 did the same as another in one recording, and not in the other");
}

TEST(SizeFitTest, OneAxisDiffers) {
  const RankAxes a({{"tp", 2}, {"dp", 2}});
  EXPECT_EQ(*AxisThatDiffers(a, RankAxes({{"tp", 2}, {"dp", 4}})), 1u);
  for (const RankAxes& b : {a, RankAxes({{"tp", 4}, {"dp", 4}}), RankAxes({{"tp", 2}, {"ep", 4}}),
                            RankAxes({{"dp", 8}})}) {
    EXPECT_FALSE(AxisThatDiffers(a, b).ok()) << b.Text();
  }
}

}  // namespace
}  // namespace phantora
