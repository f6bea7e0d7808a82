// Memory of a process that it has given to the GPU: OS descriptors, which
// libcuda uses for its own buffers and for cuMemHostRegister.
#ifndef PHANTORA_TRAP_RM_TRACEE_MEMORY_H_
#define PHANTORA_TRAP_RM_TRACEE_MEMORY_H_

#include <sys/types.h>

#include "trap/linux/remote_memory.h"
#include "uvm_model/memory_object.h"

namespace phantora {

class TraceeMemory : public MemoryObject {
 public:
  TraceeMemory(pid_t process, RemoteAddress address, uint64_t size)
      : MemoryObject(MemoryKind::kExternal, size),
        process_(process),
        memory_(process),
        address_(address) {}

  bool Read(uint64_t offset, void* out, uint64_t length) override {
    return !dead_ && Contains(offset, length) && memory_.Read(address_ + offset, out, length);
  }
  bool Write(uint64_t offset, const void* data, uint64_t length) override {
    return !dead_ && Contains(offset, length) && memory_.Write(address_ + offset, data, length);
  }
  bool Zero(uint64_t offset, uint64_t length) override;

  pid_t process() const { return process_; }
  // The process has ended; its id may soon be another's.
  void ProcessDied() { dead_ = true; }

 private:
  const pid_t process_;
  const RemoteMemory memory_;
  const RemoteAddress address_;
  bool dead_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_TRACEE_MEMORY_H_
