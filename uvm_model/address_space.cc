#include "uvm_model/address_space.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "uvm_model/device_memory.h"
#include "uvm_model/page_store.h"

namespace phantora {
namespace {

constexpr uint64_t kFillBuffer = 64 << 10;
// A bound on what the owner of the space can make this process keep.
constexpr size_t kMostSegments = 1 << 20;

void StoreRelease(uint8_t* to, const void* from, uint64_t length) {
  const auto address = reinterpret_cast<uintptr_t>(to);
  if (length == 4 && address % 4 == 0) {
    uint32_t value;
    std::memcpy(&value, from, 4);
    std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(to))
        .store(value, std::memory_order_release);
  } else if (length == 8 && address % 8 == 0) {
    uint64_t value;
    std::memcpy(&value, from, 8);
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(to))
        .store(value, std::memory_order_release);
  } else {
    std::memcpy(to, from, length);
  }
}

// Bytes have been written, and are what they should be.
void NoteWritten(const AddressSpace::Piece& piece, uint64_t length) {
  if (ByteSet* const taint = piece.memory->taint()) taint->Remove(piece.offset, length);
  if (ByteSet* const unwritten = piece.memory->unwritten()) unwritten->Remove(piece.offset, length);
}

// What was copied is as tainted, and as unwritten, as its source.
void CopyMarks(const AddressSpace::Piece& to, const AddressSpace::Piece& from, uint64_t length) {
  const auto copy = [&](const ByteSet* source, ByteSet* there, auto make) {
    if (source == nullptr || !source->Any(from.offset, length)) {
      if (there != nullptr) there->Remove(to.offset, length);
    } else if (to.memory->kind() == MemoryKind::kVidmem) {
      make().Copy(to.offset, source, from.offset, length);
    }
  };
  copy(from.memory->taint(), to.memory->taint(),
       [&]() -> ByteSet& { return to.memory->MakeTaint(); });
  copy(from.memory->unwritten(), to.memory->unwritten(),
       [&]() -> ByteSet& { return to.memory->MakeUnwritten(); });
}

}  // namespace

AddressSpace::~AddressSpace() {
  if (elsewhere_ == nullptr) return;
  elsewhere_->Ending();
  segments_.clear();
  elsewhere_->Ended();
}

bool AddressSpace::Map(uint64_t va, uint64_t length, std::shared_ptr<MemoryObject> memory,
                       uint64_t offset) {
  if (memory == nullptr || length == 0 || va + length < va || offset > memory->size() ||
      length > memory->size() - offset || segments_.size() >= kMostSegments) {
    return false;
  }
  Unmap(va, length);
  segments_[va] = Segment{length, std::move(memory), offset};
  last_ = segments_.end();
  return true;
}

void AddressSpace::Unmap(uint64_t va, uint64_t length) {
  if (length == 0) return;
  last_ = segments_.end();
  const uint64_t end = va + length < va ? UINT64_MAX : va + length;
  if (elsewhere_ != nullptr) elsewhere_->Unmap(va, end - va);
  auto it = segments_.upper_bound(va);
  if (it != segments_.begin()) --it;
  while (it != segments_.end() && it->first < end) {
    const uint64_t start = it->first;
    Segment segment = it->second;
    if (start + segment.length <= va) {
      ++it;
      continue;
    }
    it = segments_.erase(it);
    if (start < va) segments_[start] = Segment{va - start, segment.memory, segment.offset};
    if (start + segment.length > end) {
      const uint64_t cut = end - start;
      it = segments_
               .emplace(end, Segment{segment.length - cut, segment.memory, segment.offset + cut})
               .first;
      ++it;
    }
  }
}

AddressSpace::Segments::iterator AddressSpace::Containing(uint64_t va) {
  if (last_ != segments_.end() && va - last_->first < last_->second.length) return last_;
  auto it = segments_.upper_bound(va);
  if (it == segments_.begin()) return segments_.end();
  --it;
  if (va - it->first >= it->second.length) return segments_.end();
  return last_ = it;
}

std::optional<AddressSpace::Piece> AddressSpace::Find(uint64_t va) {
  auto it = Containing(va);
  if (it == segments_.end()) return std::nullopt;
  const uint64_t into = va - it->first;
  return Piece{it->second.memory.get(), it->second.offset + into, it->second.length - into};
}

