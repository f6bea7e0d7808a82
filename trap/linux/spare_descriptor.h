// A descriptor kept back for what must not fail when all others are in use.
#ifndef PHANTORA_TRAP_LINUX_SPARE_DESCRIPTOR_H_
#define PHANTORA_TRAP_LINUX_SPARE_DESCRIPTOR_H_

#include <mutex>

#include "absl/functional/function_ref.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// Ranks decide how many descriptors the supervisor needs, and its limit may be low. What /proc
// tells decides who may go on: without it a run would wait for good for a thread that sleeps.
// For any thread.
class SpareDescriptor {
 public:
  SpareDescriptor() : spare_(Take()) {}

  // Opens a file with `flags` and O_CLOEXEC, by the spare descriptor if there is no other, and
  // gives it to `use`, which does not keep it; invalid if it cannot be had, errno says why.
  void Open(const char* path, int flags, absl::FunctionRef<void(UniqueFd)> use);

 private:
  static UniqueFd Take();

  std::mutex mutex_;
  UniqueFd spare_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_SPARE_DESCRIPTOR_H_
