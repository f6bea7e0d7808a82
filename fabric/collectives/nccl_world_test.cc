#include "fabric/collectives/nccl_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace phantora {
namespace {

using nccl::Entry;
using nccl::Handle;
using nccl::Operation;

constexpr uint8_t kFloat = 7, kInt8 = 0;
constexpr VirtualTime kNever = VirtualTime::Infinity();

VirtualTime At(int64_t microseconds) {
  return VirtualTime() + VirtualSpan::Microseconds(microseconds);
}

// A collective takes 10 us, and a microsecond for each byte that it has link 0 for itself; a
// message 5 us and the same. Without a link, only the latency.
class FakePlanner : public TransferPlanner {
 public:
  explicit FakePlanner(FlowNetwork* network) : link_(network->AddLink(1e6)) {}

  std::shared_ptr<const TransferPlan> Collective(const Communicator&, Operation, int64_t bytes,
                                                 bool) override {
    return Make("collective", 10, bytes, 3);
  }
  std::shared_ptr<const TransferPlan> Message(const Communicator&, int from, int to, int64_t bytes,
                                              int messages, bool) override {
    asked.push_back(absl::StrCat(from, ">", to, " ", bytes, "/", messages));
    return Make("message", 5, bytes, 2);
  }

  bool uses_link = true;
  std::vector<std::string> asked;

 private:
  std::shared_ptr<const TransferPlan> Make(const char* name, int latency, int64_t bytes, int sms) {
    TransferPlan plan;
    plan.name = name;
    plan.latency = VirtualSpan::Microseconds(latency);
    plan.sms = sms;
    plan.memory_share = 0.25 * sms;
    if (uses_link) plan.parts.push_back({{{link_, 1}}, static_cast<double>(bytes), 0});
    return std::make_shared<TransferPlan>(plan);
  }
  const LinkId link_;
};

// What was moved, as text.
class FakePayload : public PayloadMover {
 public:
  void Collective(absl::Span<const NcclShare> shares) override {
    std::vector<std::string> ranks;
    for (const NcclShare& share : shares) {
      ranks.push_back(absl::StrCat(share.rank, "@", share.entry.send));
    }
    moved.push_back(absl::StrCat(Describe(shares[0].entry), ": ", absl::StrJoin(ranks, " ")));
  }
  void Message(const NcclShare& send, const NcclShare& receive) override {
    moved.push_back(absl::StrCat(send.rank, "@", send.entry.send, ">", receive.rank, "@",
                                 receive.entry.receive));
  }
  std::vector<std::string> moved;
};

Entry Of(Operation operation, uint64_t count, uint8_t type = kInt8, uint8_t reduction = nccl::kSum,
         int peer = 0) {
  Entry entry{};
  entry.operation = operation;
  entry.count = count;
  entry.type = type;
  entry.reduction = reduction;
  entry.peer = peer;
  return entry;
}
Entry AllReduce(uint64_t bytes, uint64_t address = 0) {
  Entry entry = Of(Operation::kAllReduce, bytes);
  entry.send = address;
  return entry;
}
Entry Send(int to, uint64_t bytes, uint64_t address = 0) {
  Entry entry = Of(Operation::kSend, bytes, kInt8, 0, to);
  entry.send = address;
  return entry;
}
Entry Receive(int from, uint64_t bytes, uint64_t address = 0) {
  Entry entry = Of(Operation::kReceive, bytes, kInt8, 0, from);
  entry.receive = address;
  return entry;
}

class NcclWorldTest : public testing::Test {
 protected:
  // Processes 0, 1, ... become its ranks.
  std::vector<NcclEndpoint*> Communicator(int ranks, int per_host = 1 << 20) {
    nccl::Join join{};
    join.id[0] = ++ids_;
    join.ranks = ranks;
    std::vector<NcclEndpoint*> endpoints;
    for (join.rank = 0; join.rank < ranks; ++join.rank) {
      const auto process = static_cast<uint64_t>(join.rank);
      const Handle handle = world_.communicators().Join(
          {process, {join.rank / per_host, join.rank % per_host}}, join);
      endpoints.push_back(world_.communicators().Find(handle));
    }
    return endpoints;
  }
  NcclTicket Start(NcclEndpoint* endpoint, std::vector<Entry> entries, int64_t at,
                   uint64_t sequence = 0) {
    EXPECT_EQ(NcclWorld::Check(*endpoint, entries), "");
    return world_.Start(*endpoint, std::move(entries), sequence, At(at));
  }
  void RunAll() { world_.Advance(VirtualTime::Infinity()); }
  std::string Failures() const { return absl::StrJoin(failures_, "\n---\n"); }

