#include "trap/gpu/real/real_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/gpu/real/real_space.h"
#include "trap/log.h"

namespace phantora {
namespace {

// What the host has written is looked through for addresses of memory that is not there yet, if it
// is so little: tables of pointers are.
constexpr uint64_t kMostSearched = 1 << 20;
// Mappings each way that a tensor may lie in: 128 GiB of those of expandable segments.
constexpr int kMostMappings = 1 << 16;
// Of the host's memory in one mapping: all of it is pinned.
constexpr uint64_t kMostHost = uint64_t{16} << 30;

}  // namespace

RealMemory::RealMemory(RemoteGpu* gpu, uint64_t most, std::shared_ptr<PageStore> store)
    : gpu_(gpu), most_pieces_(most / kPiece), store_(std::move(store)) {}

RealMemory::~RealMemory() {
  for (auto& [memory, space] : spaces_) memory->set_elsewhere(nullptr);
  for (auto& [memory, units] : units_) memory->set_elsewhere(nullptr);
}

absl::StatusOr<RealMemory::Space*> RealMemory::SpaceOf(AddressSpace& memory) {
  if (memory.elsewhere() != nullptr) return static_cast<Space*>(memory.elsewhere());
  if (!no_space_.ok()) return no_space_;
  auto remote = gpu_->NewSpace();
  if (!remote.ok()) return no_space_ = remote.status();
  auto space = std::make_unique<Space>(this, &memory, *std::move(remote));
  Space* const result = space.get();
  memory.set_elsewhere(result);
  spaces_[&memory] = std::move(space);
  return result;
}

absl::StatusOr<uint64_t> RealMemory::Know(Space& space, const KernelImage& image,
                                          const std::string& symbol) {
  if (!space.status_.ok()) return absl::UnavailableError(space.status_.message());
  auto number = space.remote_.Know(image, symbol);
  if (number.ok() || absl::IsNotFound(number.status())) return number;
  Lose(space, number.status());
  return absl::UnavailableError(number.status().message());
}

bool RealMemory::IsLost(AddressSpace& memory) const {
  const auto* const space = static_cast<const Space*>(memory.elsewhere());
  return space != nullptr && !space->status_.ok();
}

void RealMemory::KeepFromGpu(Space& space, uint64_t address) {
  const auto piece = space.memory_->Find(address);
  if (!piece) return;
  DeviceMemory* const memory = piece->memory->AsDevice();
  if (memory != nullptr && !space.kept_here_.contains(memory)) KeepHere(space, *memory);
}

void RealMemory::KeepHere(Space& space, DeviceMemory& memory) {
  space.kept_here_[&memory] = true;
  memory.set_elsewhere(this);  // so that its end is told
  Units& units = units_[&memory];
  while (!units.empty()) Remove(*units.begin()->second, true);
}

void RealMemory::Lose(Space& space, const absl::Status& status) {
  if (!space.status_.ok()) return;
  space.status_ = status;
  if (std::exchange(space.counted_, false)) counters_.pieces -= space.pieces_.size();
  LogError(absl::StrCat("the GPU that executes kernels is lost for one of the ranks' contexts: ",
                        std::string(status.message())));
}

// Turns.

absl::Status RealMemory::TooLarge() const {
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the memory of its context does not fit into %d MiB of the GPU that executes kernels",
      most_pieces_ * (kPiece >> 20)));
}

absl::Status RealMemory::MakeRoom(Space& space, uint64_t pieces) {
  if (pieces > most_pieces_) return TooLarge();
  while (counters_.pieces + pieces > most_pieces_) {
    Space* oldest = nullptr;
    for (auto& [memory, other] : spaces_) {
      if (other.get() == &space || !other->counted_ || other->pieces_.empty()) continue;
      if (oldest == nullptr || other->last_launch_ < oldest->last_launch_) oldest = other.get();
    }
    if (oldest == nullptr) return TooLarge();
    ++counters_.turns;
    if (auto status = oldest->remote_.Sleep(); !status.ok()) {
      Lose(*oldest, status);
    } else {
      oldest->counted_ = false;
      counters_.pieces -= oldest->pieces_.size();
    }
  }
  return absl::OkStatus();
}

absl::Status RealMemory::Wake(Space& space) {
  if (space.remote_.is_awake()) return absl::OkStatus();
  if (auto status = MakeRoom(space, space.pieces_.size()); !status.ok()) return status;
  counters_.pieces += space.pieces_.size();
  counters_.most_pieces = std::max(counters_.most_pieces, counters_.pieces);
  space.counted_ = true;
  return space.remote_.Wake();
}

// Units.

