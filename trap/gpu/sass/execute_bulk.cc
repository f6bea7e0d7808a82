// Copies between global and shared memory that one thread starts, of boxes of tensors or of plain
// bytes. They happen at once; who waits for one finds it done.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "trap/gpu/sass/float_math.h"
#include "trap/gpu/sass/memory_access.h"
#include "trap/gpu/sass/memory_barrier.h"
#include "trap/gpu/sass/operations.h"
#include "trap/gpu/sass/tensor_map.h"

namespace phantora::sass {
namespace {

constexpr uint32_t kChunk = 16;
// So many bytes take the time of an instruction of a thread.
constexpr uint32_t kBytesOfAnInstruction = 16;

bool ReadGlobal(Warp& warp, uint64_t address, uint8_t* to, uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t here = std::min(bytes, LaunchMemory::kPage - address % LaunchMemory::kPage);
    const uint8_t* const from = GlobalAt<false>(warp, address, 1, here);
    if (from == nullptr) return false;
    std::memcpy(to, from, here);
    address += here, to += here, bytes -= here;
  }
  return true;
}
bool WriteGlobal(Warp& warp, uint64_t address, const uint8_t* from, uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t here = std::min(bytes, LaunchMemory::kPage - address % LaunchMemory::kPage);
    uint8_t* const to = GlobalAt<true>(warp, address, 1, here);
    if (to == nullptr) return false;
    std::memcpy(to, from, here);
    address += here, from += here, bytes -= here;
  }
  return true;
}

uint64_t PairAt(const Warp& warp, const Source& source) {
  return warp.uniform[source.index] | uint64_t{HighScalarOf(warp, source, false)} << 32;
}
// Uniform registers that lie one after the other; what a program names beyond the last is zero.
uint32_t InBlock(const Warp& warp, const Source& block, int at) {
  const int index = block.index + at;
  return index < kNoUniformRegister ? warp.uniform[index] : 0;
}

std::optional<TensorMap> MapAt(Warp& warp, const Source& pointer, int dimensions, bool images) {
  uint8_t bytes[TensorMap::kBytes];
  const uint64_t address = PairAt(warp, pointer);
  if (!ReadGlobal(warp, address, bytes, sizeof bytes)) return std::nullopt;
  // Most are among the parameters.
  if (const uint64_t at = address - warp.launch->constants_address; at < kConstantBytes) {
    NoteConstants(warp, 0, static_cast<uint32_t>(at), sizeof bytes);
  }
  const auto map = TensorMap::Read(bytes);
  if (!map || map->dimensions != dimensions || map->is_of_images != images ||
      map->BoxBytes() == 0 || map->element_bytes() * map->box[0] % kChunk != 0) {
    warp.Fail(Stop::Reason::kRefused, 0, "a tensor map that is not known");
    return std::nullopt;
  }
  return map;
}
int DimensionsOf(const Instruction& i) { return static_cast<int>(i.Bits(79, 3)) + 1; }

struct Coordinates {
  std::array<int32_t, TensorMap::kMostDimensions> at{};
  std::array<uint32_t, TensorMap::kMostSpatial> offsets{};  // of images
};

// The elements of a row that are in the tensor, if it is itself.
struct Inside {
  uint32_t first, end;
  Inside(const TensorMap& map, int64_t at) {
    const int64_t size = static_cast<int64_t>(map.sizes[0]), box = map.box[0];
    first = static_cast<uint32_t>(std::clamp<int64_t>(-at, 0, box));
    end = static_cast<uint32_t>(std::clamp<int64_t>(size - at, first, box));
  }
};

