#include "trap/host/host_calls.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trap/linux/fake_listener.h"

namespace phantora {
namespace {

class HostCallsTest : public testing::Test {
 protected:
  HostCallsTest() {
    host_.name = "node7";
    host_.cores = 112;
    host_.memory_bytes = uint64_t{2} << 40;
  }
  FakeListener::Answer Do(int number, std::initializer_list<uint64_t> arguments) {
    const seccomp_notif call = listener_.Call(getpid(), number, arguments);
    EXPECT_TRUE(ServeHostCall(TrappedCall(call, tracee_, listener_), host_));
    return listener_.AnswerOf(call).value_or(FakeListener::Answer());
  }
  template <typename T>
  static uint64_t Word(T* pointer) {
    return reinterpret_cast<uintptr_t>(pointer);
  }

  VirtualHost host_;
  FakeListener listener_;
  Tracee tracee_{getpid()};
};

TEST_F(HostCallsTest, TheNameIsTheHosts) {
  utsname names{};
  EXPECT_EQ(Do(SYS_uname, {Word(&names)}), FakeListener::Value(0));
  EXPECT_STREQ(names.nodename, "node7");
  EXPECT_STREQ(names.machine, "x86_64");
  host_.name = std::string(200, 'x');
  EXPECT_EQ(Do(SYS_uname, {Word(&names)}), FakeListener::Value(0));
  EXPECT_EQ(std::strlen(names.nodename), sizeof names.nodename - 1);
  EXPECT_EQ(Do(SYS_uname, {8}), FakeListener::Error(EFAULT));
}

TEST_F(HostCallsTest, MemoryIsTheHosts) {
  struct sysinfo info {};
  EXPECT_EQ(Do(SYS_sysinfo, {Word(&info)}), FakeListener::Value(0));
  EXPECT_EQ(info.totalram * info.mem_unit, host_.memory_bytes);
  EXPECT_LT(info.freeram, info.totalram);
  EXPECT_EQ(info.totalswap, 0u);
  EXPECT_EQ(Do(SYS_sysinfo, {8}), FakeListener::Error(EFAULT));
}

TEST_F(HostCallsTest, AllProcessorsMayBeUsed) {
  cpu_set_t set;
  std::memset(&set, 0, sizeof set);
  EXPECT_EQ(Do(SYS_sched_getaffinity, {0, sizeof set, Word(&set)}), FakeListener::Value(16));
  EXPECT_EQ(CPU_COUNT(&set), 112);
  // Masks are of whole longs, and hold all processors.
  EXPECT_EQ(Do(SYS_sched_getaffinity, {0, 8, Word(&set)}), FakeListener::Error(EINVAL));
  EXPECT_EQ(Do(SYS_sched_getaffinity, {0, 17, Word(&set)}), FakeListener::Error(EINVAL));
  EXPECT_EQ(Do(SYS_sched_getaffinity, {0, sizeof set, 8}), FakeListener::Error(EFAULT));
}

TEST_F(HostCallsTest, AnAffinityIsCheckedAndForgotten) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(Do(SYS_sched_setaffinity, {0, sizeof set, Word(&set)}), FakeListener::Error(EINVAL));
  CPU_SET(111, &set);
  EXPECT_EQ(Do(SYS_sched_setaffinity, {0, sizeof set, Word(&set)}), FakeListener::Value(0));
  CPU_ZERO(&set);
  CPU_SET(112, &set);  // there is none
  EXPECT_EQ(Do(SYS_sched_setaffinity, {0, sizeof set, Word(&set)}), FakeListener::Error(EINVAL));
  EXPECT_EQ(Do(SYS_sched_setaffinity, {0, ~uint64_t{0}, 8}), FakeListener::Error(EFAULT));
}

TEST_F(HostCallsTest, WithoutAClusterItIsTheMachines) {
  host_ = VirtualHost();
  utsname names{};
  for (const int call : {SYS_uname, SYS_sysinfo, SYS_sched_getaffinity, SYS_sched_setaffinity}) {
    EXPECT_EQ(Do(call, {Word(&names)}), FakeListener::Continue());
  }
  const seccomp_notif other = listener_.Call(getpid(), SYS_getpid);
  EXPECT_FALSE(ServeHostCall(TrappedCall(other, tracee_, listener_), host_));
}

}  // namespace
}  // namespace phantora