template <typename Each>
void RealMemory::ForEach(DeviceMemory& memory, uint64_t offset, uint64_t length, const Each& each) {
  const auto units = units_.find(&memory);
  if (units == units_.end() || length == 0) return;
  auto at = units->second.upper_bound(offset);
  if (at != units->second.begin()) --at;
  for (; at != units->second.end() && at->first < offset + length; ++at) {
    Unit& unit = *at->second;
    if (unit.end() <= offset) continue;
    const uint64_t begin = std::max(offset, unit.offset),
                   end = std::min(offset + length, unit.end());
    const size_t first = (begin - unit.offset) / kPage;
    each(unit, first, (end - unit.offset + kPage - 1) / kPage - first);
  }
}

void RealMemory::MarkFresh(Unit& unit) {
  if (unit.is_fresh) return;
  unit.is_fresh = true;
  unit.space->fresh_.push_back(&unit);
}

void RealMemory::Get(Unit& unit, size_t first, size_t pages) {
  Space& space = *unit.space;
  for (size_t page = first; page < first + pages;) {
    if (unit.here[page]) {
      ++page;
      continue;
    }
    size_t end = page + 1;
    while (end < first + pages && !unit.here[end]) ++end;
    const uint64_t bytes = (end - page) * kPage;
    if (space.status_.ok()) {
      absl::Status status = space.remote_.has_notes() ? Wake(space) : absl::OkStatus();
      if (status.ok()) {
        status = space.remote_.Get(unit.address + page * kPage, bytes, [&](const uint8_t* data) {
          return unit.memory->WriteHere(unit.offset + page * kPage, data, bytes);
        });
      }
      if (status.ok()) {
        counters_.got += bytes;
      } else {
        Lose(space, status);
      }
    }
    for (; page < end; ++page) unit.here.set(page);
  }
  MarkFresh(unit);
}

void RealMemory::Remove(Unit& unit, bool keep) {
  Space& space = *unit.space;
  if (keep) Get(unit, 0, unit.length / kPage);
  if (unit.is_fresh) std::erase(space.fresh_, &unit);
  const auto units = units_.find(unit.memory);
  if (units != units_.end()) units->second.erase(unit.offset);
  const uint64_t piece = unit.address / kPiece * kPiece;
  Space::Piece& of = space.pieces_[piece];
  of.zeros = false;
  if (--of.units == 0) {
    // What is noted may be about it.
    if (space.status_.ok() && !space.ending_ && space.remote_.has_notes()) {
      if (auto status = Wake(space); !status.ok()) Lose(space, status);
    }
    if (space.counted_) --counters_.pieces;
    space.pieces_.erase(piece);
    if (space.status_.ok() && !space.ending_) {
      if (auto status = space.remote_.Unmap(piece); !status.ok()) Lose(space, status);
    }
  }
  space.units_.erase(unit.address);
}

// What is to be there.

absl::Status RealMemory::AddUnit(Space& space, DeviceMemory& memory, uint64_t address,
                                 uint64_t offset, uint64_t length) {
  const uint64_t piece = address / kPiece * kPiece;
  // What was mapped there before, and whoever else has this memory.
  for (;;) {
    auto old = space.units_.upper_bound(address);
    if (old != space.units_.begin() &&
        std::prev(old)->first + std::prev(old)->second->length > address) {
      --old;
    }
    if (old == space.units_.end() || old->first >= address + length) break;
    Remove(*old->second, true);
  }
  std::vector<Unit*> others;
  ForEach(memory, offset, length, [&](Unit& unit, size_t, size_t) { others.push_back(&unit); });
  for (Unit* const unit : others) Remove(*unit, true);

  if (!space.pieces_.contains(piece)) {
    if (auto status = space.remote_.Reserve(piece); absl::IsOutOfRange(status)) {
      // It looked like an address, or this memory is the driver's here, too.
      KeepHere(space, memory);
      return absl::OkStatus();
    } else if (!status.ok()) {
      return status;
    }
    if (space.pieces_.size() >= most_pieces_) return TooLarge();
    if (space.counted_) {  // one that waits needs the room in its turn
      if (auto status = MakeRoom(space, 1); !status.ok()) return status;
      ++counters_.pieces;
      counters_.most_pieces = std::max(counters_.most_pieces, counters_.pieces);
    }
    space.pieces_[piece];
    if (auto status = space.remote_.Map(piece); !status.ok()) {
      return absl::UnavailableError(status.message());
    }
  }
  Space::Piece& in = space.pieces_[piece];
  ++in.units;
  auto unit = std::make_unique<Unit>();
  *unit = {.space = &space,
           .memory = &memory,
           .address = address,
           .offset = offset,
           .length = length,
           .here = {},
           .there = {}};
  for (size_t page = 0; page < length / kPage;) {
    const auto run = memory.RunHere(offset + page * kPage, length - page * kPage);
    for (const size_t end = page + run.length / kPage; page < end; ++page) {
      unit->here.set(page);
      if (run.empty && in.zeros) unit->there.set(page);
    }
  }
  memory.set_elsewhere(this);
  units_[&memory][offset] = unit.get();
  MarkFresh(*unit);
  space.units_[address] = std::move(unit);
  return absl::OkStatus();
}

