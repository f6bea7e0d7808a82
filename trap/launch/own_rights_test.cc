#include "trap/launch/own_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace phantora {
namespace {

// In a process of its own, after its rights are given up; it ends with 0 if `holds`.
bool HoldsAfterwards(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    _exit(GiveUpRights().ok() && holds() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST(OwnRightsTest, WhatTheSupervisorHasNoUseForIsRefused) {
  char word[] = "true";
  char* const words[] = {word, nullptr};
  EXPECT_TRUE(HoldsAfterwards([&] { return execv("/bin/true", words) != 0 && errno == EPERM; }));
  EXPECT_TRUE(HoldsAfterwards([] { return unshare(CLONE_NEWUSER) != 0 && errno == EPERM; }));
  EXPECT_TRUE(HoldsAfterwards([] { return chmod("/tmp", 0) != 0 && errno == EPERM; }));
  EXPECT_TRUE(
      HoldsAfterwards([] { return mknod("/tmp/own_rights", S_IFIFO, 0) != 0 && errno == EPERM; }));
  EXPECT_TRUE(HoldsAfterwards(
      [] { return mount("none", "/tmp", "tmpfs", 0, nullptr) != 0 && errno == EPERM; }));
  EXPECT_TRUE(HoldsAfterwards([] { return setuid(0) != 0 && errno == EPERM; }));
  EXPECT_TRUE(
      HoldsAfterwards([] { return syscall(SYS_bpf, 0, nullptr, 0) != 0 && errno == EPERM; }));
}

TEST(OwnRightsTest, ItStillReadsFilesAndMakesThreads) {
  EXPECT_TRUE(HoldsAfterwards([] {
    bool refused = false;
    std::thread([&] { refused = chmod("/tmp", 0) != 0 && errno == EPERM; }).join();
    const int file = open("/proc/self/status", O_RDONLY);
    return refused && file >= 0;
  }));
}

TEST(OwnRightsTest, ThreadsThatRunAlreadyAreMeantToo) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    bool refused = false;
    std::thread thread([&] {
      char byte;
      const bool told = read(ends[0], &byte, 1) == 1;
      refused = told && chmod("/tmp", 0) != 0 && errno == EPERM;
    });
    const bool given_up = GiveUpRights().ok() && write(ends[1], "x", 1) == 1;
    if (!given_up) _exit(3);
    thread.join();
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

bool Has(int capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capget, &header, sets) == 0 &&
         ((sets[capability / 32].permitted >> (capability % 32)) & 1) != 0;
}

TEST(OwnRightsTest, OfRootsCapabilitiesFewStay) {
  // An ordinary user has none, and root in a container not all.
  const bool traces = Has(CAP_SYS_PTRACE), kills = Has(CAP_KILL);
  EXPECT_TRUE(HoldsAfterwards([=] {
    const bool few =
        !Has(CAP_SYS_ADMIN) && !Has(CAP_SYS_MODULE) && !Has(CAP_SETUID) && !Has(CAP_MKNOD);
    return (few || !traces) && Has(CAP_SYS_PTRACE) == traces && Has(CAP_KILL) == kills;
  }));
}

// Root in a container.
TEST(OwnRightsTest, WithoutTheRightToTraceItStillReadsMemoryOfItsChildren) {
  const pid_t child = fork();
  if (child == 0) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
    if (syscall(SYS_capget, &header, sets) != 0) _exit(2);
    const uint32_t others = ~(uint32_t{1} << CAP_SYS_PTRACE);
    sets[0].permitted &= others, sets[0].effective &= others, sets[0].inheritable = 0;
    if (syscall(SYS_capset, &header, sets) != 0) _exit(3);
    int word = 42, read = 0;
    const pid_t rank = fork();
    if (rank == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!GiveUpRights().ok()) _exit(4);
    iovec to{&read, sizeof read}, from{&word, sizeof word};
    _exit(process_vm_readv(rank, &to, 1, &from, 1, 0) == sizeof read && read == 42 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace phantora
