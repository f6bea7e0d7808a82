#include "uvm_model/device_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace phantora {
namespace {

constexpr uint64_t kCopyBuffer = 1 << 20;
// From here on, asking the kernel for memory that was never written costs less than copying it.
constexpr uint64_t kSparse = 1 << 17;
// A shorter write of zeros is rarely the last one that its page needs to be zeros again.
constexpr uint64_t kWorthLooking = 64;

}  // namespace

DeviceMemory::DeviceMemory(std::shared_ptr<PageStore> store, uint64_t size)
    : MemoryObject(MemoryKind::kVidmem, (size + kPageBytes - 1) & ~(kPageBytes - 1)),
      store_(std::move(store)),
      leaves_((this->size() + kLeafBytes - 1) / kLeafBytes) {
  store_->Add(this, this->size());
  if (store_->compares()) plain_ = std::make_unique<OwnedMemory>(kind(), this->size());
}

DeviceMemory::~DeviceMemory() {
  if (elsewhere_ != nullptr) elsewhere_->Forget(*this);
  ZeroPages(0, leaves_.size() * kLeafPages);
  store_->Remove(this, size());
}

void DeviceMemory::Set(uint64_t number, PageStore::Page page) {
  std::unique_ptr<Leaf>& leaf = leaves_[number / kLeafPages];
  if (leaf == nullptr) {
    if (page == PageStore::kZeros) return;
    leaf = std::make_unique<Leaf>();
  }
  PageStore::Page& place = leaf->pages[number % kLeafPages];
  leaf->used = static_cast<uint16_t>(leaf->used + (page != PageStore::kZeros ? 1 : 0) -
                                     (place != PageStore::kZeros ? 1 : 0));
  store_->Release(std::exchange(place, page));
  leaf->state = Leaf::State::kWritten;
  if (leaf->used == 0) leaf.reset();
}

bool DeviceMemory::Replace(uint64_t leaf, uint64_t place, PageStore::Page same) {
  std::unique_ptr<Leaf>& of = leaves_[leaf];
  const Leaf::State state = of->state;
  Set(leaf * kLeafPages + place, same);
  if (of == nullptr) return false;
  of->state = state;
  return true;
}

void DeviceMemory::ForgetLooks() {
  for (const std::unique_ptr<Leaf>& leaf : leaves_) {
    if (leaf != nullptr && leaf->state == Leaf::State::kLooked) leaf->state = Leaf::State::kQuiet;
  }
}

uint8_t* DeviceMemory::Own(uint64_t number, bool keep) {
  const PageStore::Page old = PageAt(number);
  if (old != PageStore::kZeros && !store_->is_shared(old)) {
    leaves_[number / kLeafPages]->state = Leaf::State::kWritten;
    return store_->At(old);
  }
  const PageStore::Page page = store_->New();
  if (page == PageStore::kNone) return nullptr;
  uint8_t* bytes = store_->At(page);
  if (keep) {
    if (old == PageStore::kZeros) {
      std::memset(bytes, 0, kPageBytes);
    } else {
      std::memcpy(bytes, store_->At(old), kPageBytes);
    }
  }
  Set(number, page);
  return bytes;
}

bool DeviceMemory::WriteIn(uint64_t number, uint64_t into, const uint8_t* data, uint64_t length) {
  if (length < kWorthLooking) {
    // Parameters, descriptors, semaphores: nearly always into a page that has been written before.
    Leaf* const leaf = leaves_[number / kLeafPages].get();
    const PageStore::Page page =
        leaf == nullptr ? PageStore::kZeros : leaf->pages[number % kLeafPages];
    if (page != PageStore::kZeros && !store_->is_shared(page)) {
      leaf->state = Leaf::State::kWritten;
      std::memmove(store_->At(page) + into, data, length);
      return true;
    }
  }
  const bool zeros = PageStore::IsZero(data, length);
  if (zeros && PageAt(number) == PageStore::kZeros) return true;
  const bool whole = length == kPageBytes;
  if (zeros && whole) {
    Set(number, PageStore::kZeros);
    return true;
  }
  // The same again leaves what is shared as it is.
  const PageStore::Page old = PageAt(number);
  if (old != PageStore::kZeros && store_->is_shared(old) &&
      std::memcmp(store_->At(old) + into, data, length) == 0) {
    return true;
  }
  uint8_t* bytes = Own(number, !whole);
  if (bytes == nullptr) return false;
  std::memmove(bytes + into, data, length);  // a copy whose ranges overlap may come from here
  if (zeros && length >= kWorthLooking && PageStore::IsZero(bytes, kPageBytes)) {
    Set(number, PageStore::kZeros);
  }
  return true;
}

