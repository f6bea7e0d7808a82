#include "trap/linux/process_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "trap/linux/fake_proc.h"

namespace phantora {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Made-up processes have numbers beyond any real one (pid_max is 4,194,304 at most, and this
// process may have a very small one).

TEST(ProcessTreeTest, DescendantsAreFoundByTheirParents) {
  FakeProc proc;
  proc.SetProcess(getpid(), 1);
  proc.SetProcess(5000010, getpid());
  proc.SetProcess(5000011, 5000010);
  proc.SetProcess(5000012, 5000011);
  proc.SetProcess(5000020, 1);
  proc.SetProcess(5000021, 5000020);
  EXPECT_THAT(Descendants(proc), UnorderedElementsAre(5000010, 5000011, 5000012));
}

TEST(ProcessTreeTest, ZombiesAreGoneButNotThoseWhoseFirstThreadEnded) {
  FakeProc proc;
  proc.SetProcess(5000010, getpid(), 'Z');
  proc.SetProcess(5000011, getpid(), 'X');
  proc.SetProcess(5000012, getpid(), 'Z', 3);
  EXPECT_EQ(ParentOf(5000010, proc), 0);
  EXPECT_FALSE(IsRunning(5000010, proc));
  EXPECT_TRUE(IsRunning(5000012, proc));
  EXPECT_THAT(Descendants(proc), UnorderedElementsAre(5000012));
}

TEST(ProcessTreeTest, WhatDiesWhileItIsReadIsNoDescendant) {
  FakeProc proc;
  proc.SetProcess(5000010, getpid());
  proc.SetProcess(5000011, getpid());
  proc.on_read = [&](pid_t thread, const std::string&) {
    if (thread == 5000010) proc.EndProcess(5000011);
  };
  EXPECT_THAT(Descendants(proc), UnorderedElementsAre(5000010));
  EXPECT_EQ(ParentOf(5000011, proc), 0);
}

// Numbers are used anew while the list is read: a process may seem to be its own ancestor.
TEST(ProcessTreeTest, ACircleEnds) {
  FakeProc proc;
  proc.SetProcess(5000010, 5000011);
  proc.SetProcess(5000011, 5000010);
  proc.SetProcess(5000012, 5000012);
  EXPECT_THAT(Descendants(proc), IsEmpty());
  proc.SetProcess(5000013, getpid());
  proc.SetProcess(getpid(), 5000013);
  EXPECT_THAT(Descendants(proc), UnorderedElementsAre(5000013));
}

TEST(ProcessTreeTest, WhatIsNoLineOfStatIsNoProcess) {
  FakeProc proc;
  for (const char* line : {"", "10", "10 (a", "10 (a)", "10 (a) S", "10 (a) S x"}) {
    proc.SetFile(10, 10, "stat", line);
    EXPECT_EQ(ParentOf(10, proc), 0) << line;
  }
}

TEST(ProcessTreeTest, KnowsItsOwnParent) {
  EXPECT_EQ(ParentOf(getpid()), getppid());
  EXPECT_TRUE(IsRunning(getpid()));
}

// Of a child that has a child of its own and forks on, all end.
TEST(ProcessTreeTest, AllDescendantsEndAlsoThoseThatAreForkedMeanwhile) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 3; ++i) {
      if (fork() != 0) continue;
      signal(SIGTERM, SIG_IGN);
      setsid();
      [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
      for (;;) {
        if (fork() == 0) _exit(0);
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
      }
    }
    _exit(0);  // the others are orphans
  }
  char bytes[3];
  for (char& byte : bytes) ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_GE(SignalDescendants(SIGTERM), 3);
  // Somebody must bury them, or they stay zombies; those do not count.
  EXPECT_TRUE(EndDescendants());
  EXPECT_THAT(Descendants(), IsEmpty());
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  EXPECT_EQ(errno, ECHILD);
  close(ready[0]);
  close(ready[1]);
}

TEST(ProcessTreeTest, NicenessGoesToAllThreadsAndIsNeverLowered) {
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::thread other([&] {
      char byte;
      [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
      [[maybe_unused]] const ssize_t end = read(done[0], &byte, 1);
    });
    other.join();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto threads = Proc::Host().Threads(child);
  ASSERT_TRUE(threads && threads->size() == 2);
  // The test itself may have been started with less priority.
  const int wanted = std::min(getpriority(PRIO_PROCESS, 0) + 3, 19);
  MakeNice(child, wanted);
  for (const pid_t thread : *threads) EXPECT_EQ(getpriority(PRIO_PROCESS, thread), wanted);
  MakeNice(child, wanted - 2);
  for (const pid_t thread : *threads) EXPECT_EQ(getpriority(PRIO_PROCESS, thread), wanted);
  EXPECT_EQ(write(done[1], "x", 1), 1);
  waitpid(child, nullptr, 0);
  MakeNice(child, 5);  // it is gone: nothing happens
  for (const int file : {ready[0], ready[1], done[0], done[1]}) close(file);
}

}  // namespace
}  // namespace phantora
