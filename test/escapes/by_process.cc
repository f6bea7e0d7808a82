// What one process can do to another of the same user: here, to some that are none of the run's.
#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

long WriteTo(pid_t process, const char* file, const char* text) {
  const std::string path = "/proc/" + std::to_string(process) + "/" + file;
  const int descriptor = open(path.c_str(), O_WRONLY);
  if (descriptor < 0) return -1;
  const long written = write(descriptor, text, std::strlen(text));
  const int error = errno;
  close(descriptor);
  errno = error;
  return written;
}

long OpenOf(pid_t process, const char* file, int flags) {
  return open(("/proc/" + std::to_string(process) + "/" + file).c_str(), flags);
}

Way Other(const char* name, std::function<long(pid_t)> harm) {
  return {name, [harm = std::move(harm)] { return ForOthers(harm); }};
}

// What only shows something of another. Root may see that of everybody since Linux 6.14, which
// asks for CAP_PERFMON or CAP_SYS_ADMIN.
Way Look(const char* name, std::function<long(pid_t)> look) {
  return {name, [look = std::move(look)]() -> Outcome {
            const Outcome outcome = ForOthers(look);
            return outcome == "reached" && geteuid() == 0 ? "seen" : outcome;
          }};
}

long Vector(pid_t process, bool write) {
  char text[8] = {};
  iovec local{text, sizeof text}, remote{reinterpret_cast<void*>(0x400000), sizeof text};
  const long number = write ? SYS_process_vm_writev : SYS_process_vm_readv;
  const long done = syscall(number, process, &local, 1ul, &remote, 1ul, 0ul);
  // That nothing lies there says that one may look.
  return done < 0 && errno != EFAULT ? -1 : 0;
}

long Limit(pid_t process, __rlimit_resource what) {
  const rlimit limit{0, 0};
  return prlimit(process, what, &limit, nullptr);
}

