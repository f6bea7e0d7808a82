// Other ways to call the kernel.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "test/escapes/way.h"

namespace phantora::escapes {
namespace {

constexpr long kX32Bit = 0x40000000;
constexpr long kOpen32 = 5, kOpenAt32 = 295;  // arch/x86/entry/syscalls/syscall_32.tbl

long Int80(long number, long a, long b, long c) {
  long result;
  asm volatile("int $0x80"
               : "=a"(result)
               : "a"(number), "b"(a), "c"(b), "d"(c)
               : "memory", "r8", "r9", "r10", "r11");
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

// Where a 32-bit pointer reaches.
char* Low() {
  void* low =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (low == MAP_FAILED) return nullptr;
  std::strcpy(static_cast<char*>(low), kHidden);
  return static_cast<char*>(low);
}

Outcome ByInt80(long number) {
  char* name = Low();
  if (name == nullptr) return Error(errno);
  const long path = reinterpret_cast<long>(name);
  return Opened(static_cast<int>(number == kOpen32 ? Int80(number, path, O_RDONLY, 0)
                                                   : Int80(number, -100, path, O_RDONLY)));
}

Outcome ByX32(long number) {
  return Opened(static_cast<int>(number == SYS_open
                                     ? syscall(kX32Bit | number, kHidden, O_RDONLY)
                                     : syscall(kX32Bit | number, AT_FDCWD, kHidden, O_RDONLY)));
}

Outcome HighBits() {
  // The kernel looks at 32 bits of a number.
  return Opened(static_cast<int>(syscall((1l << 32) | SYS_open, kHidden, O_RDONLY)));
}

Outcome ByRing() {
  char parameters[120] = {};
  return Harmed(syscall(SYS_io_uring_setup, 4, parameters));
}

int signal_of_open;
void NoteSystemCall(int, siginfo_t* info, void*) { signal_of_open = info->si_syscall; }

// The program's own handler of SIGSYS sees none of ours.
Outcome OwnSignal() {
  struct sigaction action {};
  action.sa_sigaction = NoteSystemCall;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return Error(errno);
  const Outcome outcome = Opened(open(kNode, O_RDWR));
  return signal_of_open != 0 ? "SIGSYS" : outcome;
}

Outcome WithFilter(unsigned action, unsigned flags) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{sizeof program / sizeof program[0], program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) < 0) return Error(errno);
  return Opened(open(kHidden, O_RDONLY));
}

// The vDSO, overwritten by the program itself; time is asked for through it.
Outcome OwnVdso() {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return Error(errno);
  unsigned long begin = 0, end = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    if (std::strstr(line, "[vdso]") != nullptr) std::sscanf(line, "%lx-%lx", &begin, &end);
  }
  std::fclose(maps);
  if (begin == 0) return "no vDSO";
  if (mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE) != 0) {
    return Error(errno);
  }
  // Keeps its table of symbols, so that all its functions end in a fault.
  std::memset(reinterpret_cast<char*>(begin) + 0x800, 0xcc, end - begin - 0x800);
  mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_EXEC);
  return Opened(open(kNode, O_RDWR));
}

Outcome WithoutVdso() {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return Error(errno);
  unsigned long begin = 0, end = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    if (std::strstr(line, "[vdso]") != nullptr) std::sscanf(line, "%lx-%lx", &begin, &end);
  }
  std::fclose(maps);
  if (begin != 0 && munmap(reinterpret_cast<void*>(begin), end - begin) != 0) return Error(errno);
  return Opened(open(kNode, O_RDWR));
}

Outcome Persona(unsigned long persona) {
  if (personality(persona) < 0) return Error(errno);
  return Opened(open(kNode, O_RDWR));
}

// User dispatch (Linux 5.11) hands calls to the program before seccomp sees them.
Outcome UserDispatch() {
  static volatile char select = 0;  // SYSCALL_DISPATCH_FILTER_ALLOW
  constexpr int kSetDispatch = 59, kOn = 1;
  if (prctl(kSetDispatch, kOn, 0, 0, &select) != 0) return Error(errno);
  return Opened(open(kHidden, O_RDONLY));
}

Outcome AsynchronousIo() {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 1, &context) < 0) return Error(errno);
  const int node = open(kHidden, O_PATH);
  if (node < 0) return Error(errno);
  char text[8] = {};
  iocb block{};
  block.aio_fildes = static_cast<unsigned>(node);
  block.aio_lio_opcode = IOCB_CMD_PREAD;
  block.aio_buf = reinterpret_cast<unsigned long>(text);
  block.aio_nbytes = 4;
  iocb* blocks[] = {&block};
  if (syscall(SYS_io_submit, context, 1, blocks) < 0) return Error(errno);
  return std::strcmp(text, kReal) == 0 ? "reached" : "nothing read";
}

}  // namespace

std::vector<Way> WaysByInterface() {
  return {
      {"int 0x80 open", [] { return ByInt80(kOpen32); }},
      {"int 0x80 openat", [] { return ByInt80(kOpenAt32); }},
      {"x32 open", [] { return ByX32(SYS_open); }},
      {"x32 openat", [] { return ByX32(SYS_openat); }},
      {"a number with high bits", HighBits},
      {"io_uring", ByRing},
      {"asynchronous reads", AsynchronousIo},
      {"own handler of SIGSYS", OwnSignal},
      {"own filter that allows", [] { return WithFilter(SECCOMP_RET_ALLOW, 0); }},
      {"own filter that traces", [] { return WithFilter(SECCOMP_RET_TRACE, 0); }},
      {"own filter that logs", [] { return WithFilter(SECCOMP_RET_LOG, 0); }},
      {"own listener",
       [] { return WithFilter(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER); }},
      {"own filter for all threads",
       [] { return WithFilter(SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_TSYNC); }},
      {"own vDSO", OwnVdso},
      {"without a vDSO", WithoutVdso},
      {"personality of 32 bits", [] { return Persona(PER_LINUX32); }},
      {"personality of 3 GiB", [] { return Persona(ADDR_LIMIT_3GB); }},
      {"personality with compatible addresses", [] { return Persona(ADDR_COMPAT_LAYOUT); }},
      {"user dispatch of calls", UserDispatch},
  };
}

}  // namespace phantora::escapes
