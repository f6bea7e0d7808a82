// Memory of the thread that makes a call, for as long as the call waits for its answer.
#ifndef PHANTORA_TRAP_LINUX_CHECKED_MEMORY_H_
#define PHANTORA_TRAP_LINUX_CHECKED_MEMORY_H_

#include <cstdint>

#include "trap/linux/notify_listener.h"
#include "trap/linux/remote_memory.h"

namespace phantora {

// A caller may be killed while it is served, and its number be another thread's then. So what was
// read counts only if the call is pending afterwards, and nothing is written unless it is
// (seccomp_unotify(2), "Fetching arguments"). Not by a kept /proc/TID/mem: that follows the
// memory, not the process, and after vfork() and exec() it would be the parent's.
class CheckedMemory : public RemoteMemory {
 public:
  CheckedMemory(pid_t thread, uint64_t call, NotifyListener* listener)
      : RemoteMemory(thread), call_(call), listener_(listener) {}

  bool Read(RemoteAddress from, void* out, uint64_t length) const override {
    return RemoteMemory::Read(from, out, length) && listener_->StillPending(call_);
  }
  bool Write(RemoteAddress to, const void* data, uint64_t length) const override {
    return listener_->StillPending(call_) && RemoteMemory::Write(to, data, length);
  }

 private:
  const uint64_t call_;
  NotifyListener* const listener_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_CHECKED_MEMORY_H_
