#include "trap/linux/filter_policy.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "trap/linux/unique_fd.h"

namespace phantora {
namespace {

// kernel-open/common/inc/nv-ioctl-numbers.h: all escapes are type 'F'.
constexpr uint64_t kEscapeTypeMask = 0xff00;
constexpr uint64_t kEscapeType = 0x4600;
// kernel-open/nvidia-uvm/uvm_ioctl.h: bare numbers, and two above them.
constexpr uint64_t kUvmNumbersEnd = 2048;
constexpr uint64_t kUvmInitialize = 0x30000001;
constexpr uint64_t kUvmDeinitialize = 0x30000002;

class Policy {
 public:
  explicit Policy(scmp_filter_ctx context) : context_(context) {}

  void Trap(int call, std::initializer_list<scmp_arg_cmp> conditions = {}) {
    if (error_ != 0) return;
    error_ = seccomp_rule_add_exact_array(context_, SCMP_ACT_NOTIFY, call, conditions.size(),
                                          conditions.begin());
    if (error_ != 0) failed_call_ = call;
  }

  absl::Status status() const {
    if (error_ == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("libseccomp refused the rule for system call ",
                                            failed_call_, ": ", std::strerror(-error_)));
  }

 private:
  scmp_filter_ctx context_;
  int error_ = 0;
  int failed_call_ = 0;
};

void TrapTime(Policy& policy) {
  // Clocks of processor time stay the kernel's.
  for (int clock : {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
                    CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_REALTIME_ALARM,
                    CLOCK_BOOTTIME_ALARM, CLOCK_TAI}) {
    policy.Trap(SCMP_SYS(clock_gettime), {SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(clock))});
  }
  policy.Trap(SCMP_SYS(gettimeofday));
  policy.Trap(SCMP_SYS(time));
  policy.Trap(SCMP_SYS(nanosleep));
  policy.Trap(SCMP_SYS(clock_nanosleep));
  // With a timeout; a negative number of milliseconds is none.
  const uint64_t sign = 0x80000000;
  policy.Trap(SCMP_SYS(poll), {SCMP_A2(SCMP_CMP_MASKED_EQ, sign, 0)});
  policy.Trap(SCMP_SYS(epoll_wait), {SCMP_A3(SCMP_CMP_MASKED_EQ, sign, 0)});
  policy.Trap(SCMP_SYS(epoll_pwait), {SCMP_A3(SCMP_CMP_MASKED_EQ, sign, 0)});
  policy.Trap(SCMP_SYS(ppoll), {SCMP_A2(SCMP_CMP_NE, 0)});
  policy.Trap(SCMP_SYS(epoll_pwait2), {SCMP_A3(SCMP_CMP_NE, 0)});
  policy.Trap(SCMP_SYS(select), {SCMP_A4(SCMP_CMP_NE, 0)});
  policy.Trap(SCMP_SYS(pselect6), {SCMP_A4(SCMP_CMP_NE, 0)});
  policy.Trap(SCMP_SYS(rt_sigtimedwait), {SCMP_A2(SCMP_CMP_NE, 0)});
  for (uint64_t command : {FUTEX_WAIT, FUTEX_WAIT_BITSET}) {
    policy.Trap(SCMP_SYS(futex), {SCMP_A1(SCMP_CMP_MASKED_EQ, FUTEX_CMD_MASK & 0xff, command),
                                  SCMP_A3(SCMP_CMP_NE, 0)});
  }
  policy.Trap(SCMP_SYS(futex_waitv), {SCMP_A3(SCMP_CMP_NE, 0)});
  policy.Trap(SCMP_SYS(mq_timedsend), {SCMP_A4(SCMP_CMP_NE, 0)});
  policy.Trap(SCMP_SYS(mq_timedreceive), {SCMP_A4(SCMP_CMP_NE, 0)});
  // libcuda yields when a queue of its GPU is full.
  policy.Trap(SCMP_SYS(sched_yield));
  policy.Trap(SCMP_SYS(semtimedop), {SCMP_A3(SCMP_CMP_NE, 0)});
  // Timers; those of processor time stay the kernel's.
  policy.Trap(SCMP_SYS(alarm));
  policy.Trap(SCMP_SYS(setitimer), {SCMP_A0(SCMP_CMP_EQ, ITIMER_REAL)});
  policy.Trap(SCMP_SYS(getitimer), {SCMP_A0(SCMP_CMP_EQ, ITIMER_REAL)});
  for (int call : {SCMP_SYS(timer_create), SCMP_SYS(timer_settime), SCMP_SYS(timer_gettime),
                   SCMP_SYS(timer_getoverrun), SCMP_SYS(timer_delete), SCMP_SYS(timerfd_settime),
                   SCMP_SYS(timerfd_gettime)}) {
    policy.Trap(call);
  }
  // Bytes carry time from one process to another.
  for (int call : {SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg),
                   SCMP_SYS(recvmmsg), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(sendto),
                   SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg), SCMP_SYS(accept), SCMP_SYS(accept4)}) {
    policy.Trap(call);
  }
  // Its timeouts and transfers could not be seen.
  policy.Trap(SCMP_SYS(io_uring_setup));
  // Who waits may have a signal to handle.
  for (int call : {SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(tgkill), SCMP_SYS(rt_sigqueueinfo),
                   SCMP_SYS(rt_tgsigqueueinfo), SCMP_SYS(pidfd_send_signal)}) {
    policy.Trap(call);
  }
  // New processes and threads, and the start of a program in one.
  policy.Trap(SCMP_SYS(clone));
  policy.Trap(SCMP_SYS(clone3));
  policy.Trap(SCMP_SYS(fork));
  policy.Trap(SCMP_SYS(vfork));
  policy.Trap(SCMP_SYS(arch_prctl), {SCMP_A0(SCMP_CMP_EQ, ARCH_SET_FS)});
}

