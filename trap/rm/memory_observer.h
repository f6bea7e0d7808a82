// Who wants to know how much video memory processes hold.
#ifndef PHANTORA_TRAP_RM_MEMORY_OBSERVER_H_
#define PHANTORA_TRAP_RM_MEMORY_OBSERVER_H_

#include <sys/types.h>

#include <cstdint>

namespace phantora {

class MemoryObserver {
 public:
  virtual ~MemoryObserver() = default;
  // `process` has allocated `bytes` of GPU `gpu`'s memory, or freed them if negative. What
  // others have duplicates of is its own until the last one goes, which may be after its
  // death.
  virtual void VideoMemory(pid_t process, int gpu, int64_t bytes) = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_MEMORY_OBSERVER_H_
