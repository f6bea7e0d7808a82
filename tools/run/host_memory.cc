#include "tools/run/host_memory.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phantora {
namespace {

// The machine's state costs microseconds, a look at all processes may cost milliseconds for each:
// it takes this part of a processor at most, or the second where memory is nearly used up.
constexpr auto kAskEvery = std::chrono::milliseconds(20);
constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr int kLookShare = 50, kUrgentShare = 4;
// With less than this part left it is worth some time to take less.
constexpr uint64_t kTightShare = 3;
// With less than this left (or this part of a limit), every time.
constexpr int64_t kNearTheEnd = int64_t{1} << 30;
constexpr uint64_t kNearLimitShare = 4;
constexpr uint64_t kPage = 4096;
// Of the machine's memory this part stays free, within these bounds.
constexpr uint64_t kReserveShare = 32, kLeastReserve = uint64_t{256} << 20,
                   kMostReserve = uint64_t{1} << 30;
// Of a limit this part is kept from GPUs' memory: what processes take is seen only afterwards.
constexpr uint64_t kLimitShare = 16;
// Memory that is allocated is not yet taken, but mostly will be soon.
constexpr int64_t kForAllocations = int64_t{128} << 20;

uint64_t ReserveOf(uint64_t total) {
  return std::clamp(total / kReserveShare, std::min(kLeastReserve, total / 4), kMostReserve);
}

// Programs allocate often, and asking costs as much as an allocation.
constexpr int64_t kAskForAllocations = 5'000'000;  // ns

double GiB(uint64_t bytes) { return static_cast<double>(bytes) / (uint64_t{1} << 30); }

}  // namespace

uint64_t OwnBytes(const Proc& proc, pid_t process) {
  // What processes share after a fork is a part of each; Linux 5.10 and later tell.
  std::istringstream rollup(proc.Text(process, "smaps_rollup"));
  for (std::string line; std::getline(rollup, line);) {
    unsigned long kib = 0;
    if (std::sscanf(line.c_str(), "Pss_Anon: %lu", &kib) == 1) return uint64_t{kib} << 10;
  }
  char text[128];
  unsigned long resident = 0, shared = 0;
  if (!proc.Read(process, "statm", text) ||
      std::sscanf(text, "%*u %lu %lu", &resident, &shared) != 2) {
    return 0;
  }
  return (resident - std::min(resident, shared)) * kPage;
}

std::string Describe(const MemoryUse& use, const std::function<std::string(pid_t)>& name) {
  std::string text =
      absl::StrFormat("%.1f GiB: processes %.1f", GiB(use.total()), GiB(use.processes));
  if (name != nullptr && use.largest_process != 0) {
    absl::StrAppend(&text, absl::StrFormat(" (the largest, %s, %.1f)", name(use.largest_process),
                                           GiB(use.largest)));
  }
  if (use.shared > 0) {
    absl::StrAppend(&text, absl::StrFormat(", shared by them %.1f", GiB(use.shared)));
  }
  absl::StrAppend(
      &text, absl::StrFormat(", GPUs' memory %.1f (of %.1f allocated, %.1f are not zeros)",
                             GiB(use.gpu_pages), GiB(use.gpu_allocated), GiB(use.gpu_unshared)));
  absl::StrAppend(&text, absl::StrFormat(", pinned and managed %.1f, the emulator %.1f",
                                         GiB(use.files), GiB(use.emulator)));
  return text;
}

nlohmann::ordered_json Json(const MemoryUse& use) {
  return {{"total", use.total()},
          {"processes", use.processes},
          {"largest_process", use.largest},
          {"shared_by_processes", use.shared},
          {"gpus", use.gpu_pages},
          {"gpus_unshared", use.gpu_unshared},
          {"gpus_allocated", use.gpu_allocated},
          {"pinned_and_managed", use.files},
          {"emulator", use.emulator}};
}

HostMemory::HostMemory(Options options) : options_(std::move(options)) {}

int64_t HostMemory::Left() {
  const Proc::Memory machine = options_.proc->MachineMemory();
  // A kernel that does not tell is not asked again for every page.
  if (machine.total == 0) return INT64_MAX;
  int64_t left =
      static_cast<int64_t>(machine.available) - static_cast<int64_t>(ReserveOf(machine.total));
  if (options_.limit == 0) return left;
  const std::lock_guard lock(mutex_);
  const auto limit = static_cast<int64_t>(options_.limit - options_.limit / kLimitShare);
  return std::min(left, limit - static_cast<int64_t>(last_.total() + granted_));
}

