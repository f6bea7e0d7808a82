// How instructions reach memory of any kind, lane by lane, with the checks that hardware makes.
#ifndef PHANTORA_TRAP_GPU_SASS_MEMORY_ACCESS_H_
#define PHANTORA_TRAP_GPU_SASS_MEMORY_ACCESS_H_

#include <cstdint>
#include <cstring>

#include "trap/gpu/sass/lanes.h"

namespace phantora::sass {

// Sizes of accesses by the field at 73: bytes.
inline constexpr int kSizes[8] = {1, 1, 2, 2, 4, 8, 16, 16};

// A value of at most four bytes as a register holds it.
inline uint32_t Loaded(const uint8_t* from, int type) {
  switch (type) {
    case 0:
      return *from;
    case 1:
      return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int8_t>(*from)));
    case 2: {
      uint16_t value;
      std::memcpy(&value, from, 2);
      return value;
    }
    case 3: {
      int16_t value;
      std::memcpy(&value, from, 2);
      return static_cast<uint32_t>(static_cast<int32_t>(value));
    }
    default: {
      uint32_t value;
      std::memcpy(&value, from, 4);
      return value;
    }
  }
}

// Addresses of 64 bits: a pair of registers with .E, else one; and the offset.
inline void GlobalAddresses(const Warp& warp, const Instruction& i, uint64_t* addresses) {
  const uint32_t* const low = warp.registers[i.a.index];
  auto offset = static_cast<uint64_t>(int64_t{i.offset});
  const Source& uniform = i.c.kind == Source::Kind::kUniform ? i.c : i.b;
  const bool has_uniform = uniform.kind == Source::Kind::kUniform;
  if (has_uniform)
    offset += ScalarOf(warp, uniform) | uint64_t{HighScalarOf(warp, uniform, false)} << 32;
  // With a uniform base the register may have 32 bits, which bit 90 says.
  if (has_uniform ? i.Bit(90) : i.Bit(72)) {
    const uint32_t* const high = warp.registers[i.a.index + 1];
    for (int lane = 0; lane < kLanes; ++lane) {
      addresses[lane] = (low[lane] | uint64_t{high[lane]} << 32) + offset;
    }
  } else {
    for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = low[lane] + offset;
  }
}

// Addresses of 32 bits: a register, with a factor if `scaled`, a uniform register in b or c, and
// the offset.
inline void SharedAddresses(const Warp& warp, const Instruction& i, bool scaled,
                            const Source& uniform, uint32_t* addresses) {
  const uint32_t* const base = warp.registers[i.a.index];
  uint32_t add = static_cast<uint32_t>(i.offset);
  if (uniform.kind == Source::Kind::kUniform) add += warp.uniform[uniform.index];
  const uint32_t factor = scaled ? i.Bits(78, 2) : 0;
  const uint32_t shift = factor == 0 ? 0 : factor + 1;
  for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = (base[lane] << shift) + add;
}

enum class Space : uint8_t { kGlobal, kShared, kLocal };

// Where `bytes` at an address are, for reading or (`write`) for both; nullptr after a failure,
// which the warp then has. They must not cross a multiple of `bytes`, as hardware demands.
inline uint8_t* SharedAt(Warp& warp, uint32_t address, int bytes) {
  if (address % static_cast<uint32_t>(bytes) != 0) {
    warp.Fail(Stop::Reason::kMisaligned, address);
    return nullptr;
  }
  const std::vector<uint8_t>& shared = warp.block->shared;
  if (__builtin_expect(uint64_t{address} + static_cast<uint64_t>(bytes) > shared.size(), 0)) {
    // In a cluster an address's upper byte says whose memory it is.
    const uint32_t inside = address & (kWindowBytes - 1);
    if (address / kWindowBytes != warp.block->rank ||
        uint64_t{inside} + static_cast<uint64_t>(bytes) > shared.size()) {
      warp.Fail(Stop::Reason::kOutOfRange, address);
      return nullptr;
    }
    address = inside;
  }
  return warp.block->shared.data() + address;
}
// The same in any block of the cluster, which the address's upper byte names.
inline uint8_t* ClusterSharedAt(Warp& warp, uint32_t address, int bytes) {
  if (address % static_cast<uint32_t>(bytes) != 0) {
    warp.Fail(Stop::Reason::kMisaligned, address);
    return nullptr;
  }
  const auto& blocks = warp.block->cluster->blocks;
  const uint32_t rank = address / kWindowBytes, inside = address & (kWindowBytes - 1);
  if (rank >= blocks.size() ||
      uint64_t{inside} + static_cast<uint64_t>(bytes) > blocks[rank]->shared.size()) {
    warp.Fail(Stop::Reason::kOutOfRange, address);
    return nullptr;
  }
  return blocks[rank]->shared.data() + inside;
}
inline uint8_t* LocalAt(Warp& warp, int lane, uint32_t address, int bytes) {
  if (address % static_cast<uint32_t>(bytes) != 0) {
    warp.Fail(Stop::Reason::kMisaligned, address);
    return nullptr;
  }
  uint8_t* const at = warp.Local(lane, address, static_cast<uint32_t>(bytes));
  if (at == nullptr) warp.Fail(Stop::Reason::kOutOfRange, address);
  return at;
}
// Of an access for which there is nothing: the warp fails; or, if it is only wrong (AccessCheck),
// that is noted of lane `lane` (of several pieces: of each lane), and it goes on.
__attribute__((noinline, cold)) uint8_t* NoAccess(Warp& warp, bool writes, uint64_t address,
                                                  int bytes, uint64_t count, int lane);

