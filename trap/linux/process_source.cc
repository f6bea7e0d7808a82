#include "trap/linux/process_source.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "trap/linux/proc.h"
#include "trap/linux/process_tree.h"

namespace phantora {
namespace {

// PF_EXITING of include/linux/sched.h: set before a thread lets go of memory and files.
constexpr unsigned kExiting = 0x4;

UniqueFd OpenSpare() { return UniqueFd(open("/", O_PATH | O_CLOEXEC)); }

bool OutOfDescriptors() { return errno == EMFILE || errno == ENFILE; }

absl::Status Error() {
  return OutOfDescriptors() ? absl::ResourceExhaustedError(std::strerror(errno))
                            : absl::NotFoundError(std::strerror(errno));
}

}  // namespace

KernelProcesses::KernelProcesses() : spare_(OpenSpare()) {}

bool KernelProcesses::HasThread(pid_t process, pid_t thread) {
  return syscall(SYS_tgkill, process, thread, 0) == 0;
}

absl::StatusOr<pid_t> KernelProcesses::ProcessOf(pid_t thread) {
  const Proc& proc = Proc::Host();
  char text[1024];
  UniqueFd file = proc.Open(thread, "status");
  const bool used_spare = !file.valid() && OutOfDescriptors() && spare_.valid();
  if (used_spare) {
    spare_.reset();
    file = proc.Open(thread, "status");
  }
  if (!file.valid()) {
    const absl::Status error = Error();
    if (used_spare) spare_ = OpenSpare();
    return error;
  }
  // "Tgid:" is the fourth line, after a name of at most 64 bytes.
  const ssize_t length = read(file.get(), text, sizeof text - 1);
  if (used_spare) {
    file.reset();
    spare_ = OpenSpare();
  }
  if (length <= 0) return absl::NotFoundError("the thread has died");
  text[length] = '\0';
  const char* line = std::strstr(text, "\nTgid:");
  int process = 0;
  if (line == nullptr || sscanf(line, "\nTgid: %d", &process) != 1) {
    return absl::NotFoundError("the thread has no process");
  }
  return process;
}

pid_t KernelProcesses::ParentOf(pid_t process) { return phantora::ParentOf(process); }

bool KernelProcesses::IsEnding(pid_t process) {
  const Proc& proc = Proc::Host();
  const auto ends = [&](pid_t thread) {
    char text[512];
    if (!proc.Read(thread, "stat", text)) return errno == ENOENT || errno == ESRCH;
    // After the name in brackets: its state, five numbers, and its flags (proc(5)).
    const char* name_ends = std::strrchr(text, ')');
    unsigned flags = 0;
    return name_ends != nullptr &&
           sscanf(name_ends + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
           (flags & kExiting) != 0;
  };
  // As a rule the first thread tells; a process may have very many.
  if (!ends(process)) return false;
  const auto threads = proc.Threads(process);
  if (!threads) return !HasThread(process, process);
  return std::all_of(threads->begin(), threads->end(), ends);
}

absl::StatusOr<UniqueFd> KernelProcesses::Open(pid_t process) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!pidfd.valid()) return Error();
  return pidfd;
}

}  // namespace phantora
