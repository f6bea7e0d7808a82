// The ranges of one process's address space that UVM knows.
#ifndef PHANTORA_TRAP_UVM_VA_RANGES_H_
#define PHANTORA_TRAP_UVM_VA_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace phantora {

// Addresses and lengths in bytes, multiples of a page; ranges do not overlap.
class VaRanges {
 public:
  enum class Kind {
    kManaged,        // backed by the process's file; there is a mapping of the processor's
    kSemaphorePool,  // likewise, but the range is there before the processor's mapping
    kExternal,       // of memory that RM allocated
    kSparse,         // reads zero
  };
  struct Range {
    uint64_t length;
    Kind kind;

    // The process's file lies at the range's own address.
    bool is_of_file() const { return kind == Kind::kManaged || kind == Kind::kSemaphorePool; }
  };
  using Piece = std::pair<uint64_t, uint64_t>;  // base, length
  enum class Outcome { kDone, kInUse, kFull };

  // `most`: a bound on what one process can make the supervisor keep.
  explicit VaRanges(size_t most) : most_(most) {}

  // Nothing of it may be in a range already.
  Outcome Add(uint64_t base, uint64_t length, Kind kind);

  // A new managed mapping of the processor takes the place of what was mapped there: of managed
  // ranges, parts of it end, and what lies beside stays, as the kernel splits its mappings (uvm.c
  // uvm_vm_open_managed, uvm_vm_close_managed). kInUse, and nothing is changed, if a range of
  // another kind is in the way (uvm_va_range_create_mmap), unless it is the mapping of a semaphore
  // pool (uvm.c uvm_mmap). `ended`: the parts of old ranges that
  // are no more.
  Outcome Replace(uint64_t base, uint64_t length, std::vector<Piece>* ended);

  // The range that holds all of [base, base + length); nullptr if there is none.
  const Range* Around(uint64_t base, uint64_t length) const;
  // The range that begins there; nullptr if there is none.
  const Range* At(uint64_t base) const;
  void Remove(uint64_t base) { ranges_.erase(base); }

  const std::map<uint64_t, Range>& all() const { return ranges_; }

 private:
  using Ranges = std::map<uint64_t, Range>;
  // The first that ends after `address`.
  Ranges::iterator EndingAfter(uint64_t address);

  const size_t most_;
  Ranges ranges_;  // by base
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_UVM_VA_RANGES_H_