  FlowNetwork network_;
  FakePlanner planner_{&network_};
  FakePayload payload_;
  std::vector<std::string> failures_, ended_;
  NcclWorld world_{{.network = &network_,
                    .planner = &planner_,
                    .payload = &payload_,
                    .failed = [this](const std::string& text) { failures_.push_back(text); },
                    .ended =
                        [this](const NcclWorld::Options::Ended& ended) {
                          ended_.push_back(absl::StrCat(
                              ended.plan, " ", ended.first.nanoseconds() / 1000, " ",
                              ended.all.nanoseconds() / 1000, " ", ended.end.nanoseconds() / 1000));
                        }}};
  uint8_t ids_ = 0;
};

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
  EXPECT_EQ(planner_.asked,
            (std::vector<std::string>{"0>0 4/1", "0>1 4/1", "0>2 4/3", "0>3 4/3", "0>4 4/3"}));
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

// --- Mistakes -------------------------------------------------------------------------

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

TEST_F(NcclWorldTest, TypesHaveTheirSizes) {
  const int64_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 0};
  for (uint8_t type = 0; type < std::size(sizes); ++type) {
    EXPECT_EQ(NcclTypeBytes(type), sizes[type]) << int{type};
  }
  EXPECT_EQ(NcclTypeBytes(255), 0);
}

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

// --- Leaving --------------------------------------------------------------------------

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

TEST_F(NcclWorldTest, OccupancyIsOfTheLargest) {
  const auto ranks = Communicator(2);
  EXPECT_EQ(world_.OccupancyOf(*ranks[0], {Send(1, 4), Send(1, 4)}).sms, 2);
  const auto most = world_.OccupancyOf(*ranks[0], {Send(1, 4), AllReduce(4)});
  EXPECT_EQ(most.sms, 3);
  EXPECT_EQ(most.memory_share, 0.75);
  EXPECT_EQ(planner_.asked[0], "0>1 4/2");
}

// --- A network that changes -------------------------------------------------------------

// A byte takes a nanosecond from host 0 to host 1, straight or by a switch.
class ChangingNetworkTest : public testing::Test {
 protected:
  class Planner : public TransferPlanner {
   public:
    explicit Planner(NetworkGraph* graph) : graph_(graph) {}
    std::shared_ptr<const TransferPlan> Collective(const Communicator&, Operation, int64_t bytes,
                                                   bool) override {
      ++asked;
      if (kept != nullptr) return kept;
      TransferPlan plan;
      plan.name = "plan";
      plan.latency = VirtualSpan::Microseconds(10);
      const Route route = graph_->RouteBetween(0, 1, Multipath::kEcmp);
      if (route.exists) {
        plan.parts.push_back({route.uses, static_cast<double>(bytes), 0});
      } else {
        plan.no_way = absl::StrCat("host 0 has no way to host 1 since ", graph_->WhyNoWay(0, 1));
        plan.patience = VirtualSpan::Microseconds(5000);
        plan.lost = "NCCL would be sad";
        plan.latency = VirtualSpan();
      }
      return kept = std::make_shared<TransferPlan>(plan);
    }
    std::shared_ptr<const TransferPlan> Message(const Communicator& communicator, int, int,
                                                int64_t bytes, int, bool now) override {
      return Collective(communicator, Operation::kSend, bytes, now);
    }
    void Forget() override { kept = nullptr; }
    std::shared_ptr<const TransferPlan> kept;
    int asked = 0;

   private:
    NetworkGraph* const graph_;
  };

