#include "trap/memory/page_sharing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/linux/stopped_process.h"
#include "trap/linux/unique_fd.h"
#include "trap/log.h"
#include "trap/memory/mapping.h"

namespace phantora {
namespace {

// Pages that a process must have got, or that others have come to have too, before it is looked at
// again: no less than this part of what it has of its own, all of which is read then. A look takes
// a second for one gigabyte or two.
constexpr uint64_t kWorthWhileShare = 4, kWorthWhile = (32 << 20) / kPageBytes;
constexpr int64_t kLookEvery = 1'000'000'000;  // ns of real time
// With less than this part of the machine's memory left, ranks that go on would use it up before
// their turn comes: then less is worth a look, and nobody is served meanwhile. So it is while looks
// have taken less than this part of the run's time.
constexpr uint64_t kUrgentShare = 3, kWorthWhileNow = (12 << 20) / kPageBytes,
                   kWorthWhileShareNow = 8;
constexpr int64_t kLittleTimeShare = 16;
// If only zeros are looked for, only processes that are larger than a rank of PyTorch by itself:
// one that has staged its weights.
constexpr uint64_t kMuch = (uint64_t{1} << 30) / kPageBytes,
                   kMuchMore = (uint64_t{512} << 20) / kPageBytes;
// Every so often such a look reads what had no zeros at the last one, too.
constexpr int kWholeLooks = 8;
// After one that could not be stopped, which may have kept everybody waiting for half a second.
constexpr int64_t kTryAgain = 10'000'000'000;
// Pages. A shorter run costs more, as mappings and in looks at them, than it saves; zeros have the
// mapping of what surrounds them, and a sixth of a rank of PyTorch is zeros in runs of two. A run
// may cost two mappings, of which a process may have 65,530: the longest come first.
constexpr uint64_t kShortestRun = 4, kShortestZeros = 2;
// Pages between two that are shared which a process keeps in one mapping with them: half of what
// ranks of PyTorch have in common lies in runs of one or two pages.
constexpr uint64_t kLongestGap = 16;
constexpr size_t kMostMappings = 40'000;
constexpr uint64_t kBatch = 256;  // pages read at a time
// Of pagemap. What a process has written to since it was shared is not the file's.
constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62,
                   kOfFile = uint64_t{1} << 61;

// Of /proc/PID/statm: resident pages that no file is behind.
uint64_t AnonymousPages(const Proc& proc, pid_t process) {
  char text[128];
  if (!proc.Read(process, "statm", text)) return 0;
  unsigned long resident = 0, shared = 0;
  if (sscanf(text, "%*u %lu %lu", &resident, &shared) != 2 || shared > resident) return 0;
  return resident - shared;
}

// Does a run of numbers begin here that is worth a mapping?
bool IsRun(absl::Span<const int64_t> pages) {
  if (pages[0] < 0 || pages.size() < kShortestRun) return false;
  for (size_t i = 1; i < kShortestRun; ++i) {
    if (pages[i] != pages[0] + static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool IsZero(const uint8_t* page) {
  return page[0] == 0 && memcmp(page, page + 1, kPageBytes - 1) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageSharing>> PageSharing::Create(const Options& options) {
  auto pool = PagePool::Create();
  if (!pool.ok()) return pool.status();
  std::unique_ptr<PageSharing> sharing(new PageSharing(options));
  sharing->pool_ = *std::move(pool);
  sharing->bytes_.resize(kBatch * kPageBytes);
  return sharing;
}

bool PageSharing::IsUrgent() const {
  const Proc::Memory memory = options_.proc->MachineMemory();
  return memory.available < memory.total / kUrgentShare ||
         (options_.is_short != nullptr && options_.is_short());
}

void PageSharing::ProcessDied(pid_t process) {
  processes_.erase(process);
  pool_->TakeGiven(process);
}

bool PageSharing::Wants(pid_t id, bool urgent) {
  stopper_.ReleaseLate();
  Process& process = processes_[id];
  const int64_t now = options_.clock->Monotonic();
  if (now < process.next_try_ns) return false;
  if (!urgent && now < process.next_look_ns) return false;
  process.next_look_ns = now + kLookEvery;
  const uint64_t own = AnonymousPages(*options_.proc, id);
  const uint64_t got = own - std::min(own, process.own);
  if (options_.zeros_only) {
    process.whole |= urgent;
    return own >= kMuch && got >= (urgent ? kWorthWhile : kMuchMore);
  }
  const bool little = urgent || took_ns_ < (now - began_ns_) / kLittleTimeShare;
  const uint64_t least = little ? kWorthWhileNow : kWorthWhile;
  const uint64_t share = little ? kWorthWhileShareNow : kWorthWhileShare;
  return got + pool_->given(id) >= std::max(least, process.own / share);
}

std::vector<int64_t> PageSharing::Classify(pid_t process, int pagemap, const Stretch& stretch) {
  const RemoteMemory memory(process);
  const auto [begin, end] = stretch.range;
  const uint64_t pages = (end - begin) / kPageBytes;
  std::vector<int64_t> what;
  what.reserve(pages);
  std::array<uint64_t, kBatch> present;
  // Of files, the pool among them, only what the process has written to is looked at.
  const int64_t untouched = stretch.number || stretch.is_file ? kNotLookedAt : kUntouched;
  std::optional<uint32_t> first = stretch.number;
  while (what.size() < pages) {
    const uint64_t at = begin + what.size() * kPageBytes;
    const uint64_t count = std::min(kBatch, pages - what.size());
    const auto wanted = static_cast<ssize_t>(count * sizeof(uint64_t));
    if (pread(pagemap, present.data(), static_cast<size_t>(wanted),
              static_cast<off_t>(at / kPageBytes * sizeof(uint64_t))) != wanted) {
      return what;
    }
    for (uint64_t i = 0; i < count;) {
      const auto is_own = [&](uint64_t page) {
        return (present[page] & (kPresent | kSwapped | kOfFile)) == kPresent;
      };
      if (!is_own(i)) {
        what.push_back(present[i] & (kPresent | kSwapped) ? kNotLookedAt : untouched);
        ++i;
        continue;
      }
      uint64_t last = i;
      while (last < count && is_own(last)) ++last;
      if (options_.zeros_only) {
        if (!FindZeros(process, at + i * kPageBytes, at + last * kPageBytes, what)) return what;
        i = last;
        continue;
      }
      if (!memory.Read(RemoteAddress{at + i * kPageBytes}, bytes_.data(),
                       (last - i) * kPageBytes)) {
        return what;
      }
      if (!first) first = pool_->PlaceOf(begin);
      for (uint64_t page = i; page < last; ++page) {
        const uint8_t* content = &bytes_[(page - i) * kPageBytes];
        const auto place =
            first ? std::make_optional(*first + static_cast<uint32_t>(what.size())) : std::nullopt;
        if (IsZero(content)) {
          what.push_back(stretch.number && pool_->TakeZeros(*place) ? *place : kZeros);
        } else if (!what.empty() && what.back() >= 0 &&
                   pool_->Equals(static_cast<uint32_t>(what.back() + 1), content)) {
          what.push_back(what.back() + 1);
        } else if (const auto number = pool_->Offer(
                       process, content, place, page + 1 < last ? content + kPageBytes : nullptr)) {
          what.push_back(*number);
        } else {
          what.push_back(kOwn);
        }
      }
      i = last;
    }
  }
  return what;
}

bool PageSharing::FindZeros(pid_t process, uint64_t begin, uint64_t end,
                            std::vector<int64_t>& what) {
  const RemoteMemory memory(process);
  WithoutZeros& without = processes_[process].without_zeros;
  while (begin < end) {
    const auto [bytes, known] = without.FirstOf(begin, end);
    if (known) {
      without.Note(begin, begin + bytes);
      what.insert(what.end(), bytes / kPageBytes, kOwn);
    } else if (memory.Read(RemoteAddress{begin}, bytes_.data(), bytes)) {
      for (uint64_t page = 0; page < bytes; page += kPageBytes) {
        const bool zero = IsZero(&bytes_[page]);
        what.push_back(zero ? kZeros : kOwn);
        if (!zero) without.Note(begin + page, begin + page + kPageBytes);
      }
    } else {
      return false;
    }
    begin += bytes;
  }
  return true;
}

PageSharing::Run PageSharing::RunFrom(absl::Span<const int64_t> pages, size_t first, uint64_t begin,
                                      size_t longest_gap) {
  const auto number = [&](size_t page) {
    return pages[first] + static_cast<int64_t>(page - first);
  };
  size_t end = first + 1;  // after the last that is shared
  uint64_t same = 1;
  for (size_t page = end; page < pages.size() && page - end <= longest_gap; ++page) {
    if (pages[page] == number(page)) {
      end = page + 1;
      ++same;
    } else if (pages[page] == kNotLookedAt || IsRun(pages.subspan(page))) {
      break;
    }
  }
  Run run = {.address = begin + first * kPageBytes,
             .pages = end - first,
             .number = pages[first],
             .same = same};
  if (same < kShortestRun) return run;
  for (size_t page = first; page < end; ++page) {
    if (pages[page] == number(page)) continue;
    const bool zeros = pages[page] == kZeros || pages[page] == kUntouched;
    if (!zeros || !pool_->TakeZeros(static_cast<uint32_t>(number(page)))) {
      run.kept.push_back(begin + page * kPageBytes);
    }
  }
  return run;
}

void PageSharing::FindRunsIn(pid_t process, int pagemap, const Stretch& stretch,
                             std::vector<Run>& runs) {
  const std::vector<int64_t> pages = Classify(process, pagemap, stretch);
  const uint64_t begin = stretch.range.begin;
  for (size_t i = 0; i < pages.size();) {
    if (pages[i] == kZeros) {
      const size_t first = i;
      while (i < pages.size() && pages[i] == kZeros) ++i;
      if (i - first >= kShortestZeros) {
        runs.push_back(
            {begin + first * kPageBytes, i - first, kZeros, i - first, stretch.writable});
      }
    } else if (pages[i] >= 0) {
      // Where the mapping has it already, it costs none, however short.
      const bool at_home = stretch.number && pages[i] == *stretch.number + static_cast<int64_t>(i);
      // What is kept is written back, which protected memory does not let one do.
      Run run = RunFrom(pages, i, begin, at_home || !stretch.writable ? 0 : kLongestGap);
      run.writable = stretch.writable;
      i += run.pages;
      if (run.same >= kShortestRun || at_home) runs.push_back(std::move(run));
    } else {
      ++i;
    }
  }
}

bool PageSharing::FindRuns(pid_t process, std::vector<Run>& runs) {
  const UniqueFd pagemap = options_.proc->Open(process, "pagemap");
  std::istringstream smaps(options_.proc->Text(process, "smaps"));
  if (!pagemap.valid() || smaps.peek() == EOF) return false;
  if (Process& of = processes_[process]; options_.zeros_only) {
    of.without_zeros.Begin(std::exchange(of.whole, false) || of.looks++ % kWholeLooks == 0);
  }
  std::vector<Mapping> eligible;
  Mapping mapping;
  size_t mappings = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (absl::StartsWith(line, "VmFlags:")) {
      // A page of a file that is given back is the file's again, and not zeros.
      if (mapping.eligible && !(options_.zeros_only && mapping.is_file) &&
          mapping.Has(kShortestZeros * kPageBytes) && !Mapping::HasFlags(line)) {
        eligible.push_back(mapping);
      }
      mapping = Mapping();
    } else if (absl::StartsWith(line, "Anonymous:")) {
      sscanf(line.c_str(), "Anonymous: %lu", &mapping.anonymous_kib);
    } else if (line[0] >= '0' && line[0] <= 'f' && line.find('-') < line.find(' ')) {
      mappings += mapping.Parse(line) ? 1 : 0;
    }
  }
  for (const Mapping& each : eligible) {
    for (uint64_t begin = each.begin; begin < each.end;) {
      const uint64_t window = (begin / PagePool::kWindowBytes + 1) * PagePool::kWindowBytes;
      Stretch stretch = {.range = {begin, std::min<uint64_t>(each.end, window)},
                         .number = std::nullopt,
                         .is_file = each.is_file,
                         .writable = each.is_writable};
      if (each.is_pool) {
        stretch.number = static_cast<uint32_t>((each.offset + (begin - each.begin)) / kPageBytes);
      }
      FindRunsIn(process, pagemap.get(), stretch, runs);
      begin = stretch.range.end;
    }
  }
  const size_t most = mappings < kMostMappings ? (kMostMappings - mappings) / 2 : 0;
  if (runs.size() > most) {
    std::nth_element(runs.begin(), runs.begin() + static_cast<ptrdiff_t>(most), runs.end(),
                     [](const Run& a, const Run& b) { return a.same > b.same; });
    runs.resize(most);
  }
  return true;
}

bool PageSharing::NoteUsed(pid_t process, std::vector<bool>& used) const {
  const auto mappings = [&] {
    std::vector<Mapping> found;
    std::istringstream maps(options_.proc->Text(process, "maps"));
    for (std::string line; std::getline(maps, line);) {
      Mapping mapping;
      if (mapping.Parse(line) && mapping.is_pool) found.push_back(mapping);
    }
    return found;
  };
  const UniqueFd pagemap = options_.proc->Open(process, "pagemap");
  if (!pagemap.valid()) return errno == ENOENT || errno == ESRCH;  // it is gone
  std::array<uint64_t, kBatch> entries;
  const std::vector<Mapping> before = mappings();
  for (const Mapping& each : before) {
    uint64_t number = each.offset / kPageBytes;
    for (uint64_t page = each.begin / kPageBytes; page < each.end / kPageBytes;) {
      const uint64_t count = std::min(kBatch, each.end / kPageBytes - page);
      const auto wanted = static_cast<ssize_t>(count * sizeof(uint64_t));
      if (pread(pagemap.get(), entries.data(), static_cast<size_t>(wanted),
                static_cast<off_t>(page * sizeof(uint64_t))) != wanted) {
        return false;
      }
      for (uint64_t i = 0; i < count; ++i, ++number) {
        // Written to, it is the process's own for good. One that has never been touched is not.
        const bool own = (entries[i] & (kPresent | kSwapped)) != 0 && (entries[i] & kOfFile) == 0;
        if (number < used.size() && !own) used[number] = true;
      }
      page += count;
    }
  }
  // What moved meanwhile may not have been seen.
  return mappings() == before;
}

bool PageSharing::Recycle() {
  std::vector<bool> used(pool_->places());
  // Who was forked meanwhile has what its parent had then. One whose parent ends while processes
  // are listed may not be found at once.
  absl::flat_hash_set<pid_t> looked;
  for (int without_new = 0; without_new < 2; ++without_new) {
    for (const pid_t process : options_.descendants()) {
      if (!looked.insert(process).second) continue;
      without_new = -1;
      if (NoteUsed(process, used)) continue;
      LogInfo(absl::StrCat("what of the shared memory process ", process,
                           " uses cannot be told now; what nobody uses is kept"));
      return false;
    }
  }
  pool_->Recycle(used);
  return true;
}

bool PageSharing::Place(pid_t process, StoppedProcess& stopped, const Run& run,
                        uint64_t file) const {
  const uint64_t bytes = run.pages * kPageBytes;
  if (options_.zeros_only) {
    // The mapping stays as it is. Not where memory is shared: there the file's bytes would come
    // back, and the call is a trapped one, which nobody would serve.
    return stopped.Call(SYS_madvise, {run.address, bytes, MADV_DONTNEED, 0, 0, 0}) == 0;
  }
  const RemoteMemory memory(process);
  std::vector<uint8_t> kept(run.kept.size() * kPageBytes);
  for (size_t i = 0; i < run.kept.size(); ++i) {
    if (!memory.Read(RemoteAddress{run.kept[i]}, &kept[i * kPageBytes], kPageBytes)) return false;
  }
  const bool zeros = run.number == kZeros;
  const uint64_t flags = MAP_PRIVATE | MAP_FIXED | (zeros ? MAP_ANONYMOUS : 0);
  const uint64_t offset = zeros ? 0 : static_cast<uint64_t>(run.number) * kPageBytes;
  const uint64_t access = PROT_READ | (run.writable ? PROT_WRITE : 0);
  if (stopped.Call(SYS_mmap, {run.address, bytes, access, flags, zeros ? ~uint64_t{0} : file,
                              offset}) != static_cast<int64_t>(run.address)) {
    return false;
  }
  for (size_t i = 0; i < run.kept.size(); ++i) {
    if (memory.Write(RemoteAddress{run.kept[i]}, &kept[i * kPageBytes], kPageBytes)) continue;
    // Only a process that is being killed, or a machine without a page: it had it a moment ago.
    LogError(absl::StrCat("process ", process,
                          " is ended: there was no memory to write back what it had written "
                          "(--share-memory off does without)"));
    kill(process, SIGKILL);
    return false;
  }
  return true;
}

bool PageSharing::Share(pid_t id, uint64_t call, NotifyListener& listener,
                        const std::function<bool(pid_t)>& held) {
  const int64_t begin = options_.clock->Monotonic();
  const absl::Cleanup note = [&] { took_ns_ += options_.clock->Monotonic() - begin; };
  if (pool_->pages() >= recycle_at_) {
    Recycle();
    recycle_at_ = std::max(kRecycleAt, pool_->pages() / 2 * 3);
  }
  const auto stopped = stopper_.Stop(id, held);
  std::vector<Run> runs;
  if (stopped == nullptr || !FindRuns(id, runs)) {
    ++failures_;
    processes_[id].next_try_ns = options_.clock->Monotonic() + kTryAgain;
    return false;
  }
  ++looks_;
  pool_->TakeGiven(id);
  uint64_t file = ~uint64_t{0};
  if (!options_.zeros_only) {
    const auto descriptor = listener.AddDescriptor(call, pool_->file());
    if (!descriptor.ok()) return false;
    file = static_cast<uint64_t>(*descriptor);
  }
  Process& process = processes_[id];
  bool done = true;
  for (const Run& run : runs) {
    // Without memory for the mapping, it stays what it was.
    if (!Place(id, *stopped, run, file)) {
      done = false;
      break;
    }
    const bool zeros = run.number == kZeros;
    any_ |= !zeros;
    (zeros ? zeros_ : shared_) += run.same;
    process.shared += run.same;
  }
  if (!options_.zeros_only) stopped->Call(SYS_close, {file, 0, 0, 0, 0, 0});
  ReadShared(id, process);
  process.own = AnonymousPages(*options_.proc, id);
  return done;
}

void PageSharing::ReadShared(pid_t id, Process& process) {
  std::istringstream maps(options_.proc->Text(id, "maps"));
  process.mapped.clear();
  for (std::string line; std::getline(maps, line);) {
    if (!absl::StrContains(line, PagePool::kName)) continue;
    unsigned long begin = 0, end = 0;
    if (sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) process.mapped.push_back({begin, end});
  }
  process.is_known = true;
}

bool PageSharing::MayShare(const Process& process, uint64_t begin, uint64_t end) {
  const auto after =
      std::lower_bound(process.mapped.begin(), process.mapped.end(), begin,
                       [](const Range& range, uint64_t at) { return range.end <= at; });
  return after != process.mapped.end() && after->begin < end;
}

bool PageSharing::Shares(pid_t id, uint64_t begin, uint64_t end) {
  Process& process = processes_[id];
  // A child begins with what its parent shared.
  if (!process.is_known || process.moves) ReadShared(id, process);
  if (!MayShare(process, begin, end)) return false;
  ReadShared(id, process);  // it may have been unmapped since
  return MayShare(process, begin, end);
}

bool PageSharing::Serve(const TrappedCall& call) {
  const bool is_mremap = call.number() == SYS_mremap;
  if (!is_mremap && call.number() != SYS_madvise) return false;
  const uint64_t begin = call.Word(0), end = begin + call.Word(1);
  const bool grows = is_mremap && call.Word(2) > call.Word(1);
  if (!any_ || !Shares(call.process(), begin, end)) {
    call.Continue();
  } else if (grows || !is_mremap) {
    call.Error(is_mremap ? ENOMEM : EINVAL);
  } else {
    processes_[call.process()].moves = true;
    call.Continue();
  }
  return true;
}

uint64_t PageSharing::PoolBytes() const {
  struct stat status = {};
  return fstat(pool_->file(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : 0;
}

std::string PageSharing::Describe() const {
  if (looks_ + failures_ == 0) return "";
  const auto mib = [](uint64_t pages) { return pages * kPageBytes >> 20; };
  return absl::StrFormat(
      "memory: %d MiB of processes were found to be the same and are shared (%d MiB), %d MiB of "
      "zeros given back; %d looks, %d in vain, took %.1f s",
      mib(shared_), mib(pool_->pages()), mib(zeros_), looks_, failures_,
      static_cast<double>(took_ns_) * 1e-9);
}

}  // namespace phantora
