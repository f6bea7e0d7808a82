#include "trap/launch/guardian.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <new>

#include "trap/linux/process_tree.h"

namespace phantora {
namespace {

// What the processes of a test tell it, in memory that they share.
struct Told {
  volatile pid_t orphan = 0;
};

class GuardianTest : public testing::Test {
 protected:
  GuardianTest() {
    told_ =
        new (mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
            Told();
  }
  ~GuardianTest() override { munmap(told_, sizeof(Told)); }

  // The wait status of a process that guards `supervise`.
  int Guard(const std::function<int(int)>& supervise) {
    const pid_t guardian = fork();
    if (guardian == 0) _exit(RunGuarded(supervise));
    int status = 0;
    waitpid(guardian, &status, 0);
    return status;
  }
  // A process that leaves its session and its parent, and lives on.
  void StartOrphan() {
    const pid_t child = fork();
    if (child == 0) {
      setsid();
      if (fork() != 0) _exit(0);
      told_->orphan = getpid();
      for (;;) pause();
    }
    waitpid(child, nullptr, 0);
    while (told_->orphan == 0) usleep(100);
  }
  // One that waits to be buried does not.
  bool OrphanLives() const { return IsRunning(told_->orphan); }

  Told* told_;
};

TEST_F(GuardianTest, TheStatusIsTheSupervisors) {
  EXPECT_EQ(WEXITSTATUS(Guard([](int) { return 0; })), 0);
  EXPECT_EQ(WEXITSTATUS(Guard([](int) { return 125; })), 125);
}

TEST_F(GuardianTest, NothingOutlivesAnyWayOut) {
  for (const int status : {0, 1, 125}) {
    told_->orphan = 0;
    const int ended = Guard([&](int) {
      StartOrphan();
      return status;
    });
    EXPECT_EQ(WEXITSTATUS(ended), status);
    EXPECT_FALSE(OrphanLives()) << status;
  }
}

TEST_F(GuardianTest, NothingOutlivesASupervisorThatDies) {
  const int ended = Guard([&](int) {
    StartOrphan();
    kill(getpid(), SIGKILL);
    return 0;
  });
  EXPECT_EQ(WEXITSTATUS(ended), 70);
  EXPECT_FALSE(OrphanLives());
}

TEST_F(GuardianTest, SignalsReachTheSupervisor) {
  const int ended = Guard([](int signals) {
    kill(getppid(), SIGUSR1);
    char info[128];
    while (read(signals, info, sizeof info) <= 0) usleep(1000);
    return 42;
  });
  EXPECT_EQ(WEXITSTATUS(ended), 42);
}

}  // namespace
}  // namespace phantora
