#include "trap/gpu/front/kernel_execution.h"

#include <cpuid.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/check/memory_check.h"
#include "trap/linux/unique_fd.h"
#include "trap/log.h"

namespace phantora {
namespace {

// Of code that a kernel calls by its address: before and behind that, and how many such places.
constexpr uint64_t kCodeBefore = 32 << 10, kCodeBehind = 64 << 10;
constexpr size_t kMostPlaces = 16;
// Programs that are kept with such code, of a process: of 8 MiB at most each, besides their own.
constexpr size_t kMostExtended = 16;
constexpr size_t kMostShapes = 1 << 16;
constexpr size_t kMostRefusals = 1 << 12;
// The bank of __constant__ variables.
constexpr size_t kUserConstants = 3;
constexpr uint64_t kMostLinesLookedAt = 256, kMostBytesLookedAt = uint64_t{64} << 20;

WarpError WarpErrorOf(const sass::Stop& stop, const sass::Program& program, uint64_t code) {
  WarpError error = {.program_counter = program.AddressOf(stop.instruction, code),
                     .address = stop.address};
  if (stop.reason == sass::Stop::Reason::kMisaligned) error.warp = kWarpMisalignedAddress;
  if (stop.reason == sass::Stop::Reason::kOutOfRange) error.warp = kWarpOutOfRangeAddress;
  return error;
}

}  // namespace

KernelExecution::KernelExecution(int architecture, Budget budget, Skipped skipped,
                                 std::shared_ptr<PageStore> store, std::function<bool()> is_ending)
    : budget_(budget),
      is_ending_(std::move(is_ending)),
      reader_(architecture),
      executor_(sass::Workers::Processors()),
      finder_(&reader_, &executor_, budget.try_most, &is_ending_),
      skipped_(skipped, std::move(store)) {}

bool KernelExecution::IsPossible() {
  // Two that clang 14 has no names for.
  unsigned eax, ebx, ecx, edx;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool lzcnt = __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_LZCNT) != 0;
  return f16c && lzcnt && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt");
}

KernelExecution::Process& KernelExecution::ProcessOf(pid_t process) {
  const auto [found, is_new] = processes_.try_emplace(process);
  if (is_new) {
    found->second.credit = budget_.at_first;
    found->second.try_credit = budget_.try_at_first;
  }
  return found->second;
}

uint64_t KernelExecution::MostOf(const Process& process, sass::Tracking tracking,
                                 bool is_wanted) const {
  if (is_wanted) return std::max(budget_.per_launch, budget_.wanted);
  if (budget_.per_launch_on_average == 0) return budget_.per_launch;
  if (tracking == sass::Tracking::kTainted) {
    return std::min(
        {budget_.per_launch, budget_.always, std::max(process.credit, budget_.always_tainted)});
  }
  return std::min(budget_.per_launch, std::max(process.credit, budget_.always));
}

sass::Tracking KernelExecution::TrackingOf(ExecutionContext& context, const Process& process,
                                           const NamedLaunch& launch, const Shape& shape) {
  if (!any_skipped_) return sass::Tracking::kNone;
  if (process.unknown > 0) return sass::Tracking::kTainted;
  const auto meeting = meetings_.find(shape);
  if (meeting == meetings_.end()) return sass::Tracking::kLooking;
  uint64_t pointer = 0;
  const Qmd& qmd = launch.qmd;
  const uint64_t at = qmd.parameter_offset() + meeting->second.parameter;
  if (qmd.constants[0].bytes < at + sizeof pointer ||
      context.memory().Read(qmd.constants[0].address + at, &pointer, sizeof pointer)) {
    return sass::Tracking::kLooking;
  }
  return context.memory().IsTainted(pointer + meeting->second.offset, 1) ? sass::Tracking::kTainted
                                                                         : sass::Tracking::kLooking;
}

void KernelExecution::NoteMeeting(ExecutionContext& context, const NamedLaunch& launch,
                                  const Shape& shape, uint64_t address) {
  const auto parameters = reader_.Parameters(context, launch);
  std::optional<Meeting> nearest;
  for (const uint32_t at : PointersAmong(parameters, context.memory())) {
    const uint64_t pointer = PointerAt(parameters, at);
    if (pointer <= address && (!nearest || address - pointer < nearest->offset)) {
      nearest = {at, address - pointer};
    }
  }
  if (!nearest) return;
  if (meetings_.size() >= kMostShapes) meetings_.clear();
  meetings_[shape] = *nearest;
}

