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
#include "trap/gpu/sass/access_check.h"
#include "trap/gpu/sass/written_bytes.h"
#include "uvm_model/address_space.h"

namespace phantora::sass {

// Whether a launch looks for tainted memory (uvm_model/byte_set.h), and knows each byte that it
// writes.
enum class Tracking : uint8_t {
  kNone,     // no memory is tainted
  kLooking,  // the first tainted byte that is read ends it; what is written is not tainted
  kTainted,  // what is written is, whatever is read
};

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
  // `notes_reads`: parts know each byte that they read, too, and are slow. With a `check` they look
  // at accesses.
  LaunchPages(AddressSpace& space, PagePool& pool, uint64_t most_bytes, Tracking tracking,
              bool notes_reads = false, AccessCheck* check = nullptr)
      : space_(space),
        pool_(pool),
        left_(most_bytes),
        tracking_(tracking),
        notes_reads_(notes_reads),
        check_(check) {}

 private:
  friend class LaunchMemory;
  std::mutex mutex_;  // of all here, while parts are executed at one time
  AddressSpace& space_;
  PagePool& pool_;
  uint64_t left_;
  const Tracking tracking_;
  const bool notes_reads_;
  AccessCheck* const check_;
};

// Of one part. Parts do not see what others write.
class LaunchMemory {
 public:
  static constexpr uint64_t kPage = PagePool::kPage;

  explicit LaunchMemory(LaunchPages& pages) : pages_(pages) {
    entries_.fill({~uint64_t{0}, nullptr, nullptr, nullptr});
  }
  ~LaunchMemory();
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;

  // `bytes` of one page. nullptr: they are not mapped, or (reading) tainted, which ends the launch
  // (see met_taint), or (writing) there is no memory for a copy (see out_of_memory), or the access
  // is wrong (see met_wrong).
  const uint8_t* Read(uint64_t address, uint64_t bytes) {
    const uint64_t page = address / kPage;
    Entry& entry = entries_[page % kEntries];
    if (__builtin_expect(entry.page != page, 0)) return ReadSlowly(address, bytes, entry);
    return entry.read + address % kPage;
  }
  uint8_t* Write(uint64_t address, uint64_t bytes) {
    const uint64_t page = address / kPage;
    Entry& entry = entries_[page % kEntries];
    if (__builtin_expect(entry.page != page || entry.write == nullptr, 0)) {
      return WriteSlowly(address, bytes, entry);
    }
    return entry.write + address % kPage;
  }

  // Makes everything visible that `parts` of the same pages have written, as if one part had been
  // executed after the other: where two have changed a byte, the later one's is left. Returns an
  // address that could not be written, if there was one.
  // Taint becomes what the tracking says; `host_bytes`: how many tainted ones went to memory that
  // the host sees.
  static AddressSpace::Fault Commit(absl::Span<LaunchMemory* const> parts, uint64_t& host_bytes);

  bool out_of_memory() const { return out_of_memory_; }
  bool met_taint() const { return met_taint_; }
  // The access that has given nullptr just now was wrong; goes on with it as hardware does, after
  // its `place` (instruction, block, thread) was noted.
  bool met_wrong() const { return wrong_at_ != nullptr; }
  uint8_t* GoOn(const WrongAccess& place);
  // The same, and nothing is noted.
  uint8_t* GoOn() { return std::exchange(wrong_at_, nullptr); }
  // What there was, in the order of first instances. Of a launch a few kinds are told apart.
  const std::vector<WrongAccess>& wrong() const { return wrong_; }
  // With tracking: appends the ranges of bytes that were written, in order of addresses; one ends
  // where the next does not begin. False after `most`: there are more.
  bool WrittenRanges(size_t most, std::vector<std::pair<uint64_t, uint64_t>>& ranges) const;
  // The same of bytes that were read, if the pages' parts note them. False, too, if they were of
  // more pages than are noted.
  bool ReadRanges(size_t most, std::vector<std::pair<uint64_t, uint64_t>>& ranges) const;

 private:
  static constexpr uint64_t kEntries = 1024;
  using Written = WrittenBytes;
  struct Entry {
    uint64_t page;
    const uint8_t* read;
    uint8_t* write;    // nullptr if it has to be copied first, or each write is to be noted
    Written* written;  // where to note it
  };
  struct Copy {
    PagePool::Page bytes;
    // What was there, of memory that others may write meanwhile: only what differs is written back.
    PagePool::Page before;
    bool written = false;
    std::unique_ptr<Written> bytes_written;  // with tracking
  };

  const uint8_t* ReadSlowly(uint64_t address, uint64_t bytes, Entry& entry);
  uint8_t* WriteSlowly(uint64_t address, uint64_t bytes, Entry& entry);
  // Whether a byte is tainted that this part has not written itself; and of the page, any at all.
  bool ReadsTaint(uint64_t address, uint64_t bytes, bool& page_is_tainted);
  // False: each access to the page has to be looked at.
  bool IsAllRight(uint64_t page);
  // Whether this one is; if not, `at` is where GoOn leads.
  bool IsRight(uint64_t address, uint64_t bytes, bool writes, const uint8_t* at);
  // Of a page: whether a byte that this part has not written itself is one of which `is_marked`.
  template <typename Marked>
  bool Reads(uint64_t address, uint64_t bytes, Marked is_marked) const;
  bool Find(uint64_t page, Entry& entry);
  // `notes_writes`: byte by byte.
  bool Own(uint64_t page, Entry& entry, bool notes_writes);
  static uint64_t CommitTaint(absl::Span<LaunchMemory* const> parts);
  Copy* MakeCopy(uint64_t page);
  static AddressSpace::Fault CommitTogether(absl::Span<LaunchMemory* const> parts, uint64_t page);

  LaunchPages& pages_;
  bool out_of_memory_ = false, met_taint_ = false, too_many_reads_ = false;
  WrongAccess met_, last_;
  uint8_t* wrong_at_ = nullptr;
  std::vector<WrongAccess> wrong_;
  absl::flat_hash_map<uint64_t, Copy> copies_;
  std::vector<uint64_t> order_;  // of the first writes
  absl::flat_hash_map<uint64_t, Written> reads_;
  std::array<Entry, kEntries> entries_;
};

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_LAUNCH_MEMORY_H_
