// Memory of a process that it has given to the GPU: OS descriptors, which
// libcuda uses for its own buffers and for cuMemHostRegister.
#ifndef PHANTORA_TRAP_RM_TRACEE_MEMORY_H_
#define PHANTORA_TRAP_RM_TRACEE_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "trap/linux/remote_memory.h"
#include "trap/linux/unique_fd.h"
#include "uvm_model/memory_object.h"

namespace phantora {

// The address space that a process had when this was made: /proc/PID/mem, kept open. Once the
// process has died or executed another program, every access fails; its number, which may be
// another process's by then, is not used again. (Threads that share the address space keep it
// alive.) Writes also reach private pages that the process itself may only read, as a debugger's
// do: they are its own.
class TraceeAddressSpace {
 public:
  // NotFound without such a process, PermissionDenied, or ResourceExhausted without descriptors.
  static absl::StatusOr<std::shared_ptr<TraceeAddressSpace>> Open(pid_t process);

  // All or nothing as seen by the caller; false when any byte is inaccessible or it has ended.
  bool Read(RemoteAddress from, void* out, uint64_t length) const;
  bool Write(RemoteAddress to, const void* data, uint64_t length) const;
  bool HasEnded() const;

 private:
  TraceeAddressSpace(pid_t process, UniqueFd pidfd, UniqueFd file)
      : process_(process), pidfd_(std::move(pidfd)), file_(std::move(file)) {}
  // By the process's number, which is twice as fast; false: some of it, or another's, was read.
  bool ReadByNumber(RemoteAddress from, void* out, uint64_t length) const;

  const pid_t process_;
  const UniqueFd pidfd_;  // invalid if descriptors were short: then nothing is read by number
  const UniqueFd file_;
};

// One descriptor for all the memory that a process registers.
class TraceeAddressSpaces {
 public:
  // The present address space of `process`, which must be waiting for the answer to a call, so
  // that its number is its own. Errors as of TraceeAddressSpace::Open.
  absl::StatusOr<std::shared_ptr<TraceeAddressSpace>> Of(pid_t process);
  void ProcessDied(pid_t process) { spaces_.erase(process); }

 private:
  std::map<pid_t, std::weak_ptr<TraceeAddressSpace>> spaces_;
};

class TraceeMemory : public MemoryObject {
 public:
  TraceeMemory(std::shared_ptr<const TraceeAddressSpace> space, RemoteAddress address,
               uint64_t size)
      : MemoryObject(MemoryKind::kExternal, size), space_(std::move(space)), address_(address) {}

  bool Read(uint64_t offset, void* out, uint64_t length) override {
    return Contains(offset, length) && space_->Read(address_ + offset, out, length);
  }
  bool Write(uint64_t offset, const void* data, uint64_t length) override {
    return Contains(offset, length) && space_->Write(address_ + offset, data, length);
  }
  bool Zero(uint64_t offset, uint64_t length) override;

 private:
  const std::shared_ptr<const TraceeAddressSpace> space_;
  const RemoteAddress address_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_TRACEE_MEMORY_H_
