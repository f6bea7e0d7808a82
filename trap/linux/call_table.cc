#include "trap/linux/call_table.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trap/linux/native_calls.h"

namespace phantora {
namespace {

// kernel-open/common/inc/nv-ioctl-numbers.h: all escapes are of type 'F'.
constexpr uint64_t kEscapeTypeMask = 0xff00, kEscapeType = 0x4600;
// kernel-open/nvidia-uvm/uvm_ioctl.h: bare numbers, and two above them.
constexpr uint64_t kUvmNumbersEnd = 2048, kUvmInitialize = 0x30000001,
                   kUvmDeinitialize = 0x30000002;
// The sign of a 32-bit argument; what lies above is the caller's litter.
constexpr uint64_t kSign = 0x80000000;

ArgumentIs Equal(int argument, uint64_t value) { return {argument, ArgumentIs::kEqual, value}; }
ArgumentIs NotZero(int argument) { return {argument, ArgumentIs::kNotEqual, 0}; }
ArgumentIs Masked(int argument, uint64_t mask, uint64_t value) {
  return {argument, ArgumentIs::kMaskedEqual, value, mask};
}
ArgumentIs NotNegative(int argument) { return Masked(argument, kSign, 0); }

class Table {
 public:
  Table() {
    AddPaths();
    AddDevices();
    AddTime();
    AddTimers();
    AddTransfers();
    AddProcesses();
    AddHosts();
    AddOthers();
    for (const NativeCalls& group : NativeCallGroups()) {
      for (const int number : group.numbers) {
        rows_.push_back({.number = number,
                         .disposition = group.disposition,
                         .mode = group.mode,
                         .error = group.error,
                         .reason = group.reason});
      }
    }
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const CallRow& a, const CallRow& b) { return a.number < b.number; });
    handlers_.resize(static_cast<size_t>(rows_.back().number) + 1, CallHandler::kNone);
    for (const CallRow& row : rows_) {
      if (row.handler != CallHandler::kNone) handlers_[row.number] = row.handler;
    }
  }

  absl::Span<const CallRow> rows() const { return rows_; }
  CallHandler handler(int number) const {
    const bool known = number >= 0 && number < static_cast<int>(handlers_.size());
    return known ? handlers_[number] : CallHandler::kNone;
  }

 private:
  void Trap(std::initializer_list<int> numbers, CallMode mode, CallHandler handler,
            const char* reason, const std::vector<ArgumentIs>& conditions = {}) {
    for (const int number : numbers) {
      rows_.push_back({.number = number,
                       .disposition = Disposition::kTrapped,
                       .mode = mode,
                       .handler = handler,
                       .conditions = conditions,
                       .reason = reason});
    }
  }

  void AddPaths() {
    const auto path = [this](std::initializer_list<int> numbers, const char* reason) {
      Trap(numbers, CallMode::kAlways, CallHandler::kPath, reason);
    };
    path({SYS_open, SYS_openat, SYS_openat2, SYS_creat},
         "the driver's device nodes and its files in /proc and /sys must be the emulated ones");
    path({SYS_stat, SYS_lstat, SYS_access, SYS_faccessat, SYS_faccessat2, SYS_readlink,
          SYS_readlinkat, SYS_statfs},
         "tells whether the driver's files are there, and what they are");
    // With AT_EMPTY_PATH it is the C library's fstat.
    Trap({SYS_newfstatat}, CallMode::kAlways, CallHandler::kPath,
         "tells whether the driver's files are there; not of an open file",
         {Masked(3, AT_EMPTY_PATH, 0)});
    Trap({SYS_statx}, CallMode::kAlways, CallHandler::kPath,
         "tells whether the driver's files are there; not of an open file",
         {Masked(2, AT_EMPTY_PATH, 0)});
    path(
        {SYS_mknod, SYS_mknodat, SYS_mkdir, SYS_mkdirat, SYS_unlink, SYS_unlinkat, SYS_rmdir,
         SYS_rename, SYS_renameat, SYS_renameat2, SYS_link, SYS_linkat, SYS_symlink, SYS_symlinkat},
        "the driver's files are not for ranks to make, move or remove");
  }

