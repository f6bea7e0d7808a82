// What a program has allocated on its GPUs, and where an access lies among that.
#ifndef PHANTORA_TRAP_CHECK_ALLOCATIONS_H_
#define PHANTORA_TRAP_CHECK_ALLOCATIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trap/check/library/wire.h"

namespace phantora {

// One process's. Addresses and sizes are in bytes, as programs ask for them.
class Allocations {
 public:
  static constexpr size_t kMost = 1 << 20;

  struct Allocation {
    uint64_t begin = 0, bytes = 0;
    check::Kind kind = check::Kind::kDevice;
    // In the program; of these objects' own memory. "" if it has too many places.
    std::string_view where = {};
    uint64_t number = 0;  // in the order in which they were made
    uint64_t end() const { return begin + bytes; }
  };

  // False: the range wraps, or there are kMost. What it overlaps is gone with its context, and was
  // never freed.
  bool Add(Allocation allocation);
  // That what begins at `address` is being given back, until Freed() or Keep(). What has been
  // allocated there meanwhile stays. False: nothing begins there.
  bool BeginFree(uint64_t address);
  // How many bytes that were; 0: nothing there was being given back.
  uint64_t Freed(uint64_t address);
  void Keep(uint64_t address);
  // What begins there is the program's no longer, but what was launched before may use it.
  bool FreeInOrder(uint64_t address);

  enum class Relation {
    kUnknown,  // nobody who is looked after has memory there
    kInside,   // of one allocation
    kOutside,  // of all; next to `allocation`, if there is one
    kFreed,    // in what was `allocation`
  };
  struct Place {
    Relation relation = Relation::kUnknown;
    const Allocation* allocation = nullptr;
    uint64_t first = 0;  // of the bytes that are wrong
  };
  // Where [address, address + bytes) is. Of what a program has of the host's memory nothing but
  // kInside is known.
  Place Look(uint64_t address, uint64_t bytes) const;

  // What was freed there last, wherever that was; nullptr: nothing, or too long ago.
  const Allocation* FreedAt(uint64_t address) const;

  // What is allocated now, and what was gone without being freed, in the order in which it was
  // made; not what was given back in the order of a stream.
  std::vector<const Allocation*> NotFreed() const;

 private:
  enum class State { kLive, kBeingFreed, kFreedInOrder };
  struct Entry {
    Allocation allocation;
    State state = State::kLive;
  };
  using Entries = std::map<uint64_t, Entry>;

  void Remove(Entries::iterator entry, bool was_freed);

  Entries entries_;
  // Of those that are freed, as far as nothing was allocated there since; the oldest are forgotten.
  std::map<uint64_t, Allocation> freed_;
  std::deque<uint64_t> freed_order_;
  std::vector<Allocation> lost_;  // neither freed nor there
  std::unordered_set<std::string> places_;
  // Pieces of 2 MiB that allocations begin or end in, and how many do. libcuda cuts small
  // ones out of such a piece, and begins a large one at a new one; it has nothing else there until
  // all are freed, and then may have anything (as seen of 550).
  std::unordered_map<uint64_t, uint32_t> pieces_;
  uint64_t made_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_CHECK_ALLOCATIONS_H_
