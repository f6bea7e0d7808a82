// Memory of a GPU, of which the host has only what differs.
#ifndef PHANTORA_UVM_MODEL_DEVICE_MEMORY_H_
#define PHANTORA_UVM_MODEL_DEVICE_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "uvm_model/elsewhere.h"
#include "uvm_model/memory_object.h"
#include "uvm_model/page_store.h"

namespace phantora {

// Each page is zeros, which take nothing, or a page of a PageStore, which other places of any GPU
// may have too: a copy takes references, and who writes gets a page of his own. Zeros are known
// without looking; what is written is looked at once, so that zeros that come from elsewhere take
// nothing either.
//
// A process may map the memory (BAR1). From then on it is an ordinary file, since what is written
// through a mapping is not seen here; all of it, as the drivers map whole objects.
class DeviceMemory : public MemoryObject {
 public:
  // `size`, in bytes, is rounded up to pages.
  DeviceMemory(std::shared_ptr<PageStore> store, uint64_t size);
  ~DeviceMemory() override;

  // Write is false, besides, when the host has no memory left (PageStore::New).
  bool Read(uint64_t offset, void* out, uint64_t length) override;
  bool Write(uint64_t offset, const void* data, uint64_t length) override;
  bool Zero(uint64_t offset, uint64_t length) override;
  Run RunAt(uint64_t offset, uint64_t length) override;
  // nullptr before somebody has mapped it.
  uint8_t* HostPointer() override;
  int MappableFd() override;

  // As Write of what is there. The ranges should not overlap, as CUDA demands of copies.
  bool CopyFrom(DeviceMemory& from, uint64_t from_offset, uint64_t offset, uint64_t length);
  // The bytes at `offset`, which are not known to be zeros (RunAt), as far as they lie together in
  // this process, at most `length`. Valid until the next change.
  const uint8_t* DataAt(uint64_t offset, uint64_t length, uint64_t* contiguous);
  // Fills whole pages with `page`, whose bytes are those of kPageBytes at `data`.
  bool Repeat(uint64_t offset, const uint8_t* data, uint64_t pages);

  // From now on somebody may have bytes of it in the place of this, who outlives this or is given
  // up before (nullptr). Who it is asks and is told at every access but of what follows.
  void set_elsewhere(Elsewhere* elsewhere) { elsewhere_ = elsewhere; }
  // So that what follows finds all of it here.
  void Bring(uint64_t offset, uint64_t length) {
    if (elsewhere_ != nullptr) elsewhere_->Bring(*this, offset, length);
  }
  bool ReadHere(uint64_t offset, void* out, uint64_t length);
  bool WriteHere(uint64_t offset, const void* data, uint64_t length);
  Run RunHere(uint64_t offset, uint64_t length);
  // Of whole pages: they are zeros here.
  void DropHere(uint64_t offset, uint64_t length) {
    ZeroPages(offset / kPageBytes, length / kPageBytes);
    if (plain_ != nullptr) plain_->Zero(offset, length);
  }

  bool is_mapped() const { return mapped_ != nullptr; }
  DeviceMemory* AsDevice() override { return is_mapped() ? nullptr : this; }

  // For EqualPages; not while it is mapped.
  static constexpr uint64_t kLeafPages = 512;
  struct Leaf {
    enum class State : uint8_t { kWritten, kQuiet, kLooked };  // quiet: not written for a round
    std::array<PageStore::Page, kLeafPages> pages = {};
    uint16_t used = 0;  // that are not zeros
    State state = State::kWritten;
  };
  uint64_t leaf_count() const { return leaves_.size(); }
  Leaf* leaf(uint64_t index) { return leaves_[index].get(); }
  // A page of a leaf becomes another of the same bytes, whose reference is taken over. False if
  // that was the leaf's last that is not zeros.
  bool Replace(uint64_t leaf, uint64_t place, PageStore::Page same);
  void ForgetLooks();

 private:
  static constexpr uint64_t kPageBytes = PageStore::kPageBytes;
  static constexpr uint64_t kLeafBytes = kLeafPages * kPageBytes;

  PageStore::Page PageAt(uint64_t number) const {
    const Leaf* leaf = leaves_[number / kLeafPages].get();
    return leaf == nullptr ? PageStore::kZeros : leaf->pages[number % kLeafPages];
  }
  // The place's page becomes this one, whose reference is taken over.
  void Set(uint64_t number, PageStore::Page page);
  // The page for writing, with its bytes kept if `keep`; nullptr without memory.
  uint8_t* Own(uint64_t number, bool keep);
  bool WriteIn(uint64_t number, uint64_t into, const uint8_t* data, uint64_t length);
  const uint8_t* HereAt(uint64_t offset, uint64_t length, uint64_t* contiguous);
  void Take(uint64_t offset, uint64_t length) {
    if (elsewhere_ != nullptr) elsewhere_->Take(*this, offset, length);
  }
  bool Refer(DeviceMemory& from, uint64_t from_number, uint64_t number, uint64_t pages);
  void ZeroPages(uint64_t number, uint64_t pages);
  bool ZeroBytes(uint64_t offset, uint64_t length);
  bool WritePages(uint64_t offset, const uint8_t* data, uint64_t length);
  bool CopyPages(DeviceMemory& from, uint64_t from_offset, uint64_t offset, uint64_t length);
  void Compare(uint64_t offset, uint64_t length);

  const std::shared_ptr<PageStore> store_;
  Elsewhere* elsewhere_ = nullptr;
  std::vector<std::unique_ptr<Leaf>> leaves_;  // nullptr: zeros
  std::unique_ptr<OwnedMemory> mapped_;        // in place of all that
  std::unique_ptr<OwnedMemory> plain_;         // the same, done plainly (PageStore::compares)
};

// Copies between memory of any kind, forward. Returns how many bytes were copied before one could
// not be read or written; `length` if all.
struct CopyResult {
  uint64_t copied = 0;
  bool read_failed = false;  // else writing did
};
CopyResult CopyMemory(MemoryObject& to, uint64_t to_offset, MemoryObject& from,
                      uint64_t from_offset, uint64_t length);

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_DEVICE_MEMORY_H_
