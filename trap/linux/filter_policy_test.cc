#include "trap/linux/filter_policy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "trap/linux/call_table.h"

namespace phantora {
namespace {

// What the kernel would return: the program run on one call (net/core/filter.c, the instructions
// that seccomp allows and libseccomp writes). nullopt: it runs out of the program.
std::optional<uint32_t> RunProgram(const std::vector<sock_filter>& program,
                                   const seccomp_data& call) {
  uint32_t a = 0;
  for (size_t at = 0; at < program.size(); ++at) {
    const sock_filter& op = program[at];
    switch (op.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (op.k + sizeof a > sizeof call) return std::nullopt;
        std::memcpy(&a, reinterpret_cast<const char*>(&call) + op.k, sizeof a);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= op.k;
        break;
      case BPF_JMP | BPF_JA:
        at += op.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += a == op.k ? op.jt : op.jf;
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        at += a > op.k ? op.jt : op.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        at += a >= op.k ? op.jt : op.jf;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        at += (a & op.k) != 0 ? op.jt : op.jf;
        break;
      case BPF_RET | BPF_K:
        return op.k;
      default:
        ADD_FAILURE() << "instruction " << op.code;
        return std::nullopt;
    }
  }
  return std::nullopt;
}

constexpr uint32_t kRefused = SECCOMP_RET_ERRNO | ENOSYS;

class FilterTest : public testing::Test {
 protected:
  explicit FilterTest(FilterOptions options = {}) : options_(options) {
    auto program = BuildFilter(options);
    EXPECT_TRUE(program.ok());
    if (program.ok()) program_ = *std::move(program);
  }
  uint32_t Do(int number, std::vector<uint64_t> arguments = {},
              uint32_t architecture = AUDIT_ARCH_X86_64) const {
    seccomp_data call{};
    call.nr = number;
    call.arch = architecture;
    for (size_t i = 0; i < arguments.size(); ++i) call.args[i] = arguments[i];
    return RunProgram(program_, call).value_or(SECCOMP_RET_KILL_PROCESS);
  }
  bool Traps(int number, std::vector<uint64_t> arguments = {}) const {
    return Do(number, std::move(arguments)) == SECCOMP_RET_USER_NOTIF;
  }