Progress KernelExecution::Run(ExecutionContext& context, const NamedLaunch& wanted) {
  const Qmd& qmd = wanted.qmd;
  Process& process = ProcessOf(context.process);
  process.credit +=
      process.skipped > 0 ? budget_.skipping_per_launch : budget_.per_launch_on_average;
  process.try_credit += budget_.try_per_launch;
  context.budget -= kLaunchCost;
  if (wanted.rule != nullptr && wanted.rule->only_waits()) {
    ++counters_.executed;
    ++process.executed;
    return Progress::kDone;
  }
  bool routes = false;
  if (routing_ != nullptr && wanted.symbol != nullptr &&
      ExpertRouting::IsPartOfRouting(*wanted.symbol)) {
    routes = true;
    routing_->Prepare(context.process, *wanted.symbol, reader_.Parameters(context, wanted),
                      qmd.grid.count(), context.memory());
  }
  if (real_ != nullptr && !was_interrupted_) {
    if (const auto progress = RunByGpu(context, process, wanted)) return *progress;
  }

  if (was_interrupted_) {
    Skip(context, process, counters_.refused, wanted, "the run was to end");
    return Progress::kDone;
  }
  const Shape shape = {wanted.fingerprint, wanted.code_bytes, qmd.grid.count(), qmd.block.count()};
  const auto known = takes_more_.find(shape);
  const bool never = known != takes_more_.end() && !routes && known->second > budget_.per_launch;
  sass::Tracking tracking = sass::Tracking::kTainted;
  if (!never) tracking = TrackingOf(context, process, wanted, shape);
  if (known != takes_more_.end() && known->second > MostOf(process, tracking, routes)) {
    Skip(context, process, never ? counters_.too_long : counters_.over_budget, wanted,
         "it takes too long");
    return Progress::kDone;
  }
  sass::Launch launch;
  AddressSpace::Fault fault;
  std::shared_ptr<const sass::Program> program = reader_.Read(context, wanted, launch, fault);
  if (fault) return context.Check(fault, "constants");
  if (program == nullptr) {
    Skip(context, process, counters_.refused, wanted, "its code cannot be read");
    return Progress::kDone;
  }
  if (tracking != sass::Tracking::kTainted &&
      RunByLibrary(context, process, wanted, launch, *program)) {
    return Progress::kDone;
  }
  sass::Outcome outcome;
  uint64_t instructions = 0;
  for (;;) {
    // Of what was not made an assertion says nothing, nor of what a host made of that; what another
    // process makes of it comes to those that have skipped kernels, too.
    launch.keeps_trapped = tracking != sass::Tracking::kTainted &&
                           (process.skipped == 0 || counters_.doubtful_reads == 0);
    launch.tracking = tracking;
    if (MemoryCheck* const check = context.services.check) {
      launch.check = check->Of(context.process, context.memory());
    }
    outcome = Execute(context, process, launch, program, MostOf(process, tracking, routes));
    instructions += outcome.thread_instructions;
    if (outcome.stop.reason != sass::Stop::Reason::kTainted) break;
    NoteMeeting(context, wanted, shape, outcome.stop.address);
    tracking = sass::Tracking::kTainted;
  }
  was_interrupted_ = outcome.stop.reason == sass::Stop::Reason::kInterrupted && is_ending_();
  if (outcome.stop.reason == sass::Stop::Reason::kTooLong) {
    if (takes_more_.size() >= kMostShapes) takes_more_.clear();
    takes_more_[shape] = outcome.thread_instructions;
  }
  if (budget_.per_launch_on_average != 0) {
    process.credit -= std::min(process.credit, instructions);
  }
  return Finish(context, wanted, process, *program, outcome, launch.keeps_trapped);
}

bool KernelExecution::RunByLibrary(ExecutionContext& context, Process& process,
                                   const NamedLaunch& launch, const sass::Launch& read,
                                   const sass::Program& program) {
  if (library_ == nullptr || launch.family() != WorkFamily::kGemm) return false;
  const auto parameters = reader_.Parameters(context, launch);
  const std::vector<uint32_t> pointers = PointersAmong(parameters, context.memory());
  const ProductLibrary::Launch product = {.parameter_offset = launch.qmd.parameter_offset(),
                                          .parameters = parameters,
                                          .pointers = pointers,
                                          .launch = read,
                                          .program = program,
                                          .work = launch.Work(parameters)};
  if (!library_->Run(product, executor_, context.memory())) {
    if (not_by_library_.size() < kMostRefusals) ++not_by_library_[{launch.title, library_->why()}];
    return false;
  }
  ++counters_.executed;
  ++process.executed;
  if (context.services.check != nullptr) {
    context.services.check->NotLaunched(context.process, true);
  }
  return true;
}

