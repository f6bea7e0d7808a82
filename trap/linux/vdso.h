// Makes clock reads of a process system calls again.
#ifndef PHANTORA_TRAP_LINUX_VDSO_H_
#define PHANTORA_TRAP_LINUX_VDSO_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phantora {

// The kernel maps the same vDSO into every 64-bit process. Its functions that read
// clocks are replaced, in the process's private copy, by the system calls that they
// stand for. What libraries have looked up stays right, since addresses do not change.
class Vdso {
 public:
  // Learns where the functions are from this process's own vDSO. Errors: there is none.
  static absl::StatusOr<Vdso> Create();

  // `process` must be stopped in a system call, before it has other threads. Needs the
  // permission to write its memory as a debugger does.
  absl::Status Redirect(pid_t process) const;

 private:
  struct Function {
    uint64_t offset;
    int call;
  };
  std::vector<Function> functions_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_VDSO_H_