  void AddDevices() {
    const auto device = [this](int number, const char* reason,
                               const std::vector<ArgumentIs>& conditions) {
      Trap({number}, CallMode::kAlways, CallHandler::kDevice, reason, conditions);
    };
    device(SYS_ioctl, "the driver's escapes", {Masked(1, kEscapeTypeMask, kEscapeType)});
    device(SYS_ioctl, "UVM's commands",
           {{.argument = 1, .comparison = ArgumentIs::kLess, .value = kUvmNumbersEnd}});
    device(SYS_ioctl, "UVM begins", {Equal(1, kUvmInitialize)});
    device(SYS_ioctl, "UVM ends", {Equal(1, kUvmDeinitialize)});
    device(SYS_mmap, "shared mappings of files: managed memory",
           {Masked(3, MAP_SHARED, MAP_SHARED), NotNegative(4)});
  }

  void Time(std::initializer_list<int> numbers, CallHandler handler, const char* reason,
            const std::vector<ArgumentIs>& conditions = {}) {
    Trap(numbers, CallMode::kSimulatedTime, handler, reason, conditions);
  }

  void AddTime() {
    for (const int clock : {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                            CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,
                            CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM, CLOCK_TAI}) {
      Time({SYS_clock_gettime}, CallHandler::kClock,
           "clocks tell simulated time; those of processor time stay the kernel's",
           {Equal(0, static_cast<uint64_t>(clock))});
    }
    Time({SYS_gettimeofday, SYS_time}, CallHandler::kClock, "clocks tell simulated time");
    const char* const waits = "lasts simulated time";
    const char* const with_timeout = "with a timeout, which is in simulated time";
    Time({SYS_nanosleep, SYS_clock_nanosleep}, CallHandler::kWait, waits);
    // A negative number of milliseconds is no timeout.
    Time({SYS_poll}, CallHandler::kWait, with_timeout, {NotNegative(2)});
    Time({SYS_epoll_wait, SYS_epoll_pwait}, CallHandler::kWait, with_timeout, {NotNegative(3)});
    Time({SYS_ppoll, SYS_rt_sigtimedwait}, CallHandler::kWait, with_timeout, {NotZero(2)});
    Time({SYS_epoll_pwait2, SYS_futex_waitv, SYS_semtimedop}, CallHandler::kWait, with_timeout,
         {NotZero(3)});
    Time({SYS_select, SYS_pselect6, SYS_mq_timedsend, SYS_mq_timedreceive}, CallHandler::kWait,
         with_timeout, {NotZero(4)});
    for (const uint64_t command : {FUTEX_WAIT, FUTEX_WAIT_BITSET}) {
      Time({SYS_futex}, CallHandler::kWait, with_timeout,
           {Masked(1, FUTEX_CMD_MASK & 0xff, command), NotZero(3)});
    }
    for (const uint64_t command : {FUTEX_WAKE, FUTEX_WAKE_BITSET, FUTEX_WAKE_OP, FUTEX_REQUEUE,
                                   FUTEX_CMP_REQUEUE, FUTEX_UNLOCK_PI, FUTEX_CMP_REQUEUE_PI}) {
      Time({SYS_futex}, CallHandler::kWait, "wakes another process, through shared memory",
           {Masked(1, (FUTEX_CMD_MASK & 0xff) | FUTEX_PRIVATE_FLAG, command)});
    }
    AddUntimed();
    Time({SYS_sched_yield}, CallHandler::kYield, "libcuda yields while a queue of its GPU is full");
  }