absl::Status RealMemory::AddMapping(Space& space, uint64_t address, uint64_t length) {
  while (length > 0) {
    const auto at = space.memory_->Find(address);
    if (!at) return absl::OkStatus();
    const uint64_t step = std::min({length, at->length, kPiece - address % kPiece});
    DeviceMemory* const memory = at->memory->AsDevice();
    const auto known = space.units_.find(address);
    const bool is_there = known != space.units_.end() && known->second->attached &&
                          known->second->memory == memory && known->second->length == step;
    if (memory != nullptr && !is_there && !space.kept_here_.contains(memory) &&
        address % kPage == 0 && at->offset % kPage == 0 && step % kPage == 0) {
      if (auto status = AddUnit(space, *memory, address, at->offset, step); !status.ok()) {
        return status;
      }
    }
    address += step, length -= step;
  }
  return absl::OkStatus();
}

absl::Status RealMemory::Add(Space& space, uint64_t address) {
  auto unit = space.units_.upper_bound(address);
  if (unit != space.units_.begin()) {
    --unit;
    if (unit->second->attached && address - unit->first < unit->second->length) {
      return absl::OkStatus();
    }
  }
  const auto at = space.memory_->Find(address);
  if (!at) return absl::OkStatus();
  DeviceMemory* const memory = at->memory->AsDevice();
  if (memory == nullptr) return AddHost(space, address);
  if (space.kept_here_.contains(memory)) return absl::OkStatus();
  // A tensor may lie in several mappings.
  const auto can_be = [&](uint64_t where) {
    const auto piece = space.memory_->Find(where);
    if (!piece) return false;
    DeviceMemory* const of = piece->memory->AsDevice();
    return of != nullptr && !space.kept_here_.contains(of);
  };
  uint64_t begin = space.memory_->MappingAt(address)->first;
  for (int i = 0; i < kMostMappings && begin > 0 && can_be(begin - 1); ++i) {
    begin = space.memory_->MappingAt(begin - 1)->first;
  }
  uint64_t end = address;
  for (int i = 0; i < kMostMappings && can_be(end); ++i) {
    const auto mapping = space.memory_->MappingAt(end);
    end = mapping->first + mapping->second;
  }
  return AddMapping(space, begin, end - begin);
}

absl::Status RealMemory::AddHost(Space& space, uint64_t address) {
  const auto mapping = space.memory_->MappingAt(address);
  const auto at = space.memory_->Find(mapping->first);
  const auto known = space.hosts_.find(mapping->first);
  if (known != space.hosts_.end() && known->second.bytes == mapping->second) {
    space.uses_host_ |= known->second.status.ok();
    // The driver's own: it looked like an address.
    return absl::IsOutOfRange(known->second.status) ? absl::OkStatus() : known->second.status;
  }
  absl::Status status;
  const int file = at->memory->kind() == MemoryKind::kVidmem ? -1 : at->memory->MappableFd();
  if (file < 0) {
    status = absl::FailedPreconditionError("it may use memory of the process itself");
  } else if (mapping->first % kPage != 0 || at->offset % kPage != 0 ||
             mapping->second % kPage != 0 || mapping->second > kMostHost) {
    status = absl::FailedPreconditionError("it may use memory of the host");
  } else {
    status = space.remote_.MapHost(mapping->first, mapping->second, file, at->offset);
    if (absl::IsUnavailable(status)) return status;
    if (absl::IsAlreadyExists(status)) status = absl::FailedPreconditionError(status.message());
  }
  space.hosts_[mapping->first] = {mapping->second, status};
  space.uses_host_ |= status.ok();
  return absl::IsOutOfRange(status) ? absl::OkStatus() : status;
}

absl::Status RealMemory::PutFresh(Space& space, Unit& unit, std::vector<uint64_t>& found) {
  const size_t pages = unit.length / kPage;
  const Pages wanted = unit.here & ~unit.there;
  const uint64_t bytes_wanted = wanted.count() * kPage;
  for (size_t page = 0; page < pages && wanted.any();) {
    if (!wanted[page]) {
      ++page;
      continue;
    }
    size_t end = page + 1;
    while (end < pages && wanted[end]) ++end;
    const uint64_t bytes = (end - page) * kPage;
    auto status = space.remote_.Put(unit.address + page * kPage, bytes, [&](uint8_t* to) {
      unit.memory->ReadHere(unit.offset + page * kPage, to, bytes);
      if (bytes_wanted > kMostSearched) return;
      for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        std::memcpy(&word, to + at, sizeof word);
        if (word >> 47 == 0 && word >> 32 != 0) found.push_back(word);
      }
    });
    if (!status.ok()) return status;
    counters_.put += bytes;
    page = end;
  }
  unit.there |= unit.here;
  return absl::OkStatus();
}

