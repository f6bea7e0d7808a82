#include "trap/check/memory_check.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace phantora {
namespace {

using Relation = Allocations::Relation;
using sass::Wrong;

// Errors that are told apart; others count with none.
constexpr size_t kMostErrors = 4096, kMostLeft = 4096;
// Lines of a copy that are looked at.
constexpr uint64_t kMostLines = 4096;

const char* NameOf(check::Kind kind) {
  switch (kind) {
    case check::Kind::kDevice:
    case check::Kind::kPool:
      return "an allocation";
    case check::Kind::kManaged:
      return "a managed allocation";
    case check::Kind::kHost:
      return "an allocation of host memory";
    case check::Kind::kRegistered:
      return "registered host memory";
  }
  return "";
}

std::string Bytes(uint64_t bytes) {
  const std::string digits = absl::StrCat(bytes);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return absl::StrCat(text, bytes == 1 ? " byte" : " bytes");
}

std::string Count(uint64_t number, const char* what, const char* plural = "s") {
  return absl::StrCat(number, " ", what, number == 1 ? "" : plural);
}

// Abseil's string_view is a type of its own.
absl::string_view Text(std::string_view text) { return {text.data(), text.size()}; }

std::string Named(const Allocations::Allocation& allocation) {
  return absl::StrCat(
      NameOf(allocation.kind), " of ", Bytes(allocation.bytes), " at 0x",
      absl::Hex(allocation.begin),
      allocation.where.empty() ? "" : absl::StrCat(" (", Text(allocation.where), ")"));
}

// From a program: ends before the first zero, and has nothing that a terminal obeys.
template <size_t N>
std::string TextOf(const char (&text)[N]) {
  std::string result(text, std::find(std::begin(text), std::end(text), '\0'));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return result;
}

}  // namespace

MemoryCheck::Process* MemoryCheck::Find(pid_t process) {
  const auto found = processes_.find(process);
  return found == processes_.end() ? nullptr : found->second.get();
}

int MemoryCheck::Allocated(pid_t process, const check::Allocated& allocated) {
  if (static_cast<uint32_t>(allocated.kind) >= check::kKinds || allocated.bytes == 0) return EINVAL;
  std::unique_ptr<Process>& of = processes_[process];
  if (of == nullptr) {
    of = std::make_unique<Process>();
    of->name = options_.name(process);  // which nobody can tell once it has ended
  }
  const std::string where = TextOf(allocated.where);
  if (!of->allocations.Add({.begin = allocated.address,
                            .bytes = allocated.bytes,
                            .kind = allocated.kind,
                            .where = where})) {
    ++unfollowed_;
    return ENOSPC;
  }
  if (allocated.kind == check::Kind::kDevice) {
    options_.each_space(process, [&](AddressSpace& memory) {
      memory.SetUnwritten(allocated.address, allocated.bytes, true);
    });
  }
  return 0;
}

int MemoryCheck::Freed(pid_t process, const check::Freed& freed) {
  Process* const of = Find(process);
  if (static_cast<uint32_t>(freed.what) >= check::kFreeings) return EINVAL;
  // What was allocated before anybody was told, or by another function.
  if (of == nullptr) return 0;
  Allocations& allocations = of->allocations;
  switch (freed.what) {
    case check::Freeing::kBegins:
      allocations.BeginFree(freed.address);
      return 0;
    case check::Freeing::kInOrder:
      allocations.FreeInOrder(freed.address);
      return 0;
    case check::Freeing::kIsDone:
      // What it has not written is nobody's concern any more. (Mostly it is not mapped any more.)
      if (const uint64_t bytes = allocations.Freed(freed.address); bytes > 0) {
        options_.each_space(process, [&](AddressSpace& memory) {
          memory.SetUnwritten(freed.address, bytes, false);
        });
      }
      return 0;
    case check::Freeing::kFailed:
      break;
  }
  allocations.Keep(freed.address);
  const auto place = allocations.Look(freed.address, 1);
  const std::string where = TextOf(freed.where);
  std::string text = absl::StrFormat("%s frees 0x%x, which CUDA refuses (error %d)", of->name,
                                     freed.address, freed.error);
  if (const auto* const before = allocations.FreedAt(freed.address)) {
    absl::StrAppend(&text, ": it was freed before, ", Named(*before));
  } else if (place.relation == Relation::kInside && place.allocation->begin != freed.address) {
    absl::StrAppend(&text, ": it is ", Bytes(freed.address - place.allocation->begin), " into ",
                    Named(*place.allocation));
  }
  if (!where.empty()) absl::StrAppend(&text, ", in ", where);
  Found(absl::StrCat("free ", process, " ", where), text);
  return 0;
}