  // What makes a thread stand still or go on, in runs where that has to be known at once.
  void AddUntimed() {
    const auto order = [this](std::initializer_list<int> numbers, CallHandler handler,
                              const char* reason, const std::vector<ArgumentIs>& conditions = {}) {
      Trap(numbers, CallMode::kRepeatable, handler, reason, conditions);
    };
    const char* const waits = "without a timeout: who stands still lets others of its process go";
    order({SYS_poll}, CallHandler::kWait, waits, {Masked(2, kSign, kSign)});
    order({SYS_epoll_wait, SYS_epoll_pwait}, CallHandler::kWait, waits, {Masked(3, kSign, kSign)});
    order({SYS_ppoll}, CallHandler::kWait, waits, {Equal(2, 0)});
    order({SYS_epoll_pwait2}, CallHandler::kWait, waits, {Equal(3, 0)});
    order({SYS_select, SYS_pselect6}, CallHandler::kWait, waits, {Equal(4, 0)});
    constexpr uint64_t kCommand = FUTEX_CMD_MASK & 0xff;
    for (const uint64_t command : {FUTEX_WAIT, FUTEX_WAIT_BITSET}) {
      order({SYS_futex}, CallHandler::kWait, waits, {Masked(1, kCommand, command), Equal(3, 0)});
    }
    for (const uint64_t command :
         {FUTEX_WAKE, FUTEX_WAKE_BITSET, FUTEX_WAKE_OP, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE}) {
      order({SYS_futex}, CallHandler::kWait, "wakes another thread of its process",
            {Masked(1, kCommand | FUTEX_PRIVATE_FLAG, command | FUTEX_PRIVATE_FLAG)});
    }
    order({SYS_listen, SYS_shutdown}, CallHandler::kPort,
          "others find out when they connect, or receive");
    order({SYS_set_robust_list}, CallHandler::kProcess,
          "a thread's first call, in which it waits for its turn");
    order({SYS_exit}, CallHandler::kProcess,
          "a thread ends: others of its process go, and who joins it");
  }

  void AddTimers() {
    const char* const timers = "timers go off in simulated time";
    Time({SYS_alarm, SYS_timer_create, SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun,
          SYS_timer_delete, SYS_timerfd_settime, SYS_timerfd_gettime},
         CallHandler::kTimer, timers);
    Time({SYS_setitimer, SYS_getitimer}, CallHandler::kTimer,
         "the timer of real time; those of processor time stay the kernel's",
         {Equal(0, ITIMER_REAL)});
  }

  void AddTransfers() {
    Time({SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_write, SYS_writev,
          SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_accept, SYS_accept4},
         CallHandler::kTransfer, "bytes carry time from one process to another");
    Trap({SYS_io_uring_setup}, CallMode::kAlways, CallHandler::kRefusal,
         "its opens, transfers and timeouts could not be seen: ENOSYS");
  }

  void AddProcesses() {
    Time({SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
          SYS_pidfd_send_signal},
         CallHandler::kSignal, "who waits may have a signal to handle");
    constexpr uint64_t kInt = 0xffffffff;  // what lies above is the caller's litter
    for (const uint64_t signal : {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU}) {
      Time({SYS_fcntl}, CallHandler::kStop,
           "F_SETSIG of a signal that stops: who is stopped by the run is not by a debugger",
           {Masked(1, kInt, F_SETSIG), Equal(2, signal)});
      Time(
          {SYS_prctl}, CallHandler::kStop,
          "PR_SET_PDEATHSIG of a signal that stops: who is stopped by the run is not by a debugger",
          {Masked(0, kInt, PR_SET_PDEATHSIG), Equal(1, signal)});
    }
    Time({SYS_mq_notify}, CallHandler::kStop,
         "may be with a signal that stops: who is stopped by the run is not by a debugger");
    Time({SYS_clone, SYS_clone3, SYS_fork, SYS_vfork}, CallHandler::kProcess,
         "a new process or thread begins with its parent's time");
    Time({SYS_arch_prctl}, CallHandler::kProgram,
         "sets the thread pointer, which a program does once, when it begins",
         {Equal(0, ARCH_SET_FS)});
  }

  void AddHosts() {
    for (const uint64_t advice : {MADV_DONTNEED, MADV_FREE}) {
      Trap({SYS_madvise}, CallMode::kSharedMemory, CallHandler::kMemory,
           "shared memory would come back with what was shared", {Equal(2, advice)});
    }
    Trap({SYS_mremap}, CallMode::kSharedMemory, CallHandler::kMemory,
         "a shared mapping cannot grow, and is followed when it moves");
    Trap({SYS_uname, SYS_sysinfo, SYS_sched_getaffinity}, CallMode::kVirtualHosts,
         CallHandler::kHost, "tells about the emulated host");
    Trap({SYS_bind}, CallMode::kVirtualHosts, CallHandler::kPort,
         "every emulated host has ports of its own");
    Trap({SYS_connect}, CallMode::kAlways, CallHandler::kPort,
         "every emulated host has ports of its own; another machine answers in real time");
  }

