// What users are told: world_text.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "fabric/collectives/nccl_world_for_test.h"

namespace phantora::nccl_test {
namespace {

TEST_F(NcclWorldTest, RanksThatDoNotAgreeAreTold) {
  const Entry right = Of(Operation::kReduce, 8, kFloat, nccl::kMax, 1);
  const auto with = [&](auto change) {
    Entry entry = right;
    change(entry);
    return entry;
  };
  const struct {
    Entry entry;
    const char* text;
  } kWrong[] = {
      {with([](Entry& e) { e.operation = Operation::kBroadcast; }),
       "Broadcast of 8 float32, root 1"},
      {with([](Entry& e) { e.type = kInt8; }), "Reduce of 8 int8, max, root 1"},
      {with([](Entry& e) { e.reduction = nccl::kMin; }), "Reduce of 8 float32, min, root 1"},
      {with([](Entry& e) { e.peer = 0; }), "Reduce of 8 float32, max, root 0"},
      {with([](Entry& e) { e.count = 9; }), "Reduce of 9 float32, max, root 1"},
  };
  int number = 0;
  for (const auto& wrong : kWrong) {
    failures_.clear();
    const auto ranks = Communicator(3);
    const auto one = Start(ranks[1], {right}, 0, 6);
    Start(ranks[0], {wrong.entry}, 1, 4);
    Start(ranks[2], {right}, 2);
    RunAll();
    ASSERT_EQ(failures_.size(), 1u) << wrong.text;
    EXPECT_EQ(failures_[0],
              absl::StrCat("NCCL: ranks of communicator ", ++number,
                           " of 3 ranks do not agree on collective 1:\n"
                           "  rank 1, call 7 with this communicator: Reduce of 8 float32, max, "
                           "root 1\n"
                           "  rank 0, call 5 with this communicator: ",
                           wrong.text,
                           "\nThe real program would hang here, or compute nonsense. Look for "
                           "ranks that take another branch, or that have other sizes."));
    EXPECT_EQ(world_.EndOf(one), kNever);
  }
}

TEST_F(NcclWorldTest, WhatDoesNotMatterMayDiffer) {
  const auto ranks = Communicator(2);
  Entry one = AllReduce(4), two = AllReduce(4);
  one.peer = 5, two.scalar = 7, two.scalar_on_device = 1;
  Start(ranks[0], {one, Of(Operation::kAllGather, 1, kInt8, 1)}, 0);
  Start(ranks[1], {two, Of(Operation::kAllGather, 1)}, 0);
  RunAll();
  EXPECT_EQ(Failures(), "");
  EXPECT_EQ(payload_.moved.size(), 2u);
}

TEST_F(NcclWorldTest, TheSecondCollectiveOfACallMayBeTheWrongOne) {
  const auto ranks = Communicator(2);
  Start(ranks[0], {AllReduce(4), AllReduce(5)}, 0);
  Start(ranks[1], {AllReduce(4), AllReduce(6)}, 0, 3);
  RunAll();
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_NE(failures_[0].find("do not agree on collective 2:\n"), std::string::npos);
  EXPECT_NE(failures_[0].find("rank 1, call 4 with this communicator: AllReduce of 6 int8"),
            std::string::npos);
}

TEST_F(NcclWorldTest, AMessageMayBeShorterThanWhatIsReceivedNotLonger) {
  const auto ranks = Communicator(2);
  Start(ranks[0], {Send(1, 4)}, 0);
  Start(ranks[1], {Receive(0, 5)}, 0);
  RunAll();
  EXPECT_EQ(Failures(), "");
  Start(ranks[0], {Send(1, 5)}, 0, 1);
  const auto one = Start(ranks[1], {Receive(0, 4)}, 0, 1);
  RunAll();
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0].substr(0, failures_[0].find("The real")),
            "NCCL: ranks of communicator 1 of 2 ranks do not agree on a message:\n"
            "  rank 0, call 2 with this communicator: Send of 5 int8 to rank 1\n"
            "  rank 1, call 2 with this communicator: Recv of 4 int8 from rank 0\n");
  EXPECT_EQ(world_.EndOf(one), kNever);
}

TEST_F(NcclWorldTest, ADeadlockOfTwoCommunicatorsIsDescribed) {
  const auto one = Communicator(2), two = Communicator(2);
  Start(one[0], {AllReduce(4)}, 10);
  Start(two[1], {AllReduce(8)}, 20);
  world_.Advance(At(30));
  EXPECT_EQ(world_.DescribeWaiting(At(9)), "");
  EXPECT_EQ(world_.DescribeWaiting(At(10)),
            "  communicator 1 of 2 ranks, collective 1 (AllReduce of 4 int8, sum): rank 0 came, "
            "rank 1 did not\n"
            "    rank 1: it waits in collective 1 of communicator 2 (AllReduce of 8 int8, sum)\n");
  EXPECT_EQ(world_.DescribeWaiting(At(30)),
            "  communicator 1 of 2 ranks, collective 1 (AllReduce of 4 int8, sum): rank 0 came, "
            "rank 1 did not\n"
            "    rank 1: it waits in collective 1 of communicator 2 (AllReduce of 8 int8, sum)\n"
            "  communicator 2 of 2 ranks, collective 1 (AllReduce of 8 int8, sum): rank 1 came, "
            "rank 0 did not\n"
            "    rank 0: it waits in collective 1 of communicator 1 (AllReduce of 4 int8, sum)\n");
}

TEST_F(NcclWorldTest, MessagesWithoutPartnersAreDescribed) {
  const auto ranks = Communicator(3);
  Start(ranks[0], {Send(1, 4)}, 0);
  Start(ranks[1], {Receive(2, 6)}, 0);
  world_.Advance(At(1));
  EXPECT_EQ(world_.DescribeWaiting(At(1)),
            "  communicator 1 of 3 ranks, rank 0: Send of 4 int8 to rank 1 has no partner\n"
            "    rank 1: it waits in a Recv of 6 int8 from rank 2, in communicator 1\n"
            "  communicator 1 of 3 ranks, rank 1: Recv of 6 int8 from rank 2 has no partner\n"
            "    rank 2: it has come to no operation that waits\n");
}

TEST_F(NcclWorldTest, ManyAreDescribedInShort) {
  const auto ranks = Communicator(40);
  Start(ranks[39], {AllReduce(4)}, 0);
  world_.Leave(*ranks[1], true);
  world_.Advance(At(1));
  const std::string text = world_.DescribeWaiting(At(1));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "  communicator 1 of 40 ranks, collective 1 (AllReduce of 4 int8, sum): rank 39 came, "
            "ranks 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ... (39 of them) did not");
  EXPECT_NE(text.find("    rank 1: it has left the communicator, or ended\n"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9);
}

}  // namespace
}  // namespace phantora::nccl_test
