#include <algorithm>

#include "trap/gpu/sass/memory_access.h"
#include "trap/gpu/sass/operations.h"

namespace phantora::sass {
namespace {

int TypeOf(const Instruction& i) { return static_cast<int>(i.Bits(73, 3)); }

// The first form of generic stores has what is stored in the place of a third source.
int StoredRegister(const Instruction& i) {
  return (i.b.kind == Source::Kind::kRegister ? i.b : i.c).index;
}

// .STRONG.GPU, .STRONG.SYS: it may be looking for what another block writes.
bool IsStrong(const Instruction& i) { return i.Bits(77, 4) >= 7; }

// Do all lanes reach neighbouring places of one page, in order?
bool AreInOrder(const Warp& warp, const uint64_t* addresses, int bytes) {
  if (warp.active != kAllLanes || bytes < 4) return false;
  const uint64_t first = addresses[0];
  if (first % LaunchMemory::kPage + static_cast<uint64_t>(kLanes * bytes) > LaunchMemory::kPage ||
      first % static_cast<uint64_t>(bytes) != 0) {
    return false;
  }
  uint64_t difference = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    difference |= addresses[lane] - first - static_cast<uint64_t>(lane * bytes);
  }
  return difference == 0;
}

// From and to words that lie lane after lane.
void LoadRows(Warp& warp, int index, const uint8_t* from, int words) {
  if (words == 1) {
    std::memcpy(warp.registers[index], from, sizeof warp.registers[index]);
    return;
  }
  alignas(64) uint32_t all[kLanes * 4];
  std::memcpy(all, from, static_cast<size_t>(words) * kLanes * 4);
  for (int word = 0; word < words; ++word) {
    uint32_t* const row = warp.registers[index + word];
    for (int lane = 0; lane < kLanes; ++lane) row[lane] = all[lane * words + word];
  }
}
void StoreRows(const Warp& warp, int index, uint8_t* to, int words) {
  if (words == 1) {
    std::memcpy(to, warp.registers[index], sizeof warp.registers[index]);
    return;
  }
  alignas(64) uint32_t all[kLanes * 4];
  for (int word = 0; word < words; ++word) {
    const uint32_t* const row = warp.registers[index + word];
    for (int lane = 0; lane < kLanes; ++lane) all[lane * words + word] = row[lane];
  }
  std::memcpy(to, all, static_cast<size_t>(words) * kLanes * 4);
}

template <typename At>
void LoadLanes(Warp& warp, const Instruction& i, At at) {
  const int type = TypeOf(i);
  for (uint32_t left = warp.active; left != 0; left &= left - 1) {
    const int lane = First(left);
    const uint8_t* const from = at(lane, kSizes[type]);
    if (from == nullptr) return;
    LoadInto(warp, i.destination, lane, from, type);
  }
}
template <typename At>
void StoreLanes(Warp& warp, const Instruction& i, At at) {
  const int type = TypeOf(i);
  for (uint32_t left = warp.active; left != 0; left &= left - 1) {
    const int lane = First(left);
    uint8_t* const to = at(lane, kSizes[type]);
    if (to == nullptr) return;
    StoreFrom(warp, StoredRegister(i), lane, to, type);
  }
}

}  // namespace

void Nothing(Warp&, const Instruction&) {}

void LoadGlobal(Warp& warp, const Instruction& i) {
  // Where its predicate does not hold it gives zeros. (It is stated the other way round: 7 less
  // it.)
  if (i.Bits(64, 4) != 0) {
    const uint32_t value = warp.predicates[7 - i.Bits(64, 3)];
    const uint32_t loaded = warp.active & (i.Bit(67) ? ~value : value), all = warp.active;
    warp.active = all & ~loaded;
    const int words = std::max(kSizes[TypeOf(i)] / 4, 1);
    for (int word = 0; word < words; ++word)
      Store(warp, i.destination + word, [](int) { return 0u; });
    warp.active = loaded;
    if (loaded == 0) return;
  }
  alignas(64) uint64_t addresses[kLanes];
  GlobalAddresses(warp, i, addresses);
  if (__builtin_expect(IsStrong(i), 0)) warp.MeetOrder();
  const int bytes = kSizes[TypeOf(i)];
  if (AreInOrder(warp, addresses, bytes)) {
    if (const uint8_t* const from = GlobalAt<false>(warp, addresses[0], bytes, kLanes)) {
      LoadRows(warp, i.destination, from, bytes / 4);
    }
    return;
  }
  LoadLanes(warp, i, [&](int lane, int size) {
    return GlobalAt<false>(warp, addresses[lane], size, 1, lane);
  });
}

void StoreGlobal(Warp& warp, const Instruction& i) {
  alignas(64) uint64_t addresses[kLanes];
  GlobalAddresses(warp, i, addresses);
  const int bytes = kSizes[TypeOf(i)];
  if (AreInOrder(warp, addresses, bytes)) {
    if (uint8_t* const to = GlobalAt<true>(warp, addresses[0], bytes, kLanes)) {
      StoreRows(warp, StoredRegister(i), to, bytes / 4);
    }
    return;
  }
  StoreLanes(warp, i, [&](int lane, int size) {
    return GlobalAt<true>(warp, addresses[lane], size, 1, lane);
  });
}

