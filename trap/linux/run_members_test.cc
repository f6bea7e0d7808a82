#include "trap/linux/run_members.h"

#include <gtest/gtest.h>

#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_processes.h"

namespace phantora {
namespace {

constexpr pid_t kTop = 10, kRank = 11, kChild = 12, kThread = 13, kOther = 20;

// The run's top, a rank with a child and a thread, and a process of somebody else.
class RunMembersTest : public testing::Test {
 protected:
  RunMembersTest() {
    processes_.process_of = {{kTop, kTop},     {kRank, kRank},   {kChild, kChild},
                             {kThread, kRank}, {kOther, kOther}, {1, 1}};
    processes_.parent_of = {{kTop, 9}, {9, 1}, {kRank, kTop}, {kChild, kRank}, {kOther, 1}};
    proc_.SetText(kRank, "status", "Name:\tx\nNSpid:\t11\nNSpgid:\t11\n");
    proc_.SetText(kChild, "status", "Name:\tx\nNSpid:\t12\t1\nNSpgid:\t12\t1\n");
  }
  bool IsOfOthers(pid_t number, pid_t caller = kRank) {
    return RunMembers(&processes_, kTop, &proc_).IsOfOthers(caller, number);
  }

  FakeProcesses processes_;
  FakeProc proc_;
};

TEST_F(RunMembersTest, TheRunsOwnAreNotOfOthers) {
  for (const pid_t number : {0, int{kRank}, int{kChild}, int{kThread}}) {
    EXPECT_FALSE(IsOfOthers(number)) << number;
  }
}

TEST_F(RunMembersTest, WhoServesTheRunIsOfOthersToo) {
  for (const pid_t number : {1, int{kTop}, int{kOther}}) EXPECT_TRUE(IsOfOthers(number)) << number;
}

TEST_F(RunMembersTest, WhoDoesNotExistIsTheKernelsAffair) { EXPECT_FALSE(IsOfOthers(99)); }

TEST_F(RunMembersTest, NumbersOfANameSpaceOfItsOwnCanNameNobodyElse) {
  EXPECT_FALSE(IsOfOthers(kOther, kChild));
}

TEST_F(RunMembersTest, ACircleOfParentsEnds) {
  processes_.parent_of[kOther] = 21;
  processes_.parent_of[21] = kOther;
  EXPECT_TRUE(IsOfOthers(kOther));
}

TEST_F(RunMembersTest, FilesInProcAreTheirProcesses) {
  const RunMembers members(&processes_, kTop, &proc_);
  EXPECT_TRUE(members.IsFileOfOthers(kRank, "/proc/20/oom_score_adj"));
  EXPECT_TRUE(members.IsFileOfOthers(kRank, "/proc/10/task/10/comm"));
  EXPECT_FALSE(members.IsFileOfOthers(kRank, "/proc/12/oom_score_adj"));
  EXPECT_FALSE(members.IsFileOfOthers(kRank, "/proc/sys/vm/swappiness"));
  EXPECT_FALSE(members.IsFileOfOthers(kRank, "/proc/20"));
  EXPECT_FALSE(members.IsFileOfOthers(kRank, "/tmp/20/x"));
}

}  // namespace
}  // namespace phantora