Outcome SetUserId() {
  const pid_t child = fork();
  if (child == 0) {
    close(2);
    execlp("su", "su", "-c", "exit 42", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  // Root may be root.
  if (getuid() != 0 && WIFEXITED(status) && WEXITSTATUS(status) == 42) return "reached";
  return "no privilege";
}

Outcome Everybody() {
  // Others of its own user, outside of the run. Those inside would be this program's own.
  if (kill(-1, 0) != 0) return Error(errno);
  for (const pid_t other : Others()) {
    if (kill(other, 0) == 0) return "reached";
  }
  return "its own run's only";
}

}  // namespace

std::vector<Way> WaysByProcess() {
  return {
      Other("kill", [](pid_t other) -> long { return kill(other, SIGUSR1); }),
      Other("kill, signal 0", [](pid_t other) -> long { return kill(other, 0); }),
      Other("stop", [](pid_t other) -> long { return kill(other, SIGSTOP); }),
      Other("kill a thread",
            [](pid_t other) { return syscall(SYS_tgkill, other, other, SIGTERM); }),
      Other("queue a signal", [](pid_t other) -> long { return sigqueue(other, SIGTERM, {}); }),
      Other("signal by descriptor",
            [](pid_t other) {
              const long process = syscall(SYS_pidfd_open, other, 0);
              return process < 0 ? -1
                                 : syscall(SYS_pidfd_send_signal, process, SIGTERM, nullptr, 0);
            }),
      Other("kill its group",
            [](pid_t other) -> long {
              const pid_t group = getpgid(other);
              if (group == getpgid(getppid())) errno = EPERM;  // this program itself is in it
              return group <= 1 || group == getpgid(getppid()) ? -1 : kill(-group, SIGUSR1);
            }),
      {"kill everybody", Everybody},
      Other("attach", [](pid_t other) { return ptrace(PTRACE_ATTACH, other, nullptr, nullptr); }),
      Other("seize", [](pid_t other) { return ptrace(PTRACE_SEIZE, other, nullptr, nullptr); }),
      Other("read its memory", [](pid_t other) { return Vector(other, false); }),
      Other("write its memory", [](pid_t other) { return Vector(other, true); }),
      Other("open its memory", [](pid_t other) { return OpenOf(other, "mem", O_RDWR); }),
      Other("open its memory to read", [](pid_t other) { return OpenOf(other, "mem", O_RDONLY); }),
      Look("its environment", [](pid_t other) { return OpenOf(other, "environ", O_RDONLY); }),
      Look("its map", [](pid_t other) { return OpenOf(other, "maps", O_RDONLY); }),
      Other("its pages", [](pid_t other) { return WriteTo(other, "clear_refs", "1"); }),
      Other("its fate without memory",
            [](pid_t other) { return WriteTo(other, "oom_score_adj", "1000"); }),
      Other("its core files",
            [](pid_t other) { return WriteTo(other, "coredump_filter", "0x7f"); }),
      Other("its timers' slack", [](pid_t other) { return WriteTo(other, "timerslack_ns", "1"); }),
      Other("its scheduling group", [](pid_t other) { return WriteTo(other, "autogroup", "19"); }),
      Other("limit of its processor time", [](pid_t other) { return Limit(other, RLIMIT_CPU); }),
      Other("limit of its descriptors", [](pid_t other) { return Limit(other, RLIMIT_NOFILE); }),
      Other("limit of its memory", [](pid_t other) { return Limit(other, RLIMIT_AS); }),
      Other("its niceness",
            [](pid_t other) -> long { return setpriority(PRIO_PROCESS, other, 19); }),
      {"niceness of a user's processes",
       [] { return Harmed(setpriority(PRIO_USER, getuid(), 19)); }},
      Other("its scheduler",
            [](pid_t other) -> long {
              const sched_param parameters{0};
              return sched_setscheduler(other, SCHED_IDLE, &parameters);
            }),
      Other("its scheduler's attributes",
            [](pid_t other) {
              struct {
                uint32_t size = 48, policy = SCHED_IDLE;
                uint64_t rest[5] = {};
              } attributes;
              return syscall(SYS_sched_setattr, other, &attributes, 0);
            }),
      Other("its scheduler's parameters",
            [](pid_t other) -> long {
              const sched_param parameters{0};
              return sched_setparam(other, &parameters);
            }),
      Other("its processors",
            [](pid_t other) -> long {
              cpu_set_t one;
              CPU_ZERO(&one);
              CPU_SET(0, &one);
              return sched_setaffinity(other, sizeof one, &one);
            }),
      Other("its disk priority",
            [](pid_t other) {
              return syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, other,
                             IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
            }),
      Other("its pages' places",
            [](pid_t other) {
              const unsigned long from = 1, to = 1;
              return syscall(SYS_migrate_pages, other, 8, &from, &to);
            }),
      Other("its pages' use",
            [](pid_t other) {
              const long process = syscall(SYS_pidfd_open, other, 0);
              iovec range{reinterpret_cast<void*>(0x400000), 4096};
              constexpr int kPageOut = 21;  // MADV_PAGEOUT
              return process < 0
                         ? -1
                         : syscall(SYS_process_madvise, process, &range, 1ul, kPageOut, 0ul);
            }),
      Other("comparison of its descriptors",
            [](pid_t other) { return syscall(SYS_kcmp, getpid(), other, KCMP_FILE, 0, 0); }),
      Look("its events",
           [](pid_t other) {
             perf_event_attr attributes{};
             attributes.size = sizeof attributes;
             attributes.type = PERF_TYPE_SOFTWARE;
             return syscall(SYS_perf_event_open, &attributes, other, -1, -1, 0);
           }),
      Other("its list of robust futexes",
            [](pid_t other) {
              void* head;
              size_t size;
              return syscall(SYS_get_robust_list, other, &head, &size);
            }),
      Other("its process group", [](pid_t other) -> long { return setpgid(other, getpid()); }),
      {"a set-user-ID program", SetUserId},
  };
}

}  // namespace phantora::escapes
