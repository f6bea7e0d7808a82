// Memory pages that several processes have, once.
#ifndef PHANTORA_TRAP_MEMORY_PAGE_POOL_H_
#define PHANTORA_TRAP_MEMORY_PAGE_POOL_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

inline constexpr uint64_t kPageBytes = 4096;

// A file of pages, which processes map privately: whoever writes to one gets a copy. A page is
// taken in when a second process offers its like. Pages stay for the whole run. Not thread-safe.
class PagePool {
 public:
  // Its name in /proc/PID/maps.
  static constexpr char kName[] = "phantora-shared";

  // Errors: the kernel has no memfd, or no address space is left.
  static absl::StatusOr<std::unique_ptr<PagePool>> Create();
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // The number of a page of the same bytes; nullopt if there is none (yet).
  std::optional<uint32_t> Offer(pid_t process, const uint8_t* page);
  // Is page `number` there, and the same?
  bool Equals(uint32_t number, const uint8_t* page) const;

  uint32_t pages() const { return pages_; }
  // How many pages that the process has offered in vain are there by now, others having offered
  // their like; counted anew from here.
  uint32_t TakeGiven(pid_t process);
  uint32_t given(pid_t process) const;
  // Cannot be written by who has it.
  int file() const { return reader_.get(); }

 private:
  PagePool() = default;

  UniqueFd writer_, reader_;
  uint8_t* memory_ = nullptr;
  uint32_t pages_ = 0;
  absl::flat_hash_map<uint64_t, uint32_t> by_hash_;
  absl::flat_hash_map<uint64_t, pid_t> seen_;  // who has pages of this hash that are not here
  absl::flat_hash_map<pid_t, uint32_t> given_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_MEMORY_PAGE_POOL_H_