void KernelExecution::RunEntry(ExecutionContext& context, const NamedLaunch& entry,
                               uint64_t kernel) {
  // Some instructions of each thread of a block.
  constexpr uint64_t kMost = 1 << 20;
  sass::Launch launch;
  AddressSpace::Fault fault;
  const auto code = reader_.Read(context, entry, launch, fault);
  std::string failure = "its code or constants cannot be read";
  if (code != nullptr) {
    // In the kernel's place one that ends at once; of many blocks the first stands for all.
    constexpr uint64_t kExit[] = {0x794d, 0x03800000};
    std::vector<uint8_t> exit(sizeof kExit);
    std::memcpy(exit.data(), kExit, sizeof kExit);
    const sass::Program program(code->code(), code->architecture(),
                                {{.address = kernel, .code = std::move(exit)}});
    launch.grid = launch.cluster.x > 0 ? launch.cluster : sass::Dims{1, 1, 1};
    const sass::Outcome outcome =
        executor_.Run(launch, program, context.memory(), kMost, is_ending_);
    if (outcome.done() || is_ending_()) return;
    failure = sass::Describe(outcome, program);
  }
  if (entries_failed_++ > 0) return;
  LogWarning(absl::StrCat("process ", context.process, ": what a profiler puts before kernel ",
                          entry.title, " fails, so that it does not see it: ", failure));
}

std::optional<Progress> KernelExecution::RunByGpu(ExecutionContext& context, Process& process,
                                                  const NamedLaunch& launch) {
  const Qmd& qmd = launch.qmd;
  const auto triple = [](const Qmd::Dims& dims) {
    return std::array<uint32_t, 3>{dims.x, dims.y, dims.z};
  };
  RealLaunch wanted = {.image = launch.image,
                       .symbol = launch.symbol,
                       .launch = {.grid = triple(qmd.grid),
                                  .block = triple(qmd.block),
                                  .cluster = triple(qmd.cluster),
                                  .shared_bytes = qmd.shared_bytes,
                                  .cooperative = launch.together,
                                  .parameters = {}},
                       .own_addresses = {qmd.program, qmd.constants[0].address}};
  if (launch.parameter_bytes > 0) wanted.launch.parameters = reader_.Parameters(context, launch);
  if (const Qmd::ConstantBuffer& bank = qmd.constants[kUserConstants]; bank.valid) {
    wanted.constants = bank.address;
    wanted.constants_bytes = bank.bytes;
  }
  const absl::Status status = real_->Run(context.memory(), wanted);
  if (status.ok()) {
    ++counters_.executed;
    ++counters_.by_gpu;
    ++process.executed;
    return Progress::kDone;
  }
  if (absl::IsUnavailable(status)) {
    LogWarning(absl::StrCat(
        "process ", context.process, ": kernel ", launch.title,
        " ends its context, as the real GPU's has failed: ", std::string(status.message())));
    const bool unmapped = absl::StrContains(status.message(), "ILLEGAL_ADDRESS");
    return context.Fail(unmapped ? kMmuFault : kGrException, qmd.program,
                        "a kernel failed on the real GPU");
  }
  if (not_by_gpu_.size() < kMostRefusals) {
    ++not_by_gpu_[{launch.title, std::string(status.message())}];
  }
  return std::nullopt;
}

sass::Outcome KernelExecution::Execute(ExecutionContext& context, Process& process,
                                       const sass::Launch& launch,
                                       std::shared_ptr<const sass::Program>& program,
                                       uint64_t most) {
  const auto alone = program;
  if (const auto found = process.extended.find(alone); found != process.extended.end()) {
    // As long as that code is still there.
    std::vector<uint8_t> now;
    const auto& pieces = found->second->elsewhere();
    if (std::all_of(pieces.begin(), pieces.end(), [&](const sass::Program::Piece& piece) {
          now.resize(piece.code.size());
          return !context.memory().Read(piece.address, now.data(), now.size()) && now == piece.code;
        })) {
      program = found->second;
    }
  }
  uint64_t instructions = 0;
  // A process that was killed should not keep all others waiting.
  UniqueFd living;
  const auto is_in_vain = [&] {
    if (is_ending_()) return true;
    if (!living.valid()) {
      living = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, context.process, 0)));
      if (!living.valid()) return errno == ESRCH;
    }
    pollfd ended = {living.get(), POLLIN, 0};
    return poll(&ended, 1, 0) == 1;
  };
  for (;;) {
    sass::Outcome outcome =
        executor_.Run(launch, *program, context.memory(), most - instructions, is_in_vain);
    outcome.thread_instructions += instructions;
    if (outcome.stop.reason != sass::Stop::Reason::kElsewhere ||
        outcome.thread_instructions >= most || !Extend(context, program, outcome.stop.address)) {
      return outcome;
    }
    instructions = outcome.thread_instructions;
    if (process.extended.size() >= kMostExtended) process.extended.clear();
    process.extended[alone] = program;
  }
}

