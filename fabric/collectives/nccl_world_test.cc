#include "fabric/collectives/nccl_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "fabric/collectives/nccl_world_for_test.h"

namespace phantora::nccl_test {
namespace {

// --- Collectives ----------------------------------------------------------------------

TEST_F(NcclWorldTest, ACollectiveStartsWhenItsLastRankComes) {
  const auto ranks = Communicator(3);
  const auto two = Start(ranks[2], {AllReduce(20, 12)}, 0);
  const auto zero = Start(ranks[0], {AllReduce(20, 10)}, 7);
  EXPECT_EQ(world_.NextEvent(), At(0));
  world_.Advance(At(50));
  EXPECT_EQ(world_.EndOf(two), kNever);
  EXPECT_EQ(world_.NextEvent(), kNever);
  EXPECT_TRUE(world_.TakeChanged().empty());
  EXPECT_TRUE(payload_.moved.empty());
  const auto one = Start(ranks[1], {AllReduce(20, 11)}, 100);
  EXPECT_EQ(ranks[1]->unfinished, 1u);
  world_.Advance(At(129));
  EXPECT_EQ(world_.EndOf(one), kNever);
  EXPECT_EQ(world_.NextEvent(), At(130));
  EXPECT_EQ(world_.now(), At(129));
  world_.Advance(At(130));
  for (const NcclTicket ticket : {zero, one, two}) EXPECT_EQ(world_.EndOf(ticket), At(130));
  EXPECT_EQ(world_.TakeChanged(), (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_TRUE(world_.TakeChanged().empty());
  EXPECT_EQ(payload_.moved, std::vector<std::string>{"AllReduce of 20 int8, sum: 0@10 1@11 2@12"});
  EXPECT_EQ(ended_, std::vector<std::string>{"collective 0 100 130"});
  EXPECT_EQ(ranks[1]->unfinished, 0u);
  EXPECT_EQ(world_.completed(), 1u);
}

TEST_F(NcclWorldTest, BytesAreOfTheLargerSide) {
  const auto ranks = Communicator(2);
  std::vector<NcclTicket> tickets;
  for (NcclEndpoint* rank : ranks) {
    tickets.push_back(Start(rank, {Of(Operation::kAllGather, 5, kFloat)}, 0));
  }
  RunAll();
  EXPECT_EQ(world_.EndOf(tickets[0]), At(10 + 2 * 5 * 4));
  for (NcclEndpoint* rank : ranks) {
    tickets.push_back(Start(rank, {Of(Operation::kBroadcast, 5, kFloat, nccl::kSum, 1)}, 100));
  }
  RunAll();
  EXPECT_EQ(world_.EndOf(tickets[2]), At(110 + 5 * 4));
}

TEST_F(NcclWorldTest, OneRankAloneNeedsNobody) {
  const auto ranks = Communicator(1);
  const auto ticket = Start(ranks[0], {AllReduce(3)}, 4);
  RunAll();
  EXPECT_EQ(world_.EndOf(ticket), At(17));
}

TEST_F(NcclWorldTest, OperationsThatShareALinkSlowEachOther) {
  const auto one = Communicator(2), two = Communicator(2);
  std::vector<NcclTicket> tickets;
  for (NcclEndpoint* rank : one) tickets.push_back(Start(rank, {AllReduce(30)}, 0));
  for (NcclEndpoint* rank : two) tickets.push_back(Start(rank, {AllReduce(10)}, 10));
  RunAll();
  // From 20 to 40 both have half of the link.
  EXPECT_EQ(world_.EndOf(tickets[2]), At(40));
  EXPECT_EQ(world_.EndOf(tickets[0]), At(50));
}

TEST_F(NcclWorldTest, CollectivesOfACallAreInOrder) {
  const auto ranks = Communicator(2);
  const auto zero = Start(ranks[0], {AllReduce(1), AllReduce(2), AllReduce(3)}, 0);
  // The other groups them in another way.
  const auto first = Start(ranks[1], {AllReduce(1)}, 5);
  const auto rest = Start(ranks[1], {AllReduce(2), AllReduce(3)}, 100);
  RunAll();
  EXPECT_EQ(world_.EndOf(first), At(16));
  EXPECT_EQ(world_.EndOf(rest), At(125));
  EXPECT_EQ(world_.EndOf(zero), At(125));
  EXPECT_EQ(ended_, (std::vector<std::string>{"collective 0 5 16", "collective 16 100 112",
                                              "collective 112 112 125"}));
  EXPECT_EQ(Failures(), "");
}

TEST_F(NcclWorldTest, PlansWithoutBytesTakeTheirLatency) {
  planner_.uses_link = false;
  const auto ranks = Communicator(2);
  const auto zero = Start(ranks[0], {AllReduce(1), AllReduce(0)}, 0);
  Start(ranks[1], {AllReduce(1), AllReduce(0)}, 0);
  RunAll();
  EXPECT_EQ(world_.EndOf(zero), At(20));
  EXPECT_EQ(world_.now(), At(20));  // not infinity
}

TEST_F(NcclWorldTest, ACommunicatorIsNotAnother) {
  const auto one = Communicator(2), two = Communicator(2);
  Start(one[0], {AllReduce(1)}, 0);
  Start(two[1], {AllReduce(1)}, 0);
  RunAll();
  EXPECT_TRUE(payload_.moved.empty());
}

TEST_F(NcclWorldTest, TimesDoNotGoBack) {
  const auto ranks = Communicator(2);
  world_.Advance(At(100));
  const auto zero = Start(ranks[0], {AllReduce(1)}, 3), one = Start(ranks[1], {AllReduce(1)}, 50);
  EXPECT_EQ(world_.NextEvent(), At(100));
  world_.Advance(At(40));
  EXPECT_EQ(world_.now(), At(100));
  EXPECT_EQ(world_.EndOf(one), kNever);
  RunAll();
  EXPECT_EQ(world_.EndOf(zero), At(111));
  EXPECT_EQ(ended_, std::vector<std::string>{"collective 100 100 111"});
}

// --- Messages -------------------------------------------------------------------------

TEST_F(NcclWorldTest, MessagesAreMatchedInTheOrderInWhichTheyCome) {
  const auto ranks = Communicator(3);
  Start(ranks[0], {Send(1, 4, 0xa), Send(2, 4, 0xb), Send(1, 4, 0xc)}, 0);
  Start(ranks[0], {Send(1, 4, 0xd)}, 1);
  const auto one = Start(ranks[1], {Receive(0, 4, 1), Receive(0, 4, 2)}, 2);
  const auto two = Start(ranks[2], {Receive(0, 4, 3)}, 3);
  const auto last = Start(ranks[1], {Receive(0, 5, 4)}, 100);
  RunAll();
  EXPECT_EQ(payload_.moved,
            (std::vector<std::string>{"0@10>1@1", "0@12>1@2", "0@11>2@3", "0@13>1@4"}));
  // Three share the link: two from 7 on, three from 8 to 7 + 11.
  EXPECT_EQ(world_.EndOf(two).nanoseconds(), 19000);  // thirds are rounded up
  EXPECT_LE(world_.EndOf(one), world_.EndOf(two));
  EXPECT_EQ(world_.EndOf(last), At(100 + 5 + 4));
  EXPECT_EQ(planner_.asked, (std::vector<std::string>{"0>1 4/3", "0>1 4/3", "0>2 4/3", "0>1 4/1"}));
  EXPECT_EQ(Failures(), "");
}

TEST_F(NcclWorldTest, AReceiveMayComeFirst) {
  const auto ranks = Communicator(2);
  const auto one = Start(ranks[1], {Receive(0, 4, 1)}, 0);
  const auto zero = Start(ranks[0], {Send(1, 4, 2)}, 30);
  RunAll();
  EXPECT_EQ(world_.EndOf(zero), At(39));
  EXPECT_EQ(world_.EndOf(one), At(39));
  EXPECT_EQ(ended_, std::vector<std::string>{"message 0 30 39"});
}

// All of a call's messages wait at once, so these do not wait for each other.
TEST_F(NcclWorldTest, ExchangesInAnyOrderEnd) {
  const auto ranks = Communicator(2);
  const auto zero = Start(ranks[0], {Send(1, 4), Receive(1, 4), Send(0, 4), Receive(0, 4)}, 0);
  const auto one = Start(ranks[1], {Send(0, 4), Receive(0, 4)}, 0);
  RunAll();
  EXPECT_EQ(world_.EndOf(zero), At(5 + 12));
  EXPECT_EQ(world_.EndOf(one), At(5 + 12));
  EXPECT_EQ(world_.DescribeWaiting(At(100)), "");
}

// Of an all-to-all, those within the machine are not among those that cross the network, nor is the
// rank's own.
TEST_F(NcclWorldTest, MessagesCountThoseThatTakeTheirWay) {
  const auto ranks = Communicator(5, 2);
  Start(ranks[0], {Send(0, 4), Receive(0, 4), Send(1, 4), Send(2, 4), Send(3, 4), Send(4, 4)}, 0);
  for (size_t rank = 1; rank < 5; ++rank) Start(ranks[rank], {Receive(0, 4)}, 0);
  RunAll();
  std::sort(planner_.asked.begin(), planner_.asked.end());
  // It sends to itself, too: this is an all-to-all.
  EXPECT_EQ(planner_.asked,
            (std::vector<std::string>{"0>0 4/1 exchanged", "0>1 4/1 exchanged", "0>2 4/3 exchanged",
                                      "0>3 4/3 exchanged", "0>4 4/3 exchanged"}));
  planner_.asked.clear();
  Start(ranks[1], {Send(0, 4)}, 0);
  Start(ranks[0], {Receive(1, 4)}, 0);
  RunAll();
  EXPECT_EQ(planner_.asked, std::vector<std::string>{"1>0 4/1"});
  EXPECT_EQ(Failures(), "");
}

TEST_F(NcclWorldTest, ARankSendsToItself) {
  const auto ranks = Communicator(2);
  const auto ticket = Start(ranks[1], {Receive(1, 4, 2), Send(1, 4, 1)}, 0);
  RunAll();
  EXPECT_EQ(world_.EndOf(ticket), At(9));
  EXPECT_EQ(payload_.moved, std::vector<std::string>{"1@1>1@2"});
  EXPECT_EQ(ranks[1]->unfinished, 0u);
}

TEST_F(NcclWorldTest, MessagesFollowCollectivesOfTheSameCall) {
  const auto ranks = Communicator(2);
  const auto zero = Start(ranks[0], {Send(1, 4), AllReduce(4)}, 0);
  const auto one = Start(ranks[1], {Receive(0, 4), AllReduce(4)}, 0);
  RunAll();
  EXPECT_EQ(ended_, (std::vector<std::string>{"collective 0 0 14", "message 14 14 23"}));
  EXPECT_EQ(world_.EndOf(zero), At(23));
  EXPECT_EQ(world_.EndOf(one), At(23));
}

// --- What is asked for ------------------------------------------------------------------

TEST_F(NcclWorldTest, EntriesThatMakeNoSenseAreToldApart) {
  const auto ranks = Communicator(2);
  const auto check = [&](Entry entry) { return NcclWorld::Check(*ranks[0], {entry}); };
  EXPECT_EQ(check(AllReduce(1)), "");
  EXPECT_EQ(check(Of(static_cast<Operation>(7), 1)), "no such operation");
  EXPECT_EQ(check(Of(static_cast<Operation>(255), 1)), "no such operation");
  EXPECT_EQ(check(Of(Operation::kSend, 1, 12)), "no such type");
  EXPECT_EQ(check(Of(Operation::kReduce, 1, kInt8, 6)), "no such reduction");
  EXPECT_EQ(check(Of(Operation::kAllGather, 1, kInt8, 6)), "");
  EXPECT_EQ(check(Send(2, 1)), "no such rank");
  EXPECT_EQ(check(Receive(-1, 1)), "no such rank");
  EXPECT_EQ(check(Of(Operation::kBroadcast, 1, kInt8, nccl::kSum, 2)), "no such rank");
  EXPECT_EQ(check(Of(Operation::kAllReduce, 1, kInt8, nccl::kSum, 2)), "");
  EXPECT_EQ(check(AllReduce(uint64_t{1} << 47)), "");
  EXPECT_EQ(check(AllReduce((uint64_t{1} << 47) + 1)), "too many elements");
  EXPECT_EQ(check(AllReduce(std::numeric_limits<uint64_t>::max())), "too many elements");
  nccl::Join join{};
  join.ranks = 2;
  const Handle pending = world_.communicators().Join({9, {}}, join);
  EXPECT_EQ(NcclWorld::Check(*world_.communicators().Find(pending), {AllReduce(1)}),
            "the communicator is not ready");
}

TEST_F(NcclWorldTest, OccupancyIsOfTheLargest) {
  const auto ranks = Communicator(2);
  EXPECT_EQ(world_.OccupancyOf(*ranks[0], {Send(1, 4), Send(1, 4)}).sms, 2);
  const auto most = world_.OccupancyOf(*ranks[0], {Send(1, 4), AllReduce(4)});
  EXPECT_EQ(most.sms, 3);
  EXPECT_EQ(most.memory_share, 0.75);
  EXPECT_EQ(planner_.asked[0], "0>1 4/2");
}

}  // namespace
}  // namespace phantora::nccl_test
