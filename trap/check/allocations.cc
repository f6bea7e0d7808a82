#include "trap/check/allocations.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace phantora {
namespace {

constexpr uint64_t kPiece = uint64_t{2} << 20;
constexpr size_t kMostFreed = 1 << 14, kMostLost = 1 << 12, kMostPlaces = 1 << 14;

bool IsHost(check::Kind kind) {
  return kind == check::Kind::kHost || kind == check::Kind::kRegistered;
}

}  // namespace

bool Allocations::Add(Allocation allocation) {
  const uint64_t begin = allocation.begin, end = allocation.end();
  if (end <= begin || entries_.size() >= kMost) return false;
  // What was at these addresses.
  auto over = entries_.upper_bound(begin);
  if (over != entries_.begin() && std::prev(over)->second.allocation.end() > begin) --over;
  while (over != entries_.end() && over->first < end) {
    const auto gone = over++;
    Remove(gone, gone->second.state != State::kLive);
  }
  auto was = freed_.upper_bound(begin);
  if (was != freed_.begin() && std::prev(was)->second.end() > begin) --was;
  while (was != freed_.end() && was->first < end) was = freed_.erase(was);

  // Between these two it has all.
  if (!IsHost(allocation.kind)) ++pieces_[begin / kPiece], ++pieces_[(end - 1) / kPiece];
  std::string place(allocation.where);
  allocation.where = {};
  if (places_.size() < kMostPlaces || places_.contains(place)) {
    allocation.where = *places_.insert(std::move(place)).first;
  }
  allocation.number = ++made_;
  entries_[begin] = {std::move(allocation), State::kLive};
  return true;
}

void Allocations::Remove(Entries::iterator entry, bool was_freed) {
  Allocation& gone = entry->second.allocation;
  if (!IsHost(gone.kind)) {
    for (const uint64_t piece : {gone.begin / kPiece, (gone.end() - 1) / kPiece}) {
      const auto found = pieces_.find(piece);
      if (--found->second == 0) pieces_.erase(found);
    }
  }
  if (was_freed) {
    freed_order_.push_back(gone.begin);
    freed_[gone.begin] = std::move(gone);
    while (freed_order_.size() > kMostFreed) {
      freed_.erase(freed_order_.front());
      freed_order_.pop_front();
    }
  } else if (lost_.size() < kMostLost) {
    lost_.push_back(std::move(gone));
  }
  entries_.erase(entry);
}

bool Allocations::BeginFree(uint64_t address) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return false;
  found->second.state = State::kBeingFreed;
  return true;
}

uint64_t Allocations::Freed(uint64_t address) {
  const auto found = entries_.find(address);
  if (found == entries_.end() || found->second.state != State::kBeingFreed) return 0;
  const uint64_t bytes = found->second.allocation.bytes;
  Remove(found, true);
  return bytes;
}

void Allocations::Keep(uint64_t address) {
  const auto found = entries_.find(address);
  if (found != entries_.end() && found->second.state == State::kBeingFreed) {
    found->second.state = State::kLive;
  }
}

bool Allocations::FreeInOrder(uint64_t address) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return false;
  found->second.state = State::kFreedInOrder;
  return true;
}

Allocations::Place Allocations::Look(uint64_t address, uint64_t bytes) const {
  const auto next = entries_.upper_bound(address);
  const Allocation* before = nullptr;
  if (next != entries_.begin()) before = &std::prev(next)->second.allocation;
  uint64_t first = address;
  if (before != nullptr && before->end() > address) {
    if (before->end() - address >= bytes) return {Relation::kInside, before};
    if (IsHost(before->kind)) return {};
    first = before->end();
  }
  if (!pieces_.contains(first / kPiece)) return {};
  // Not in any, and in memory that has nothing else.
  if (const Allocation* const freed = FreedAt(first)) return {Relation::kFreed, freed, first};
  // The nearer of its neighbours.
  const Allocation* near = before;
  if (near != nullptr && IsHost(near->kind)) near = nullptr;
  if (next != entries_.end() && !IsHost(next->second.allocation.kind)) {
    const Allocation& behind = next->second.allocation;
    if (near == nullptr || behind.begin - first < first - near->end()) near = &behind;
  }
  return {Relation::kOutside, near, first};
}

const Allocations::Allocation* Allocations::FreedAt(uint64_t address) const {
  const auto next = freed_.upper_bound(address);
  if (next == freed_.begin() || std::prev(next)->second.end() <= address) return nullptr;
  return &std::prev(next)->second;
}

std::vector<const Allocations::Allocation*> Allocations::NotFreed() const {
  std::vector<const Allocation*> all;
  for (const Allocation& lost : lost_) all.push_back(&lost);
  for (const auto& [begin, entry] : entries_) {
    if (entry.state == State::kLive) all.push_back(&entry.allocation);
  }
  std::sort(all.begin(), all.end(),
            [](const Allocation* a, const Allocation* b) { return a->number < b->number; });
  return all;
}

}  // namespace phantora
