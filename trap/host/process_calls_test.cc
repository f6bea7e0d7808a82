#include "trap/host/process_calls.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "trap/linux/fake_listener.h"
#include "trap/linux/fake_proc.h"
#include "trap/linux/fake_processes.h"

namespace phantora {
namespace {

constexpr pid_t kTop = 10, kOwn = 12, kOther = 20;

class ProcessCallsTest : public testing::Test {
 protected:
  ProcessCallsTest() {
    processes_.process_of = {{kTop, kTop}, {kOwn, kOwn}, {kOther, kOther}};
    processes_.parent_of = {{kTop, 1}, {kOwn, kTop}, {kOther, 1}};
  }
  bool Refuses(int number, std::initializer_list<uint64_t> arguments) {
    const seccomp_notif call = listener_.Call(getpid(), number, arguments);
    const bool refused = RefusesChange(TrappedCall(call, tracee_, listener_), members_);
    const auto answer = listener_.AnswerOf(call);
    EXPECT_EQ(answer.has_value(), refused);
    if (refused) EXPECT_EQ(*answer, FakeListener::Error(EPERM));
    return refused;
  }

  FakeProcesses processes_;
  FakeProc proc_;
  RunMembers members_{&processes_, kTop, &proc_};
  FakeListener listener_;
  Tracee tracee_{getpid()};
};

TEST_F(ProcessCallsTest, AnothersLimitsAndProcessorsAreNotForRanks) {
  for (const int number : {SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setattr,
                           SYS_sched_setparam, SYS_sched_setscheduler}) {
    EXPECT_TRUE(Refuses(number, {kOther})) << number;
    EXPECT_TRUE(Refuses(number, {kTop})) << number;
    EXPECT_FALSE(Refuses(number, {kOwn})) << number;
    EXPECT_FALSE(Refuses(number, {0})) << number;
    EXPECT_FALSE(Refuses(number, {99})) << number;  // ESRCH is for the kernel to say
  }
}

TEST_F(ProcessCallsTest, ManyProcessesAtOnceMayBeOthers) {
  EXPECT_TRUE(Refuses(SYS_setpriority, {PRIO_USER, 0, 5}));
  EXPECT_TRUE(Refuses(SYS_setpriority, {PRIO_PGRP, 0, 5}));
  EXPECT_TRUE(Refuses(SYS_setpriority, {PRIO_PROCESS, kOther, 5}));
  EXPECT_FALSE(Refuses(SYS_setpriority, {PRIO_PROCESS, 0, 5}));
  EXPECT_FALSE(Refuses(SYS_setpriority, {PRIO_PROCESS, kOwn, 5}));
  EXPECT_TRUE(Refuses(SYS_ioprio_set, {3, 0, 0}));
  EXPECT_TRUE(Refuses(SYS_ioprio_set, {1, kOther, 0}));
  EXPECT_FALSE(Refuses(SYS_ioprio_set, {1, 0, 0}));
}

TEST_F(ProcessCallsTest, TheKernelLooksAt32Bits) {
  EXPECT_TRUE(Refuses(SYS_prlimit64, {(uint64_t{1} << 32) | kOther}));
  EXPECT_FALSE(Refuses(SYS_prlimit64, {uint64_t{1} << 32}));
}

TEST_F(ProcessCallsTest, OtherCallsAreNotItsAffair) { EXPECT_FALSE(Refuses(SYS_getpid, {kOther})); }

}  // namespace
}  // namespace phantora
