#include "trap/gpu/sass/launch_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "uvm_model/device_memory.h"

namespace phantora::sass {
namespace {

constexpr uint8_t kZeros[LaunchMemory::kPage] = {};

}  // namespace

void LaunchMemory::Forget() { entries_.fill({~uint64_t{0}, nullptr, nullptr}); }

bool LaunchMemory::Find(uint64_t page, Entry& entry) {
  if (const auto copy = copies_.find(page); copy != copies_.end()) {
    uint8_t* const bytes = copy->second.bytes.get();
    entry = {page, bytes, copy->second.written ? bytes : nullptr};
    return true;
  }
  const uint64_t address = page * kPage;
  const auto piece = space_.Find(address);
  if (!piece) return false;
  // Nothing of this address space changes while the launch lasts, so that pages can be read in
  // place.
  if (piece->length >= kPage && piece->offset % kPage == 0) {
    if (DeviceMemory* const device = piece->memory->AsDevice()) {
      uint64_t contiguous;
      const bool empty = device->RunAt(piece->offset, kPage).empty;
      entry = {page, empty ? kZeros : device->DataAt(piece->offset, kPage, &contiguous), nullptr};
      return true;
    }
    if (piece->memory->kind() != MemoryKind::kRegisters) {
      if (const uint8_t* const base = piece->memory->HostPointer()) {
        entry = {page, base + piece->offset, nullptr};
        return true;
      }
    }
  }
  const Copy* const copy = MakeCopy(page);
  if (copy == nullptr) return false;
  entry = {page, copy->bytes.get(), nullptr};
  return true;
}

LaunchMemory::Copy* LaunchMemory::MakeCopy(uint64_t page) {
  if (copied_bytes_ + 2 * kPage > most_bytes_) {
    out_of_memory_ = true;
    return nullptr;
  }
  const uint64_t address = page * kPage;
  Copy copy;
  copy.bytes = std::make_unique_for_overwrite<uint8_t[]>(kPage);
  if (space_.Read(address, copy.bytes.get(), kPage)) return nullptr;
  copied_bytes_ += kPage;
  const auto piece = space_.Find(address);
  const bool alone = piece && piece->length >= kPage && piece->memory->AsDevice() != nullptr;
  if (!alone) {
    copy.before = std::make_unique_for_overwrite<uint8_t[]>(kPage);
    std::memcpy(copy.before.get(), copy.bytes.get(), kPage);
    copied_bytes_ += kPage;
  }
  return &copies_.emplace(page, std::move(copy)).first->second;
}

bool LaunchMemory::Own(uint64_t page, Entry& entry) {
  const auto found = copies_.find(page);
  Copy* const copy = found != copies_.end() ? &found->second : MakeCopy(page);
  if (copy == nullptr) return false;
  copy->written = true;
  order_.push_back(page);
  ++written_pages_;
  entry = {page, copy->bytes.get(), copy->bytes.get()};
  return true;
}

AddressSpace::Fault LaunchMemory::Commit() {
  for (const uint64_t page : order_) {
    const Copy& copy = copies_.at(page);
    const uint64_t address = page * kPage;
    if (copy.before == nullptr) {
      if (auto fault = space_.Write(address, copy.bytes.get(), kPage)) return fault;
      continue;
    }
    for (uint64_t at = 0; at < kPage;) {
      if (copy.bytes[at] == copy.before[at]) {
        ++at;
        continue;
      }
      // By words where it can be, as a GPU writes: somebody may be looking.
      const uint64_t begin = at & ~uint64_t{7};
      uint64_t end = begin + 8;
      while (end < kPage && std::memcmp(&copy.bytes[end], &copy.before[end], 8) != 0) end += 8;
      if (auto fault = space_.Write(address + begin, &copy.bytes[begin], end - begin)) return fault;
      at = end;
    }
  }
  return std::nullopt;
}

}  // namespace phantora::sass