  const FilterOptions options_;
  std::vector<sock_filter> program_;
};

class FilterOfEverythingTest : public FilterTest {
 protected:
  FilterOfEverythingTest()
      : FilterTest({.simulated_time = true,
                    .repeatable = true,
                    .shared_memory = true,
                    .virtual_hosts = true}) {}
};
class FilterOfMeasuredTimeTest : public FilterTest {
 protected:
  FilterOfMeasuredTimeTest()
      : FilterTest({.simulated_time = true, .shared_memory = true, .virtual_hosts = true}) {}
};

// Arguments that a row's conditions hold for.
std::vector<uint64_t> ArgumentsFor(const CallRow& row) {
  std::vector<uint64_t> arguments(6, 0);
  for (const ArgumentIs& condition : row.conditions) {
    uint64_t& argument = arguments[static_cast<size_t>(condition.argument)];
    switch (condition.comparison) {
      case ArgumentIs::kEqual:
        argument = condition.value;
        break;
      case ArgumentIs::kNotEqual:
        argument = condition.value + 1;
        break;
      case ArgumentIs::kLess:
        argument = condition.value - 1;
        break;
      case ArgumentIs::kMaskedEqual:
        argument = (~uint64_t{0} & ~condition.mask) | condition.value;
        break;
    }
  }
  return arguments;
}

TEST_F(FilterOfEverythingTest, DoesWhatTheTableSays) {
  for (const CallRow& row : CallTable()) {
    SCOPED_TRACE(CallName(row.number));
    const uint32_t action = Do(row.number, ArgumentsFor(row));
    switch (row.disposition) {
      case Disposition::kTrapped:
        EXPECT_EQ(action, uint32_t{SECCOMP_RET_USER_NOTIF});
        break;
      case Disposition::kRefused:
        EXPECT_EQ(action, SECCOMP_RET_ERRNO | static_cast<uint32_t>(row.error));
        break;
      case Disposition::kUnseen:
      case Disposition::kHarmless:
        EXPECT_EQ(action, uint32_t{SECCOMP_RET_ALLOW});
        break;
    }
  }
}

TEST_F(FilterTest, RowsOfOtherRunsAreNotInForce) {
  for (const CallRow& row : CallTable()) {
    if (row.mode == CallMode::kAlways || row.disposition != Disposition::kTrapped) continue;
    EXPECT_EQ(Do(row.number, ArgumentsFor(row)), uint32_t{SECCOMP_RET_ALLOW})
        << CallName(row.number);
  }
}

TEST_F(FilterOfEverythingTest, WhereRunsRepeatStandingStillIsSeen) {
  EXPECT_TRUE(Traps(SYS_poll, {0, 0, 0xffffffff}));
  EXPECT_TRUE(Traps(SYS_ppoll, {0, 0, 0}));
  EXPECT_TRUE(Traps(SYS_epoll_wait, {0, 0, 0, ~uint64_t{0}}));
  EXPECT_TRUE(Traps(SYS_epoll_pwait2, {0, 0, 0, 0}));
  EXPECT_TRUE(Traps(SYS_select, {0, 0, 0, 0, 0}));
  EXPECT_TRUE(Traps(SYS_futex, {0, FUTEX_WAIT_PRIVATE, 1, 0}));
  EXPECT_TRUE(Traps(SYS_futex, {0, FUTEX_WAIT_BITSET, 1, 0}));
  EXPECT_TRUE(Traps(SYS_futex, {0, FUTEX_WAKE_PRIVATE, 1}));
  EXPECT_TRUE(Traps(SYS_futex, {0, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1}));
  EXPECT_FALSE(Traps(SYS_futex, {0, FUTEX_LOCK_PI_PRIVATE, 1, 0})) << "the kernel's own";
  EXPECT_TRUE(Traps(SYS_set_robust_list));
  EXPECT_TRUE(Traps(SYS_exit));
  EXPECT_FALSE(Traps(SYS_exit_group));
}

TEST_F(FilterOfMeasuredTimeTest, ConditionsTellCallsApart) {
  EXPECT_TRUE(Traps(SYS_ioctl, {3, 0xc020462a}));  // an escape
  EXPECT_TRUE(Traps(SYS_ioctl, {3, 27}));          // UVM's
  EXPECT_FALSE(Traps(SYS_ioctl, {3, 0x5413}));     // TIOCGWINSZ
  EXPECT_FALSE(Traps(SYS_mmap, {0, 4096, 3, MAP_PRIVATE, 5}));
  EXPECT_FALSE(Traps(SYS_mmap, {0, 4096, 3, MAP_SHARED, ~uint64_t{0}}));
  EXPECT_TRUE(Traps(SYS_mmap, {0, 4096, 3, MAP_SHARED, 5}));
  EXPECT_FALSE(Traps(SYS_clock_gettime, {CLOCK_PROCESS_CPUTIME_ID}));
  EXPECT_TRUE(Traps(SYS_clock_gettime, {CLOCK_MONOTONIC}));
  EXPECT_FALSE(Traps(SYS_poll, {0, 0, 0xffffffff}));
  // What a caller leaves above 32 bits does not matter.
  EXPECT_TRUE(Traps(SYS_poll, {0, 0, 0xdeadbeef00000005}));
  EXPECT_FALSE(Traps(SYS_futex, {0, FUTEX_WAKE_PRIVATE, 1, 1}));
  EXPECT_TRUE(Traps(SYS_futex, {0, FUTEX_WAKE, 1}));
  EXPECT_TRUE(Traps(SYS_futex, {0, FUTEX_WAKE_BITSET, 1}));
  EXPECT_TRUE(Traps(SYS_futex, {0, FUTEX_CMP_REQUEUE, 1, 1}));
  EXPECT_FALSE(Traps(SYS_futex, {0, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1}));
  EXPECT_FALSE(Traps(SYS_futex, {0, FUTEX_WAIT, 1, 0}));
  EXPECT_FALSE(Traps(SYS_futex, {0, FUTEX_WAIT_PRIVATE, 1, 0}));
  EXPECT_TRUE(Traps(SYS_futex, {0, FUTEX_WAIT_PRIVATE, 1, 1}));
  EXPECT_FALSE(Traps(SYS_newfstatat, {3, 0, 0, AT_EMPTY_PATH}));
  EXPECT_TRUE(Traps(SYS_openat, {3, 0, O_CREAT | O_RDWR}));
}

TEST_F(FilterTest, OtherInterfacesAndUnknownNumbersAreRefused) {
  constexpr int kX32Bit = 0x40000000;
  EXPECT_EQ(Do(SYS_getpid, {}, AUDIT_ARCH_I386), kRefused);
  EXPECT_EQ(Do(5, {}, AUDIT_ARCH_I386), kRefused);
  EXPECT_EQ(Do(SYS_open, {}, AUDIT_ARCH_AARCH64), kRefused);
  EXPECT_EQ(Do(kX32Bit | SYS_open), kRefused);
  EXPECT_EQ(Do(kX32Bit), kRefused);
  EXPECT_EQ(Do(LastCall() + 1), kRefused);
  EXPECT_EQ(Do(-1), kRefused);
  EXPECT_EQ(Do(LastCall()), uint32_t{SECCOMP_RET_ALLOW});
}

}  // namespace
}  // namespace phantora
