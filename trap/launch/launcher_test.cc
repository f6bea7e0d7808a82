#include "trap/launch/launcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "trap/linux/filter_policy.h"
#include "trap/linux/trapped_call.h"

namespace phantora {
namespace {

// Serves the command to its end: every trapped call continues. Returns its wait status.
int ServeToEnd(LaunchedCommand& command, int* calls = nullptr) {
  int status = 0;
  for (;;) {
    if (waitpid(command.pid, &status, WNOHANG) == command.pid) return status;
    if (!command.listener->HasCall()) {
      usleep(100);
      continue;
    }
    const auto call = command.listener->Receive();
    if (!call) continue;
    if (calls != nullptr) ++*calls;
    command.listener->ReplyContinue(call->id);
  }
}

int RunCommand(const LaunchOptions& options, int* calls = nullptr) {
  const auto filter = BuildFilter();
  EXPECT_TRUE(filter.ok());
  auto command = Launch(*filter, options);
  EXPECT_TRUE(command.ok()) << command.status();
  return command.ok() ? ServeToEnd(*command, calls) : -1;
}

TEST(LauncherTest, TheCommandRunsUnderTheFilter) {
  int calls = 0;
  const int status = RunCommand({.command = {"sh", "-c", "exit 7"}}, &calls);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_GT(calls, 0);  // the loader opens libraries
}

TEST(LauncherTest, ItsEnvironmentIsSet) {
  const int status = RunCommand(
      {.command = {"sh", "-c", "test \"$GIVEN\" = yes"}, .environment = {{"GIVEN", "yes"}}});
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LauncherTest, WhatCannotBeRunFailsAsInAShell) {
  EXPECT_EQ(WEXITSTATUS(RunCommand({.command = {"/nonexistent"}})), 127);
  EXPECT_EQ(WEXITSTATUS(RunCommand({.command = {"/etc/passwd"}})), 126);
}

TEST(LauncherTest, ItKeepsItsLimits) {
  const CommandLimits before = RaiseLimits();
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, now.rlim_max);
  LaunchOptions options{.command = {"sh", "-c", "test $(ulimit -n) = 321"}};
  options.limits = before;
  options.limits->descriptors = rlimit{321, before.descriptors.rlim_max};
  EXPECT_EQ(WEXITSTATUS(RunCommand(options)), 0);
  options = {.command = {"sh", "-c", "test $(ulimit -f) = 16"}};  // units of 512 bytes
  options.limits = before;
  options.limits->file_size = rlimit{8192, before.file_size.rlim_max};
  EXPECT_EQ(WEXITSTATUS(RunCommand(options)), 0);
  setrlimit(RLIMIT_NOFILE, &before.descriptors);
  setrlimit(RLIMIT_FSIZE, &before.file_size);
}

TEST(LauncherTest, ALimitOfFilesIsRaisedAsFarAsItMayBe) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit low{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &low);
  EXPECT_EQ(RaiseLimits().file_size.rlim_cur, 4096u);
  rlimit raised{};
  getrlimit(RLIMIT_FSIZE, &raised);
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_FSIZE, &before);
}

TEST(LauncherTest, AddressesAreTheSameIfWanted) {
  const auto stack_of = [](int run) {
    const std::string file = testing::TempDir() + "/maps" + std::to_string(run);
    LaunchOptions options{.command = {"sh", "-c", "grep stack /proc/self/maps > " + file},
                          .same_addresses = true};
    EXPECT_EQ(WEXITSTATUS(RunCommand(options)), 0);
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line.substr(0, line.find(' '));
  };
  EXPECT_EQ(stack_of(1), stack_of(2));
}

TEST(LauncherTest, CallsAreAnsweredWithWhatTheSupervisorSays) {
  const auto filter = BuildFilter();
  ASSERT_TRUE(filter.ok());
  auto command = Launch(*filter, {.command = {"sh", "-c", "test -e /made/up"}});
  ASSERT_TRUE(command.ok());
  int status = 0;
  while (waitpid(command->pid, &status, WNOHANG) == 0) {
    if (!command->listener->HasCall()) continue;
    const auto call = command->listener->Receive();
    if (!call) continue;
    Tracee tracee(static_cast<pid_t>(call->pid));
    const TrappedCall trapped(*call, tracee, *command->listener);
    EXPECT_TRUE(trapped.pending());
    const int path = call->data.nr == SYS_newfstatat || call->data.nr == SYS_faccessat2 ? 1 : 0;
    const auto name = trapped.memory().ReadString(trapped.Address(path), 4096);
    name == "/made/up" ? trapped.Value(0) : trapped.Continue();
    EXPECT_FALSE(trapped.pending());
    trapped.Value(0);  // too late, and told
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LauncherTest, ACallOfOneWhoWasKilledIsNotPending) {
  const auto filter = BuildFilter();
  ASSERT_TRUE(filter.ok());
  auto command = Launch(*filter, {.command = {"true"}});
  ASSERT_TRUE(command.ok());
  std::optional<seccomp_notif> call;
  while (!call) call = command->listener->Receive();
  EXPECT_TRUE(command->listener->StillPending(call->id));
  kill(command->pid, SIGKILL);
  waitpid(command->pid, nullptr, 0);
  EXPECT_FALSE(command->listener->StillPending(call->id));
  EXPECT_TRUE(absl::IsNotFound(command->listener->ReplyDescriptor(call->id, 0, true)));
  EXPECT_TRUE(absl::IsNotFound(command->listener->Replace(call->id, 0, 0)));
  EXPECT_TRUE(absl::IsNotFound(command->listener->AddDescriptor(call->id, 0).status()));
}

}  // namespace
}  // namespace phantora
