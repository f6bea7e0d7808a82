// Memory of the thread that makes a call, for as long as the call waits for its answer.
#ifndef PHANTORA_TRAP_LINUX_CHECKED_MEMORY_H_
#define PHANTORA_TRAP_LINUX_CHECKED_MEMORY_H_

#include <cstdint>

#include "trap/linux/notify_listener.h"
#include "trap/linux/remote_memory.h"

namespace phantora {

// A caller may be killed while it is served, and its number be another thread's then. So what was
// read first counts only if the call is pending afterwards, and nothing is written unless it is
// (seccomp_unotify(2), "Fetching arguments"). Later reads are not checked again: if the caller dies
// between, what a stranger's memory makes of its call stays with what is dead. Not by a kept
// /proc/TID/mem: that follows the memory, not the process, and after vfork() and exec() it would be
// the parent's.
class CheckedMemory : public RemoteMemory {
 public:
  // `just_seen`: since the call was received, the thread was seen to be its process's
  // (Tracees::CallerOf), which is as good as one look more before the first write.
  CheckedMemory(pid_t thread, uint64_t call, NotifyListener* listener, bool just_seen = false)
      : RemoteMemory(thread), call_(call), listener_(listener), just_seen_(just_seen) {}

  bool Read(RemoteAddress from, void* out, uint64_t length) const override {
    just_seen_ = false;
    if (!RemoteMemory::Read(from, out, length)) return false;
    if (!has_read_) has_read_ = listener_->StillPending(call_);
    return has_read_;
  }
  bool Write(RemoteAddress to, const void* data, uint64_t length) const override {
    if (!just_seen_ && !listener_->StillPending(call_)) return false;
    just_seen_ = false;
    return RemoteMemory::Write(to, data, length);
  }

 private:
  const uint64_t call_;
  NotifyListener* const listener_;
  mutable bool just_seen_;
  mutable bool has_read_ = false;  // and was pending after that
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_CHECKED_MEMORY_H_