AddressSpace::Fault AddressSpace::Check(uint64_t va, uint64_t length) {
  while (length > 0) {
    auto piece = Find(va);
    if (!piece) return va;
    const uint64_t step = std::min(length, piece->length);
    va += step, length -= step;
  }
  return std::nullopt;
}

void AddressSpace::Bring(uint64_t va, uint64_t length) {
  while (length > 0) {
    const auto piece = Find(va);
    if (!piece) return;
    const uint64_t step = std::min(length, piece->length);
    if (DeviceMemory* const device = piece->memory->AsDevice()) device->Bring(piece->offset, step);
    va += step, length -= step;
  }
}

AddressSpace::Fault AddressSpace::Read(uint64_t va, void* out, uint64_t length) {
  auto* to = static_cast<uint8_t*>(out);
  while (length > 0) {
    auto piece = Find(va);
    if (!piece) return va;
    const uint64_t step = std::min(length, piece->length);
    if (!piece->memory->Read(piece->offset, to, step)) return va;
    to += step, va += step, length -= step;
  }
  return std::nullopt;
}

AddressSpace::Fault AddressSpace::Write(uint64_t va, const void* data, uint64_t length,
                                        OnTaint taint) {
  auto* from = static_cast<const uint8_t*>(data);
  while (length > 0) {
    auto piece = Find(va);
    if (!piece) return va;
    const uint64_t step = std::min(length, piece->length);
    if (uint8_t* base = piece->memory->HostPointer()) {
      StoreRelease(base + piece->offset, from, step);
    } else if (!piece->memory->Write(piece->offset, from, step)) {
      return va;
    }
    if (taint == OnTaint::kClear) NoteWritten(*piece, step);
    from += step, va += step, length -= step;
  }
  return std::nullopt;
}

AddressSpace::Fault AddressSpace::Zero(uint64_t va, uint64_t length, OnTaint taint) {
  while (length > 0) {
    auto piece = Find(va);
    if (!piece) return va;
    const uint64_t step = std::min(length, piece->length);
    if (!piece->memory->Zero(piece->offset, step)) return va;
    if (taint == OnTaint::kClear) NoteWritten(*piece, step);
    va += step, length -= step;
  }
  return std::nullopt;
}

AddressSpace::Fault AddressSpace::Copy(uint64_t destination, AddressSpace& source_space,
                                       uint64_t source, uint64_t length) {
  if (elsewhere_ != nullptr && &source_space == this &&
      elsewhere_->Copy(destination, source, length)) {
    return std::nullopt;
  }
  while (length > 0) {
    auto from = source_space.Find(source);
    if (!from) return source;
    auto to = Find(destination);
    if (!to) return destination;
    const uint64_t step = std::min({length, from->length, to->length});
    const CopyResult result =
        CopyMemory(*to->memory, to->offset, *from->memory, from->offset, step);
    if (result.copied < step) return result.read_failed ? source : destination;
    CopyMarks(*to, *from, step);
    source += step, destination += step, length -= step;
  }
  return std::nullopt;
}

uint64_t AddressSpace::SetTaint(uint64_t va, uint64_t length, bool tainted) {
  uint64_t without = 0;
  while (length > 0) {
    const auto piece = Find(va);
    if (!piece) break;
    const uint64_t step = std::min(length, piece->length);
    if (piece->memory->kind() != MemoryKind::kVidmem) {
      without += step;
    } else if (tainted) {
      NoteWritten(*piece, step);
      piece->memory->MakeTaint().Add(piece->offset, step);
    } else {
      NoteWritten(*piece, step);
    }
    va += step, length -= step;
  }
  return without;
}

bool AddressSpace::IsTainted(uint64_t va, uint64_t length) {
  while (length > 0) {
    const auto piece = Find(va);
    if (!piece) return false;
    const uint64_t step = std::min(length, piece->length);
    const ByteSet* const taint = piece->memory->taint();
    if (taint != nullptr && taint->Any(piece->offset, step)) return true;
    va += step, length -= step;
  }
  return false;
}

void AddressSpace::SetUnwritten(uint64_t va, uint64_t length, bool unwritten) {
  while (length > 0) {
    const auto piece = Find(va);
    if (!piece) break;
    const uint64_t step = std::min(length, piece->length);
    if (!unwritten) {
      if (ByteSet* const set = piece->memory->unwritten()) set->Remove(piece->offset, step);
    } else if (piece->memory->kind() == MemoryKind::kVidmem) {
      piece->memory->MakeUnwritten().Add(piece->offset, step);
    }
    va += step, length -= step;
  }
}