absl::Status RealMemory::Launch(Space& space, const RemoteLaunch& launch,
                                absl::Span<const uint64_t> addresses) {
  if (!space.status_.ok()) return absl::UnavailableError(space.status_.message());
  space.last_launch_ = ++launches_;
  space.uses_host_ = false;
  absl::Status status = Prepare(space, addresses);
  if (absl::IsFailedPrecondition(status) || absl::IsAlreadyExists(status) ||
      absl::IsResourceExhausted(status)) {
    return status;
  }
  // Who waits and could be there need not wait.
  const bool fits = counters_.pieces + space.pieces_.size() <= most_pieces_;
  if (status.ok() && !space.remote_.is_awake() &&
      (fits || space.uses_host_ || space.remote_.is_full())) {
    status = Wake(space);
  }
  if (status.ok()) status = space.remote_.Launch(launch);
  // What the host's processor sees next must have happened.
  if (status.ok() && space.uses_host_) status = space.remote_.Finish();
  if (!status.ok()) {
    Lose(space, status);
    return absl::UnavailableError(status.message());
  }
  NothingHere(space);
  return absl::OkStatus();
}

absl::Status RealMemory::Prepare(Space& space, absl::Span<const uint64_t> addresses) {
  std::vector<uint64_t> wanted(addresses.begin(), addresses.end());
  bool given = true;
  while (!wanted.empty()) {
    for (const uint64_t address : wanted) {
      auto status = Add(space, address);
      // What looks like an address in a table may be a number.
      if (!status.ok() && (given || !absl::IsFailedPrecondition(status))) return status;
    }
    given = false;
    wanted.clear();
    const std::vector<Unit*> fresh = space.fresh_;
    for (Unit* const unit : fresh) {
      if (!unit->attached) continue;
      if (auto status = PutFresh(space, *unit, wanted); !status.ok())
        return absl::UnavailableError(status.message());
    }
  }
  return absl::OkStatus();
}

void RealMemory::NothingHere(Space& space) {
  std::vector<Unit*> left;
  for (Unit* const unit : space.fresh_) {
    if (!unit->attached) {
      left.push_back(unit);
      continue;
    }
    for (size_t page = 0; page < unit->length / kPage;) {
      size_t end = page + 1;
      while (end < unit->length / kPage && unit->here[end] == unit->here[page]) ++end;
      if (unit->here[page]) {
        unit->memory->DropHere(unit->offset + page * kPage, (end - page) * kPage);
      }
      page = end;
    }
    unit->here.reset();
    unit->is_fresh = false;
  }
  space.fresh_ = std::move(left);
}

// The host's accesses.

void RealMemory::Bring(DeviceMemory& memory, uint64_t offset, uint64_t length) {
  ForEach(memory, offset, length,
          [this](Unit& unit, size_t first, size_t pages) { Get(unit, first, pages); });
}

void RealMemory::Take(DeviceMemory& memory, uint64_t offset, uint64_t length) {
  ForEach(memory, offset, length, [&](Unit& unit, size_t first, size_t pages) {
    // Of the first and the last page a part may be kept.
    const auto keep = [&](size_t page) {
      const uint64_t begin = unit.offset + page * kPage;
      if (begin < offset || begin + kPage > offset + length) Get(unit, page, 1);
    };
    keep(first);
    if (pages > 1) keep(first + pages - 1);
    for (size_t page = first; page < first + pages; ++page) {
      unit.here.set(page);
      unit.there.reset(page);
    }
    MarkFresh(unit);
  });
}

void RealMemory::Keep(DeviceMemory& memory) {
  const auto units = units_.find(&memory);
  if (units == units_.end()) return;
  while (!units->second.empty()) Remove(*units->second.begin()->second, true);
  for (auto& [space, of] : spaces_) of->kept_here_[&memory] = true;
}

void RealMemory::Forget(DeviceMemory& memory) {
  const auto units = units_.find(&memory);
  if (units != units_.end()) {
    while (!units->second.empty()) Remove(*units->second.begin()->second, false);
    units_.erase(&memory);
  }
  for (auto& [space, of] : spaces_) of->kept_here_.erase(&memory);
}

}  // namespace phantora
