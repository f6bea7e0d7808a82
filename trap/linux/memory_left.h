// How much memory this process and those below it may still take.
#ifndef PHANTORA_TRAP_LINUX_MEMORY_LEFT_H_
#define PHANTORA_TRAP_LINUX_MEMORY_LEFT_H_

#include <cstdint>
#include <string>

namespace phantora {

struct MemoryLeft {
  uint64_t total = 0, available = 0;  // bytes; zeros if nothing can be had
  // A control group allows less than the machine has: it ends a process when that is used up.
  bool by_group = false;
};

// Where the kernel tells of it. proc(5), cgroup-v2.rst, cgroup-v1/memory.rst.
struct MemoryFiles {
  std::string meminfo = "/proc/meminfo", groups = "/proc/self/cgroup", mount = "/sys/fs/cgroup";
};

// MemTotal and MemAvailable of the machine, or the limit of the narrowest control group that this
// process is in and what is left of it; caches of files that can be dropped count as left.
MemoryLeft ReadMemoryLeft(const MemoryFiles& files = MemoryFiles());

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_MEMORY_LEFT_H_