bool KernelExecution::Extend(ExecutionContext& context,
                             std::shared_ptr<const sass::Program>& program, uint64_t address) {
  std::vector<sass::Program::Piece> pieces = program->elsewhere();
  const auto range = context.memory().RangeAround(address);
  if (pieces.size() >= kMostPlaces || address % sass::kWordBytes != 0 || !range) return false;
  // Functions jump within themselves, and call their neighbours.
  const uint64_t begin =
      address - std::min(address - range->first, kCodeBefore) / sass::kWordBytes * sass::kWordBytes;
  const uint64_t end = std::min(range->first + range->second - address, kCodeBehind) + address;
  sass::Program::Piece piece = {.address = begin, .code = std::vector<uint8_t>(end - begin)};
  if (context.memory().Read(begin, piece.code.data(), piece.code.size())) return false;
  pieces.push_back(std::move(piece));
  program = std::make_shared<const sass::Program>(program->code(), program->architecture(),
                                                  std::move(pieces));
  return true;
}

Progress KernelExecution::Finish(ExecutionContext& context, const NamedLaunch& launch,
                                 Process& process, const sass::Program& program,
                                 const sass::Outcome& outcome, bool is_real) {
  using Reason = sass::Stop::Reason;
  counters_.thread_instructions += outcome.thread_instructions;
  MemoryCheck* const check = context.services.check;
  if (check != nullptr && outcome.stop.reason != Reason::kTooLong) {
    const Qmd::Dims& block = launch.qmd.block;
    check->Launched(context.process, launch.title, outcome.wrong,
                    [&](uint32_t instruction) { return program.AddressOf(instruction, 0); },
                    {block.x, block.y, block.z});
  }
  switch (outcome.stop.reason) {
    case Reason::kNone:
      ++counters_.executed;
      ++process.executed;
      if (took_.size() < kMostRefusals || took_.contains(launch.title)) {
        Took& took = took_[launch.title];
        ++took.launches;
        took.thread_instructions += outcome.thread_instructions;
      }
      if (library_ != nullptr) library_->WasExecuted(context.memory());
      if (outcome.host_bytes > 0) SeenByHost(context, process, outcome.host_bytes);
      return Progress::kDone;
    case Reason::kTooLong:
      Skip(context, process,
           outcome.thread_instructions > budget_.per_launch ? counters_.too_long
                                                            : counters_.over_budget,
           launch, sass::Describe(outcome, program));
      return Progress::kDone;
    case Reason::kUnmapped:
    case Reason::kMisaligned:
    case Reason::kOutOfRange:
    case Reason::kTrap:
      // What a kernel does that works on results that are not there says nothing of the program.
      if (!is_real) break;
      // What a sanitizer would say; libcuda only has the kind of error.
      if (check != nullptr) {
        check->Failed(context.process, launch.title, sass::Describe(outcome, program),
                      outcome.stop.reason == Reason::kUnmapped ? outcome.stop.address : 0);
      } else {
        LogWarning(absl::StrFormat("process %d: kernel %s ends its context: %s", context.process,
                                   launch.title, sass::Describe(outcome, program)));
      }
      if (outcome.stop.reason == Reason::kUnmapped) {
        return context.Fail(kMmuFault, outcome.stop.address, "a kernel's access");
      }
      return context.Fail(kGrException, launch.qmd.program, "a kernel failed",
                          WarpErrorOf(outcome.stop, program, launch.qmd.program));
    default:
      Skip(context, process, counters_.refused, launch, sass::Describe(outcome, program));
      return Progress::kDone;
  }
  Skip(context, process, counters_.failed, launch, sass::Describe(outcome, program));
  return Progress::kDone;
}

void KernelExecution::Skip(ExecutionContext& context, Process& process, uint64_t& counter,
                           const NamedLaunch& launch, const std::string& why) {
  Count(process, counter, launch.title, why);
  LeaveOutputs(context, process, launch);
}