// A box's rows are pixels: of the next position each (PTX ISA, "im2col mode").
template <typename Use>
bool ForPixels(const TensorMap& map, const Coordinates& where, Use use) {
  const Inside columns(map, where.at[0]);
  const auto spatial = static_cast<size_t>(map.spatial());
  std::array<int64_t, TensorMap::kMostSpatial> position{};
  for (size_t i = 0; i < spatial; ++i) position[i] = where.at[i + 1];
  int64_t image = where.at[spatial + 1];
  for (uint32_t row = 0; row < map.box[1]; ++row) {
    bool inside = image >= 0 && image < static_cast<int64_t>(map.sizes[spatial + 1]);
    uint64_t address = map.address +
                       static_cast<uint64_t>(int64_t{where.at[0]}) * map.element_bytes() +
                       static_cast<uint64_t>(image) * map.strides[spatial + 1];
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t coordinate = position[i] + where.offsets[i];
      inside &= coordinate >= 0 && coordinate < static_cast<int64_t>(map.sizes[i + 1]);
      address += static_cast<uint64_t>(coordinate) * map.strides[i + 1];
    }
    if (!use(row, address, inside ? columns.first : 0, inside ? columns.end : 0)) return false;
    size_t i = 0;
    for (; i < spatial; ++i) {
      position[i] += map.steps[i + 1];
      if (position[i] <= map.last[i]) break;
      position[i] = map.first[i];
    }
    if (i == spatial) ++image;
  }
  return true;
}

// The rows of a box, in the order in which they lie in shared memory: use(row, address, first, end)
// has the address of the row's element 0 (which may not be there) and which elements of the row are
// in the tensor. False ends it.
template <typename Use>
bool ForRows(const TensorMap& map, const Coordinates& where, Use use) {
  if (map.is_of_images) return ForPixels(map, where, use);
  const auto& at = where.at;
  const Inside columns(map, at[0]);
  std::array<uint32_t, TensorMap::kMostDimensions> index{};
  for (uint32_t row = 0;; ++row) {
    bool inside = true;
    uint64_t address = map.address + static_cast<uint64_t>(int64_t{at[0]}) * map.element_bytes();
    for (size_t i = 1; i < static_cast<size_t>(map.dimensions); ++i) {
      const int64_t coordinate = int64_t{at[i]} + int64_t{index[i]} * map.steps[i];
      inside &= coordinate >= 0 && coordinate < static_cast<int64_t>(map.sizes[i]);
      address += static_cast<uint64_t>(coordinate) * map.strides[i];
    }
    if (!use(row, address, inside ? columns.first : 0, inside ? columns.end : 0)) return false;
    size_t i = 1;
    for (; i < static_cast<size_t>(map.dimensions); ++i) {
      if (++index[i] < map.box[i]) break;
      index[i] = 0;
    }
    if (i >= static_cast<size_t>(map.dimensions)) return true;
  }
}

// What elements outside of the tensor are read as.
void Fill(const TensorMap& map, uint8_t* row) {
  const uint32_t bytes = map.element_bytes() * map.box[0];
  std::memset(row, 0, bytes);
  if (!map.fills_with_nan) return;
  uint64_t nan = 0;
  switch (map.type) {
    case TensorMap::Type::kHalf:
    case TensorMap::Type::kBfloat:
      nan = 0x7fff;
      break;
    case TensorMap::Type::kFloat:
    case TensorMap::Type::kFloatFtz:
      nan = 0x7fffffff;
      break;
    case TensorMap::Type::kDouble:
      nan = 0x7fffffffffffffff;
      break;
    default:
      return;
  }
  for (uint32_t at = 0; at < bytes; at += map.element_bytes()) {
    std::memcpy(row + at, &nan, map.element_bytes());
  }
}

// What becomes of elements on their way to shared memory (CUTLASS,
// sm90_mma_tma_gmma_rs_warpspecialized.hpp: "TMA converts f32 input to tf32").
void Convert(const TensorMap& map, uint8_t* row) {
  const bool flushes = map.type == TensorMap::Type::kFloatFtz;
  if (!map.rounds_to_tf32 && !flushes) return;
  for (uint32_t at = 0; at < map.box[0] * sizeof(uint32_t); at += sizeof(uint32_t)) {
    uint32_t bits;
    std::memcpy(&bits, row + at, sizeof bits);
    if (flushes) bits = FlushedBits(bits);
    if (map.rounds_to_tf32) bits = RoundedToTf32(bits);
    std::memcpy(row + at, &bits, sizeof bits);
  }
}

