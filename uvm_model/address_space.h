// A GPU virtual address space: which bytes of which memory object lie where.
#ifndef PHANTORA_UVM_MODEL_ADDRESS_SPACE_H_
#define PHANTORA_UVM_MODEL_ADDRESS_SPACE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "uvm_model/elsewhere.h"
#include "uvm_model/memory_object.h"

namespace phantora {

// Addresses are in bytes. Accesses that touch any unmapped byte fail with the
// first such address, as the GPU's MMU would report it.
class AddressSpace {
 public:
  AddressSpace() = default;
  ~AddressSpace();
  // The segment that was looked up last lies in this very object.
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Who may have bytes of it elsewhere, and outlives this or is given up before (nullptr).
  void set_elsewhere(SpaceElsewhere* elsewhere) { elsewhere_ = elsewhere; }
  SpaceElsewhere* elsewhere() const { return elsewhere_; }

  struct Piece {
    MemoryObject* memory;
    uint64_t offset;  // in the object
    uint64_t length;  // contiguous bytes from the address that was asked for
  };

  // nullopt when all bytes were mapped, else the faulting address.
  using Fault = std::optional<uint64_t>;

  // Replaces whatever was mapped in [va, va + length). Returns false, and maps
  // nothing, when the range wraps or is not inside the object, or the space holds a
  // million mappings.
  bool Map(uint64_t va, uint64_t length, std::shared_ptr<MemoryObject> memory, uint64_t offset);
  void Unmap(uint64_t va, uint64_t length);

  std::optional<Piece> Find(uint64_t va);
  // Is every byte of [va, va + length) mapped? Returns the first that is not.
  Fault Check(uint64_t va, uint64_t length);

  // What is mapped of it is read in pieces after this: it comes here at once, if it is elsewhere.
  void Bring(uint64_t va, uint64_t length);

  // What becomes of the taint of bytes that are written, and of their being unwritten (see
  // MemoryObject).
  enum class OnTaint { kClear, kKeep };

  Fault Read(uint64_t va, void* out, uint64_t length);
  // Naturally aligned 4- and 8-byte writes are single atomic stores with release
  // order: they may be semaphores that a tracee spins on.
  Fault Write(uint64_t va, const void* data, uint64_t length, OnTaint taint = OnTaint::kClear);
  Fault Zero(uint64_t va, uint64_t length, OnTaint taint = OnTaint::kClear);
  // Forward copy, destination and source may lie in different spaces. Taint is copied, too, and
  // what is unwritten.
  Fault Copy(uint64_t destination, AddressSpace& source_space, uint64_t source, uint64_t length);

  // Repeats `pattern` (1 to 16 bytes), beginning `phase` bytes into it.
  Fault Fill(uint64_t va, uint64_t length, const std::vector<uint8_t>& pattern, uint64_t phase);

  // What is mapped of [va, va + length) was written, and becomes tainted, or not; returns how many
  // bytes of it are of memory that has no taint, but may be seen by the host.
  uint64_t SetTaint(uint64_t va, uint64_t length, bool tainted);
  // Is one of the bytes tainted?
  bool IsTainted(uint64_t va, uint64_t length);
  // What is mapped of [va, va + length), if it is video memory, has not been written by anybody yet
  // (or counts as written).
  void SetUnwritten(uint64_t va, uint64_t length, bool unwritten);
  // Is one of the bytes?
  bool IsUnwritten(uint64_t va, uint64_t length);

  // As MemoryObject::RunAt, over what is mapped from `va` on; ends where nothing is.
  MemoryObject::Run RunAt(uint64_t va, uint64_t length);

  // The mapping that the address lies in: begin and length.
  std::optional<std::pair<uint64_t, uint64_t>> MappingAt(uint64_t va);

  // The first mapping that has bytes of [va, va + length): begin and length.
  std::optional<std::pair<uint64_t, uint64_t>> FirstWithin(uint64_t va, uint64_t length);

  // What is mapped around `va` without a gap, as far as a few mappings: begin and length. nullopt:
  // nothing is mapped there.
  std::optional<std::pair<uint64_t, uint64_t>> RangeAround(uint64_t va);

 private:
  struct Segment {
    uint64_t length;
    std::shared_ptr<MemoryObject> memory;
    uint64_t offset;
  };
  using Segments = std::map<uint64_t, Segment>;

  Segments::iterator Containing(uint64_t va);

  SpaceElsewhere* elsewhere_ = nullptr;
  Segments segments_;
  // Consecutive lookups hit the same segment nearly always.
  Segments::iterator last_ = segments_.end();
};

}  // namespace phantora

#endif  // PHANTORA_UVM_MODEL_ADDRESS_SPACE_H_