  void AddOthers() {
    const char* const others =
        "for another one: who is none of the run's is not for ranks to change";
    Trap({SYS_prlimit64, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler},
         CallMode::kAlways, CallHandler::kChange, others, {NotZero(0)});
    Trap({SYS_sched_setaffinity}, CallMode::kAlways, CallHandler::kHost,
         "of processors of the emulated host; who is none of the run's is not for ranks to change");
    const char* const many = "for all of a group or a user, in which there may be others";
    constexpr uint64_t kOneProcess = 1;  // IOPRIO_WHO_PROCESS of linux/ioprio.h
    for (const auto& [number, one] :
         {std::pair{SYS_setpriority, uint64_t{PRIO_PROCESS}}, {SYS_ioprio_set, kOneProcess}}) {
      Trap({number}, CallMode::kAlways, CallHandler::kChange, others, {NotZero(1)});
      Trap({number}, CallMode::kAlways, CallHandler::kChange, many,
           {{.argument = 0, .comparison = ArgumentIs::kNotEqual, .value = one}});
    }
  }

  std::vector<CallRow> rows_;
  std::vector<CallHandler> handlers_;
};

const Table& TheTable() {
  static const Table* const table = new Table();
  return *table;
}

const char* Name(Disposition disposition) {
  switch (disposition) {
    case Disposition::kTrapped:
      return "trapped";
    case Disposition::kRefused:
      return "refused";
    case Disposition::kUnseen:
      return "native, unseen";
    case Disposition::kHarmless:
      return "native";
  }
  return "";
}

const char* Name(CallMode mode) {
  switch (mode) {
    case CallMode::kAlways:
      return "always";
    case CallMode::kSimulatedTime:
      return "simulated time";
    case CallMode::kRepeatable:
      return "fixed and zero time";
    case CallMode::kSharedMemory:
      return "shared memory";
    case CallMode::kVirtualHosts:
      return "clusters";
  }
  return "";
}

}  // namespace

absl::Span<const CallRow> CallTable() { return TheTable().rows(); }

int LastCall() { return CallTable().back().number; }

CallHandler HandlerOf(int number) { return TheTable().handler(number); }

std::string CallName(int number) {
  if (const char* name = NewCallName(number); name != nullptr) return name;
  char* const name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, number);
  const std::string result = name == nullptr ? absl::StrCat("#", number) : name;
  std::free(name);
  return result;
}

std::string DescribeCallTable() {
  std::string text =
      "# System calls\n\n"
      "What becomes of every system call that a rank makes. Written by\n"
      "`bazel run //trap/linux:describe_calls > docs/system_calls.md` from "
      "trap/linux/call_table.cc;\n"
      "a test compares.\n\n"
      "- **trapped**: the supervisor is asked, in the runs that the third column names. Of calls "
      "with\n"
      "  conditions on their arguments, all others run natively.\n"
      "- **refused**: fails in the kernel.\n"
      "- **native, unseen**: runs as it is, and the last column says what is then not as on the\n"
      "  emulated machine.\n"
      "- **native**: runs as it is, as it should.\n\n";
  absl::StrAppend(&text, "Numbers above ", LastCall(),
                  ", 32-bit calls (`int 0x80`) and x32 calls fail with ENOSYS.\n\n"
                  "| call | becomes | in | why |\n|---|---|---|---|\n");
  const CallRow* before = nullptr;
  for (const CallRow& row : CallTable()) {
    // Rows that differ in conditions only.
    if (before != nullptr && before->number == row.number && before->reason == row.reason) continue;
    absl::StrAppend(&text, "| ", CallName(row.number), row.conditions.empty() ? "" : " (some)",
                    " | ", Name(row.disposition), " | ", Name(row.mode), " | ", row.reason, " |\n");
    before = &row;
  }
  return text;
}

}  // namespace phantora
