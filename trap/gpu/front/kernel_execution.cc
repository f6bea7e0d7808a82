#include "trap/gpu/front/kernel_execution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/log.h"

namespace phantora {
namespace {

constexpr uint32_t kMostCode = 4 << 20, kMostUnknownCode = 64 << 10;
// Of code that a kernel calls by its address: before and behind that, and how many such places.
constexpr uint64_t kCodeBefore = 32 << 10, kCodeBehind = 64 << 10;
constexpr size_t kMostPlaces = 16;
// Programs that are kept with such code, of a process: of 8 MiB at most each, besides their own.
constexpr size_t kMostExtended = 16;
constexpr size_t kMostShapes = 1 << 16;
constexpr size_t kMostRefusals = 1 << 12;

sass::Dims DimsOf(const Qmd::Dims& dims) { return {dims.x, dims.y, dims.z}; }

WarpError WarpErrorOf(const sass::Stop& stop, const sass::Program& program, uint64_t code) {
  WarpError error = {.program_counter = program.AddressOf(stop.instruction, code),
                     .address = stop.address};
  if (stop.reason == sass::Stop::Reason::kMisaligned) error.warp = kWarpMisalignedAddress;
  if (stop.reason == sass::Stop::Reason::kOutOfRange) error.warp = kWarpOutOfRangeAddress;
  return error;
}

}  // namespace

KernelExecution::KernelExecution(int architecture, Budget budget, std::function<bool()> is_ending)
    : architecture_(architecture),
      budget_(budget),
      is_ending_(std::move(is_ending)),
      executor_(sass::Workers::Processors()) {}

bool KernelExecution::IsPossible() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt") &&
         __builtin_cpu_supports("popcnt");
}

Progress KernelExecution::Run(ExecutionContext& context, const Launch& wanted) {
  const Qmd& qmd = wanted.qmd;
  auto [found, is_new] = processes_.try_emplace(context.process);
  Process& process = found->second;
  if (is_new) process.credit = budget_.at_first;
  process.credit += budget_.per_launch_on_average;
  context.budget -= kLaunchCost;

  if (was_interrupted_) {
    Skip(process, counters_.refused, wanted, "the run was to end");
    return Progress::kDone;
  }
  uint64_t most = budget_.per_launch;
  const bool limited = budget_.per_launch_on_average != 0;
  if (limited) {
    most = std::min(
        most, process.skipped > 0 ? budget_.always : std::max(process.credit, budget_.always));
  }
  const Shape shape = {wanted.fingerprint, wanted.code_bytes, qmd.grid.count(), qmd.block.count()};
  if (const auto known = takes_more_.find(shape);
      known != takes_more_.end() && known->second > most) {
    const bool never = known->second > budget_.per_launch;
    Skip(process, never ? counters_.too_long : counters_.over_budget, wanted, "it takes too long");
    return Progress::kDone;
  }
  if (!ReadCode(context, wanted)) {
    Skip(process, counters_.refused, wanted, "its code cannot be read");
    return Progress::kDone;
  }
  std::shared_ptr<const sass::Program> program = programs_.Of(code_, architecture_);

  sass::Launch launch = {.grid = DimsOf(qmd.grid),
                         .block = DimsOf(qmd.block),
                         .cluster = DimsOf(qmd.cluster),
                         .registers = static_cast<int>(qmd.registers),
                         .shared_bytes = qmd.shared_bytes,
                         .code_address = qmd.program,
                         .began = static_cast<uint64_t>(context.time.ShownNanoseconds()),
                         .shared_window = wanted.shared_window,
                         .local_window = wanted.local_window,
                         .together = wanted.together,
                         // Of inputs that were not made an assertion says nothing.
                         .keeps_trapped = process.skipped == 0,
                         .constants = {}};
  for (size_t bank = 0; bank < launch.constants.size(); ++bank) {
    const Qmd::ConstantBuffer& from = qmd.constants[bank];
    if (!from.valid) continue;
    banks_[bank].resize(std::min<size_t>(from.bytes, sass::kConstantBytes));
    if (auto fault =
            context.memory().Read(from.address, banks_[bank].data(), banks_[bank].size())) {
      return context.Check(fault, "constants");
    }
    launch.constants[bank] = banks_[bank];
  }
  const sass::Outcome outcome = Execute(context, process, launch, program, most);
  was_interrupted_ = outcome.stop.reason == sass::Stop::Reason::kInterrupted;
  if (outcome.stop.reason == sass::Stop::Reason::kTooLong) {
    if (takes_more_.size() >= kMostShapes) takes_more_.clear();
    takes_more_[shape] = outcome.thread_instructions;
  }
  if (limited) process.credit -= std::min(process.credit, outcome.thread_instructions);
  return Finish(context, wanted, process, *program, outcome);
}

