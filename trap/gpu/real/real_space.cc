#include "trap/gpu/real/real_space.h"

#include <algorithm>

namespace phantora {
namespace {

// A copy or fill of less is done here.
constexpr uint64_t kWorthIt = 4096;

}  // namespace

std::vector<RealMemory::Unit*> RealMemory::Covering(Space& space, uint64_t address,
                                                    uint64_t length) {
  std::vector<Unit*> units;
  auto at = space.units_.upper_bound(address);
  if (at == space.units_.begin()) return units;
  --at;
  for (uint64_t next = address; next < address + length; ++at) {
    if (at == space.units_.end() || !at->second->attached || at->first > next ||
        at->first + at->second->length <= next) {
      return {};
    }
    units.push_back(at->second.get());
    next = at->first + at->second->length;
  }
  return units;
}

bool RealMemory::WriteThere(Space& space, const std::vector<Unit*>& units, uint64_t address,
                            uint64_t length) {
  for (Unit* const unit : units) {
    const uint64_t begin = std::max(address, unit->address);
    const uint64_t end = std::min(address + length, unit->address + unit->length);
    const size_t first = (begin - unit->address) / kPage;
    const size_t last = (end - 1 - unit->address) / kPage;
    for (size_t page = first; page <= last; ++page) {
      const uint64_t at = unit->address + page * kPage;
      const bool whole = at >= address && at + kPage <= address + length;
      if (!whole && !unit->there[page]) {
        auto status = space.remote_.Put(at, kPage, [&](uint8_t* to) {
          unit->memory->ReadHere(unit->offset + page * kPage, to, kPage);
        });
        if (!status.ok()) {
          Lose(space, status);
          return false;
        }
        counters_.put += kPage;
      }
      unit->there.set(page);
      if (!unit->here[page]) continue;
      unit->here.reset(page);
      unit->memory->DropHere(unit->offset + page * kPage, kPage);
    }
  }
  return true;
}

bool RealMemory::Space::Copy(uint64_t destination, uint64_t source, uint64_t length) {
  if (!status_.ok() || length < kWorthIt || destination + length < destination ||
      source + length < source ||
      (destination < source + length && source < destination + length)) {
    return false;
  }
  const auto from = owner_->Covering(*this, source, length);
  for (const Unit* const unit : from) {
    const uint64_t begin = std::max(source, unit->address);
    const uint64_t end = std::min(source + length, unit->address + unit->length);
    for (uint64_t at = begin / kPage * kPage; at < end; at += kPage) {
      if (!unit->there[(at - unit->address) / kPage]) return false;
    }
  }
  const auto to = owner_->Covering(*this, destination, length);
  if (from.empty() || to.empty() || !owner_->WriteThere(*this, to, destination, length)) {
    return false;
  }
  if (auto status = remote_.Copy(destination, source, length); !status.ok()) {
    owner_->Lose(*this, status);
  }
  return true;
}

bool RealMemory::Space::Fill(uint64_t address, uint64_t length, const std::vector<uint8_t>& pattern,
                             uint64_t phase) {
  const size_t bytes = pattern.size();
  if (!status_.ok() || length < kWorthIt || address + length < address ||
      (bytes != 1 && bytes != 2 && bytes != 4) || address % bytes != 0 || length % bytes != 0 ||
      phase % bytes != 0) {
    return false;
  }
  const auto to = owner_->Covering(*this, address, length);
  if (to.empty() || !owner_->WriteThere(*this, to, address, length)) return false;
  if (auto status = remote_.Fill(address, length, pattern); !status.ok()) {
    owner_->Lose(*this, status);
  }
  return true;
}

void RealMemory::Space::Unmap(uint64_t address, uint64_t length) {
  auto at = units_.upper_bound(address);
  if (at != units_.begin()) --at;
  for (; at != units_.end() && at->first < address + length; ++at) {
    // What it held is wanted if its memory is used again.
    if (at->first + at->second->length > address) at->second->attached = false;
  }
  auto host = hosts_.upper_bound(address);
  if (host != hosts_.begin()) --host;
  while (host != hosts_.end() && host->first < address + length) {
    if (host->first + host->second.bytes <= address) {
      ++host;
      continue;
    }
    if (host->second.status.ok() && status_.ok() && !ending_) {
      if (auto status = remote_.UnmapHost(host->first, host->second.bytes); !status.ok()) {
        owner_->Lose(*this, status);
      }
    }
    host = hosts_.erase(host);
  }
}

}  // namespace phantora
