#include "trap/launch/tree_ending.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/timerfd.h>

#include <deque>
#include <optional>

#include "trap/linux/children.h"

namespace phantora {
namespace {

constexpr pid_t kCommand = 10;
constexpr int Exited(int status) { return status << 8; }

class FakeWaits : public WaitCalls {
 public:
  std::deque<WaitEvent> events;
  bool command_is_ours = true;

  absl::StatusOr<std::optional<WaitEvent>> Wait(pid_t id, bool block) override {
    for (auto event = events.begin(); event != events.end(); ++event) {
      if (id != -1 && event->id != id) continue;
      const WaitEvent found = *event;
      events.erase(event);
      return std::optional<WaitEvent>(found);
    }
    if (block || (id == kCommand && !command_is_ours)) return absl::NotFoundError("none");
    return std::optional<WaitEvent>();
  }
};

class TreeEndingTest : public testing::Test {
 protected:
  bool TimerRuns() {
    itimerspec left{};
    timerfd_gettime(ending_.timer(), &left);
    return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
  }

  FakeWaits waits_;
  Children children_{&waits_};
  TreeEnding ending_{kCommand, &children_};
};

TEST_F(TreeEndingTest, OrphansEndsAreNotTheCommands) {
  waits_.events = {{11, Exited(3)}, {12, SIGKILL}};
  ending_.Reap();
  EXPECT_FALSE(TimerRuns());
  waits_.events = {{kCommand, Exited(5)}};
  ending_.Reap();
  EXPECT_TRUE(TimerRuns());
  EXPECT_EQ(ending_.AwaitCommand(), Exited(5));
}

TEST_F(TreeEndingTest, AStopOfTheCommandIsNotItsEnd) {
  waits_.events = {{kCommand, SIGTRAP << 8 | 0x7f}};
  ending_.Reap();
  EXPECT_FALSE(TimerRuns());
  int status = 0;
  EXPECT_EQ(children_.TakeStop(kCommand, status), Children::Stop::kStopped);
}

TEST_F(TreeEndingTest, AnEndThatItsTracerSawFirstIsSeen) {
  waits_.events = {{kCommand, SIGKILL}};
  int status = 0;
  EXPECT_EQ(children_.TakeStop(kCommand, status), Children::Stop::kGone);
  EXPECT_EQ(ending_.AwaitCommand(), SIGKILL);
}

TEST_F(TreeEndingTest, TheCommandIsAwaited) {
  waits_.events = {{11, Exited(1)}, {kCommand, Exited(0)}};
  EXPECT_EQ(ending_.AwaitCommand(), 0);
}

TEST_F(TreeEndingTest, AnEndThatNobodyKnowsIsNoSuccess) {
  waits_.command_is_ours = false;
  EXPECT_NE(ending_.AwaitCommand(), 0);
}

}  // namespace
}  // namespace phantora
