#include "trap/gpu/sass/launch_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "uvm_model/device_memory.h"

namespace phantora::sass {
namespace {

constexpr uint64_t kPage = LaunchMemory::kPage;
constexpr uint8_t kZeros[kPage] = {};
// Pages of which it is noted what is read: 64 MiB of notes.
constexpr size_t kMostNoted = 1 << 17;

// Where `bytes` differ from `before`. By words where it can be, as a GPU writes: somebody may be
// looking.
AddressSpace::Fault WriteDifferences(AddressSpace& space, uint64_t address, const uint8_t* bytes,
                                     const uint8_t* before) {
  for (uint64_t at = 0; at < kPage;) {
    if (bytes[at] == before[at]) {
      ++at;
      continue;
    }
    const uint64_t begin = at & ~uint64_t{7};
    uint64_t end = begin + 8;
    while (end < kPage && std::memcmp(&bytes[end], &before[end], 8) != 0) end += 8;
    if (auto fault = space.Write(address + begin, &bytes[begin], end - begin,
                                 AddressSpace::OnTaint::kKeep)) {
      return fault;
    }
    at = end;
  }
  return std::nullopt;
}

// Of `pages`, whose bytes of_page(page) has or not (nullptr). Ranges that follow each other become
// one.
template <typename OfPage>
bool RangesOf(std::vector<uint64_t> pages, size_t most,
              std::vector<std::pair<uint64_t, uint64_t>>& ranges, OfPage of_page) {
  std::sort(pages.begin(), pages.end());
  const size_t first = ranges.size();
  for (const uint64_t page : pages) {
    const WrittenBytes* const bytes = of_page(page);
    if (bytes == nullptr) continue;
    bytes->EachRange([&](uint64_t begin, uint64_t end) {
      begin += page * kPage, end += page * kPage;
      if (ranges.size() > first && ranges.back().second == begin) {
        ranges.back().second = end;
      } else {
        ranges.emplace_back(begin, end);
      }
    });
    if (ranges.size() > most) {
      ranges.resize(std::max(most, first));
      return false;
    }
  }
  return true;
}

}  // namespace

LaunchMemory::~LaunchMemory() {
  std::lock_guard lock(pages_.mutex_);
  for (auto& [page, copy] : copies_) {
    pages_.pool_.Give(std::move(copy.bytes));
    pages_.pool_.Give(std::move(copy.before));
  }
}

const uint8_t* LaunchMemory::ReadSlowly(uint64_t address, uint64_t bytes, Entry& entry) {
  Entry found;
  if (!Find(address / kPage, found)) return nullptr;
  const uint8_t* const at = found.read + address % kPage;
  const bool all_right = IsAllRight(address / kPage);
  if (!all_right && !IsRight(address, bytes, false, at)) return nullptr;
  if (pages_.tracking_ == Tracking::kLooking) {
    bool page_is_tainted = false;
    if (ReadsTaint(address, bytes, page_is_tainted)) {
      met_taint_ = true;
      return nullptr;
    }
    // Where some of a page is tainted each read is looked at.
    if (page_is_tainted) return at;
  }
  if (pages_.notes_reads_) {
    if (reads_.size() < kMostNoted || reads_.contains(address / kPage)) {
      reads_[address / kPage].Set(address % kPage, address % kPage + bytes);
    } else {
      too_many_reads_ = true;
    }
    return at;
  }
  if (all_right) entry = found;
  return at;
}

uint8_t* LaunchMemory::WriteSlowly(uint64_t address, uint64_t bytes, Entry& entry) {
  const uint64_t page = address / kPage, into = address % kPage;
  const bool tracks = pages_.tracking_ != Tracking::kNone;
  if (entry.page == page && entry.written != nullptr) {
    entry.written->Set(into, into + bytes);
    return const_cast<uint8_t*>(entry.read) + into;
  }
  Entry found;
  const bool all_right = IsAllRight(page);
  if (!Find(page, found) || (found.write == nullptr && found.written == nullptr &&
                             !Own(page, found, tracks || !all_right))) {
    return nullptr;
  }
  bool page_is_tainted = false;
  if (found.written != nullptr) found.written->Set(into, into + bytes);
  if (pages_.tracking_ == Tracking::kLooking) ReadsTaint(address, bytes, page_is_tainted);
  uint8_t* const at = const_cast<uint8_t*>(found.read) + into;
  if (!all_right && !IsRight(address, bytes, true, at)) return nullptr;
  // Such a page is found by Find each time, so that reads of it are looked at.
  if (!page_is_tainted && !pages_.notes_reads_ && all_right) entry = found;
  return at;
}

bool LaunchMemory::IsAllRight(uint64_t page) {
  if (pages_.check_ == nullptr) return true;
  std::lock_guard lock(pages_.mutex_);
  return pages_.check_->IsAllRight(page * kPage, kPage);
}

bool LaunchMemory::IsRight(uint64_t address, uint64_t bytes, bool writes, const uint8_t* at) {
  std::lock_guard lock(pages_.mutex_);
  AccessCheck& check = *pages_.check_;
  Wrong wrong = check.Look(address, bytes);
  if (wrong == Wrong::kNothing && !writes && check.IsUnwritten(address, bytes) &&
      Reads(address, bytes, [&](uint64_t byte) { return check.IsUnwritten(byte, 1); })) {
    wrong = Wrong::kUnwritten;
  }
  if (wrong == Wrong::kNothing) return true;
  met_ = {.wrong = wrong, .writes = writes, .address = address, .bytes = bytes};
  wrong_at_ = const_cast<uint8_t*>(at);
  return false;
}

uint8_t* LaunchMemory::GoOn(const WrongAccess& place) {
  constexpr size_t kMostWrong = 64;
  uint8_t* const at = GoOn();
  // What is read and written by one instruction is one access.
  const bool is_again = met_.writes && !last_.writes && last_.wrong == met_.wrong &&
                        last_.address == met_.address && last_.instruction == place.instruction;
  met_.instruction = place.instruction;
  met_.block = place.block;
  met_.thread = place.thread;
  last_ = met_;
  if (is_again) return at;
  const auto same = std::find_if(wrong_.begin(), wrong_.end(), [&](const WrongAccess& other) {
    return other.wrong == met_.wrong && other.writes == met_.writes &&
           other.instruction == met_.instruction;
  });
  if (same != wrong_.end()) {
    ++same->count;
  } else if (wrong_.size() < kMostWrong) {
    wrong_.push_back(met_);
  }
  return at;
}

template <typename Marked>
bool LaunchMemory::Reads(uint64_t address, uint64_t bytes, Marked is_marked) const {
  const auto copy = copies_.find(address / kPage);
  if (copy == copies_.end() || copy->second.bytes_written == nullptr) return true;
  for (uint64_t at = address; at < address + bytes; ++at) {
    if (!copy->second.bytes_written->Has(at % kPage) && is_marked(at)) return true;
  }
  return false;
}

bool LaunchMemory::ReadsTaint(uint64_t address, uint64_t bytes, bool& page_is_tainted) {
  std::lock_guard lock(pages_.mutex_);
  page_is_tainted = pages_.space_.IsTainted(address / kPage * kPage, kPage);
  if (!page_is_tainted || !pages_.space_.IsTainted(address, bytes)) return false;
  return Reads(address, bytes, [&](uint64_t byte) { return pages_.space_.IsTainted(byte, 1); });
}

bool LaunchMemory::Find(uint64_t page, Entry& entry) {
  if (const auto copy = copies_.find(page); copy != copies_.end()) {
    uint8_t* const bytes = copy->second.bytes.get();
    Written* const written = copy->second.bytes_written.get();
    entry = {page, bytes, copy->second.written && written == nullptr ? bytes : nullptr, written};
    return true;
  }
  std::lock_guard lock(pages_.mutex_);
  const uint64_t address = page * kPage;
  const auto piece = pages_.space_.Find(address);
  if (!piece) return false;
  // Nothing of this address space changes while the launch lasts, so that pages can be read in
  // place.
  if (piece->length >= kPage && piece->offset % kPage == 0) {
    if (DeviceMemory* const device = piece->memory->AsDevice()) {
      uint64_t contiguous;
      const bool empty = device->RunAt(piece->offset, kPage).empty;
      entry = {page, empty ? kZeros : device->DataAt(piece->offset, kPage, &contiguous), nullptr,
               nullptr};
      return true;
    }
    if (piece->memory->kind() != MemoryKind::kRegisters) {
      if (const uint8_t* const base = piece->memory->HostPointer()) {
        entry = {page, base + piece->offset, nullptr, nullptr};
        return true;
      }
    }
  }
  const Copy* const copy = MakeCopy(page);
  if (copy == nullptr) return false;
  entry = {page, copy->bytes.get(), nullptr, nullptr};
  return true;
}

// With the pages' lock.
LaunchMemory::Copy* LaunchMemory::MakeCopy(uint64_t page) {
  if (pages_.left_ < 2 * kPage) {
    out_of_memory_ = true;
    return nullptr;
  }
  const uint64_t address = page * kPage;
  Copy copy;
  copy.bytes = pages_.pool_.Take();
  if (pages_.space_.Read(address, copy.bytes.get(), kPage)) {
    pages_.pool_.Give(std::move(copy.bytes));
    return nullptr;
  }
  pages_.left_ -= kPage;
  const auto piece = pages_.space_.Find(address);
  const bool alone = piece && piece->length >= kPage && piece->memory->AsDevice() != nullptr;
  if (!alone) {
    copy.before = pages_.pool_.Take();
    std::memcpy(copy.before.get(), copy.bytes.get(), kPage);
    pages_.left_ -= kPage;
  }
  return &copies_.emplace(page, std::move(copy)).first->second;
}

bool LaunchMemory::Own(uint64_t page, Entry& entry, bool notes_writes) {
  const auto found = copies_.find(page);
  Copy* copy;
  if (found != copies_.end()) {
    copy = &found->second;
  } else {
    std::lock_guard lock(pages_.mutex_);
    copy = MakeCopy(page);
  }
  if (copy == nullptr) return false;
  copy->written = true;
  order_.push_back(page);
  if (notes_writes) {
    copy->bytes_written = std::make_unique<Written>();
    entry = {page, copy->bytes.get(), nullptr, copy->bytes_written.get()};
  } else {
    entry = {page, copy->bytes.get(), copy->bytes.get(), nullptr};
  }
  return true;
}

bool LaunchMemory::WrittenRanges(size_t most,
                                 std::vector<std::pair<uint64_t, uint64_t>>& ranges) const {
  return RangesOf(order_, most, ranges,
                  [&](uint64_t page) { return copies_.at(page).bytes_written.get(); });
}

bool LaunchMemory::ReadRanges(size_t most,
                              std::vector<std::pair<uint64_t, uint64_t>>& ranges) const {
  if (too_many_reads_) return false;
  std::vector<uint64_t> pages;
  for (const auto& [page, bytes] : reads_) pages.push_back(page);
  return RangesOf(std::move(pages), most, ranges, [&](uint64_t page) { return &reads_.at(page); });
}

uint64_t LaunchMemory::CommitTaint(absl::Span<LaunchMemory* const> parts) {
  uint64_t seen = 0;
  for (const LaunchMemory* part : parts) {
    const bool tainted = part->pages_.tracking_ == Tracking::kTainted;
    for (const uint64_t page : part->order_) {
      const Written* const written = part->copies_.at(page).bytes_written.get();
      if (written == nullptr) continue;
      written->EachRange([&](uint64_t begin, uint64_t end) {
        const uint64_t without =
            part->pages_.space_.SetTaint(page * kPage + begin, end - begin, tainted);
        if (tainted) seen += without;
      });
    }
  }
  return seen;
}

AddressSpace::Fault LaunchMemory::Commit(absl::Span<LaunchMemory* const> parts,
                                         uint64_t& host_bytes) {
  host_bytes = CommitTaint(parts);
  absl::flat_hash_map<uint64_t, uint32_t> writers;
  if (parts.size() > 1) {
    for (const LaunchMemory* part : parts) {
      for (const uint64_t page : part->order_) ++writers[page];
    }
  }
  for (const LaunchMemory* part : parts) {
    AddressSpace& space = part->pages_.space_;
    for (const uint64_t page : part->order_) {
      if (parts.size() > 1) {
        uint32_t& count = writers[page];
        if (count == 0) continue;
        if (count > 1) {
          count = 0;
          if (auto fault = CommitTogether(parts, page)) return fault;
          continue;
        }
      }
      const Copy& copy = part->copies_.at(page);
      const AddressSpace::Fault fault =
          copy.before == nullptr
              ? space.Write(page * kPage, copy.bytes.get(), kPage, AddressSpace::OnTaint::kKeep)
              : WriteDifferences(space, page * kPage, copy.bytes.get(), copy.before.get());
      if (fault) return fault;
    }
  }
  return std::nullopt;
}

AddressSpace::Fault LaunchMemory::CommitTogether(absl::Span<LaunchMemory* const> parts,
                                                 uint64_t page) {
  AddressSpace& space = parts.front()->pages_.space_;
  uint8_t there[kPage], merged[kPage];
  if (auto fault = space.Read(page * kPage, there, kPage)) return fault;
  std::memcpy(merged, there, kPage);
  for (const LaunchMemory* part : parts) {
    const auto found = part->copies_.find(page);
    if (found == part->copies_.end() || !found->second.written) continue;
    const uint8_t* const bytes = found->second.bytes.get();
    const uint8_t* const before =
        found->second.before != nullptr ? found->second.before.get() : there;
    for (uint64_t at = 0; at < kPage; ++at) {
      if (bytes[at] != before[at]) merged[at] = bytes[at];
    }
  }
  return WriteDifferences(space, page * kPage, merged, there);
}

}  // namespace phantora::sass
