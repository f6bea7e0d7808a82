#include "trap/linux/stopped_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

namespace phantora {
namespace {

// A child with a thread that waits for a byte, one that computes, and a main thread that waits for
// the first.
class StoppedProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(pipe_), 0);
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    count_ = new (memory) std::atomic<uint64_t>(0);
    child_ = fork();
    if (child_ != 0) {
      while (*count_ == 0) usleep(100);
      return;
    }
    bool was_interrupted = false;
    std::thread reader([&] {
      char byte = 0;
      pollfd wait{pipe_[0], POLLIN, 0};
      was_interrupted = poll(&wait, 1, -1) != 1 || read(pipe_[0], &byte, 1) != 1 || byte != 'x';
    });
    std::thread([this] {
      for (;;) ++*count_;
    }).detach();
    reader.join();
    _exit(was_interrupted ? 1 : 0);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  static bool NoneHeld(pid_t) { return false; }

  int pipe_[2] = {-1, -1};
  pid_t child_ = 0;
  std::atomic<uint64_t>* count_ = nullptr;
  KernelWaitCalls waits_;
  Children children_{&waits_};
  ProcessStopper stopper_{&children_};
};

TEST_F(StoppedProcessTest, StandsStillAndMakesCalls) {
  {
    const auto stopped = stopper_.Stop(child_, NoneHeld);
    ASSERT_NE(stopped, nullptr);
    const uint64_t count = *count_;
    EXPECT_EQ(stopped->Call(SYS_getpid, {}), child_);
    const auto mapped = stopped->Call(
        SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0});
    ASSERT_TRUE(mapped);
    EXPECT_GT(*mapped, 4096);
    EXPECT_EQ(stopped->Call(SYS_close, {12345}), -EBADF);
    usleep(20'000);
    EXPECT_EQ(*count_, count);
  }
  const uint64_t count = *count_;
  for (int i = 0; i < 1000 && *count_ == count; ++i) usleep(1000);
  EXPECT_GT(*count_, count);
  // Its calls go on where they were.
  ASSERT_EQ(write(pipe_[1], "x", 1), 1);
  int status = -1;
  EXPECT_EQ(waitpid(child_, &status, 0), child_);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(StoppedProcessTest, AgainAndAgain) {
  for (int i = 0; i < 200; ++i) {
    const auto stopped = stopper_.Stop(child_, NoneHeld);
    ASSERT_NE(stopped, nullptr) << i;
    ASSERT_EQ(stopped->Call(SYS_getpid, {}), child_);
  }
  ASSERT_EQ(write(pipe_[1], "x", 1), 1);
  int status = -1;
  EXPECT_EQ(waitpid(child_, &status, 0), child_);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(StoppedProcessTest, OneThatIsKilledMeanwhile) {
  auto stopped = stopper_.Stop(child_, NoneHeld);
  ASSERT_NE(stopped, nullptr);
  kill(child_, SIGKILL);
  usleep(20'000);
  EXPECT_FALSE(stopped->Call(SYS_getpid, {}));
  stopped.reset();
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 1000 && ended == 0; ++i) {
    stopper_.ReleaseLate();
    ended = waitpid(child_, &status, WNOHANG);
    usleep(1000);
  }
  EXPECT_EQ(ended, child_);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

}  // namespace
}  // namespace phantora