sass::Outcome KernelExecution::Execute(ExecutionContext& context, Process& process,
                                       const sass::Launch& launch,
                                       std::shared_ptr<const sass::Program>& program,
                                       uint64_t most) {
  const auto alone = program;
  if (const auto found = process.extended.find(alone); found != process.extended.end()) {
    // As long as that code is still there.
    const auto& pieces = found->second->elsewhere();
    if (std::all_of(pieces.begin(), pieces.end(), [&](const sass::Program::Piece& piece) {
          code_.resize(piece.code.size());
          return !context.memory().Read(piece.address, code_.data(), code_.size()) &&
                 code_ == piece.code;
        })) {
      program = found->second;
    }
  }
  uint64_t instructions = 0;
  for (;;) {
    sass::Outcome outcome =
        executor_.Run(launch, *program, context.memory(), most - instructions, is_ending_);
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

bool KernelExecution::ReadCode(ExecutionContext& context, const Launch& launch) {
  const uint64_t program = launch.qmd.program;
  uint64_t bytes = std::min(launch.code_bytes, kMostCode);
  if (bytes == 0) {
    // What follows its end is decoded in vain, as far as something is there.
    const auto range = context.memory().RangeAround(program);
    if (!range) return false;
    bytes = std::min<uint64_t>(range->first + range->second - program, kMostUnknownCode);
  }
  code_.resize(bytes);
  return !context.memory().Read(program, code_.data(), code_.size());
}

Progress KernelExecution::Finish(ExecutionContext& context, const Launch& launch, Process& process,
                                 const sass::Program& program, const sass::Outcome& outcome) {
  using Reason = sass::Stop::Reason;
  counters_.thread_instructions += outcome.thread_instructions;
  switch (outcome.stop.reason) {
    case Reason::kNone:
      ++counters_.executed;
      ++process.executed;
      return Progress::kDone;
    case Reason::kTooLong:
      Skip(process,
           outcome.thread_instructions > budget_.per_launch ? counters_.too_long
                                                            : counters_.over_budget,
           launch, sass::Describe(outcome, program));
      return Progress::kDone;
    case Reason::kUnmapped:
    case Reason::kMisaligned:
    case Reason::kOutOfRange:
    case Reason::kTrap:
      // What a kernel does that works on results that are not there says nothing of the program.
      if (process.skipped > 0) break;
      // What a sanitizer would say; libcuda only has the kind of error.
      LogWarning(absl::StrFormat("process %d: kernel %s ends its context: %s", context.process,
                                 launch.title, sass::Describe(outcome, program)));
      if (outcome.stop.reason == Reason::kUnmapped) {
        return context.Fail(kMmuFault, outcome.stop.address, "a kernel's access");
      }
      return context.Fail(kGrException, launch.qmd.program, "a kernel failed",
                          WarpErrorOf(outcome.stop, program, launch.qmd.program));
    default:
      Skip(process, counters_.refused, launch, sass::Describe(outcome, program));
      return Progress::kDone;
  }
  Skip(process, counters_.failed, launch, sass::Describe(outcome, program));
  return Progress::kDone;
}

void KernelExecution::Skip(Process& process, uint64_t& counter, const Launch& launch,
                           const std::string& why) {
  if (!launch.by_rule()) Count(process, counter, launch.title, why);
}

void KernelExecution::Count(Process& process, uint64_t& counter, const std::string& title,
                            const std::string& why) {
  ++counter;
  const bool is_first = process.skipped++ == 0;
  if (is_first) process.first = absl::StrCat(title, ": ", why);
  // From its first on a process has no results of its own: that one is worth knowing.
  if (is_first || &counter == &counters_.refused) {
    if (refusals_.size() < kMostRefusals) ++refusals_[{title, why}];
  }
}

void KernelExecution::ProcessDied(pid_t process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  const Process& was = found->second;
  if (was.skipped > 0) {
    LogInfo(absl::StrCat("process ", process, ": ", was.executed, " kernels were executed, ",
                         was.skipped, " were not, the first of them ", was.first));
  }
  processes_.erase(found);
}

void KernelExecution::ReadByHost(ExecutionContext& context, uint64_t bytes) {
  const auto found = processes_.find(context.process);
  if (found == processes_.end() || found->second.skipped == 0 || bytes == 0) return;
  const Process& process = found->second;
  if (counters_.doubtful_reads++ == 0) {
    LogWarning(absl::StrFormat(
        "what programs read from their GPUs may mean nothing from here on: process %d reads %d "
        "bytes at %.6f s, after %d kernels that were not executed, the first of them %s (--execute "
        "all leaves none out for its length; see docs/LIMITATIONS.md)",
        context.process, bytes, static_cast<double>(context.time.Now().nanoseconds()) * 1e-9,
        process.skipped, process.first));
  }
  counters_.doubtful_bytes += bytes;
}

void KernelExecution::NotExecuted(pid_t process, const std::string& title, const std::string& why) {
  Count(processes_[process], counters_.refused, title, why);
}

std::vector<std::string> KernelExecution::Refusals(size_t most) const {
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (const auto& [which, count] : refusals_) {
    lines.emplace_back(count, absl::StrCat(count, " x ", which.first, ": ", which.second));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> result;
  for (size_t i = 0; i < std::min(most, lines.size()); ++i) result.push_back(lines[i].second);
  return result;
}

}  // namespace phantora
