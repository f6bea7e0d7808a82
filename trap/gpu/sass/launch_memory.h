// Global memory as one launch sees it: what it writes becomes visible when all of it is over, or
// never. Under the lock of the address space; not thread-safe.
#ifndef PHANTORA_TRAP_GPU_SASS_LAUNCH_MEMORY_H_
#define PHANTORA_TRAP_GPU_SASS_LAUNCH_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "uvm_model/address_space.h"

namespace phantora::sass {

class LaunchMemory {
 public:
  static constexpr uint64_t kPage = 4096;

  // Copies of pages take `most_bytes` of this machine's memory at most.
  LaunchMemory(AddressSpace& space, uint64_t most_bytes) : space_(space), most_bytes_(most_bytes) {
    Forget();
  }

  // The bytes from `address` to the end of its page. nullptr: they are not mapped, or (writing)
  // there is no memory for a copy (see out_of_memory).
  const uint8_t* Read(uint64_t address) {
    const uint64_t page = address / kPage;
    Entry& entry = entries_[page % kEntries];
    if (__builtin_expect(entry.page != page, 0) && !Find(page, entry)) return nullptr;
    return entry.read + address % kPage;
  }
  uint8_t* Write(uint64_t address) {
    const uint64_t page = address / kPage;
    Entry& entry = entries_[page % kEntries];
    if (__builtin_expect(entry.page != page, 0) && !Find(page, entry)) return nullptr;
    if (__builtin_expect(entry.write == nullptr, 0) && !Own(page, entry)) return nullptr;
    return entry.write + address % kPage;
  }

  // Makes everything visible. Returns an address that could not be written, if there was one.
  AddressSpace::Fault Commit();

  bool out_of_memory() const { return out_of_memory_; }
  uint64_t written_bytes() const { return written_pages_ * kPage; }

 private:
  static constexpr uint64_t kEntries = 1024;
  struct Entry {
    uint64_t page;
    const uint8_t* read;
    uint8_t* write;
  };
  struct Copy {
    std::unique_ptr<uint8_t[]> bytes;
    // What was there, of memory that others may write meanwhile: only what differs is written back.
    std::unique_ptr<uint8_t[]> before;
    bool written = false;
  };

  void Forget();
  bool Find(uint64_t page, Entry& entry);
  bool Own(uint64_t page, Entry& entry);
  Copy* MakeCopy(uint64_t page);

  AddressSpace& space_;
  const uint64_t most_bytes_;
  uint64_t copied_bytes_ = 0;
  uint64_t written_pages_ = 0;
  bool out_of_memory_ = false;
  absl::flat_hash_map<uint64_t, Copy> copies_;
  std::vector<uint64_t> order_;  // of the first writes
  std::array<Entry, kEntries> entries_;
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_LAUNCH_MEMORY_H_