  ChangingNetworkTest() {
    for (const char* name : {"host 0", "host 1", "switch"}) graph_.AddNode(name);
    constexpr VirtualSpan kHop = VirtualSpan::Nanoseconds(1);
    straight_ = graph_.Connect(0, 1, 1e9, kHop);
    graph_.Connect(0, 2, 1e9, kHop);
    graph_.Connect(2, 1, 1e9, kHop);
  }
  static NetworkEvent Event(NetworkEvent::Kind kind, int64_t us, std::string what,
                            double share = 1) {
    NetworkEvent event;
    event.kind = kind;
    event.at = VirtualSpan::Microseconds(us);
    event.where = "my.yaml:9";
    event.what = std::move(what);
    event.share = share;
    return event;
  }
  static NetworkEvent Down(int64_t us, std::string what) {
    return Event(NetworkEvent::Kind::kDown, us, std::move(what));
  }
  static NetworkEvent Up(int64_t us, std::string what) {
    return Event(NetworkEvent::Kind::kUp, us, std::move(what));
  }
  // Both ranks come at `us`.
  NcclTicket Start(int64_t us, uint64_t bytes) {
    if (ranks_.empty()) {
      nccl::Join join{};
      join.ranks = 2;
      for (join.rank = 0; join.rank < 2; ++join.rank) {
        const Handle handle =
            world_.communicators().Join({static_cast<uint64_t>(join.rank), {join.rank, 0}}, join);
        ranks_.push_back(world_.communicators().Find(handle));
      }
    }
    world_.Start(*ranks_[0], {AllReduce(bytes)}, 0, At(us));
    return world_.Start(*ranks_[1], {AllReduce(bytes)}, 0, At(us));
  }
  void RunAll() { world_.Advance(VirtualTime::Infinity()); }

  FlowNetwork network_;
  NetworkGraph graph_{&network_};
  LinkId straight_ = 0;
  // Switches know after 100 us.
  NetworkEvents events_{
      {.graph = &graph_, .network = &network_, .reroute = VirtualSpan::Microseconds(100)}};
  Planner planner_{&graph_};
  FakePayload payload_;
  std::vector<std::string> failures_;
  NcclWorld world_{{.network = &network_,
                    .planner = &planner_,
                    .payload = &payload_,
                    .events = &events_,
                    .failed = [this](const std::string& text) { failures_.push_back(text); }}};
  std::vector<NcclEndpoint*> ranks_;
};

