#include "trap/linux/tracees.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_processes.h"
#include "trap/linux/process_source.h"

namespace phantora {
namespace {

class TraceesTest : public testing::Test {
 protected:
  absl::StatusOr<Tracee*> CallBy(pid_t thread) {
    return tracees_.CallerOf(listener_.Call(thread, 0), listener_);
  }

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  FakeProcesses processes_;
  FakeListener listener_;
  Tracees tracees_{epoll_.get(), &processes_};
};

TEST_F(TraceesTest, ThreadsOfAProcessAreOneTracee) {
  processes_.process_of = {{10, 10}, {11, 10}, {20, 20}};
  const auto first = CallBy(10), second = CallBy(11), other = CallBy(20);
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *other);
  EXPECT_EQ(tracees_.size(), 2u);
  EXPECT_EQ((*first)->process, 10);
  EXPECT_EQ(tracees_.Find(20), *other);
}

TEST_F(TraceesTest, AKnownThreadIsNotLookedUpAgain) {
  processes_.process_of = {{10, 10}};
  ASSERT_TRUE(CallBy(10).ok());
  ASSERT_TRUE(CallBy(10).ok());
  EXPECT_EQ(processes_.looks, 1);
}

TEST_F(TraceesTest, ANumberThatIsAnotherProcesssNowIsLookedUpAgain) {
  processes_.process_of = {{10, 10}, {11, 10}, {20, 20}};
  ASSERT_TRUE(CallBy(11).ok());
  processes_.process_of[11] = 20;
  const auto caller = CallBy(11);
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ((*caller)->process, 20);
}

TEST_F(TraceesTest, WhoHasTheNumberOfADeadCallerIsNotAdopted) {
  const seccomp_notif call = listener_.Call(30, 0);
  // While /proc is read, the caller is killed and a stranger gets its number.
  processes_.before_answer = [&] {
    listener_.Die(call.id);
    processes_.process_of[30] = 30;
  };
  const auto caller = tracees_.CallerOf(call, listener_);
  EXPECT_TRUE(absl::IsNotFound(caller.status()));
  EXPECT_EQ(tracees_.size(), 0u);
  EXPECT_EQ(tracees_.Find(30), nullptr);
}

TEST_F(TraceesTest, WithoutDescriptorsACallerIsNotTakenForDead) {
  processes_.process_of = {{10, 10}};
  processes_.out_of_descriptors = true;
  EXPECT_TRUE(absl::IsResourceExhausted(CallBy(10).status()));
  processes_.out_of_descriptors = false;
  EXPECT_TRUE(CallBy(10).ok());
}

TEST_F(TraceesTest, AnEndThatCouldNotBeWatchedIsWatchedLater) {
  processes_.process_of = {{10, 10}};
  processes_.before_answer = [&] { processes_.out_of_descriptors = false; };
  // Its pidfd cannot be had at first.
  class NoPidfd : public FakeProcesses {
   public:
    bool refuse = true;
    absl::StatusOr<UniqueFd> Open(pid_t process) override {
      if (refuse) return absl::ResourceExhaustedError("none");
      return FakeProcesses::Open(process);
    }
  } processes;
  processes.process_of = {{10, 10}};
  Tracees tracees(epoll_.get(), &processes);
  auto caller = tracees.CallerOf(listener_.Call(10, 0), listener_);
  ASSERT_TRUE(caller.ok());
  EXPECT_FALSE((*caller)->pidfd.valid());
  processes.refuse = false;
  caller = tracees.CallerOf(listener_.Call(10, 0), listener_);
  ASSERT_TRUE(caller.ok());
  ASSERT_TRUE((*caller)->pidfd.valid());
  EXPECT_EQ(tracees.Died((*caller)->pidfd.get()), 10);
  EXPECT_EQ(tracees.Find(10), nullptr);
}

TEST_F(TraceesTest, ChildrenAreOnTheHostOfTheirNearestKnownAncestor) {
  processes_.process_of = {{10, 10}, {12, 12}};
  processes_.parent_of = {{12, 11}, {11, 10}, {10, 1}};
  (*CallBy(10))->host = 3;
  EXPECT_EQ((*CallBy(12))->host, 3);
}

TEST_F(TraceesTest, ACircleOfParentsEnds) {
  processes_.process_of = {{12, 12}};
  processes_.parent_of = {{12, 11}, {11, 12}};
  const auto caller = CallBy(12);
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ((*caller)->host, 0);
}

TEST_F(TraceesTest, StrangersDescriptorsAreNobodysEnd) {
  EXPECT_EQ(tracees_.Died(epoll_.get()), std::nullopt);
}

TEST(KernelProcessesTest, KnowsThisProcess) {
  KernelProcesses processes;
  EXPECT_TRUE(processes.HasThread(getpid(), gettid()));
  EXPECT_FALSE(processes.HasThread(getppid(), gettid()));
  EXPECT_EQ(*processes.ProcessOf(gettid()), getpid());
  EXPECT_EQ(processes.ParentOf(getpid()), getppid());
  EXPECT_TRUE(processes.Open(getpid()).ok());
}

TEST(KernelProcessesTest, ADeadProcessIsNotFound) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  KernelProcesses processes;
  EXPECT_TRUE(absl::IsNotFound(processes.ProcessOf(child).status()));
  EXPECT_TRUE(absl::IsNotFound(processes.Open(child).status()));
  EXPECT_FALSE(processes.HasThread(child, child));
}

TEST(KernelProcessesTest, OnlyAProcessWithoutALivingThreadIsEnding) {
  KernelProcesses processes;
  EXPECT_FALSE(processes.IsEnding(getpid()));
  // One that has ended and whose parent has not asked yet.
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, ended, &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(processes.IsEnding(ended));
  waitpid(ended, nullptr, 0);
  EXPECT_TRUE(processes.IsEnding(ended));
  // One whose first thread has ended, and another lives.
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipes[1]);
    std::thread([end = pipes[0]] {
      char byte;
      _exit(read(end, &byte, 1) == 0 ? 0 : 1);
    }).detach();
    syscall(SYS_exit, 0);  // of this thread
  }
  close(pipes[0]);
  const std::string first = "/proc/" + std::to_string(child) + "/stat";
  for (std::string state; state != "Z";) {
    std::string number, name;
    std::ifstream(first) >> number >> name >> state;
  }
  EXPECT_FALSE(processes.IsEnding(child));
  close(pipes[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(KernelProcessesTest, CallersAreKnownWithoutAFreeDescriptor) {
  KernelProcesses processes;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit few{64, limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<UniqueFd> all;
  for (;;) {
    UniqueFd file(dup(0));
    if (!file.valid()) break;
    all.push_back(std::move(file));
  }
  const auto process = processes.ProcessOf(gettid());
  const auto again = processes.ProcessOf(gettid());
  const auto pidfd = processes.Open(getpid());
  all.clear();
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(*process, getpid());
  EXPECT_EQ(*again, getpid());
  EXPECT_TRUE(absl::IsResourceExhausted(pidfd.status()));
}

}  // namespace
}  // namespace phantora