// In the shared memory of one block.
struct SharedBox {
  BlockState* block;
  uint32_t address;
  Swizzle swizzle;

  bool Holds(uint32_t bytes) const {
    // Chunks change places within 128 bytes.
    const uint64_t end = (uint64_t{address} + bytes + 127) / 128 * 128;
    return address % kChunk == 0 &&
           (swizzle == Swizzle::kNone ? uint64_t{address} + bytes : end) <= block->shared.size();
  }
  uint8_t* At(uint32_t offset) const {
    return block->shared.data() + Swizzled(swizzle, address + offset);
  }
};

std::optional<SharedBox> BoxAt(Warp& warp, uint32_t address, uint32_t bytes, Swizzle swizzle) {
  const auto& blocks = warp.block->cluster->blocks;
  const uint32_t rank = address >> 24;
  if (rank < blocks.size()) {
    const SharedBox box = {blocks[rank], address & 0xffffff, swizzle};
    if (box.Holds(bytes)) return box;
  }
  warp.Fail(Stop::Reason::kOutOfRange, address);
  return std::nullopt;
}

void Charge(Warp& warp, uint64_t bytes) {
  warp.launch->thread_instructions += bytes / kBytesOfAnInstruction;
  ++warp.launch->events;
}

// The bytes have come to the barrier at `address`.
void Complete(Warp& warp, uint32_t address, uint32_t bytes) {
  uint8_t* const at = ClusterSharedAt(warp, address, MemoryBarrier::kBytes);
  if (at != nullptr) MemoryBarrier(at).Change(0, 0, -int64_t{bytes});
}

// Each block that a mask names, or the one that the address names.
template <typename Use>
void ForTargets(Warp& warp, uint32_t address, bool multicast, uint32_t mask, Use use) {
  if (!multicast) {
    use(address >> 24);
    return;
  }
  for (; mask != 0 && !warp.failed(); mask &= mask - 1) {
    use(static_cast<uint32_t>(First(mask)));
  }
}
constexpr uint32_t InRank(uint32_t address, uint32_t rank) {
  return (address & 0xffffff) | rank << 24;
}

Coordinates CoordinatesAt(const Warp& warp, const Source& block, int from) {
  Coordinates result;
  for (size_t i = 0; i < result.at.size(); ++i) {
    result.at[i] = static_cast<int32_t>(InBlock(warp, block, from + static_cast<int>(i)));
  }
  return result;
}

// Adds `from` to `to`, or whatever the operation is. False: the type has no such operation.
bool ReduceElement(uint32_t operation, TensorMap::Type type, uint8_t* to, const uint8_t* from) {
  using Type = TensorMap::Type;
  const auto integers = [&]<typename T>(T) {
    T a, b;
    std::memcpy(&a, to, sizeof a);
    std::memcpy(&b, from, sizeof b);
    switch (operation) {
      case 0:
        a = static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        break;
      case 1:
        a = std::min(a, b);
        break;
      case 2:
        a = std::max(a, b);
        break;
      case 5:
        a &= b;
        break;
      case 6:
        a |= b;
        break;
      case 7:
        a ^= b;
        break;
      default:
        return false;
    }
    std::memcpy(to, &a, sizeof a);
    return true;
  };
  const auto halves = [&](auto widen, auto narrow) {
    uint16_t a, b;
    std::memcpy(&a, to, 2);
    std::memcpy(&b, from, 2);
    const float x = widen(a), y = widen(b);
    float result;
    if (operation == 0) {
      result = x + y;
    } else if (operation == 1 || operation == 2) {
      result = x != x ? y : y != y ? x : operation == 1 ? std::min(x, y) : std::max(x, y);
    } else {
      return false;
    }
    const auto bits = static_cast<uint16_t>(narrow(result));
    std::memcpy(to, &bits, 2);
    return true;
  };
  switch (type) {
    case Type::kU32:
      return integers(uint32_t{});
    case Type::kS32:
      return integers(int32_t{});
    case Type::kU64:
      return integers(uint64_t{});
    case Type::kS64:
      return integers(int64_t{});
    case Type::kHalf:
      return halves([](uint32_t bits) { return HalfToFloat(bits); },
                    [](float value) { return FloatToHalf(value); });
    case Type::kBfloat:
      return halves([](uint32_t bits) { return AsFloat(bits << 16); },
                    [](float value) { return FloatToBfloatIn(0, value); });
    case Type::kFloat:
    case Type::kFloatFtz: {
      if (operation != 0) return false;
      float a, b;
      std::memcpy(&a, to, 4);
      std::memcpy(&b, from, 4);
      a += b;
      std::memcpy(to, &a, 4);
      return true;
    }
    default:
      return false;
  }
}