bool AddressSpace::IsUnwritten(uint64_t va, uint64_t length) {
  while (length > 0) {
    const auto piece = Find(va);
    if (!piece) return false;
    const uint64_t step = std::min(length, piece->length);
    const ByteSet* const set = piece->memory->unwritten();
    if (set != nullptr && set->Any(piece->offset, step)) return true;
    va += step, length -= step;
  }
  return false;
}

MemoryObject::Run AddressSpace::RunAt(uint64_t va, uint64_t length) {
  MemoryObject::Run run = {.empty = false, .length = 0};
  while (run.length < length) {
    const auto piece = Find(va + run.length);
    if (!piece) break;
    const MemoryObject::Run next =
        piece->memory->RunAt(piece->offset, std::min(length - run.length, piece->length));
    if (run.length > 0 && next.empty != run.empty) break;
    run.empty = next.empty;
    run.length += next.length;
  }
  return run;
}

AddressSpace::Fault AddressSpace::Fill(uint64_t va, uint64_t length,
                                       const std::vector<uint8_t>& pattern, uint64_t phase) {
  if (elsewhere_ != nullptr && elsewhere_->Fill(va, length, pattern, phase)) return std::nullopt;
  if (std::all_of(pattern.begin(), pattern.end(), [](uint8_t byte) { return byte == 0; })) {
    return Zero(va, length);
  }
  std::vector<uint8_t> buffer;  // whole patterns, beginning at `buffer_phase` within one
  uint64_t buffer_phase = 0;
  const auto prepare = [&](uint64_t at, uint64_t bytes) {
    buffer_phase = at % pattern.size();
    buffer.resize(bytes);
    for (uint64_t i = 0; i < bytes; ++i) buffer[i] = pattern[(buffer_phase + i) % pattern.size()];
  };
  while (length > 0) {
    const auto piece = Find(va);
    if (!piece) return va;
    uint64_t step = std::min(length, piece->length);
    DeviceMemory* const device = piece->memory->AsDevice();
    constexpr uint64_t kPage = PageStore::kPageBytes;
    const uint64_t into = piece->offset % kPage;
    if (device != nullptr && kPage % pattern.size() == 0 && into == 0 && step >= 2 * kPage) {
      // All pages are the same one.
      step = step / kPage * kPage;
      prepare(phase, kPage);
      if (!device->Repeat(piece->offset, buffer.data(), step / kPage)) return va;
      NoteWritten(*piece, step);
    } else {
      if (device != nullptr && step > kPage) step = kPage - into;
      step = std::min(step, kFillBuffer / pattern.size() * pattern.size());
      if (buffer.size() < step || buffer_phase != phase % pattern.size()) prepare(phase, step);
      if (auto fault = Write(va, buffer.data(), step)) return fault;
    }
    va += step, phase += step, length -= step;
  }
  return std::nullopt;
}

std::optional<std::pair<uint64_t, uint64_t>> AddressSpace::MappingAt(uint64_t va) {
  const auto at = Containing(va);
  if (at == segments_.end()) return std::nullopt;
  return std::pair(at->first, at->second.length);
}

std::optional<std::pair<uint64_t, uint64_t>> AddressSpace::FirstWithin(uint64_t va,
                                                                       uint64_t length) {
  if (const auto mapping = MappingAt(va)) return mapping;
  const auto next = segments_.lower_bound(va);
  if (next == segments_.end() || next->first - va >= length) return std::nullopt;
  return std::pair(next->first, next->second.length);
}

std::optional<std::pair<uint64_t, uint64_t>> AddressSpace::RangeAround(uint64_t va) {
  constexpr int kMostPieces = 64;  // each way
  const auto at = Containing(va);
  if (at == segments_.end()) return std::nullopt;
  uint64_t begin = at->first, end = begin + at->second.length;
  auto before = at;
  for (int i = 0; i < kMostPieces && before != segments_.begin(); ++i) {
    --before;
    if (before->first + before->second.length != begin) break;
    begin = before->first;
  }
  auto after = std::next(at);
  for (int i = 0; i < kMostPieces && after != segments_.end() && after->first == end;
       ++i, ++after) {
    end += after->second.length;
  }
  return std::pair(begin, end - begin);
}

}  // namespace phantora
