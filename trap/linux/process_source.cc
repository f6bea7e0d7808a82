#include "trap/linux/process_source.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "trap/linux/proc.h"
#include "trap/linux/process_tree.h"

namespace phantora {
namespace {

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

absl::StatusOr<UniqueFd> KernelProcesses::Open(pid_t process) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!pidfd.valid()) return Error();
  return pidfd;
}

}  // namespace phantora
