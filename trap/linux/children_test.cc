#include "trap/linux/children.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <set>

namespace phantora {
namespace {

constexpr int Exited(int status) { return status << 8; }
constexpr int Stopped(int signal) { return signal << 8 | 0x7f; }

// Events in the order in which a test lets them happen.
class FakeWaits : public WaitCalls {
 public:
  std::deque<WaitEvent> events;
  std::set<pid_t> known;

  absl::StatusOr<std::optional<WaitEvent>> Wait(pid_t id, bool block) override {
    for (auto event = events.begin(); event != events.end(); ++event) {
      if (id != -1 && event->id != id) continue;
      const WaitEvent found = *event;
      events.erase(event);
      if (WIFEXITED(found.status) || WIFSIGNALED(found.status)) known.erase(found.id);
      return std::optional<WaitEvent>(found);
    }
    const bool is_ours = id == -1 ? !known.empty() : known.contains(id);
    if (!is_ours || block) return absl::NotFoundError("no child");
    return std::optional<WaitEvent>();
  }
};

class ChildrenTest : public testing::Test {
 protected:
  FakeWaits waits_;
  Children children_{&waits_};
  int status_ = 0;
};

TEST_F(ChildrenTest, EndsAreTakenOnce) {
  waits_.known = {1, 2, 3};
  waits_.events = {{1, Exited(0)}, {2, SIGKILL}};
  const auto ends = children_.TakeEnds();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].id, 1);
  EXPECT_EQ(WTERMSIG(ends[1].status), SIGKILL);
  EXPECT_TRUE(children_.TakeEnds().empty());
}

TEST_F(ChildrenTest, AStopIsKeptForItsTracer) {
  waits_.known = {1, 2};
  waits_.events = {{1, Stopped(SIGTRAP)}, {2, Exited(3)}};
  const auto ends = children_.TakeEnds();
  ASSERT_EQ(ends.size(), 1u);  // and the stop is no end
  EXPECT_EQ(ends[0].id, 2);
  EXPECT_EQ(children_.TakeStop(1, status_), Children::Stop::kStopped);
  EXPECT_EQ(WSTOPSIG(status_), SIGTRAP);
  EXPECT_EQ(children_.TakeStop(1, status_), Children::Stop::kRuns);
}

TEST_F(ChildrenTest, AnEndIsKeptForTheReaper) {
  waits_.known = {1};
  waits_.events = {{1, Exited(7)}};
  EXPECT_EQ(children_.TakeStop(1, status_), Children::Stop::kGone);
  const auto ends = children_.TakeEnds();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(WEXITSTATUS(ends[0].status), 7);
}

TEST_F(ChildrenTest, WhoEndsAfterAStopThatWasKeptIsGone) {
  waits_.known = {1};
  waits_.events = {{1, Stopped(SIGTRAP)}, {1, SIGKILL}};
  EXPECT_EQ(children_.TakeEnds().size(), 1u);
  // The number may be another's by now: the old stop is not its.
  EXPECT_EQ(children_.TakeStop(1, status_), Children::Stop::kGone);
}

TEST_F(ChildrenTest, OfSeveralStopsTheLastCounts) {
  waits_.known = {1};
  waits_.events = {{1, Stopped(SIGTRAP)}, {1, Stopped(SIGSTOP)}};
  children_.TakeEnds();
  EXPECT_EQ(children_.TakeStop(1, status_), Children::Stop::kStopped);
  EXPECT_EQ(WSTOPSIG(status_), SIGSTOP);
}

TEST_F(ChildrenTest, AnAwaitedEndMayHaveBeenSeenAlready) {
  waits_.known = {1, 2};
  waits_.events = {{1, Exited(5)}};
  EXPECT_EQ(children_.TakeStop(1, status_), Children::Stop::kGone);
  EXPECT_EQ(children_.AwaitEnd(1), Exited(5));
  waits_.events = {{2, Stopped(SIGTRAP)}, {2, Exited(6)}};
  EXPECT_EQ(children_.AwaitEnd(2), Exited(6));  // a stop is no end
  EXPECT_EQ(children_.AwaitEnd(3), std::nullopt);
}

TEST_F(ChildrenTest, AContinuedChildHasNeitherStoppedNorEnded) {
  waits_.known = {1};
  waits_.events = {{1, 0xffff}};
  EXPECT_TRUE(children_.TakeEnds().empty());
  EXPECT_EQ(children_.TakeStop(1, status_), Children::Stop::kRuns);
}

// A grandchild in vfork() cannot stop until its child has ended. It does so later, when nobody asks
// for it by name, and the reaper takes everything that there is.
TEST(KernelWaitCallsTest, AStopThatComesLateIsNotTakenByTheReaper) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t slow = fork();
    if (slow == 0) {
      const pid_t child = vfork();
      if (child == 0) {
        usleep(200'000);
        _exit(0);
      }
      for (;;) pause();
    }
    if (write(pipes[1], &slow, sizeof slow) != sizeof slow) _exit(1);
    pause();
    _exit(0);
  }
  pid_t slow = 0;
  ASSERT_EQ(read(pipes[0], &slow, sizeof slow), static_cast<ssize_t>(sizeof slow));
  KernelWaitCalls waits;
  Children children(&waits);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, slow, 0, 0), 0);
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, slow, 0, 0), 0);
  int status = 0;
  // The reaper alone looks, until the stop must have come.
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(children.TakeEnds().empty());
    usleep(10'000);
  }
  EXPECT_EQ(children.TakeStop(slow, status), Children::Stop::kStopped);
  EXPECT_TRUE(WIFSTOPPED(status));
  ptrace(PTRACE_DETACH, slow, 0, 0);
  kill(slow, SIGKILL);
  kill(parent, SIGKILL);
  EXPECT_EQ(children.AwaitEnd(parent), SIGKILL);
  close(pipes[0]);
  close(pipes[1]);
}

}  // namespace
}  // namespace phantora
