#include "fabric/collectives/communicators.h"

#include <gtest/gtest.h>

#include <climits>

namespace phantora {
namespace {

using nccl::Handle;
using nccl::State;

class CommunicatorsTest : public testing::Test {
 protected:
  // Process p is on host p, GPU 0.
  static NcclCaller Process(uint64_t process) { return {process, {static_cast<int>(process), 0}}; }

  Handle Join(uint64_t process, uint8_t id, int ranks, int rank) {
    nccl::Join join{};
    join.id[0] = id;
    join.ranks = ranks;
    join.rank = rank;
    return communicators_.Join(Process(process), join);
  }
  // Processes 100, 101, ... become ranks 0, 1, ...
  std::vector<Handle> JoinAll(uint8_t id, int ranks) {
    std::vector<Handle> handles;
    for (int rank = 0; rank < ranks; ++rank) handles.push_back(Join(100 + rank, id, ranks, rank));
    return handles;
  }
  Handle Split(Handle parent, int color, int key = 0) {
    nccl::Split split{};
    split.color = color;
    split.key = key;
    return communicators_.Split(At(parent), split);
  }
  Handle Shrink(Handle parent, const std::vector<int32_t>& excluded) {
    return communicators_.Shrink(At(parent), excluded, {});
  }
  NcclEndpoint& At(Handle handle) { return *communicators_.Find(handle); }
  State StateOf(Handle handle) { return At(handle).state; }
  void Leave(Handle handle) { communicators_.Leave(At(handle)); }