// From shared memory to a tensor: what is outside of it is left out.
template <typename Write>
void FromShared(Warp& warp, const Instruction& i, bool images, Write write) {
  const auto map = MapAt(warp, i.a, DimensionsOf(i), images);
  if (!map) return;
  const uint32_t bytes = map->BoxBytes(), row_bytes = map->element_bytes() * map->box[0],
                 pitch = map->RowPitch();
  uint32_t address = InBlock(warp, i.b, 0);
  if (address >> 24 == 0) address = InRank(address, warp.block->rank);
  const auto box = BoxAt(warp, address, map->BoxSpan(), map->swizzle);
  if (!box) return;
  std::vector<uint8_t> row(row_bytes);
  ForRows(*map, CoordinatesAt(warp, i.b, 1),
          [&](uint32_t number, uint64_t to, uint32_t first, uint32_t end) {
            for (uint32_t at = 0; at < row_bytes; at += kChunk) {
              std::memcpy(&row[at], box->At(number * pitch + at), kChunk);
            }
            const uint32_t size = map->element_bytes();
            return first >= end || write(*map, to + uint64_t{first} * size, &row[first * size],
                                         uint64_t{end - first} * size);
          });
  Charge(warp, bytes);
}

enum class Side { kGlobal, kShared };

template <Side to, Side from>
void BulkCopy(Warp& warp, const Instruction& i) {
  const uint32_t how = warp.uniform[i.c.index];
  const uint32_t bytes = (how & 0xffff) * kChunk;
  std::vector<uint8_t> data(bytes);
  if constexpr (from == Side::kGlobal) {
    if (!ReadGlobal(warp, PairAt(warp, i.a), data.data(), bytes)) return;
  } else {
    uint32_t address = warp.uniform[i.a.index];
    if (address >> 24 == 0) address = InRank(address, warp.block->rank);
    const auto box = BoxAt(warp, address, bytes, Swizzle::kNone);
    if (!box) return;
    std::memcpy(data.data(), box->At(0), bytes);
  }
  Charge(warp, bytes);
  if constexpr (to == Side::kGlobal) {
    WriteGlobal(warp, PairAt(warp, i.b), data.data(), bytes);
  } else {
    const uint32_t address = InBlock(warp, i.b, 0), barrier = InBlock(warp, i.b, 1);
    const bool multicast = i.Bit(75);
    ForTargets(warp, address, multicast, how >> 16, [&](uint32_t rank) {
      const auto box = BoxAt(warp, InRank(address, rank), bytes, Swizzle::kNone);
      if (!box) return;
      std::memcpy(box->At(0), data.data(), bytes);
      Complete(warp, multicast ? InRank(barrier, rank) : barrier, bytes);
    });
  }
}

}  // namespace

