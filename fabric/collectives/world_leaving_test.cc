// Ranks that give up, leave or die.
#include <gtest/gtest.h>

#include "fabric/collectives/nccl_world_for_test.h"

namespace phantora::nccl_test {
namespace {

TEST_F(NcclWorldTest, AnAbortEndsWhatIsUnderWay) {
  const auto ranks = Communicator(2);
  const auto waiting = Start(ranks[0], {AllReduce(4)}, 0);
  const auto later = Start(ranks[0], {AllReduce(4)}, 50);
  world_.Advance(At(20));
  world_.Leave(*ranks[0], true);
  EXPECT_EQ(world_.EndOf(waiting), At(20));
  EXPECT_EQ(world_.EndOf(later), At(50));  // not before it came
  EXPECT_EQ(world_.TakeChanged(), std::vector<uint64_t>{0});
  // For who is still there nothing changes.
  const auto other = Start(ranks[1], {AllReduce(4)}, 30);
  RunAll();
  EXPECT_EQ(world_.EndOf(other), At(44));
  world_.Leave(*ranks[1], false);
  EXPECT_EQ(world_.NextEvent(), kNever);
  EXPECT_EQ(world_.DescribeWaiting(At(100)), "");
}

TEST_F(NcclWorldTest, AnAbortWithFlowsUnderWay) {
  const auto ranks = Communicator(2);
  std::vector<NcclTicket> tickets;
  for (NcclEndpoint* rank : ranks) {
    tickets.push_back(Start(rank, {AllReduce(40), AllReduce(1)}, 0));
  }
  world_.Advance(At(30));
  world_.Leave(*ranks[0], true);
  world_.Leave(*ranks[1], true);
  EXPECT_EQ(world_.EndOf(tickets[1]), At(30));
  for (const NcclTicket ticket : tickets) world_.Forget(ticket);
  RunAll();
  EXPECT_TRUE(payload_.moved.empty());
  EXPECT_EQ(world_.NextEvent(), kNever);
  EXPECT_EQ(network_.flows(), 0u);
}

TEST_F(NcclWorldTest, GivingUpDoesNotLeave) {
  const auto ranks = Communicator(3);
  const auto given_up = Start(ranks[0], {AllReduce(4)}, 0);
  Start(ranks[1], {Send(2, 4)}, 0);
  world_.Advance(At(1));
  world_.GiveUp(*ranks[0]);
  world_.GiveUp(*ranks[1]);
  EXPECT_EQ(world_.EndOf(given_up), At(1));
  EXPECT_EQ(ranks[0]->unfinished, 0u);
  world_.GiveUp(*ranks[0]);  // again
  EXPECT_EQ(ranks[0]->unfinished, 0u);
  // Nobody waits any more.
  EXPECT_EQ(world_.DescribeWaiting(At(1)), "");
}

TEST_F(NcclWorldTest, WhoLeavesAfterAllHaveComeGetsTheResult) {
  const auto ranks = Communicator(2);
  const auto zero = Start(ranks[0], {AllReduce(4)}, 0);
  Start(ranks[1], {AllReduce(4)}, 0);
  world_.Advance(At(1));
  world_.Leave(*ranks[0], false);
  world_.Leave(*ranks[1], false);
  RunAll();
  EXPECT_EQ(world_.EndOf(zero), At(14));
  EXPECT_EQ(payload_.moved.size(), 1u);
}

TEST_F(NcclWorldTest, WhoLeavesBeforeItComesIsOver) {
  const auto ranks = Communicator(2);
  const auto zero = Start(ranks[0], {AllReduce(4)}, 50);
  world_.Leave(*ranks[0], false);
  RunAll();
  EXPECT_EQ(world_.EndOf(zero), At(50));
}

TEST_F(NcclWorldTest, ADeadProcessIsNotWaitedForInVain) {
  const auto one = Communicator(2), two = Communicator(2);
  const auto dead = Start(one[0], {AllReduce(4), AllReduce(4)}, 0);
  const auto message = Start(two[1], {Receive(0, 4)}, 0);
  const auto other = Start(one[1], {AllReduce(4), AllReduce(4)}, 0);
  world_.Advance(At(5));
  world_.ProcessDied(0);
  world_.ProcessDied(0);
  EXPECT_EQ(world_.EndOf(dead), At(5));
  EXPECT_TRUE(world_.communicators().EndpointsOf(0).empty());
  world_.Forget(dead);
  RunAll();
  EXPECT_EQ(world_.EndOf(other), kNever);
  EXPECT_TRUE(payload_.moved.empty());
  EXPECT_EQ(world_.DescribeWaiting(At(100)),
            "  communicator 1 of 2 ranks, collective 2 (AllReduce of 4 int8, sum): rank 1 came, "
            "rank 0 did not\n"
            "    rank 0: it has left the communicator, or ended\n"
            "  communicator 2 of 2 ranks, rank 1: Recv of 4 int8 from rank 0 has no partner\n"
            "    rank 0: it has left the communicator, or ended\n");
  world_.ProcessDied(1);
  EXPECT_NE(world_.EndOf(other), kNever);
  EXPECT_NE(world_.EndOf(message), kNever);
  EXPECT_EQ(world_.DescribeWaiting(At(100)), "");
}

TEST_F(NcclWorldTest, AProcessMayDieWhileOthersGather) {
  nccl::Join join{};
  join.ranks = 2;
  world_.communicators().Join({7, {}}, join);
  world_.ProcessDied(7);
  join.rank = 1;
  NcclEndpoint* one = world_.communicators().Find(world_.communicators().Join({8, {}}, join));
  Start(one, {AllReduce(1)}, 0);
  RunAll();
  EXPECT_NE(world_.DescribeWaiting(At(0)).find("rank 0: it has left"), std::string::npos);
  world_.ProcessDied(8);
}

TEST_F(NcclWorldTest, WhatIsForgottenUnderWayEndsForOthers) {
  const auto ranks = Communicator(2);
  const auto before = Start(ranks[0], {AllReduce(4)}, 60);
  world_.Forget(before);  // has not come
  EXPECT_EQ(ranks[0]->unfinished, 0u);
  const auto zero = Start(ranks[0], {AllReduce(4), AllReduce(4)}, 0);
  const auto one = Start(ranks[1], {AllReduce(4)}, 0);
  world_.Advance(At(12));
  world_.Forget(zero);
  world_.Forget(zero);
  EXPECT_EQ(world_.EndOf(zero), At(12));
  RunAll();
  EXPECT_EQ(world_.EndOf(one), At(14));
  EXPECT_TRUE(payload_.moved.empty());  // whose memory would it be?
  world_.Forget(one);
  EXPECT_EQ(ranks[1]->unfinished, 0u);
}

TEST_F(NcclWorldTest, ForgottenMessagesEndForOthers) {
  const auto ranks = Communicator(2);
  const auto zero = Start(ranks[0], {Send(1, 4), Receive(1, 4)}, 0);
  world_.Advance(At(1));
  world_.Forget(zero);
  EXPECT_EQ(world_.DescribeWaiting(At(1)), "");
  const auto one = Start(ranks[1], {Receive(0, 4)}, 2);
  RunAll();
  EXPECT_EQ(world_.EndOf(one), At(11));
  EXPECT_TRUE(payload_.moved.empty());
}

}  // namespace
}  // namespace phantora::nccl_test
