#include "uvm_model/equal_pages.h"

#include <algorithm>
#include <cstring>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace phantora {
namespace {

// Looking at a leaf only to see that nothing is to be done there costs as much as some pages.
constexpr uint64_t kLeafCost = 1;

uint64_t HashOf(const uint8_t* page) {
  return absl::Hash<absl::string_view>{}(
      absl::string_view(reinterpret_cast<const char*>(page), PageStore::kPageBytes));
}

}  // namespace

void EqualPages::Step(uint64_t pages) {
  if (!in_round_) {
    if (!again_ && store_->made() - made_ < worth_while_) return;
    made_ = store_->made();
    in_round_ = true;
    again_ = false;
    object_ = leaf_ = 0;
    // Of pages that are no more there may be many.
    if (by_hash_.size() > 2 * store_->used() / PageStore::kPageBytes + worth_while_) {
      by_hash_.clear();
      for (DeviceMemory* memory : store_->objects()) memory->ForgetLooks();
    }
  }
  const std::vector<DeviceMemory*>& objects = store_->objects();
  for (uint64_t done = 0; done < pages;) {
    if (object_ >= objects.size()) {
      in_round_ = false;
      return;
    }
    DeviceMemory& memory = *objects[object_];
    if (memory.is_mapped() || leaf_ >= memory.leaf_count()) {
      ++object_, leaf_ = 0;
      done += kLeafCost;
      continue;
    }
    done += kLeafCost + Look(memory, leaf_++);
  }
}

uint64_t EqualPages::Look(DeviceMemory& memory, uint64_t index) {
  DeviceMemory::Leaf* leaf = memory.leaf(index);
  if (leaf == nullptr) return 0;
  using State = DeviceMemory::Leaf::State;
  if (leaf->state != State::kQuiet) {
    // It may be in the middle of being written; at rest if nothing changes in a round.
    if (leaf->state == State::kWritten) {
      leaf->state = State::kQuiet;
      again_ = true;
    }
    return 0;
  }
  leaf->state = State::kLooked;
  uint64_t looked = 0;
  for (uint64_t i = 0; i < DeviceMemory::kLeafPages; ++i) {
    const PageStore::Page page = leaf->pages[i];
    if (page == PageStore::kZeros) continue;
    ++looked;
    const uint8_t* bytes = store_->At(page);
    PageStore::Page same = PageStore::kNone;
    if (PageStore::IsZero(bytes, PageStore::kPageBytes)) {
      same = PageStore::kZeros;
    } else {
      const auto [known, is_new] = by_hash_.try_emplace(HashOf(bytes), page);
      const PageStore::Page other = known->second;
      if (is_new || other == page) continue;
      if (store_->is_used(other) &&
          std::memcmp(store_->At(other), bytes, PageStore::kPageBytes) == 0) {
        if (store_->Share(other)) same = other;
      } else {
        known->second = page;
      }
    }
    if (same == PageStore::kNone) continue;
    ++found_;
    // The leaf may be gone after the last of its pages.
    if (!memory.Replace(index, i, same)) break;
  }
  looked_ += looked;
  return looked;
}

}  // namespace phantora