bool HostMemory::Take(uint64_t bytes) {
  if (Left() < static_cast<int64_t>(bytes)) return false;
  const std::lock_guard lock(mutex_);
  granted_ += bytes;
  return true;
}

bool HostMemory::MayAllocate() {
  if (options_.out_of_memory == OutOfMemory::kKill) return true;
  const int64_t now = options_.clock->Monotonic();
  if (now < may_allocate_until_ns_) return true;
  if (Left() >= kForAllocations) {
    may_allocate_until_ns_ = now + kAskForAllocations;
    return true;
  }
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(warned_, true)) return false;
  }
  options_.warn(absl::StrCat(
      "GPU memory is refused from now on, as if the GPUs had no more: ", What(), ". ", Taken()));
  return false;
}

std::string HostMemory::What() const {
  if (options_.limit == 0) {
    return "the memory of this machine, or of the control group around this run, is used up";
  }
  return absl::StrFormat("the run has taken the %.1f GiB of memory that it may (--memory-limit)",
                         GiB(options_.limit));
}

std::string HostMemory::Taken() const {
  MemoryUse use;
  {
    const std::lock_guard lock(mutex_);
    use = last_;
  }
  return absl::StrCat("Taken are ", Describe(use, options_.name),
                      ". Fewer ranks (--ranks-per-host), shared memory (--share-memory on) or a "
                      "smaller model take less");
}

void HostMemory::UsedUp() { End(options_.working_for(), "GPU work of"); }

MemoryUse HostMemory::Use() {
  MemoryUse use;
  for (const pid_t process : options_.processes()) {
    const uint64_t own = OwnBytes(*options_.proc, process);
    use.processes += own;
    if (own > use.largest) use.largest = own, use.largest_process = process;
  }
  options_.add(&use);
  return use;
}

void HostMemory::Look() {
  const MemoryUse use = Use();
  {
    const std::lock_guard lock(mutex_);
    last_ = use;
    granted_ = 0;
    if (use.total() > peak_.total()) peak_ = use;
  }
  const Proc::Memory machine = options_.proc->MachineMemory();
  available_then_ = machine.available;
  SeeWhetherTight(machine);
  const bool short_of_machine =
      machine.total != 0 && machine.available < ReserveOf(machine.total) / 2;
  const bool over_limit = options_.limit != 0 && use.total() > options_.limit;
  if (short_of_machine || over_limit) End(use.largest_process, "the largest process,");
}

void HostMemory::SeeWhetherTight(const Proc::Memory& machine) {
  // What is gone since the last look was the run's, as far as is known.
  const uint64_t since = available_then_ - std::min(available_then_, machine.available);
  const uint64_t limit = options_.limit;
  is_tight_ = machine.available < machine.total / kTightShare ||
              (limit != 0 && used() + since > limit - limit / kTightShare);
}

void HostMemory::End(pid_t process, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (process == 0 || std::exchange(ended_, process) == process) return;
  }
  options_.error(
      absl::StrCat(What(), "; ", why, " ", options_.name(process), " is ended. ", Taken()));
  options_.end(process);
}

MemoryUse HostMemory::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

uint64_t HostMemory::used() const {
  const std::lock_guard lock(mutex_);
  return last_.total();
}

void HostMemory::Start() {
  thread_ = std::thread([this] { Run(); });
}

void HostMemory::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool HostMemory::IsNearTheEnd() {
  const auto near =
      options_.limit == 0
          ? kNearTheEnd
          : std::min(kNearTheEnd, static_cast<int64_t>(options_.limit / kNearLimitShare));
  return Left() < near;
}

void HostMemory::Run() {
  prctl(PR_SET_NAME, "phantora-memory");
  std::unique_lock lock(mutex_);
  using Clock = std::chrono::steady_clock;
  Clock::duration took{};
  for (Clock::time_point looked{}; !stop_;) {
    lock.unlock();
    const Clock::time_point now = Clock::now();
    const bool is_time = now - looked >= std::max<Clock::duration>(kLookEvery, took * kLookShare);
    if (is_time || (now - looked >= took * kUrgentShare && IsNearTheEnd())) {
      Look();
      looked = Clock::now();
      took = looked - now;
    } else {
      SeeWhetherTight(options_.proc->MachineMemory());
    }
    lock.lock();
    stopping_.wait_for(lock, kAskEvery, [this] { return stop_; });
  }
}

}  // namespace phantora