bool DeviceMemory::WritePages(uint64_t offset, const uint8_t* data, uint64_t length) {
  while (length > 0) {
    const uint64_t into = offset % kPageBytes;
    const uint64_t step = std::min(length, kPageBytes - into);
    if (!WriteIn(offset / kPageBytes, into, data, step)) return false;
    offset += step, data += step, length -= step;
  }
  return true;
}

bool DeviceMemory::Write(uint64_t offset, const void* data, uint64_t length) {
  if (!Contains(offset, length)) return false;
  if (mapped_ != nullptr) return mapped_->Write(offset, data, length);
  Take(offset, length);
  return WriteHere(offset, data, length);
}

bool DeviceMemory::WriteHere(uint64_t offset, const void* data, uint64_t length) {
  const bool done = WritePages(offset, static_cast<const uint8_t*>(data), length);
  if (plain_ != nullptr && done) {
    plain_->Write(offset, data, length);
    Compare(offset, length);
  }
  return done;
}

const uint8_t* DeviceMemory::DataAt(uint64_t offset, uint64_t length, uint64_t* contiguous) {
  Bring(offset, length);
  return HereAt(offset, length, contiguous);
}

const uint8_t* DeviceMemory::HereAt(uint64_t offset, uint64_t length, uint64_t* contiguous) {
  const uint64_t first = offset / kPageBytes, into = offset % kPageBytes;
  const PageStore::Page page = PageAt(first);
  const uint64_t last = (offset + length - 1) / kPageBytes;
  uint64_t pages = 1;
  while (first + pages <= last && PageAt(first + pages) == page + pages) ++pages;
  *contiguous = std::min(length, pages * kPageBytes - into);
  return store_->At(page) + into;
}

bool DeviceMemory::Read(uint64_t offset, void* out, uint64_t length) {
  if (!Contains(offset, length)) return false;
  if (mapped_ != nullptr) return mapped_->Read(offset, out, length);
  Bring(offset, length);
  return ReadHere(offset, out, length);
}

bool DeviceMemory::ReadHere(uint64_t offset, void* out, uint64_t length) {
  auto* to = static_cast<uint8_t*>(out);
  while (length > 0) {
    uint64_t step;
    if (PageAt(offset / kPageBytes) != PageStore::kZeros) {
      const uint8_t* from = HereAt(offset, length, &step);
      std::memcpy(to, from, step);
    } else {
      step = std::min(length, kPageBytes - offset % kPageBytes);
      std::memset(to, 0, step);
    }
    offset += step, to += step, length -= step;
  }
  return true;
}

void DeviceMemory::ZeroPages(uint64_t number, uint64_t pages) {
  for (const uint64_t end = number + pages; number < end;) {
    std::unique_ptr<Leaf>& leaf = leaves_[number / kLeafPages];
    const uint64_t stop = std::min(end, (number / kLeafPages + 1) * kLeafPages);
    if (leaf != nullptr) {
      for (uint64_t at = number; at < stop; ++at) {
        PageStore::Page& page = leaf->pages[at % kLeafPages];
        if (page == PageStore::kZeros) continue;
        store_->Release(std::exchange(page, PageStore::kZeros));
        --leaf->used;
      }
      if (leaf->used == 0) leaf.reset();
    }
    number = stop;
  }
}

