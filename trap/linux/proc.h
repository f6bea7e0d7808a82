// What the kernel tells in /proc of the machine, its processes and their threads.
#ifndef PHANTORA_TRAP_LINUX_PROC_H_
#define PHANTORA_TRAP_LINUX_PROC_H_

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trap/linux/unique_fd.h"

namespace phantora {

// An interface, so that tests make up threads and processes. What is read at once can be read when
// all descriptors are in use. A file is named as in /proc/NUMBER:
// "schedstat", "syscall", "wchan", "stat", "status", "comm", "maps" (proc(5)).
class Proc {
 public:
  virtual ~Proc() = default;

  // All of the machine that this process may see, in any order.
  virtual std::vector<pid_t> Processes() const = 0;
  // All threads of a process (/proc/PID/task), in any order; nullopt if it is gone.
  virtual std::optional<std::vector<pid_t>> Threads(pid_t process) const = 0;
  // `flags` of open(2), O_CLOEXEC is added; invalid if the file cannot be had, errno says why.
  virtual UniqueFd Open(pid_t number, const char* name, int flags) const = 0;
  UniqueFd Open(pid_t number, const char* name) const { return Open(number, name, O_RDONLY); }
  // Reads `size` - 1 bytes at most, and ends them with a zero; false if the thread is gone. From
  // `kept`, which is Open()'s, if that is valid.
  virtual bool Read(pid_t number, const char* name, const UniqueFd& kept, char* out,
                    size_t size) const = 0;

  template <size_t kSize>
  bool Read(pid_t number, const char* name, char (&out)[kSize],
            const UniqueFd& kept = UniqueFd()) const {
    return Read(number, name, kept, out, kSize);
  }
  // The whole of a file that has lines; empty if it cannot be had.
  virtual std::string Text(pid_t number, const char* name) const = 0;

  // Does `wchan` name no function for a thread that has been woken and is on its way to a
  // processor, nor for one that may yet find that it need not sleep? Since Linux 5.16
  // (42a20f86dc19, "sched: Add wrapper for get_wchan() to keep task blocked").
  virtual bool ChannelsAreExact() const = 0;

  struct Memory {
    uint64_t total = 0, available = 0;  // bytes; zeros if it cannot be had
  };
  // Of the machine, or of the control groups around this process (ReadMemoryLeft).
  virtual Memory MachineMemory() const = 0;

  // That of this host. Never destroyed.
  static const Proc& Host();
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_PROC_H_