void LoadGeneric(Warp& warp, const Instruction& i) {
  alignas(64) uint64_t addresses[kLanes];
  GlobalAddresses(warp, i, addresses);
  const bool strong = IsStrong(i);
  LoadLanes(warp, i, [&](int lane, int size) {
    if (strong && IsGlobal(warp, addresses[lane])) warp.MeetOrder();
    return GenericAt<false>(warp, lane, addresses[lane], size);
  });
}

void StoreGeneric(Warp& warp, const Instruction& i) {
  alignas(64) uint64_t addresses[kLanes];
  GlobalAddresses(warp, i, addresses);
  StoreLanes(warp, i, [&](int lane, int size) {
    return GenericAt<true>(warp, lane, addresses[lane], size);
  });
}

void LoadShared(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, true, i.b, addresses);
  LoadLanes(warp, i, [&](int lane, int size) { return SharedAt(warp, addresses[lane], size); });
}

void StoreShared(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, true, i.c, addresses);
  StoreLanes(warp, i, [&](int lane, int size) { return SharedAt(warp, addresses[lane], size); });
}

void LoadLocal(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, false, i.b, addresses);
  LoadLanes(warp, i,
            [&](int lane, int size) { return LocalAt(warp, lane, addresses[lane], size); });
}

void StoreLocal(Warp& warp, const Instruction& i) {
  alignas(64) uint32_t addresses[kLanes];
  SharedAddresses(warp, i, false, i.c, addresses);
  StoreLanes(warp, i,
             [&](int lane, int size) { return LocalAt(warp, lane, addresses[lane], size); });
}

void LoadConstant(Warp& warp, const Instruction& i) {
  const uint32_t* const index = warp.registers[i.a.index];
  const uint8_t* const bank = warp.launch->constants[i.b.index];
  LoadLanes(warp, i, [&](int lane, int size) -> const uint8_t* {
    const uint32_t at = index[lane] + static_cast<uint32_t>(i.offset);
    if (at % static_cast<uint32_t>(size) != 0 || at >= static_cast<uint32_t>(kConstantBytes)) {
      warp.Fail(Stop::Reason::kOutOfRange, at);
      return nullptr;
    }
    NoteConstants(warp, i.b.index, at, static_cast<uint32_t>(size));
    return bank + at;
  });
}

// Whether a generic address is in a space: 0 global, 1 local, 2 shared.
void QuerySpace(Warp& warp, const Instruction& i) {
  alignas(64) uint64_t addresses[kLanes];
  GlobalAddresses(warp, i, addresses);
  const uint32_t wanted = i.Bits(73, 2);
  const uint32_t mask = MaskOf([&](int lane) {
    uint32_t inside;
    switch (SpaceOf(warp, addresses[lane], &inside)) {
      case Space::kShared:
        // The block's own, or that of any of its cluster.
        return wanted == 3 || (wanted == 2 && inside / kWindowBytes == warp.block->rank);
      case Space::kLocal:
        return wanted == 1;
      default:
        return wanted == 0;
    }
  });
  SetPredicate(warp, static_cast<int>(i.Bits(81, 3)), mask);
}

// From global to shared memory. What waits for it finds it there: it happens at once. Where its
// predicate is false zeros are written.
void CopyAsync(Warp& warp, const Instruction& i) {
  const int bytes = 4 << i.Bits(73, 2);
  alignas(64) uint64_t from[kLanes];
  const uint32_t *const low = warp.registers[i.a.index], *const high =
                                                             warp.registers[i.a.index + 1];
  for (int lane = 0; lane < kLanes; ++lane) {
    from[lane] =
        (low[lane] | uint64_t{high[lane]} << 32) + static_cast<uint64_t>(int64_t{i.offset});
  }
  if (i.word.form() == 7 && !i.Bit(76) && i.Bits(64, 6) != kNoUniformRegister) {
    const uint32_t index = i.Bits(64, 6);
    const uint64_t base = warp.uniform[index] | uint64_t{warp.uniform[index + 1]} << 32;
    for (uint64_t& address : from) address += base;
  }
  const uint32_t* const to = warp.registers[i.destination];
  auto offset = static_cast<uint32_t>(i.word.Signed(44, 20));
  if (i.word.form() == 6) offset += warp.uniform[i.Bits(64, 6)];
  const uint32_t copied = PredicateAt(warp, i, 87, 90);
  const bool fills = i.Bit(82);
  for (uint32_t left = warp.active; left != 0; left &= left - 1) {
    const int lane = First(left);
    uint8_t* const destination = SharedAt(warp, to[lane] + offset, bytes);
    if (destination == nullptr) return;
    if (!Has(copied, lane)) {
      std::memset(destination, 0, static_cast<size_t>(bytes));
      continue;
    }
    // The lowest bits of the address say how many bytes at the end are zeros instead.
    const int zeros = fills ? static_cast<int>(from[lane] & static_cast<uint64_t>(bytes - 1)) : 0;
    const uint8_t* const source =
        GlobalAt<false>(warp, from[lane] - static_cast<uint64_t>(zeros), bytes, 1, lane);
    if (source == nullptr) return;
    std::memcpy(destination, source, static_cast<size_t>(bytes - zeros));
    std::memset(destination + bytes - zeros, 0, static_cast<size_t>(zeros));
  }
}

}  // namespace phantora::sass
