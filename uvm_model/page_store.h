// Host memory behind the emulated GPUs' memory: pages that any number of places have, once.
#ifndef PHANTORA_UVM_MODEL_PAGE_STORE_H_
#define PHANTORA_UVM_MODEL_PAGE_STORE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace phantora {

class DeviceMemory;

// Where the host's memory comes from.
class HostSupply {
 public:
  virtual ~HostSupply() = default;
  // May so many bytes more be taken?
  virtual bool Take(uint64_t bytes) = 0;
  // May memory be allocated still, of which nothing is taken yet?
  virtual bool MayAllocate() = 0;
  // Is so much taken that it is worth some time to take less?
  virtual bool IsTight() const = 0;
  // A page was needed, and there is none.
  virtual void UsedUp() = 0;
};

// Pages of 4 KiB, known by number and counted by the places that refer to them: a page that one
// place has may be written, a page of several may not. Zeros are not a page but number 0.
//
// Pages come out of blocks of 2 MiB, so that those of a large copy lie together; a block of which
// nobody has anything goes back to the kernel. (Huge pages are not asked for: where memory is
// fragmented the kernel moves other pages for them, which takes ten times as long as it saves.)
// Not thread-safe.
class PageStore {
 public:
  using Page = uint32_t;
  static constexpr Page kZeros = 0;
  // What New() gives when there is no memory; not a page.
  static constexpr Page kNone = UINT32_MAX;
  static constexpr uint64_t kPageBytes = 4096;

  // Address space for `bytes` at most (rounded to blocks) is reserved, none of it taken. If the
  // process may not reserve so much, it is less; see capacity().
  explicit PageStore(uint64_t bytes);
  ~PageStore();
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;

  // Without one, or before, memory is taken as the kernel gives it. `supply` must outlive this.
  void set_supply(HostSupply* supply) { supply_ = supply; }
  bool MayAllocate() const { return supply_ == nullptr || supply_->MayAllocate(); }

  bool IsTight() const { return supply_ != nullptr && supply_->IsTight(); }

  // A page of one place. What is in it is anything: its taker writes all of it. kNone beyond the
  // capacity, or when the supply or the kernel gives no memory.
  Page New();
  // One place more for a page that is not kZeros. False if no more can be counted: copy it.
  bool Share(Page page);
  // One place less. kZeros may be given up too.
  void Release(Page page);

  bool is_shared(Page page) const { return references_[page] > 1; }
  bool is_used(Page page) const { return references_[page] > 0; }
  uint8_t* At(Page page) { return base_ + page * kPageBytes; }
  const uint8_t* At(Page page) const { return base_ + page * kPageBytes; }

  // In bytes.
  uint64_t capacity() const { return (end_ - kBlockPages) * kPageBytes; }
  // What the kernel was asked for and has not got back.
  uint64_t held() const { return held_blocks_ * kBlockPages * kPageBytes; }
  // Of pages that somebody has, and what that would be if nobody shared.
  uint64_t used() const { return used_ * kPageBytes; }
  uint64_t used_unshared() const { return references_total_ * kPageBytes; }

  // The most there was of the first and of memory, whatever is in it, at any time.
  uint64_t peak_used() const { return peak_used_ * kPageBytes; }
  uint64_t allocated() const { return allocated_; }
  uint64_t peak_allocated() const { return peak_allocated_; }
  // Pages that were ever given out.
  uint64_t made() const { return made_; }

  // All memory whose pages are here, in the order in which it was made, but for what was removed:
  // the last takes its place.
  void Add(DeviceMemory* memory, uint64_t size);
  void Remove(DeviceMemory* memory, uint64_t size);
  const std::vector<DeviceMemory*>& objects() const { return objects_; }

  static bool IsZero(const uint8_t* bytes, uint64_t length);

  // For finding mistakes: memory made from now on does everything a second time, plainly, and
  // compares. Costs what nothing here is to cost.
  void set_compares(bool compares) { compares_ = compares; }
  bool compares() const { return compares_; }
  void Differs() { ++differences_; }
  uint64_t differences() const { return differences_; }

 private:
  static constexpr uint32_t kBlockPages = 512;
  // Blocks that nobody uses and that are kept nevertheless, against giving back and taking in turn.
  static constexpr size_t kSpareBlocks = 8;

  struct Block {
    std::array<uint64_t, kBlockPages / 64> taken = {};  // a bit each
    uint32_t used = 0;
    uint8_t touched = 0;  // a bit for 64 pages: the kernel has given memory for them
    bool held = false;    // the kernel may have given memory for it
    bool listed = false;  // in partial_
  };

  Page TryNew();
  Page NewIn(uint32_t block);
  bool Hold(uint32_t block);
  void Emptied(uint32_t block);

  uint8_t* base_ = nullptr;         // block 0 is never used: its first page is kZeros
  uint32_t* references_ = nullptr;  // by page
  uint64_t mapped_pages_ = 0;       // of the reservation
  uint64_t end_ = kBlockPages;      // pages; what lies before may be given out
  std::vector<Block> blocks_;       // as far as they were ever used
  std::vector<uint32_t> partial_;   // blocks that may have room
  std::vector<uint32_t> spare_;     // held, and empty
  std::vector<uint32_t> returned_;  // not held any more
  uint32_t current_ = 0;            // the block that is being filled; 0: none
  uint64_t held_blocks_ = 0, used_ = 0, references_total_ = 0;
  HostSupply* supply_ = nullptr;
  uint64_t granted_blocks_ = 0;                  // by it
  uint64_t made_ = 0, peak_used_ = 0;            // pages
  uint64_t allocated_ = 0, peak_allocated_ = 0;  // bytes
  std::vector<DeviceMemory*> objects_;
  bool compares_ = false;
  uint64_t differences_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_PAGE_STORE_H_
