#include "trap/time/turn_gate.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>

#include <set>

#include "trap/linux/fake_real_clock.h"

namespace phantora {
namespace {

// Two processes at a time. Their ids are made up.
class TurnGateTest : public testing::Test {
 protected:
  static seccomp_notif Call(uint64_t id) {
    seccomp_notif call{};
    call.id = id;
    return call;
  }
  bool Holds(pid_t process) { return gate_.Holds(process, Call(static_cast<uint64_t>(process))); }
  // The call that may go on; 0 for none.
  uint64_t Next() {
    const auto call = gate_.Next([this](pid_t process) { return resting_.contains(process); });
    return call ? call->id : 0;
  }
  void PassMs(int64_t ms) { clock_.Pass(ms * 1'000'000); }

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  FakeRealClock clock_{1'000'000'000};
  std::set<pid_t> resting_;
  bool is_short_ = false;
  TurnGate gate_{{.at_once = 2,
                  .epoll = epoll_.get(),
                  .is_short = [this] { return is_short_; },
                  .clock = &clock_}};
};

TEST_F(TurnGateTest, ThirdWaitsUntilOneRests) {
  EXPECT_FALSE(Holds(1));
  EXPECT_FALSE(Holds(2));
  EXPECT_TRUE(Holds(3));
  EXPECT_TRUE(Holds(4));
  EXPECT_FALSE(Holds(1)) << "only its first call may have to wait";
  EXPECT_TRUE(gate_.holds_any());
  EXPECT_EQ(Next(), 0u);
  resting_.insert(2);
  EXPECT_EQ(Next(), 0u) << "looked too early";
  PassMs(10);
  EXPECT_EQ(Next(), 3u);
  EXPECT_EQ(Next(), 0u) << "1 and 3 run";
  resting_.clear();
  PassMs(10);
  EXPECT_EQ(Next(), 0u) << "2 has started, whatever it does now; 1 and 3 have not";
  resting_.insert(3);
  PassMs(10);
  EXPECT_EQ(Next(), 4u);
  EXPECT_FALSE(gate_.holds_any());
}

TEST_F(TurnGateTest, NobodyOvertakes) {
  Holds(1), Holds(2), Holds(3);
  gate_.ProcessDied(1);
  EXPECT_TRUE(Holds(4)) << "3 was first";
  EXPECT_EQ(Next(), 3u);
}

TEST_F(TurnGateTest, TheDeadMakeRoom) {
  Holds(1), Holds(2), Holds(3), Holds(4);
  gate_.ProcessDied(3);
  gate_.ProcessDied(2);
  EXPECT_EQ(Next(), 4u);
  gate_.ProcessDied(1);
  EXPECT_FALSE(Holds(1)) << "the number is another process's now";
}

TEST_F(TurnGateTest, WhoNeverRestsKeepsNobodyWaitingForEver) {
  Holds(1), Holds(2), Holds(3);
  PassMs(TurnGate::kLongestTurn / 1'000'000);
  EXPECT_EQ(Next(), 0u);
  PassMs(10);
  EXPECT_EQ(Next(), 3u);
}

TEST_F(TurnGateTest, AllHaveTurnsWhileMemoryIsShort) {
  resting_ = {1, 2, 3};
  Holds(1), Holds(2), Holds(3);
  EXPECT_EQ(Next(), 3u);
  PassMs(10);
  EXPECT_FALSE(Holds(1)) << "all have started";
  resting_.clear();
  is_short_ = true;
  EXPECT_FALSE(Holds(3)) << "has its turn still";
  EXPECT_FALSE(Holds(1)) << "there is room";
  EXPECT_TRUE(Holds(2));
  EXPECT_TRUE(Holds(2)) << "another thread of it";
  EXPECT_EQ(Next(), 0u);
  resting_ = {3};
  PassMs(10);
  EXPECT_EQ(Next(), 2u);
  EXPECT_EQ(Next(), 2u);
  EXPECT_TRUE(Holds(3)) << "as often as it goes on";
  is_short_ = false;
  EXPECT_EQ(Next(), 3u) << "as soon as there is enough";
}

TEST_F(TurnGateTest, TicksWhileSomebodyStands) {
  const auto ticks = [this](int timeout_ms) {
    pollfd timer = {.fd = gate_.timer(), .events = POLLIN, .revents = 0};
    return poll(&timer, 1, timeout_ms) == 1;
  };
  Holds(1), Holds(2);
  EXPECT_FALSE(ticks(0));
  Holds(3);
  EXPECT_TRUE(ticks(-1));
  gate_.TakeTick();
  resting_.insert(1);
  PassMs(10);
  EXPECT_EQ(Next(), 3u);
  gate_.TakeTick();
  EXPECT_FALSE(ticks(20));
}

}  // namespace
}  // namespace phantora