  Communicators communicators_;
};

TEST_F(CommunicatorsTest, RanksJoinInAnyOrder) {
  nccl::Join join{};
  join.ranks = 3;
  join.rank = 2;
  join.settings.nvls = 7;
  const Handle two = communicators_.Join({12, {1, 2}}, join);
  join.rank = 0;
  join.settings.nvls = 9;
  const Handle zero = communicators_.Join({10, {0, 3}}, join);
  EXPECT_EQ(StateOf(two), State::kPending);
  EXPECT_EQ(At(two).communicator, nullptr);
  join.rank = 1;
  const Handle one = communicators_.Join({11, {1, 1}}, join);
  for (const Handle handle : {zero, one, two}) EXPECT_EQ(StateOf(handle), State::kReady);
  const Communicator& communicator = *At(two).communicator;
  EXPECT_EQ(At(zero).communicator, &communicator);
  EXPECT_EQ(communicator.Name(), "communicator 1 of 3 ranks");
  EXPECT_EQ(communicator.members, (std::vector{zero, one, two}));
  EXPECT_EQ(communicator.places, (std::vector<GpuPlace>{{0, 3}, {1, 1}, {1, 2}}));
  EXPECT_EQ(communicator.processes, (std::vector<uint64_t>{10, 11, 12}));
  EXPECT_EQ(communicator.settings.nvls, 9);
  EXPECT_EQ(At(two).rank, 2);
}

TEST_F(CommunicatorsTest, TheWholeIdTellsCommunicatorsApart) {
  nccl::Join join{};
  join.ranks = 2;
  const Handle one = communicators_.Join(Process(1), join);
  join.rank = 1;
  join.id[127] = 1;  // behind zeros
  const Handle other = communicators_.Join(Process(2), join);
  EXPECT_EQ(StateOf(one), State::kPending);
  EXPECT_EQ(StateOf(other), State::kPending);
}

TEST_F(CommunicatorsTest, OneRankIsReadyAtOnceAndAnIdCanBeUsedAgain) {
  const Handle first = Join(1, 5, 1, 0), second = Join(1, 5, 1, 0);
  EXPECT_EQ(StateOf(first), State::kReady);
  EXPECT_EQ(StateOf(second), State::kReady);
  EXPECT_NE(At(first).communicator, At(second).communicator);
}

TEST_F(CommunicatorsTest, AnotherNumberOfRanksFails) {
  const Handle zero = Join(10, 1, 2, 0), wrong = Join(11, 1, 4, 1);
  EXPECT_EQ(StateOf(wrong), State::kFailed);
  EXPECT_EQ(At(wrong).error, 4);
  EXPECT_EQ(At(wrong).message,
            "rank 1 wants to join a communicator of 4 ranks, but others said that it has 2");
  EXPECT_EQ(StateOf(zero), State::kPending);
  EXPECT_EQ(StateOf(Join(12, 1, 2, 1)), State::kReady);
  EXPECT_EQ(StateOf(zero), State::kReady);
}

TEST_F(CommunicatorsTest, ARankTwiceFails) {
  const Handle zero = Join(10, 1, 2, 0), again = Join(11, 1, 2, 0);
  EXPECT_EQ(StateOf(again), State::kFailed);
  EXPECT_EQ(At(again).error, 5);
  EXPECT_EQ(At(again).message, "two processes want to be rank 0 of the same communicator");
  EXPECT_EQ(At(again).communicator, nullptr);
  Leave(again);
  EXPECT_EQ(StateOf(Join(12, 1, 2, 1)), State::kReady);
  EXPECT_EQ(At(zero).communicator->processes[0], 10u);
}

TEST_F(CommunicatorsTest, NumbersThatMakeNoSenseAreRefused) {
  EXPECT_EQ(Join(1, 1, 0, 0), 0u);
  EXPECT_EQ(Join(1, 1, -1, 0), 0u);
  EXPECT_EQ(Join(1, 1, INT_MIN, INT_MIN), 0u);
  EXPECT_EQ(Join(1, 1, 2, 2), 0u);
  EXPECT_EQ(Join(1, 1, 2, -1), 0u);
  EXPECT_EQ(Join(1, 1, INT_MAX, 0), 0u);
  EXPECT_EQ(Join(1, 1, Communicators::kMostRanks + 1, 0), 0u);
  EXPECT_TRUE(communicators_.EndpointsOf(1).empty());
  EXPECT_EQ(communicators_.DescribeWaiting(), "");
  EXPECT_NE(Join(1, 1, Communicators::kMostRanks, 0), 0u);
}

TEST_F(CommunicatorsTest, AProcessHasSomeThousands) {
  for (int i = 0; i < 4096; ++i) ASSERT_NE(Join(1, 1, 1, 0), 0u);
  EXPECT_EQ(Join(1, 1, 1, 0), 0u);
  EXPECT_NE(Join(2, 1, 1, 0), 0u);
  Leave(communicators_.EndpointsOf(1).front());
  EXPECT_NE(Join(1, 1, 1, 0), 0u);
}

// A hostile process must not take places without end.
TEST_F(CommunicatorsTest, PlacesThatWereLeftCountOn) {
  int taken = 0;
  for (; taken < 10000; ++taken) {
    const Handle handle = Join(1, 1, 20000, taken);
    if (handle == 0) break;
    Leave(handle);
  }
  EXPECT_EQ(taken, 4096);
}

TEST_F(CommunicatorsTest, OnesOwnHandlesOnly) {
  const Handle one = Join(1, 1, 1, 0), two = Join(2, 2, 1, 0);
  EXPECT_EQ(communicators_.Find(1, one), &At(one));
  EXPECT_EQ(communicators_.Find(1, two), nullptr);
  EXPECT_EQ(communicators_.Find(1, 0), nullptr);
  EXPECT_EQ(communicators_.EndpointsOf(2), std::vector{two});
  Leave(two);
  EXPECT_EQ(communicators_.Find(two), nullptr);
  EXPECT_TRUE(communicators_.EndpointsOf(2).empty());
}

TEST_F(CommunicatorsTest, SplitsByColorThenKeyThenRank) {
  const auto parents = JoinAll(1, 6);
  const int colors[] = {1, 0, 1, 0, -1, 1}, keys[] = {5, 0, 0, -3, 0, 0};
  std::vector<Handle> handles(6);
  for (const int rank : {3, 1, 5, 0, 4, 2}) {
    for (const Handle handle : handles) {
      EXPECT_TRUE(handle == 0 || StateOf(handle) == State::kPending);
    }
    handles[rank] = Split(parents[rank], colors[rank], keys[rank]);
  }
  EXPECT_EQ(At(handles[0]).communicator->members,
            (std::vector{handles[2], handles[5], handles[0]}));
  EXPECT_EQ(At(handles[1]).communicator->members, (std::vector{handles[3], handles[1]}));
  EXPECT_EQ(At(handles[0]).rank, 2);
  EXPECT_EQ(At(handles[0]).caller.process, 100u);
  // Who takes part in none can ask, and leave.
  EXPECT_EQ(StateOf(handles[4]), State::kReady);
  EXPECT_EQ(At(handles[4]).communicator, nullptr);
  for (const Handle handle : handles) Leave(handle);
  for (const Handle parent : parents) EXPECT_EQ(StateOf(parent), State::kReady);
}

TEST_F(CommunicatorsTest, SplitsOfExtremeColorsAndKeys) {
  const auto parents = JoinAll(1, 3);
  const Handle zero = Split(parents[0], INT_MAX, INT_MAX),
               one = Split(parents[1], INT_MAX, INT_MIN), two = Split(parents[2], INT_MIN, 0);
  EXPECT_EQ(At(zero).communicator->members, (std::vector{one, zero}));
  EXPECT_EQ(At(two).communicator, nullptr);
}

TEST_F(CommunicatorsTest, ARankMaySplitAgainBeforeOthersHaveOnce) {
  const auto parents = JoinAll(1, 2);
  const Handle first = Split(parents[0], 0), second = Split(parents[0], 0);
  const Handle other_first = Split(parents[1], 0);
  EXPECT_EQ(At(other_first).communicator->members, (std::vector{first, other_first}));
  EXPECT_EQ(StateOf(second), State::kPending);
  const Handle other_second = Split(parents[1], 0);
  EXPECT_EQ(At(other_second).communicator->members, (std::vector{second, other_second}));
}

TEST_F(CommunicatorsTest, ShrinksToThoseThatStay) {
  const auto parents = JoinAll(1, 4);
  const Handle three = Shrink(parents[3], {1});
  const Handle zero = Shrink(parents[0], {1, 1});
  EXPECT_EQ(StateOf(zero), State::kPending);
  const Handle two = Shrink(parents[2], {1});
  EXPECT_EQ(At(zero).communicator->members, (std::vector{zero, two, three}));
  EXPECT_EQ(At(three).rank, 2);
  EXPECT_EQ(At(three).communicator->places[1], (GpuPlace{102, 0}));
}

TEST_F(CommunicatorsTest, ShrinksThatMakeNoSenseAreRefused) {
  const auto parents = JoinAll(1, 2);
  EXPECT_EQ(Shrink(parents[0], {0}), 0u);  // oneself
  EXPECT_EQ(Shrink(parents[0], {2}), 0u);
  EXPECT_EQ(Shrink(parents[0], {-1}), 0u);
  EXPECT_EQ(Shrink(parents[0], {INT_MIN}), 0u);
  EXPECT_EQ(communicators_.DescribeWaiting(), "");
}

// Who does not take part in a shrink is not out of step with the others afterwards.
TEST_F(CommunicatorsTest, ShrinksAndSplitsDoNotDisturbEachOther) {
  const auto parents = JoinAll(1, 3);
  Shrink(parents[0], {1});
  EXPECT_EQ(StateOf(Shrink(parents[2], {1})), State::kReady);
  // Others than before stay.
  Shrink(parents[0], {2});
  EXPECT_EQ(StateOf(Shrink(parents[1], {2})), State::kReady);
  // The same again, one rank ahead.
  const Handle second = Shrink(parents[0], {1}), third = Shrink(parents[0], {1});
  EXPECT_EQ(StateOf(Shrink(parents[2], {1})), State::kReady);
  EXPECT_EQ(StateOf(second), State::kReady);
  EXPECT_EQ(StateOf(third), State::kPending);
  Split(parents[0], 0);
  Split(parents[1], 0);
  EXPECT_EQ(StateOf(Split(parents[2], 0)), State::kReady);
}

TEST_F(CommunicatorsTest, ACommunicatorLastsUntilAllHaveLeft) {
  const auto handles = JoinAll(1, 2);
  const Communicator& communicator = *At(handles[1]).communicator;
  Leave(handles[0]);
  EXPECT_EQ(communicator.members, (std::vector<Handle>{0, handles[1]}));
  EXPECT_EQ(communicator.left, 1);
  EXPECT_EQ(communicator.processes[0], 100u);
  Leave(handles[1]);
  EXPECT_EQ(At(JoinAll(1, 2)[0]).communicator->number, 2);
}

TEST_F(CommunicatorsTest, WhoDiesBeforeAllHaveComeIsAMemberThatIsGone) {
  const Handle zero = Join(10, 1, 2, 0);
  Leave(zero);
  const Handle one = Join(11, 1, 2, 1);
  EXPECT_EQ(StateOf(one), State::kReady);
  EXPECT_EQ(At(one).communicator->members, (std::vector<Handle>{0, one}));
  EXPECT_EQ(At(one).communicator->left, 1);
  Leave(one);
  EXPECT_EQ(communicators_.DescribeWaiting(), "");
}

TEST_F(CommunicatorsTest, WhoDiesInASplitIsAMemberThatIsGone) {
  const auto parents = JoinAll(1, 3);
  Leave(Split(parents[0], 0));  // alone in its color
  const Handle one = Split(parents[1], 1);
  Leave(parents[0]);
  const Handle two = Split(parents[2], 1);
  EXPECT_EQ(At(two).communicator->members, (std::vector{one, two}));
  EXPECT_EQ(At(two).communicator->left, 0);
}

TEST_F(CommunicatorsTest, TheParentMayGoBeforeOthersHaveSplit) {
  const auto parents = JoinAll(1, 2);
  const Handle zero = Split(parents[0], 0);
  Leave(parents[0]);
  EXPECT_EQ(StateOf(Split(parents[1], 0)), State::kReady);
  Leave(parents[1]);
  EXPECT_EQ(At(zero).communicator->ranks(), 2);
}

TEST_F(CommunicatorsTest, DescribesWhoWaits) {
  EXPECT_EQ(communicators_.DescribeWaiting(), "");
  const auto parents = JoinAll(1, 4);
  EXPECT_EQ(communicators_.DescribeWaiting(), "");
  Join(1, 7, 4, 2);
  Join(1, 7, 4, 0);
  Split(parents[1], 0);
  Shrink(parents[3], {0});
  EXPECT_EQ(communicators_.DescribeWaiting(),
            "a communicator of 4 ranks: ranks 0 2 have called, ranks 1 3 have not\n"
            "what is left of communicator 1 of 4 ranks: ranks 3 have called, ranks 1 2 have not\n"
            "a split of communicator 1 of 4 ranks: ranks 1 have called, ranks 0 2 3 have not\n");
}

TEST_F(CommunicatorsTest, DescribesManyInShort) {
  for (int rank = 0; rank < 20; ++rank) Join(1, 7, Communicators::kMostRanks, rank * 2);
  EXPECT_EQ(communicators_.DescribeWaiting(),
            "a communicator of 65536 ranks: ranks 0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 ... "
            "have called, ranks 1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 31 ... have not\n");
}

TEST_F(CommunicatorsTest, WhoHasLeftDoesNotWait) {
  Leave(Join(1, 7, 2, 0));
  EXPECT_EQ(communicators_.DescribeWaiting(), "");
  EXPECT_EQ(StateOf(Join(2, 7, 2, 1)), State::kReady);
}

// Nor is what all have left kept for ever.
TEST_F(CommunicatorsTest, WhatNobodyWaitsInIsForgotten) {
  const Handle waits = Join(1, 255, 2, 0);
  for (uint64_t process = 2; process < 20000; ++process) {
    nccl::Join join{};
    join.id[1] = static_cast<uint8_t>(process);
    join.id[2] = static_cast<uint8_t>(process >> 8);
    join.ranks = 2;
    Leave(communicators_.Join(Process(process), join));
  }
  EXPECT_EQ(StateOf(Join(30000, 255, 2, 1)), State::kReady);
  EXPECT_EQ(StateOf(waits), State::kReady);
  // The first of them, forgotten by now.
  nccl::Join join{};
  join.id[1] = 2;
  join.ranks = 2;
  join.rank = 1;
  EXPECT_EQ(StateOf(communicators_.Join(Process(2), join)), State::kPending);
}

}  // namespace
}  // namespace phantora
