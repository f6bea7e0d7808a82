// Which word of shared memory an address of a process is.
#ifndef PHANTORA_TRAP_LINUX_SHARED_WORD_H_
#define PHANTORA_TRAP_LINUX_SHARED_WORD_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "trap/linux/proc.h"

namespace phantora {

// As the kernel tells futexes apart that are not private (get_futex_key in kernel/futex/core.c): by
// the file that is mapped, and the offset in it. Anonymous shared memory has a file of its own.
struct SharedWord {
  std::string file;  // device and inode, as in /proc/PID/maps
  uint64_t offset = 0;

  bool operator==(const SharedWord&) const = default;

  // nullopt if nothing is mapped there, or nothing that is shared.
  static std::optional<SharedWord> Of(pid_t process, uint64_t address, const Proc& files);
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_SHARED_WORD_H_