void MemoryCheck::Refused(pid_t process, const check::Refused& refused) {
  const Process* const of = Find(process);
  const std::string function = TextOf(refused.function), where = TextOf(refused.where);
  Found(absl::StrCat("refused ", process, " ", function, " ", where),
        absl::StrCat(of == nullptr ? options_.name(process) : of->name, ": CUDA refuses ", function,
                     " (error ", refused.error, "): it is not within what is allocated, or its ",
                     "sizes make no sense", where.empty() ? "" : absl::StrCat(", in ", where)));
}

bool MemoryCheck::View::IsAllRight(uint64_t address, uint64_t bytes) {
  const auto place = allocations->Look(address, bytes);
  // Nobody has anything in it, or one allocation has all of it.
  if (place.relation != Relation::kInside) {
    return place.relation == Relation::kUnknown &&
           allocations->Look(address + bytes - 1, 1).relation == Relation::kUnknown;
  }
  return !knows_written || !memory->IsUnwritten(address, bytes);
}

Wrong MemoryCheck::View::Look(uint64_t address, uint64_t bytes) {
  switch (allocations->Look(address, bytes).relation) {
    case Relation::kOutside:
      return Wrong::kOutside;
    case Relation::kFreed:
      return Wrong::kFreed;
    default:
      return Wrong::kNothing;
  }
}

bool MemoryCheck::View::IsUnwritten(uint64_t address, uint64_t bytes) {
  return knows_written && memory->IsUnwritten(address, bytes);
}

sass::AccessCheck* MemoryCheck::Of(pid_t process, AddressSpace& memory) {
  const Process* const of = Find(process);
  if (of == nullptr) return nullptr;
  view_.allocations = &of->allocations;
  view_.memory = &memory;
  view_.knows_written = of->knows_written;
  return &view_;
}

std::string MemoryCheck::Describe(const Allocations::Place& place, uint64_t address, uint64_t bytes,
                                  bool writes) {
  std::string text =
      absl::StrCat(writes ? "writes " : "reads ", Bytes(bytes), " at 0x", absl::Hex(address));
  const Allocations::Allocation* const near = place.allocation;
  switch (place.relation) {
    case Relation::kUnknown:
      break;
    case Relation::kInside:
      absl::StrAppend(&text, " that nobody has written, ", Bytes(address - near->begin), " into ",
                      Named(*near));
      break;
    case Relation::kFreed:
      absl::StrAppend(&text, ", in memory that was freed: ", Named(*near));
      break;
    case Relation::kOutside:
      if (near == nullptr) {
        absl::StrAppend(&text, ", where nothing is allocated");
      } else if (near->begin > place.first) {
        absl::StrAppend(&text, ", ", Bytes(near->begin - place.first), " before ", Named(*near));
      } else if (address < near->end()) {
        absl::StrAppend(&text, ", the last ", Bytes(address + bytes - near->end()),
                        " behind the end of ", Named(*near));
      } else {
        const uint64_t gap = address - near->end();
        absl::StrAppend(&text, ", ", gap == 0 ? "directly" : Bytes(gap), " behind the end of ",
                        Named(*near));
      }
      break;
  }
  return text;
}

void MemoryCheck::Launched(pid_t process, const std::string& title,
                           absl::Span<const sass::WrongAccess> wrong,
                           const std::function<uint64_t(uint32_t)>& address_of,
                           const std::array<uint32_t, 3>& block) {
  ++launches_;
  const Process* const of = Find(process);
  if (of == nullptr) return;
  for (const sass::WrongAccess& each : wrong) {
    const auto place = of->allocations.Look(each.address, each.bytes);
    const uint32_t x = std::max(block[0], 1u), y = std::max(block[1], 1u);
    const uint64_t at = address_of(each.instruction);
    Found(absl::StrCat(title, " ", at, " ", static_cast<int>(each.wrong), each.writes, " ", process,
                       " ", place.allocation == nullptr ? "" : Text(place.allocation->where)),
          absl::StrFormat("%s: kernel %s %s (instruction 0x%x, thread %d,%d,%d of block %d,%d,%d)",
                          of->name, title, Describe(place, each.address, each.bytes, each.writes),
                          at, each.thread % x, each.thread / x % y, each.thread / x / y,
                          each.block[0], each.block[1], each.block[2]),
          each.count);
  }
}

void MemoryCheck::Failed(pid_t process, const std::string& title, const std::string& what,
                         uint64_t address) {
  const Process* const of = Find(process);
  std::string text = absl::StrCat(of == nullptr ? options_.name(process) : of->name, ": kernel ",
                                  title, " ends its context: ", what);
  if (of != nullptr && address != 0) {
    if (const auto* const freed = of->allocations.FreedAt(address)) {
      absl::StrAppend(&text, ", in memory that was freed: ", Named(*freed));
    } else if (const auto place = of->allocations.Look(address, 1);
               place.allocation != nullptr && place.relation == Relation::kOutside) {
      absl::StrAppend(&text, ", next to ", Named(*place.allocation));
    }
  }
  Found(absl::StrCat("failed ", process), text);
}