absl::StatusOr<std::vector<sock_filter>> Export(scmp_filter_ctx context) {
  UniqueFd file(memfd_create("phantora-bpf", MFD_CLOEXEC));
  if (!file.valid()) return absl::InternalError("memfd_create failed");
  if (int error = seccomp_export_bpf(context, file.get()); error != 0) {
    return absl::InternalError(absl::StrCat("seccomp_export_bpf: ", std::strerror(-error)));
  }
  struct stat status;
  if (fstat(file.get(), &status) != 0) return absl::InternalError("fstat failed");
  std::vector<sock_filter> program(status.st_size / sizeof(sock_filter));
  if (pread(file.get(), program.data(), status.st_size, 0) != status.st_size) {
    return absl::InternalError("short read of the BPF program");
  }
  return program;
}

}  // namespace

absl::StatusOr<std::vector<sock_filter>> BuildFilter(const FilterOptions& options) {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) return absl::InternalError("seccomp_init failed");
  absl::Cleanup release = [context] { seccomp_release(context); };
  // 32-bit system calls are none of ours; the default would kill their caller.
  seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW);
  // A balanced tree keeps the cost of untrapped calls low.
  seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);

  Policy policy(context);
  // The driver's files are never created by a rank.
  policy.Trap(SCMP_SYS(open), {SCMP_A1(SCMP_CMP_MASKED_EQ, O_CREAT, 0)});
  policy.Trap(SCMP_SYS(openat), {SCMP_A2(SCMP_CMP_MASKED_EQ, O_CREAT, 0)});
  policy.Trap(SCMP_SYS(openat2));
  policy.Trap(SCMP_SYS(stat));
  policy.Trap(SCMP_SYS(lstat));
  // With AT_EMPTY_PATH it is glibc's fstat.
  policy.Trap(SCMP_SYS(newfstatat), {SCMP_A3(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0)});
  policy.Trap(SCMP_SYS(statx), {SCMP_A2(SCMP_CMP_MASKED_EQ, AT_EMPTY_PATH, 0)});
  policy.Trap(SCMP_SYS(access));
  policy.Trap(SCMP_SYS(faccessat));
  policy.Trap(SCMP_SYS(faccessat2));
  policy.Trap(SCMP_SYS(readlink));
  policy.Trap(SCMP_SYS(readlinkat));
  policy.Trap(SCMP_SYS(ioctl), {SCMP_A1(SCMP_CMP_MASKED_EQ, kEscapeTypeMask, kEscapeType)});
  policy.Trap(SCMP_SYS(ioctl), {SCMP_A1(SCMP_CMP_LT, kUvmNumbersEnd)});
  policy.Trap(SCMP_SYS(ioctl), {SCMP_A1(SCMP_CMP_EQ, kUvmInitialize)});
  policy.Trap(SCMP_SYS(ioctl), {SCMP_A1(SCMP_CMP_EQ, kUvmDeinitialize)});
  // Shared and of a descriptor that is not negative.
  policy.Trap(SCMP_SYS(mmap), {SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_SHARED, MAP_SHARED),
                               SCMP_A4(SCMP_CMP_MASKED_EQ, 0x80000000, 0)});
  if (options.simulated_time) TrapTime(policy);
  if (options.shared_memory) {
    for (const uint64_t advice : {MADV_DONTNEED, MADV_FREE}) {
      policy.Trap(SCMP_SYS(madvise), {SCMP_A2(SCMP_CMP_EQ, advice)});
    }
    policy.Trap(SCMP_SYS(mremap));
  }
  if (options.virtual_hosts) {
    for (int call : {SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(sched_getaffinity),
                     SCMP_SYS(sched_setaffinity), SCMP_SYS(bind), SCMP_SYS(connect)}) {
      policy.Trap(call);
    }
  }
  if (auto status = policy.status(); !status.ok()) return status;
  return Export(context);
}

}  // namespace phantora
