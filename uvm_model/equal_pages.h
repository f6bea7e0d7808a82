// Pages of GPUs' memory that became equal separately, made one.
#ifndef PHANTORA_UVM_MODEL_EQUAL_PAGES_H_
#define PHANTORA_UVM_MODEL_EQUAL_PAGES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "uvm_model/device_memory.h"
#include "uvm_model/page_store.h"

namespace phantora {

// Looks through memory that has been written and has come to rest, a part in each step, for pages
// that are elsewhere already (ranks that load the same weights, each for itself) and for zeros that
// came in pieces. What nobody writes is looked at once. Not thread-safe.
class EqualPages {
 public:
  // A round over all memory begins when `worth_while` pages have been made since the last one.
  explicit EqualPages(PageStore* store, uint64_t worth_while = 4096)
      : store_(store), worth_while_(worth_while) {}

  // Looks at `pages` pages at most.
  void Step(uint64_t pages);

  // Pages that were given back, of all that were looked at.
  uint64_t found() const { return found_; }
  uint64_t looked() const { return looked_; }

 private:
  // Returns how many pages were looked at.
  uint64_t Look(DeviceMemory& memory, uint64_t leaf);

  PageStore* const store_;
  const uint64_t worth_while_;
  uint64_t made_ = 0;  // pages that the store had made when the present round began
  bool in_round_ = false;
  bool again_ = false;  // something has come to rest that is to be looked at
  size_t object_ = 0;   // what is next, in the store's list of memory
  uint64_t leaf_ = 0;
  // A page with bytes of this hash. It may be another's by now: bytes are compared.
  absl::flat_hash_map<uint64_t, PageStore::Page> by_hash_;
  uint64_t found_ = 0, looked_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_EQUAL_PAGES_H_
