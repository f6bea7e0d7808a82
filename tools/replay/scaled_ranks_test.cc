#include "tools/replay/scaled_ranks.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/replay/run_for_test.h"

namespace phantora {
namespace {

using Operation = nccl::Operation;

// tp 2, dp 2, pp 2; ranks of the second stage have a role of their own.
class ScaledRanksTest : public testing::Test {
 protected:
  ScaledRanksTest() : run_(8) {
    for (const int stride : {1, 2, 4}) run_.Communicators(stride, 2);
    run_.Communicators(1, 8);
    run_.record.roles.resize(2);
    for (size_t rank = 4; rank < 8; ++rank) run_.record.ranks[rank].role = 1;
  }
  ScaledRanks Scale(int dp) {
    auto ranks = ScaledRanks::Create(run_.record, axes_, {{"dp", dp}});
    EXPECT_TRUE(ranks.ok()) << ranks.status();
    return *std::move(ranks);
  }
  std::string ErrorOf(const std::map<std::string, int>& to) {
    return std::string(ScaledRanks::Create(run_.record, axes_, to).status().message());
  }
  // "0 1" of each of a rank's communicators.
  static std::string MembersOf(const ScaledRanks& ranks, size_t rank) {
    std::vector<std::string> all;
    for (const auto& member : ranks.ranks()[rank].communicators) {
      const auto& members = ranks.communicators()[member.communicator].members;
      EXPECT_EQ(members[static_cast<size_t>(member.rank)], static_cast<int>(rank));
      all.push_back(absl::StrJoin(members, " "));
    }
    return absl::StrJoin(all, "; ");
  }
  RunForTest run_;
  RankAxes axes_{{{"tp", 2}, {"dp", 2}, {"pp", 2}}};
};

TEST_F(ScaledRanksTest, AsTheyWere) {
  std::swap(run_.record.ranks[0].place, run_.record.ranks[1].place);
  run_.record.communicators.clear();
  for (auto& rank : run_.record.ranks) rank.communicators.clear();
  run_.Communicator({3, 1, 0, 2});
  const ScaledRanks ranks = Scale(2);
  ASSERT_EQ(ranks.ranks().size(), 8u);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(ranks.ranks()[static_cast<size_t>(rank)].recorded, rank);
  }
  EXPECT_EQ(ranks.ranks()[0].place, (GpuPlace{0, 1}));
  EXPECT_EQ(MembersOf(ranks, 1), "3 1 0 2");
  EXPECT_EQ(ranks.factor(), 1);
}

TEST_F(ScaledRanksTest, MoreReplicas) {
  const ScaledRanks ranks = Scale(4);
  ASSERT_EQ(ranks.ranks().size(), 16u);
  EXPECT_EQ(ranks.factor(), 2);
  // Along dp the first, then the second again and again.
  EXPECT_EQ(ranks.ranks()[0].recorded, 0);
  EXPECT_EQ(ranks.ranks()[5].recorded, 3);
  EXPECT_EQ(ranks.ranks()[7].recorded, 3);
  EXPECT_EQ(ranks.ranks()[8].recorded, 4);
  EXPECT_EQ(ranks.ranks()[15].recorded, 7);
  EXPECT_EQ(ranks.ranks()[9].place, (GpuPlace{1, 1}));
  const std::string all = "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15";
  EXPECT_EQ(MembersOf(ranks, 0), "0 1; 0 2 4 6; 0 8; " + all);
  EXPECT_EQ(MembersOf(ranks, 13), "12 13; 9 11 13 15; 5 13; " + all);
  EXPECT_EQ(MembersOf(Scale(1), 3), "2 3; 3; 1 3; 0 1 2 3");
}

TEST_F(ScaledRanksTest, FewerOnAHost) {
  const auto ranks = ScaledRanks::Create(run_.record, axes_, {}, 4);
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ(ranks->gpus(), 4);
  EXPECT_EQ(ranks->ranks()[3].place, (GpuPlace{0, 3}));
  EXPECT_EQ(ranks->ranks()[4].place, (GpuPlace{1, 0}));
  EXPECT_EQ(Scale(2).gpus(), 8);
}

TEST_F(ScaledRanksTest, WhatIsGatheredInAllStaysTheSame) {
  const int gather = run_.Operation(1, {EntryForTest(Operation::kAllGather, 1000)});
  const int scatter = run_.Operation(1, {EntryForTest(Operation::kReduceScatter, 1001)});
  const int tensor = run_.Operation(0, {EntryForTest(Operation::kAllGather, 1000)});
  const int reduce = run_.AllReduce(1, 1000);
  const ScaledRanks ranks = Scale(4);
  EXPECT_EQ(ranks.EntriesOf(15, gather)[0].count, 500u);
  EXPECT_EQ(ranks.EntriesOf(0, scatter)[0].count, 501u);
  EXPECT_EQ(ranks.EntriesOf(15, tensor)[0].count, 1000u);
  EXPECT_EQ(ranks.EntriesOf(15, reduce)[0].count, 1000u);
}

TEST_F(ScaledRanksTest, PeersAndRootsKeepTheirPlaces) {
  // To the other stage, in its own communicator and in that of all.
  const int own = run_.Operation(2, {EntryForTest(Operation::kSend, 8, 1)});
  const int in_all = run_.Operation(3, {EntryForTest(Operation::kSend, 8, 4)});
  const int to_first = run_.Operation(3, {EntryForTest(Operation::kBroadcast, 8, 0)});
  const int to_second = run_.Operation(1, {EntryForTest(Operation::kBroadcast, 8, 1)});
  for (const int operation : {own, in_all, to_first, to_second}) run_.Add(0, 0, 0, {}, operation);
  const ScaledRanks ranks = Scale(4);
  EXPECT_EQ(ranks.EntriesOf(5, own)[0].peer, 1) << "of ranks 5 and 13";
  EXPECT_EQ(ranks.EntriesOf(5, in_all)[0].peer, 13);
  EXPECT_EQ(ranks.EntriesOf(13, to_first)[0].peer, 0);
  for (const int rank : {9, 11, 13, 15}) EXPECT_EQ(ranks.EntriesOf(rank, to_second)[0].peer, 1);
}

TEST_F(ScaledRanksTest, WhatCannotBeScaledIsRefused) {
  EXPECT_NE(ErrorOf({{"ep", 2}}).find("there is no axis ep: they are tp=2,dp=2,pp=2"),
            std::string::npos);
  EXPECT_NE(ErrorOf({{"tp", 4}}).find("tp cannot be scaled: with another size each rank computes"),
            std::string::npos);
  EXPECT_NE(ErrorOf({{"dp", 1 << 20}}).find("more than"), std::string::npos);
  // Sends from replica to replica.
  run_.Add(0, 0, 0, {}, run_.Operation(1, {EntryForTest(Operation::kSend, 8, 1)}));
  EXPECT_EQ(ErrorOf({{"dp", 4}}),
            "dp cannot be scaled: ranks send along it, as rank 0 does to rank 2");
  EXPECT_EQ(ErrorOf({{"dp", 2}}), "") << "it is not";
}

TEST(ScaledRanksOfReplicas, AllButTheFirstDoTheSame) {
  RunForTest run(4, 4);
  run.Communicators(1, 4);
  run.record.roles.resize(2);
  const RankAxes axes({{"dp", 4}});
  const auto error = [&] {
    return std::string(ScaledRanks::Create(run.record, axes, {{"dp", 8}}).status().message());
  };
  run.record.ranks[0].role = 1;
  const auto ranks = ScaledRanks::Create(run.record, axes, {{"dp", 8}});
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ(ranks->ranks()[0].recorded, 0);
  EXPECT_EQ(ranks->ranks()[3].recorded, 3);
  EXPECT_EQ(ranks->ranks()[7].recorded, 1);
  EXPECT_EQ(ranks->ranks()[7].place, (GpuPlace{1, 3}));
  run.record.ranks[0].role = 0;
  run.record.ranks[2].role = 1;
  EXPECT_EQ(error(),
            "dp cannot be scaled: ranks 1 and 2 differ along it only, and did not do the same");
  run.record.ranks[2].role = 0;
  run.Communicator({0, 1, 2});
  EXPECT_NE(error().find("neither one nor all"), std::string::npos) << error();
}

TEST(ScaledRanksOfReplicas, OneAloneShowsNothing) {
  RunForTest run(2, 2);
  run.Communicators(1, 2);
  EXPECT_EQ(ScaledRanks::Create(run.record, RankAxes({{"tp", 2}, {"dp", 1}}), {{"dp", 2}})
                .status()
                .message(),
            "dp was 1: record a run in which it is 2 at least");
}

}  // namespace
}  // namespace phantora