// `count` of them, one behind the other in one page: a thread's, or of bytes of words one of each
// thread.
template <bool write>
inline uint8_t* GlobalAt(Warp& warp, uint64_t address, int bytes, uint64_t count = 1,
                         int lane = 0) {
  if (address % static_cast<uint64_t>(bytes) != 0) {
    warp.Fail(Stop::Reason::kMisaligned, address);
    return nullptr;
  }
  LaunchMemory& memory = *warp.launch->memory;
  const uint64_t all = static_cast<uint64_t>(bytes) * count;
  uint8_t* const at =
      write ? memory.Write(address, all) : const_cast<uint8_t*>(memory.Read(address, all));
  if (__builtin_expect(at == nullptr, 0)) {
    return NoAccess(warp, write, address, bytes, count, lane);
  }
  return at;
}

// Which space a generic address is in, and where there.
inline Space SpaceOf(const Warp& warp, uint64_t address, uint32_t* inside) {
  const LaunchState& launch = *warp.launch;
  // A window for each block of a cluster.
  if (address - launch.shared_window < kWindowBytes * launch.cluster.count()) {
    *inside = static_cast<uint32_t>(address - launch.shared_window);
    return Space::kShared;
  }
  if (address - launch.local_window < kWindowBytes) {
    *inside = static_cast<uint32_t>(address - launch.local_window);
    return Space::kLocal;
  }
  return Space::kGlobal;
}
inline bool IsGlobal(const Warp& warp, uint64_t address) {
  uint32_t inside;
  return SpaceOf(warp, address, &inside) == Space::kGlobal;
}
template <bool write>
inline uint8_t* GenericAt(Warp& warp, int lane, uint64_t address, int bytes) {
  uint32_t inside = 0;
  switch (SpaceOf(warp, address, &inside)) {
    case Space::kShared:
      return ClusterSharedAt(warp, inside, bytes);
    case Space::kLocal:
      return LocalAt(warp, lane, inside, bytes);
    default:
      return GlobalAt<write>(warp, address, bytes, 1, lane);
  }
}

// Bytes to and from the registers from `index` on; where a program names more than there are, they
// are zeros, or nobody's.
inline void LoadInto(Warp& warp, int index, int lane, const uint8_t* from, int type) {
  const int bytes = kSizes[type];
  if (bytes <= 4) {
    warp.registers[index][lane] = Loaded(from, type);
    return;
  }
  for (int word = 0; word < bytes / 4; ++word) {
    std::memcpy(&warp.registers[index + word][lane], from + 4 * word, 4);
  }
}
inline void StoreFrom(const Warp& warp, int index, int lane, uint8_t* to, int type) {
  const int bytes = kSizes[type];
  if (bytes <= 4) {
    std::memcpy(to, &warp.registers[index][lane], static_cast<size_t>(bytes));
    return;
  }
  for (int word = 0; word < bytes / 4; ++word) {
    std::memcpy(to + 4 * word, &warp.registers[index + word][lane], 4);
  }
}

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_MEMORY_ACCESS_H_
