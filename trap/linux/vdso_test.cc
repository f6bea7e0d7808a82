#include "trap/linux/vdso.h"

#include <gtest/gtest.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace phantora {
namespace {

// Which of the three clocks a child reads by a system call, as bits: such calls fail in it.
int SystemCallsOf(const Vdso* vdso) {
  const pid_t child = fork();
  if (child == 0) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    for (const int call : {SYS_clock_gettime, SYS_gettimeofday, SYS_time}) {
      seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOTRECOVERABLE), call, 0);
    }
    if (seccomp_load(filter) != 0) _exit(99);
    raise(SIGSTOP);
    timespec now{};
    timeval day{};
    int trapped = 0;
    errno = 0;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) trapped |= 1;
    if (gettimeofday(&day, nullptr) != 0) trapped |= 2;
    if (time(nullptr) < 0) trapped |= 4;
    _exit(trapped);
  }
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status));
  if (vdso != nullptr) {
    EXPECT_TRUE(vdso->Redirect(child).ok());
  }
  kill(child, SIGCONT);
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(VdsoTest, ClockReadsBecomeSystemCallsInThatProcessOnly) {
  const auto vdso = Vdso::Create();
  ASSERT_TRUE(vdso.ok()) << vdso.status();
  EXPECT_EQ(SystemCallsOf(nullptr), 0);
  EXPECT_EQ(SystemCallsOf(&*vdso), 7);
  // The pages of the vDSO are shared by all processes until one writes to them.
  EXPECT_EQ(SystemCallsOf(nullptr), 0);
}

TEST(VdsoTest, AProcessThatIsGoneHasNone) {
  const auto vdso = Vdso::Create();
  ASSERT_TRUE(vdso.ok());
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(vdso->Redirect(child).ok());
}

}  // namespace
}  // namespace phantora
