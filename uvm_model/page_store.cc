#include "uvm_model/page_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace phantora {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{2} << 20;
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // asm-generic/mman-common.h
#endif
// Asked for at a time.
constexpr uint64_t kGrantBlocks = 16;

void* Reserve(uint64_t bytes, int protection) {
  void* at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

}  // namespace

bool PageStore::IsZero(const uint8_t* bytes, uint64_t length) {
  if (length == 0) return true;
  // Comparing with itself, moved by one, runs at the speed of memory and ends where they differ.
  return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, length - 1) == 0;
}

PageStore::PageStore(uint64_t bytes) {
  uint64_t pages = std::min<uint64_t>((bytes + kBlockBytes - 1) / kBlockBytes * kBlockPages,
                                      UINT32_MAX / kBlockPages * kBlockPages - kBlockPages) +
                   kBlockPages;
  // A limit on address space (ulimit -v) may leave less. Memory that cannot be accessed yet
  // counts against no limit on committed memory; the counts do, so they come with the blocks.
  for (; pages > kBlockPages; pages = pages / 2 / kBlockPages * kBlockPages) {
    // One block more, to begin where a huge page may.
    void* memory = Reserve((pages + kBlockPages) * kPageBytes, PROT_NONE);
    void* references = Reserve(pages * sizeof(uint32_t), PROT_READ | PROT_WRITE);
    if (memory != nullptr && references != nullptr) {
      const auto address = reinterpret_cast<uintptr_t>(memory);
      const uintptr_t aligned = (address + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
      if (aligned > address) munmap(memory, aligned - address);
      munmap(reinterpret_cast<void*>(aligned + pages * kPageBytes),
             address + kBlockBytes - aligned);
      base_ = reinterpret_cast<uint8_t*>(aligned);
      references_ = static_cast<uint32_t*>(references);
      mapped_pages_ = end_ = pages;
      break;
    }
    if (memory != nullptr) munmap(memory, (pages + kBlockPages) * kPageBytes);
    if (references != nullptr) munmap(references, pages * sizeof(uint32_t));
  }
  blocks_.resize(1);  // block 0
}

PageStore::~PageStore() {
  if (mapped_pages_ == 0) return;
  munmap(base_, mapped_pages_ * kPageBytes);
  munmap(references_, mapped_pages_ * sizeof(uint32_t));
}

bool PageStore::Hold(uint32_t block) {
  Block& of = blocks_[block];
  if (of.held) return true;
  if (supply_ != nullptr && held_blocks_ >= granted_blocks_) {
    if (!supply_->Take(kGrantBlocks * kBlockBytes)) return false;
    granted_blocks_ = held_blocks_ + kGrantBlocks;
  }
  uint8_t* at = At(block * kBlockPages);
  if (mprotect(at, kBlockBytes, PROT_READ | PROT_WRITE) != 0) return false;
  of.held = true;
  ++held_blocks_;
  return true;
}

PageStore::Page PageStore::NewIn(uint32_t block) {
  Block& of = blocks_[block];
  for (size_t word = 0; word < of.taken.size(); ++word) {
    if (of.taken[word] == ~uint64_t{0}) continue;
    const int bit = std::countr_one(of.taken[word]);
    const Page page =
        block * kBlockPages + static_cast<uint32_t>(word) * 64 + static_cast<uint32_t>(bit);
    if ((of.touched >> word & 1) == 0) {
      // All 64 at once, which costs half of one fault after the other. An older kernel than Linux
      // 5.14 refuses, and faults.
      madvise(At(page / 64 * 64), 64 * kPageBytes, MADV_POPULATE_WRITE);
      of.touched = static_cast<uint8_t>(of.touched | 1u << word);
    }
    of.taken[word] |= uint64_t{1} << bit;
    ++of.used;
    ++used_;
    ++references_total_;
    references_[page] = 1;
    ++made_;
    peak_used_ = std::max(peak_used_, used_);
    return page;
  }
  return kNone;
}

PageStore::Page PageStore::New() {
  const Page page = TryNew();
  if (page == kNone && supply_ != nullptr) supply_->UsedUp();
  return page;
}

PageStore::Page PageStore::TryNew() {
  while (true) {
    if (current_ != 0 && blocks_[current_].used < kBlockPages) return NewIn(current_);
    current_ = 0;
    if (!partial_.empty()) {
      const uint32_t block = partial_.back();
      partial_.pop_back();
      blocks_[block].listed = false;
      if (blocks_[block].held) current_ = block;
      continue;
    }
    uint32_t block;
    std::vector<uint32_t>* list = !spare_.empty() ? &spare_ : &returned_;
    if (!list->empty()) {
      block = list->back();
      list->pop_back();
    } else {
      if ((blocks_.size() + 1) * kBlockPages > end_) {
        // At the end of the address space the fuller ones are good enough.
        const auto room = std::find_if(blocks_.begin() + 1, blocks_.end(), [](const Block& each) {
          return each.held && each.used < kBlockPages;
        });
        if (room == blocks_.end()) return kNone;
        current_ = static_cast<uint32_t>(room - blocks_.begin());
        continue;
      }
      block = static_cast<uint32_t>(blocks_.size());
      blocks_.emplace_back();
    }
    if (!Hold(block)) {
      returned_.push_back(block);
      return kNone;
    }
    current_ = block;
  }
}

bool PageStore::Share(Page page) {
  if (references_[page] == UINT32_MAX) return false;
  ++references_[page];
  ++references_total_;
  return true;
}

void PageStore::Release(Page page) {
  if (page == kZeros) return;
  --references_total_;
  if (--references_[page] > 0) return;
  --used_;
  const uint32_t block = page / kBlockPages, place = page % kBlockPages;
  Block& of = blocks_[block];
  of.taken[place / 64] &= ~(uint64_t{1} << place % 64);
  --of.used;
  if (block == current_) return;
  if (of.used == 0) {
    Emptied(block);
  } else if (!of.listed && of.used <= kBlockPages * 7 / 8) {
    // Fuller ones would give a large copy pages that lie apart.
    of.listed = true;
    partial_.push_back(block);
  }
}

void PageStore::Add(DeviceMemory* memory, uint64_t size) {
  objects_.push_back(memory);
  allocated_ += size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
}

void PageStore::Remove(DeviceMemory* memory, uint64_t size) {
  allocated_ -= size;
  const auto at = std::find(objects_.rbegin(), objects_.rend(), memory);
  *at = objects_.back();
  objects_.pop_back();
}

void PageStore::Emptied(uint32_t block) {
  Block& of = blocks_[block];
  if (of.listed) {
    // Nearly always one of the last: memory is freed in the order of its addresses.
    partial_.erase(std::next(std::find(partial_.rbegin(), partial_.rend(), block)).base());
    of.listed = false;
  }
  if (spare_.size() < kSpareBlocks) {
    spare_.push_back(block);
    return;
  }
  madvise(At(block * kBlockPages), kBlockBytes, MADV_DONTNEED);
  of.held = false;
  of.touched = 0;
  --held_blocks_;
  // What was given back, others may have taken.
  granted_blocks_ = std::min(granted_blocks_, held_blocks_ + kGrantBlocks);
  returned_.push_back(block);
}

}  // namespace phantora