void KernelExecution::LeaveOutputs(ExecutionContext& context, Process& process,
                                   const NamedLaunch& launch) {
  const auto parameters = reader_.Parameters(context, launch);
  // Nothing is tried any more for a run that is to end.
  if (was_interrupted_) process.try_credit = 0;
  const uint64_t before = process.try_credit;
  const LaunchOutputs& outputs = finder_.Of(context, launch, parameters, process.try_credit);
  counters_.tried += before - process.try_credit;
  if (!outputs.known) NoteUnknown(process, launch.title);
  if (context.services.check != nullptr) {
    context.services.check->NotLaunched(context.process, outputs.known);
  }
  const SkippedOutputs::Left left =
      skipped_.Leave(context.memory(), parameters, outputs, launch.family());
  context.budget -= static_cast<int64_t>(left.made / kBytesPerUnit);
  if (left.seen > 0) SeenByHost(context, process, left.seen);
}

void KernelExecution::Count(Process& process, uint64_t& counter, const std::string& title,
                            const std::string& why) {
  ++counter;
  any_skipped_ = true;
  // What was made from what is tainted is not known of what the real GPU executes.
  if (real_ != nullptr) ++process.unknown;
  const bool is_first = process.skipped++ == 0;
  if (is_first && budget_.per_launch_on_average != 0) {
    process.credit = std::min(process.credit, budget_.skipping_at_first);
  }
  if (is_first) process.first = absl::StrCat(title, ": ", why);
  // From its first on a process has no results of its own: that one is worth knowing.
  if (is_first || &counter == &counters_.refused) {
    if (refusals_.size() < kMostRefusals) ++refusals_[{title, why}];
  }
}

void KernelExecution::ProcessDied(pid_t process) {
  if (routing_ != nullptr) routing_->ProcessDied(process);
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  const Process& was = found->second;
  if (was.skipped > 0) {
    LogInfo(absl::StrCat("process ", process, ": ", was.executed, " kernels were executed, ",
                         was.skipped, " were not, the first of them ", was.first));
  }
  processes_.erase(found);
}

void KernelExecution::ReadByHost(ExecutionContext& context, const Lines& from) {
  if (!any_skipped_) return;
  const auto found = processes_.find(context.process);
  if (found == processes_.end()) return;
  uint64_t bytes = 0;
  // Of many lines some say what all are, and of long ones fewer: a line may lie in a million
  // pieces.
  const uint64_t most = std::clamp<uint64_t>(kMostBytesLookedAt / std::max<uint64_t>(from.bytes, 1),
                                             1, kMostLinesLookedAt);
  const uint64_t step = std::max<uint64_t>(from.count / most, 1);
  for (uint64_t line = 0; line < from.count; line += step) {
    if (found->second.unknown > 0 ||
        context.memory().IsTainted(from.address + line * from.stride, from.bytes)) {
      bytes += from.bytes * step;
    }
  }
  if (bytes > 0) SeenByHost(context, found->second, bytes);
}

void KernelExecution::SeenByHost(ExecutionContext& context, const Process& process,
                                 uint64_t bytes) {
  if (counters_.doubtful_reads++ == 0) {
    LogWarning(absl::StrFormat(
        "what programs read from their GPUs may mean nothing from here on: process %d reads %d "
        "bytes at %.6f s that depend on kernels which were not executed: %s (--execute all leaves "
        "none out for its length; see "
        "docs/LIMITATIONS.md)",
        context.process, bytes, static_cast<double>(context.time.Now().nanoseconds()) * 1e-9,
        process.skipped == 0
            ? "other processes'"
            : absl::StrCat(process.skipped, " of its own, the first of them ", process.first)));
  }
  counters_.doubtful_bytes += bytes;
}

void KernelExecution::NotExecuted(pid_t of, const std::string& title, const std::string& why) {
  Process& process = ProcessOf(of);
  Count(process, counters_.refused, title, why);
  NoteUnknown(process, title);
}

void KernelExecution::NoteUnknown(Process& process, const std::string& title) {
  ++counters_.unknown_outputs;
  ++process.unknown;
  if (refusals_.size() < kMostRefusals) ++refusals_[{title, "nobody knows what it writes"}];
}

std::vector<std::string> KernelExecution::Longest(size_t most) const {
  std::vector<std::pair<std::string, Took>> all(took_.begin(), took_.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(b.second.thread_instructions, a.first) <
           std::pair(a.second.thread_instructions, b.first);
  });
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::min(most, all.size()); ++i) {
    const auto& [title, took] = all[i];
    lines.push_back(absl::StrFormat("%.3g instructions of threads, %d x %s",
                                    static_cast<double>(took.thread_instructions), took.launches,
                                    title));
  }
  return lines;
}

std::vector<std::string> KernelExecution::LinesOf(const Reasons& reasons, size_t most) {
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (const auto& [which, count] : reasons) {
    lines.emplace_back(count, absl::StrCat(count, " x ", which.first, ": ", which.second));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min(most, lines.size()); ++i) result.push_back(lines[i].second);
  return result;
}

}  // namespace phantora