TEST_F(ChangingNetworkTest, WhatIsUnderWayGoesOnByAnotherWay) {
  ASSERT_TRUE(events_.Add({Down(400, "host 0 to host 1")}).ok());
  const auto ticket = Start(0, 1'000'000);
  EXPECT_EQ(world_.NextEvent(), At(0));
  world_.Advance(At(10));
  EXPECT_EQ(world_.NextEvent(), At(400));  // before its end
  RunAll();
  // 390 us until the link failed, 100 until that was known, and the rest.
  EXPECT_EQ(world_.EndOf(ticket), At(1110));
  EXPECT_EQ(network_.CarriedBy(straight_, At(2000)), 390'000);
  EXPECT_EQ(world_.rerouted(), 1u);
  EXPECT_TRUE(failures_.empty());
  EXPECT_EQ(payload_.moved.size(), 1u);
}

TEST_F(ChangingNetworkTest, WhoBeginsMeanwhileIsStuckToo) {
  ASSERT_TRUE(events_.Add({Down(5, "host 0 to host 1"), Up(2000, "host 0 to host 1")}).ok());
  const auto ticket = Start(20, 1000);
  RunAll();
  EXPECT_EQ(world_.EndOf(ticket), At(106));
  // Planned when it was not known, begun when it was.
  const auto later = Start(2095, 1000);
  EXPECT_EQ(planner_.kept->parts[0].uses.size(), 2u);
  RunAll();
  EXPECT_EQ(planner_.kept->parts[0].uses.size(), 1u);
  EXPECT_EQ(world_.EndOf(later), At(2106));
  EXPECT_EQ(world_.rerouted(), 1u);
}

TEST_F(ChangingNetworkTest, ALinkThatComesBackInTimeIsWaitedFor) {
  ASSERT_TRUE(events_.Add({Down(110, "host 0"), Up(4000, "host 0")}).ok());
  const auto ticket = Start(0, 200'000);
  RunAll();
  EXPECT_EQ(world_.EndOf(ticket), At(4100));
  // One that could not begin waits until switches know.
  EXPECT_EQ(network_.flows(), 0u);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(ChangingNetworkTest, OneThatCannotBeginWaits) {
  ASSERT_TRUE(events_.Add({Down(10, "host 0"), Up(3000, "host 0")}).ok());
  const auto ticket = Start(500, 1000);
  RunAll();
  EXPECT_EQ(world_.EndOf(ticket), At(3101));
  EXPECT_TRUE(failures_.empty());
}

TEST_F(ChangingNetworkTest, WithoutAWayNcclGivesUp) {
  ASSERT_TRUE(events_.Add({Down(110, "host 1"), Up(20'000, "host 1")}).ok());
  const auto ticket = Start(0, 200'000);
  world_.Advance(At(5209));
  EXPECT_TRUE(failures_.empty());
  world_.Advance(At(5210));
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_EQ(failures_[0],
            "NCCL: the network does not connect the ranks of communicator 1 of 2 ranks: host 0 has "
            "no way to host 1 since host 0 to host 1 failed at 0.11 ms (my.yaml:9), switch to host "
            "1 failed at 0.11 ms (my.yaml:9)\n"
            "  collective 1: AllReduce of 200000 int8, sum\n"
            "  host 0: rank 0\n"
            "  host 1: rank 1\n"
            "It has stood still for 0.005 s. NCCL would be sad.");
  EXPECT_EQ(world_.EndOf(ticket), kNever);
}

TEST_F(ChangingNetworkTest, WhatIsGivenUpIsNotMissed) {
  ASSERT_TRUE(events_.Add({Down(10, "host 1")}).ok());
  Start(500, 1000);
  world_.Advance(At(600));
  EXPECT_EQ(world_.NextEvent(), At(5500));
  for (NcclEndpoint* rank : ranks_) world_.Leave(*rank, true);
  EXPECT_EQ(world_.NextEvent(), kNever);
  RunAll();
  EXPECT_TRUE(failures_.empty());
}

// It goes on when the link does, and is over before switches know that.
TEST_F(ChangingNetworkTest, WhatGoesOnByItselfIsNotGivenUp) {
  ASSERT_TRUE(events_.Add({Down(110, "host 0"), Up(3000, "host 0")}).ok());
  const auto ticket = Start(0, 150'000);
  world_.Advance(At(1000));
  EXPECT_EQ(world_.NextEvent(), At(3000));
  RunAll();
  EXPECT_EQ(world_.EndOf(ticket), At(3050));
  EXPECT_EQ(world_.NextEvent(), kNever);
  world_.Advance(At(10'000));
  EXPECT_TRUE(failures_.empty());
}

TEST_F(ChangingNetworkTest, ASlowLinkTakesLonger) {
  ASSERT_TRUE(
      events_.Add({Event(NetworkEvent::Kind::kCapacity, 110, "host 0 to host 1", 0.25)}).ok());
  const auto ticket = Start(0, 200'000);
  RunAll();
  EXPECT_EQ(world_.EndOf(ticket), At(110 + 400));
  EXPECT_EQ(planner_.asked, 1);
}

TEST_F(ChangingNetworkTest, TimeDoesNotPassForANetworkThatNobodyUses) {
  ASSERT_TRUE(events_.Add({Down(100, "host 0"), Up(200, "host 0"), Down(300, "switch")}).ok());
  EXPECT_EQ(world_.NextEvent(), kNever);
  RunAll();
  EXPECT_EQ(events_.ahead(), 3u);
  world_.Advance(At(250));
  EXPECT_EQ(events_.ahead(), 1u);
  EXPECT_EQ(world_.now(), At(250));
}

}  // namespace
}  // namespace phantora
