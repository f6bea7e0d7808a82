// Memory pages that several processes have, once.
#ifndef PHANTORA_TRAP_MEMORY_PAGE_POOL_H_
#define PHANTORA_TRAP_MEMORY_PAGE_POOL_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

inline constexpr uint64_t kPageBytes = 4096;

// A file of pages, which processes map privately: whoever writes to one gets a copy. A page is
// taken in when a second process offers its like, and keeps its number as long as anybody has it.
//
// Every address has a place of its own in the file, neighbours beside each other, as far as they
// lie in one window of 64 MiB: processes that run alike have the same at the same addresses, so
// that one mapping shows long stretches of it, whatever each has written in between. What is
// elsewhere, or comes to an address later, gets another place. Not thread-safe.
class PagePool {
 public:
  // Its name in /proc/PID/maps.
  static constexpr char kName[] = "phantora-shared";

  // Errors: the kernel has no memfd, or no address space is left.
  static absl::StatusOr<std::unique_ptr<PagePool>> Create();
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  static constexpr uint64_t kWindowBytes = 64 << 20;  // of addresses, and of the file

  // The number that a page at this address best has; nullopt: there is no room for it.
  std::optional<uint32_t> PlaceOf(uint64_t address);
  // The number of a page of the same bytes; nullopt if there is none (yet). It is put at `place`,
  // if that is free, unless `next` (nullptr: not known), the page after it, follows it elsewhere.
  std::optional<uint32_t> Offer(pid_t process, const uint8_t* page,
                                std::optional<uint32_t> place = std::nullopt,
                                const uint8_t* next = nullptr);
  // Zeros are at this place now, and stay. False: something else is there.
  bool TakeZeros(uint32_t place);
  // Those that `used` does not name make room for others; `used` has as many as places(). Their
  // memory stays taken, since nobody may write to the file, or punch a hole into it.
  void Recycle(const std::vector<bool>& used);
  size_t places() const { return places_.size(); }
  // Is page `number` there, and the same? Zeros are not asked for.
  bool Equals(uint32_t number, const uint8_t* page) const;

  // That are not zeros.
  uint32_t pages() const { return pages_; }
  // How many pages that the process has offered in vain are there by now, others having offered
  // their like; counted anew from here.
  uint32_t TakeGiven(pid_t process);
  uint32_t given(pid_t process) const;
  // Cannot be written by who has it.
  int file() const { return reader_.get(); }

 private:
  enum class Place : uint8_t { kFree, kZeros, kPage, kStale };
  static constexpr uint32_t kWindowPages = kWindowBytes / kPageBytes;

  PagePool() = default;
  // The first number of a window that nobody has; nullopt: there is none any more.
  std::optional<uint32_t> NewWindow(bool for_others);
  // A free place for what cannot be at its own.
  std::optional<uint32_t> OtherPlace();

  UniqueFd writer_, reader_;
  uint8_t* memory_ = nullptr;
  uint32_t pages_ = 0;
  std::vector<Place> places_;                        // of all windows
  absl::flat_hash_map<uint64_t, uint32_t> windows_;  // first numbers, by address / kWindowBytes
  std::vector<bool> is_for_others_;                  // by window of the file
  std::vector<uint32_t> stale_others_;               // places in them
  uint32_t next_other_ = 0;  // a multiple of kWindowPages: there is no window for others
  absl::flat_hash_map<uint64_t, uint32_t> by_hash_;
  absl::flat_hash_map<uint64_t, pid_t> seen_;  // who has pages of this hash that are not here
  absl::flat_hash_map<pid_t, uint32_t> given_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_MEMORY_PAGE_POOL_H_
