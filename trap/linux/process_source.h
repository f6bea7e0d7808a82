// What the kernel tells of threads and processes that have numbers: behind an interface, because
// numbers are used anew, and tests have to do that at the worst moment.
#ifndef PHANTORA_TRAP_LINUX_PROCESS_SOURCE_H_
#define PHANTORA_TRAP_LINUX_PROCESS_SOURCE_H_

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class ProcessSource {
 public:
  virtual ~ProcessSource() = default;

  // Does this process have this thread now?
  virtual bool HasThread(pid_t process, pid_t thread) = 0;
  // The process that has the thread. NotFound, or ResourceExhausted without descriptors.
  virtual absl::StatusOr<pid_t> ProcessOf(pid_t thread) = 0;
  // 0 if it is gone.
  virtual pid_t ParentOf(pid_t process) = 0;
  // Are all of its threads past their last instruction, so that the kernel takes away what it has,
  // or is it gone already?
  virtual bool IsEnding(pid_t process) = 0;
  // A pidfd. NotFound, or ResourceExhausted.
  virtual absl::StatusOr<UniqueFd> Open(pid_t process) = 0;
};

class KernelProcesses : public ProcessSource {
 public:
  KernelProcesses();

  bool HasThread(pid_t process, pid_t thread) override;
  absl::StatusOr<pid_t> ProcessOf(pid_t thread) override;
  pid_t ParentOf(pid_t process) override;
  bool IsEnding(pid_t process) override;
  absl::StatusOr<UniqueFd> Open(pid_t process) override;

 private:
  // Given up for a moment when descriptors have run out, so that callers are known even then.
  UniqueFd spare_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_PROCESS_SOURCE_H_
