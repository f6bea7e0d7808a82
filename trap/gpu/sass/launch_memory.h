// Global memory as one launch sees it: what it writes becomes visible when all of it is over, or
// never. Under the lock of the address space.
#ifndef PHANTORA_TRAP_GPU_SASS_LAUNCH_MEMORY_H_
#define PHANTORA_TRAP_GPU_SASS_LAUNCH_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "uvm_model/address_space.h"

namespace phantora::sass {

// This machine's memory for copies of pages. Keeps what was used, for the next launch. Not
// thread-safe.
class PagePool {
 public:
  static constexpr uint64_t kPage = 4096;
  using Page = std::unique_ptr<uint8_t[]>;

  Page Take() {
    if (pages_.empty()) return std::make_unique_for_overwrite<uint8_t[]>(kPage);
    Page page = std::move(pages_.back());
    pages_.pop_back();
    return page;
  }
  void Give(Page page) {
    if (page != nullptr && pages_.size() < kMost) pages_.push_back(std::move(page));
  }

 private:
  static constexpr size_t kMost = 4096;
  std::vector<Page> pages_;
};

// What the parts of one launch share: the address space as it is before the launch. Nobody changes
// it while there is one of these.
class LaunchPages {
 public:
  // Copies take `most_bytes` of this machine's memory at most, in all parts together.
  LaunchPages(AddressSpace& space, PagePool& pool, uint64_t most_bytes)
      : space_(space), pool_(pool), left_(most_bytes) {}

 private:
  friend class LaunchMemory;
  std::mutex mutex_;  // of all here, while parts are executed at one time
  AddressSpace& space_;
  PagePool& pool_;
  uint64_t left_;
};

// Of one part. Parts do not see what others write.
class LaunchMemory {
 public:
  static constexpr uint64_t kPage = PagePool::kPage;

  explicit LaunchMemory(LaunchPages& pages) : pages_(pages) {
    entries_.fill({~uint64_t{0}, nullptr, nullptr});
  }
  ~LaunchMemory();
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;

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

  // Makes everything visible that `parts` of the same pages have written, as if one part had been
  // executed after the other: where two have changed a byte, the later one's is left. Returns an
  // address that could not be written, if there was one.
  static AddressSpace::Fault Commit(absl::Span<LaunchMemory* const> parts);

  bool out_of_memory() const { return out_of_memory_; }
  uint64_t written_bytes() const { return order_.size() * kPage; }

 private:
  static constexpr uint64_t kEntries = 1024;
  struct Entry {
    uint64_t page;
    const uint8_t* read;
    uint8_t* write;
  };
  struct Copy {
    PagePool::Page bytes;
    // What was there, of memory that others may write meanwhile: only what differs is written back.
    PagePool::Page before;
    bool written = false;
  };

  bool Find(uint64_t page, Entry& entry);
  bool Own(uint64_t page, Entry& entry);
  Copy* MakeCopy(uint64_t page);
  static AddressSpace::Fault CommitTogether(absl::Span<LaunchMemory* const> parts, uint64_t page);

  LaunchPages& pages_;
  bool out_of_memory_ = false;
  absl::flat_hash_map<uint64_t, Copy> copies_;
  std::vector<uint64_t> order_;  // of the first writes
  std::array<Entry, kEntries> entries_;
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_LAUNCH_MEMORY_H_
