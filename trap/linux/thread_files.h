// What the kernel tells of threads in /proc.
#ifndef PHANTORA_TRAP_LINUX_THREAD_FILES_H_
#define PHANTORA_TRAP_LINUX_THREAD_FILES_H_

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "trap/linux/unique_fd.h"

namespace phantora {

// An interface, so that tests make up threads. A thread's files are named as in /proc/TID:
// "schedstat", "syscall", "stat", "status", "comm" (proc(5)).
class ThreadFiles {
 public:
  virtual ~ThreadFiles() = default;

  // All threads of a process (/proc/PID/task), in any order; nullopt if it is gone, or descriptors
  // have run out.
  virtual std::optional<std::vector<pid_t>> Threads(pid_t process) const = 0;
  // For many reads of one file; invalid if it cannot be had.
  virtual UniqueFd Open(pid_t thread, const char* name) const = 0;
  // Reads `size` - 1 bytes at most, and ends them with a zero; false if the thread is gone. From
  // `kept`, which is Open()'s, if that is valid.
  virtual bool Read(pid_t thread, const char* name, const UniqueFd& kept, char* out,
                    size_t size) const = 0;

  template <size_t kSize>
  bool Read(pid_t thread, const char* name, char (&out)[kSize],
            const UniqueFd& kept = UniqueFd()) const {
    return Read(thread, name, kept, out, kSize);
  }

  // Those of this host. Never destroyed.
  static const ThreadFiles& Host();
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_THREAD_FILES_H_
