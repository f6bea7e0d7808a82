// A network that changes: world_faults.cc.
#include <gtest/gtest.h>

#include "fabric/collectives/nccl_world_for_test.h"

namespace phantora::nccl_test {
namespace {

// A byte takes a nanosecond from host 0 to host 1, straight or by a switch.
class ChangingNetworkTest : public testing::Test {
 protected:
  class Planner : public TransferPlanner {
   public:
    explicit Planner(NetworkGraph* graph) : graph_(graph) {}
    std::shared_ptr<const TransferPlan> Collective(const Communicator&, const CollectiveWork& work,
                                                   bool) override {
      ++asked;
      if (kept != nullptr) return kept;
      TransferPlan plan;
      plan.name = "plan";
      plan.latency = VirtualSpan::Microseconds(10);
      const Route route = graph_->RouteBetween(0, 1, Multipath::kEcmp);
      if (route.exists) {
        plan.parts.push_back({route.uses, static_cast<double>(work.bytes), 0});
      } else {
        plan.no_way = absl::StrCat("host 0 has no way to host 1 since ", graph_->WhyNoWay(0, 1));
        plan.patience = VirtualSpan::Microseconds(5000);
        plan.lost = "NCCL would be sad";
        plan.latency = VirtualSpan();
      }
      return kept = std::make_shared<TransferPlan>(plan);
    }
    std::shared_ptr<const TransferPlan> Message(const Communicator& communicator,
                                                const MessageWork& work, bool now) override {
      return Collective(communicator, {.operation = Operation::kSend, .bytes = work.bytes}, now);
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
}  // namespace phantora::nccl_test