// Uniform registers from b on: where to, the barrier, coordinates. The one in c has the blocks to
// copy to in its upper half, and offsets in images in its lower one.
void LoadTensor(Warp& warp, const Instruction& i) {
  const bool images = i.Bit(82);
  const auto map = MapAt(warp, i.a, DimensionsOf(i), images);
  if (!map) return;
  Coordinates where = CoordinatesAt(warp, i.b, 2);
  const int spatial = map->spatial(), offset_bits = spatial == 1 ? 16 : spatial == 2 ? 8 : 5;
  for (int at = 0; images && at < spatial; ++at) {
    where.offsets[static_cast<size_t>(at)] =
        warp.uniform[i.c.index] >> (at * offset_bits) & ((1u << offset_bits) - 1);
  }
  const uint32_t bytes = map->BoxBytes(), row_bytes = map->element_bytes() * map->box[0],
                 pitch = map->RowPitch();
  const uint32_t address = InBlock(warp, i.b, 0), barrier = InBlock(warp, i.b, 1);
  const bool multicast = i.Bit(75);
  std::vector<uint8_t> row(row_bytes);
  std::vector<SharedBox> boxes;
  const uint32_t mask = multicast ? warp.uniform[i.c.index] >> 16 : 0;
  ForTargets(warp, address, multicast, mask, [&](uint32_t rank) {
    if (const auto box = BoxAt(warp, InRank(address, rank), map->BoxSpan(), map->swizzle)) {
      boxes.push_back(*box);
    }
  });
  if (warp.failed()) return;
  const bool done =
      ForRows(*map, where, [&](uint32_t number, uint64_t from, uint32_t first, uint32_t end) {
        const uint32_t size = map->element_bytes();
        if (first > 0 || end < map->box[0]) Fill(*map, row.data());
        if (first < end && !ReadGlobal(warp, from + uint64_t{first} * size, &row[first * size],
                                       uint64_t{end - first} * size)) {
          return false;
        }
        Convert(*map, row.data());
        for (const SharedBox& box : boxes) {
          for (uint32_t at = 0; at < row_bytes; at += kChunk) {
            std::memcpy(box.At(number * pitch + at), &row[at], kChunk);
          }
        }
        return true;
      });
  if (!done) return;
  Charge(warp, bytes * boxes.size());
  ForTargets(warp, address, multicast, mask, [&](uint32_t rank) {
    Complete(warp, multicast ? InRank(barrier, rank) : barrier, bytes);
  });
}

// Uniform registers from b on: where from, coordinates.
void StoreTensor(Warp& warp, const Instruction& i) {
  FromShared(warp, i, i.Bit(82),
             [&](const TensorMap&, uint64_t to, const uint8_t* from, uint64_t bytes) {
               return WriteGlobal(warp, to, from, bytes);
             });
}

void ReduceTensor(Warp& warp, const Instruction& i) {
  warp.MeetOrder();
  const uint32_t operation = i.Bits(87, 3);
  std::vector<uint8_t> before;
  FromShared(warp, i, false,
             [&](const TensorMap& map, uint64_t to, const uint8_t* from, uint64_t bytes) {
               before.resize(bytes);
               if (!ReadGlobal(warp, to, before.data(), bytes)) return false;
               for (uint64_t at = 0; at < bytes; at += map.element_bytes()) {
                 if (!ReduceElement(operation, map.type, &before[at], from + at)) {
                   warp.Fail(Stop::Reason::kRefused, 0, "a reduction of a tensor of this type");
                   return false;
                 }
               }
               return WriteGlobal(warp, to, before.data(), bytes);
             });
}

Handler SelectBulkCopy(const Instruction& i) {
  const bool to_shared = i.Bit(73), from_shared = i.Bit(74);
  if (to_shared) {
    return from_shared ? &BulkCopy<Side::kShared, Side::kShared>
                       : &BulkCopy<Side::kShared, Side::kGlobal>;
  }
  return from_shared && !i.Bit(75) ? &BulkCopy<Side::kGlobal, Side::kShared> : nullptr;
}

}  // namespace phantora::sass