void MemoryCheck::NotLaunched(pid_t process, bool outputs_known) {
  ++unchecked_;
  Process* const of = Find(process);
  if (outputs_known || of == nullptr || !of->knows_written) return;
  of->knows_written = false;
  ++unknown_;
}

void MemoryCheck::Transfer(pid_t process, AddressSpace& memory, const Lines& lines,
                           Transferred what) {
  const Process* const of = Find(process);
  if (of == nullptr || lines.bytes == 0) return;
  const bool writes = what != Transferred::kRead && what != Transferred::kReadByHost;
  const char* const name = what == Transferred::kFilled           ? "a fill"
                           : what == Transferred::kCopiedOrFilled ? "a copy or fill"
                                                                  : "a copy";
  const uint64_t step = std::max<uint64_t>(lines.count / kMostLines, 1);
  for (uint64_t line = 0; line < lines.count; line += step) {
    const uint64_t address = lines.address + line * lines.stride;
    const auto place = of->allocations.Look(address, lines.bytes);
    const bool unwritten = place.relation == Relation::kInside &&
                           what == Transferred::kReadByHost && of->knows_written &&
                           memory.IsUnwritten(address, lines.bytes);
    if (place.relation != Relation::kOutside && place.relation != Relation::kFreed && !unwritten) {
      continue;
    }
    const std::string text = Describe(place, address, lines.bytes, writes);
    Found(absl::StrCat(name, process, writes, static_cast<int>(place.relation),
                       place.allocation == nullptr ? "" : Text(place.allocation->where)),
          absl::StrCat(of->name, ": ", name, " ", text, unwritten ? ", at least in part" : ""));
    return;  // other lines are wrong in the same way
  }
}

void MemoryCheck::Found(const std::string& key, const std::string& text, uint64_t count) {
  errors_ += count;
  if (found_.size() >= kMostErrors && !found_at_.contains(key)) return;
  const auto [at, is_new] = found_at_.try_emplace(key, found_.size());
  if (!is_new) {
    found_[at->second] += count;
    return;
  }
  found_.push_back(count);
  options_.tell(absl::StrCat("[", found_.size(), "] ", text));
}

void MemoryCheck::End() {
  while (!processes_.empty()) ProcessDied(processes_.begin()->first);
}

void MemoryCheck::ProcessDied(pid_t process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  for (const Allocations::Allocation* allocation : found->second->allocations.NotFreed()) {
    const std::string where =
        absl::StrCat(NameOf(allocation->kind), " of ", found->second->name, ", made ",
                     allocation->where.empty() ? "nobody knows where"
                                               : absl::StrCat("in ", Text(allocation->where)));
    const bool is_one_more = left_.size() >= kMostLeft && !left_.contains(where);
    Left& left = left_[is_one_more ? "allocations of many other places" : where];
    ++left.allocations;
    left.bytes += allocation->bytes;
  }
  processes_.erase(found);
}

std::vector<std::string> MemoryCheck::Summary(size_t most) const {
  std::vector<std::string> lines;
  std::string errors = Count(errors_, "error");
  if (errors_ > found_.size()) {
    std::vector<std::string> often;
    for (size_t i = 0; i < found_.size() && often.size() < most; ++i) {
      if (found_[i] > 1) often.push_back(absl::StrCat("[", i + 1, "] ", found_[i], " times"));
    }
    absl::StrAppend(&errors, " (", absl::StrJoin(often, ", "), often.size() == most ? ", ..." : "",
                    ")");
  }
  absl::StrAppend(&errors, " in ", Count(launches_, "kernel"));
  if (unchecked_ > 0) {
    absl::StrAppend(&errors, "; what ", unchecked_, " others access nobody has seen");
  }
  lines.push_back(errors);
  if (unknown_ > 0) {
    lines.push_back(absl::StrCat("reads of what nobody has written were not looked for in ",
                                 Count(unknown_, "process", "es"),
                                 " from a kernel on that was not executed, as nobody knows what it "
                                 "writes"));
  }
  if (unfollowed_ > 0) {
    lines.push_back(absl::StrCat(Count(unfollowed_, "allocation"),
                                 " beyond what is followed: what happens there was not looked at"));
  }
  std::vector<std::pair<std::string, Left>> left(left_.begin(), left_.end());
  std::stable_sort(left.begin(), left.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  for (size_t i = 0; i < std::min(most, left.size()); ++i) {
    const Left& each = left[i].second;
    lines.push_back(absl::StrCat("not freed at the end: ", Bytes(each.bytes), ", ",
                                 each.allocations == 1 ? "" : absl::StrCat(each.allocations, " x "),
                                 left[i].first));
  }
  if (left.size() > most) {
    Left rest;
    for (size_t i = most; i < left.size(); ++i) {
      rest.allocations += left[i].second.allocations;
      rest.bytes += left[i].second.bytes;
    }
    lines.push_back(absl::StrCat("not freed at the end: ", Bytes(rest.bytes), " in ",
                                 Count(rest.allocations, "other allocation")));
  }
  return lines;
}

}  // namespace phantora