bool DeviceMemory::ZeroBytes(uint64_t offset, uint64_t length) {
  static constexpr uint8_t kNothing[kPageBytes] = {};
  const uint64_t head = std::min(length, (kPageBytes - offset % kPageBytes) % kPageBytes);
  if (!WritePages(offset, kNothing, head)) return false;
  offset += head, length -= head;
  ZeroPages(offset / kPageBytes, length / kPageBytes);
  offset += length / kPageBytes * kPageBytes;
  return WritePages(offset, kNothing, length % kPageBytes);
}

bool DeviceMemory::Zero(uint64_t offset, uint64_t length) {
  if (!Contains(offset, length)) return false;
  if (mapped_ != nullptr) return mapped_->Zero(offset, length);
  Take(offset, length);
  if (!ZeroBytes(offset, length)) return false;
  if (plain_ != nullptr) {
    plain_->Zero(offset, length);
    Compare(offset, length);
  }
  return true;
}

MemoryObject::Run DeviceMemory::RunAt(uint64_t offset, uint64_t length) {
  if (mapped_ != nullptr) return mapped_->RunAt(offset, length);
  Bring(offset, length);
  return RunHere(offset, length);
}

MemoryObject::Run DeviceMemory::RunHere(uint64_t offset, uint64_t length) {
  uint64_t number = offset / kPageBytes;
  const bool empty = PageAt(number) == PageStore::kZeros;
  const uint64_t end = (offset + length + kPageBytes - 1) / kPageBytes;
  while (number < end) {
    const Leaf* leaf = leaves_[number / kLeafPages].get();
    const uint64_t stop = std::min(end, (number / kLeafPages + 1) * kLeafPages);
    if (leaf == nullptr) {
      if (!empty) break;
      number = stop;
      continue;
    }
    while (number < stop && (leaf->pages[number % kLeafPages] == PageStore::kZeros) == empty) {
      ++number;
    }
    if (number < stop) break;
  }
  return {empty, std::min(length, number * kPageBytes - offset)};
}

bool DeviceMemory::Refer(DeviceMemory& from, uint64_t from_number, uint64_t number,
                         uint64_t pages) {
  for (uint64_t i = 0; i < pages; ++i) {
    const PageStore::Page page = from.PageAt(from_number + i);
    if (page == PageAt(number + i)) continue;
    if (page == PageStore::kZeros || store_->Share(page)) {
      Set(number + i, page);
    } else if (!WriteIn(number + i, 0, store_->At(page), kPageBytes)) {
      return false;
    }
  }
  return true;
}

bool DeviceMemory::CopyPages(DeviceMemory& from, uint64_t from_offset, uint64_t offset,
                             uint64_t length) {
  const bool aligned = (from_offset - offset) % kPageBytes == 0;
  while (length > 0) {
    const Run run = from.RunHere(from_offset, length);
    uint64_t step = run.length;
    if (run.empty) {
      if (!ZeroBytes(offset, step)) return false;
    } else if (const uint64_t into = offset % kPageBytes;
               aligned && into == 0 && step >= kPageBytes) {
      const uint64_t pages = step / kPageBytes;
      step = pages * kPageBytes;
      if (!Refer(from, from_offset / kPageBytes, offset / kPageBytes, pages)) return false;
    } else {
      // Up to where whole pages begin, if they will.
      if (aligned) step = std::min(step, kPageBytes - into);
      const uint8_t* data = from.HereAt(from_offset, step, &step);
      if (!WritePages(offset, data, step)) return false;
    }
    from_offset += step, offset += step, length -= step;
  }
  return true;
}

bool DeviceMemory::CopyFrom(DeviceMemory& from, uint64_t from_offset, uint64_t offset,
                            uint64_t length) {
  if (!Contains(offset, length) || !from.Contains(from_offset, length)) return false;
  from.Bring(from_offset, length);
  Take(offset, length);
  if (!CopyPages(from, from_offset, offset, length)) return false;
  if (plain_ != nullptr) {
    std::vector<uint8_t> bytes(kPageBytes);
    for (uint64_t at = 0; at < length; at += kPageBytes) {
      const uint64_t step = std::min(kPageBytes, length - at);
      from.plain_->Read(from_offset + at, bytes.data(), step);
      plain_->Write(offset + at, bytes.data(), step);
    }
    Compare(offset, length);
  }
  return true;
}

