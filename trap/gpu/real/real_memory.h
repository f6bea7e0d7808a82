// Which bytes of the emulated GPUs' memory are on the real one.
#ifndef PHANTORA_TRAP_GPU_REAL_REAL_MEMORY_H_
#define PHANTORA_TRAP_GPU_REAL_REAL_MEMORY_H_

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trap/gpu/real/remote_gpu.h"
#include "trap/gpu/real/waiting_space.h"
#include "uvm_model/address_space.h"
#include "uvm_model/device_memory.h"
#include "uvm_model/elsewhere.h"
#include "uvm_model/page_store.h"

namespace phantora {

// Each address space is mirrored in one of the real GPU's, at its own addresses, in pieces of 2
// MiB. A page (4 KiB) is here (in the emulated memory), there, or both, which then are equal. A
// launch may write whatever is there: afterwards nothing of its space is here. Whoever reads a page
// here brings it back, and whoever writes it here makes what is there old; the next launch of the
// space puts that there again. Copies and fills between pages that are there happen there.
//
// A page is there in one space only: memory that several processes map moves between them. If not
// all fits, whole spaces wait (WaitingSpace): what is to happen to them is noted, and happens in a
// turn of theirs, when somebody wants to see it. Not thread-safe.
class RealMemory : public Elsewhere {
 public:
  class Space;
  // At most `most` bytes are there at a time; what has to make room lies in pages of `store`. `gpu`
  // must outlive this.
  RealMemory(RemoteGpu* gpu, uint64_t most, std::shared_ptr<PageStore> store);
  ~RealMemory() override;
  RealMemory(const RealMemory&) = delete;
  RealMemory& operator=(const RealMemory&) = delete;

  // Makes one if there is none. Errors: the real GPU has no room for another, or is gone.
  absl::StatusOr<Space*> SpaceOf(AddressSpace& memory);

  // As RemoteSpace::Know.
  absl::StatusOr<uint64_t> Know(Space& space, const KernelImage& image, const std::string& symbol);
  // With all memory around these addresses there, as it is here, and what was there before. Errors:
  // FAILED_PRECONDITION: an address lies in memory of the host that cannot be there;
  // ALREADY_EXISTS, RESOURCE_EXHAUSTED: nor can an address of a GPU's: the launch can be done
  // elsewhere. UNAVAILABLE: the space is lost.
  absl::Status Launch(Space& space, const RemoteLaunch& launch,
                      absl::Span<const uint64_t> addresses);
  // Whether what was there of it is lost, and reads as zeros.
  bool IsLost(AddressSpace& memory) const;
  // It holds what the driver has for itself, which no kernel reads or writes.
  void KeepFromGpu(Space& space, uint64_t address);

  struct Counters {
    uint64_t put = 0, got = 0;             // bytes
    uint64_t pieces = 0, most_pieces = 0;  // that are there; the most at any time
    uint64_t turns = 0;                    // how often a space had to make room for another
  };
  const Counters& counters() const { return counters_; }

  void Bring(DeviceMemory& memory, uint64_t offset, uint64_t length) override;
  void Take(DeviceMemory& memory, uint64_t offset, uint64_t length) override;
  void Keep(DeviceMemory& memory) override;
  void Forget(DeviceMemory& memory) override;

 private:
  static constexpr uint64_t kPiece = RemoteSpace::kPiece;
  static constexpr uint64_t kPage = 4096;
  static constexpr size_t kPages = kPiece / kPage;
  using Pages = std::bitset<kPages>;

  // A part of a mapping that lies in one piece.
  struct Unit {
    Space* space;
    DeviceMemory* memory;
    uint64_t address, offset, length;  // offset: in the memory
    Pages here, there;                 // by page from its beginning; each is in one, or both
    bool attached = true;              // it is mapped still
    bool is_fresh = false;             // listed in the space: some of it is here
    uint64_t end() const { return offset + length; }
  };
  using Units = std::map<uint64_t, Unit*>;  // by offset; they do not overlap

  // Calls `each(unit, first page, pages)` for the units of a range of memory.
  template <typename Each>
  void ForEach(DeviceMemory& memory, uint64_t offset, uint64_t length, const Each& each);
  // All mapped memory around the address that can be there. Errors: as Launch.
  absl::Status Add(Space& space, uint64_t address);
  absl::Status AddHost(Space& space, uint64_t address);
  absl::Status AddMapping(Space& space, uint64_t address, uint64_t length);
  absl::Status AddUnit(Space& space, DeviceMemory& memory, uint64_t address, uint64_t offset,
                       uint64_t length);
  absl::Status Prepare(Space& space, absl::Span<const uint64_t> addresses);
  // Nothing of what is there is here any more.
  void NothingHere(Space& space);
  // All of it stays here, whatever happens.
  void KeepHere(Space& space, DeviceMemory& memory);
  absl::Status TooLarge() const;
  // So many pieces of it more, if others make room. Errors: RESOURCE_EXHAUSTED: it is too large.
  absl::Status MakeRoom(Space& space, uint64_t pieces);
  // It is its turn: everything happens that was noted.
  absl::Status Wake(Space& space);
  // Its pages come back, unless they are to be lost.
  void Remove(Unit& unit, bool keep);
  absl::Status PutFresh(Space& space, Unit& unit, std::vector<uint64_t>& found);
  void Get(Unit& unit, size_t first, size_t pages);
  void MarkFresh(Unit& unit);
  void Lose(Space& space, const absl::Status& status);
  // Units of the space in a range of addresses, ascending; empty unless they cover all of it.
  std::vector<Unit*> Covering(Space& space, uint64_t address, uint64_t length);
  // They are written there: what is here of them is old. Parts of pages are put there before.
  bool WriteThere(Space& space, const std::vector<Unit*>& units, uint64_t address, uint64_t length);

  RemoteGpu* const gpu_;
  const uint64_t most_pieces_;
  const std::shared_ptr<PageStore> store_;
  uint64_t launches_ = 0;
  absl::Status no_space_;  // why there is no other; starting one takes seconds, also in vain
  std::map<AddressSpace*, std::unique_ptr<Space>> spaces_;
  absl::flat_hash_map<DeviceMemory*, Units> units_;
  Counters counters_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_REAL_REAL_MEMORY_H_