bool DeviceMemory::Repeat(uint64_t offset, const uint8_t* data, uint64_t pages) {
  if (pages == 0) return true;
  if (!Write(offset, data, kPageBytes)) return false;
  for (uint64_t i = 1; i < pages; ++i) {
    if (!CopyFrom(*this, offset, offset + i * kPageBytes, kPageBytes)) return false;
  }
  return true;
}

uint8_t* DeviceMemory::HostPointer() {
  return mapped_ == nullptr ? nullptr : mapped_->HostPointer();
}

int DeviceMemory::MappableFd() {
  if (mapped_ != nullptr) return mapped_->MappableFd();
  if (elsewhere_ != nullptr) elsewhere_->Keep(*this);
  auto mapped = std::make_unique<OwnedMemory>(kind(), size());
  for (uint64_t offset = 0; offset < size();) {
    const Run run = RunAt(offset, size() - offset);
    for (uint64_t done = 0; !run.empty && done < run.length;) {
      uint64_t step;
      const uint8_t* data = DataAt(offset + done, run.length - done, &step);
      if (!mapped->Write(offset + done, data, step)) return -1;
      done += step;
    }
    offset += run.length;
  }
  const int file = mapped->MappableFd();
  if (file < 0) return -1;
  ZeroPages(0, leaves_.size() * kLeafPages);
  plain_.reset();
  mapped_ = std::move(mapped);
  return file;
}

void DeviceMemory::Compare(uint64_t offset, uint64_t length) {
  std::vector<uint8_t> expected(kPageBytes), actual(kPageBytes);
  // With what surrounds it, which must not have changed.
  const uint64_t end = std::min(size(), (offset + length) / kPageBytes * kPageBytes + kPageBytes);
  for (uint64_t at = offset / kPageBytes * kPageBytes; at < end; at += kPageBytes) {
    plain_->Read(at, expected.data(), kPageBytes);
    Read(at, actual.data(), kPageBytes);
    if (expected != actual) store_->Differs();
    const PageStore::Page page = PageAt(at / kPageBytes);
    const bool counted = page == PageStore::kZeros || store_->is_used(page);
    if (!counted) store_->Differs();
  }
}

CopyResult CopyMemory(MemoryObject& to, uint64_t to_offset, MemoryObject& from,
                      uint64_t from_offset, uint64_t length) {
  DeviceMemory* const source = from.AsDevice();
  DeviceMemory* const target = to.AsDevice();
  if (source != nullptr && target != nullptr) {
    return {target->CopyFrom(*source, from_offset, to_offset, length) ? length : 0, false};
  }
  std::vector<uint8_t> buffer;
  CopyResult result;
  while (result.copied < length) {
    const uint64_t at = from_offset + result.copied, to_at = to_offset + result.copied;
    uint64_t step = length - result.copied;
    if (source != nullptr || step >= kSparse) {
      // Reading a file's page that was never written would make memory of it.
      const MemoryObject::Run run = from.RunAt(at, step);
      step = run.length;
      if (run.empty) {
        if (!to.Zero(to_at, step)) return result;
        result.copied += step;
        continue;
      }
    }
    uint8_t* const from_base = source != nullptr ? nullptr : from.HostPointer();
    uint8_t* const to_base = to.HostPointer();
    if (source != nullptr) {
      const uint8_t* data = source->DataAt(at, step, &step);
      if (!to.Write(to_at, data, step)) return result;
    } else if (from_base != nullptr && to_base != nullptr) {
      std::memmove(to_base + to_at, from_base + at, step);
    } else if (from_base != nullptr) {
      if (!to.Write(to_at, from_base + at, step)) return result;
    } else if (to_base != nullptr) {
      if (!from.Read(at, to_base + to_at, step)) {
        result.read_failed = true;
        return result;
      }
    } else {
      step = std::min(step, kCopyBuffer);
      buffer.resize(step);
      if (!from.Read(at, buffer.data(), step)) {
        result.read_failed = true;
        return result;
      }
      if (!to.Write(to_at, buffer.data(), step)) return result;
    }
    result.copied += step;
  }
  return result;
}

}  // namespace phantora
