// A launch begins: what the kernel is, what it does, and what it takes.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trap/check/memory_check.h"
#include "trap/gpu/front/kernel_execution.h"
#include "trap/gpu/front/qmd_queue.h"
#include "trap/gpu/kernels/internal_kernels.h"
#include "trap/gpu/kernels/kernel_namer.h"
#include "trap/gpu/pricing/kernel_log.h"
#include "trap/gpu/pricing/missing_launches.h"
#include "trap/gpu/pricing/occupancy.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {
namespace {

// A launch that takes less than this takes nothing; a GPU launches nothing as fast. Past so many of
// them, of which this time lets one more go, each takes kCircleCost.
constexpr VirtualSpan kLeastCost = VirtualSpan::Nanoseconds(250);
constexpr int64_t kMostFreeLaunches = 4096;
constexpr VirtualSpan kCircleCost = VirtualSpan::Microseconds(10);

// Where some launches begin: code that jumps to the kernel, whose address is in the first bank of
// constants (as seen of 535 and 550 on A100 and H100, by executing it). That of cooperative ones is
// libcuda's, and sets up what the blocks meet by; while a profiler listens (CUPTI), all others have
// one that notes when the kernel began.
constexpr char kCooperativeEntry[] = "cg_entry";
constexpr uint64_t KernelAddressAt(const Qmd& qmd) { return qmd.major >= 4 ? 0x118 : 0x1860; }

// Does the code at the launch's address jump there? Instructions have 16 bytes; JMP through a
// constant is opcode 0xb4a, with the bank in bits 58:54 and the word in bank in bits 53:40.
bool JumpsToKernel(AddressSpace& memory, const Qmd& qmd) {
  constexpr int kMostInstructions = 64;
  for (int i = 0; i < kMostInstructions; ++i) {
    uint64_t words[2];
    if (memory.Read(qmd.program + i * sizeof words, words, sizeof words)) return false;
    if ((words[0] & 0xfff) == 0xb4a && (words[0] >> 54 & 0x1f) == 0 &&
        (words[0] >> 40 & 0x3fff) * 4 == KernelAddressAt(qmd)) {
      return true;
    }
  }
  return false;
}

class MemoryOfLaunch : public LaunchMemory {
 public:
  explicit MemoryOfLaunch(AddressSpace& memory) : memory_(memory) {}
  bool Read(uint64_t address, void* out, uint64_t bytes) const override {
    return !memory_.Read(address, out, bytes);
  }

 private:
  AddressSpace& memory_;
};

}  // namespace

Progress QmdQueue::Start(ExecutionContext& context, uint64_t address) {
  Progress failure = Progress::kDone;
  auto fetched = Fetch(context, address, failure);
  if (!fetched) return failure;
  auto running = std::make_unique<Running>();
  running->qmd = *std::move(fetched);
  const VirtualTime now = context.time.Now();
  EngineWork::Need need = {.span = {}, .demand = 1, .level = running->qmd.group};
  if (IsKernel(running->qmd)) {
    const Progress progress = StartKernel(context, address, *running, need);
    if (progress != Progress::kDone) return progress;
  }
  if (need.span < kLeastCost && !running->shared && IsOneTooMany(now)) need.span = kCircleCost;
  if (context.services.order != nullptr && (need.span > VirtualSpan() || running->shared)) {
    const absl::string_view name = running->internal != nullptr ? running->internal
                                   : running->known != nullptr  ? running->known->title.c_str()
                                                                : "";
    running->order =
        context.services.order->Kernel({context.process, context.gpu, context.channel, 0}, name,
                                       need, running->shared ? running->shared->id() : 0, now);
  }
  running->work.emplace(context.sms, now, need);
  pending_forks_ += running->forks.size();
  running_.push_back(std::move(running));
  return Progress::kDone;
}

bool QmdQueue::IsOneTooMany(VirtualTime now) {
  const int64_t paid = (now - last_free_launch_).picoseconds() / kLeastCost.picoseconds();
  free_launches_ = std::max<int64_t>(free_launches_ - std::max<int64_t>(paid, 0), 0);
  last_free_launch_ = now;
  if (free_launches_ >= kMostFreeLaunches) return true;
  ++free_launches_;
  return false;
}

Progress QmdQueue::StartKernel(ExecutionContext& context, uint64_t address, Running& running,
                               EngineWork::Need& need) {
  const Qmd& qmd = running.qmd;
  if (Progress progress = StartInternal(context, running); progress != Progress::kDone) {
    return progress;
  }
  if (running.is_shared) {
    const Progress progress = StartShared(context, running, need);
    if (progress != Progress::kDone || running.is_shared) return progress;
  }
  // Priced by what it finds in memory, before it changes that.
  if (!running.is_priced) PriceKernel(context, running);
  if (running.known != nullptr) {
    if (Progress progress = Execute(context, running); progress != Progress::kDone) return progress;
  } else if (running.internal == nullptr && context.services.execution != nullptr) {
    context.services.execution->NotExecuted(context.process, "a kernel without a name",
                                            "its code cannot be read");
    if (context.services.check != nullptr) {
      context.services.check->NotLaunched(context.process, false);
    }
  }
  need = {.span = running.price.time,
          .demand = DemandOf(context.sm_limits, qmd),
          .level = qmd.group,
          .memory = static_cast<uint32_t>(running.price.memory_share * EngineShare::kWhole)};
  LogLaunch(context, address, running);
  return Progress::kDone;
}

Progress QmdQueue::Execute(ExecutionContext& context, const Running& running) {
  const KnownKernel& known = *running.known;
  if (context.services.execution != nullptr) {
    Qmd qmd = running.qmd;
    NamedLaunch launch = {.qmd = qmd,
                          .shared_window = context.gpu_context->windows.shared,
                          .local_window = context.gpu_context->windows.local,
                          .fingerprint = running.fingerprint,
                          .code_bytes = running.entry_bytes.value_or(known.code_bytes),
                          .together = running.is_cooperative,
                          .title = known.title,
                          .rule = &known.rule,
                          .parameter_bytes = known.parameter_bytes,
                          .symbol = &known.symbol,
                          .image = known.image};
    if (running.entry_bytes && !running.is_cooperative) {
      context.services.execution->RunEntry(context, launch, running.kernel_address);
      qmd.program = running.kernel_address;
      launch.code_bytes = known.code_bytes;
    }
    return context.services.execution->Run(context, launch);
  }
  CarryOutSmall(context, running);
  return Progress::kDone;
}

void QmdQueue::PriceKernel(ExecutionContext& context, Running& running) {
  const Qmd& qmd = running.qmd;
  std::vector<uint8_t> parameters;
  if (running.known != nullptr) {
    const KnownKernel& known = *running.known;
    uint32_t bytes = known.rule.parameter_bytes();
    if (context.services.missing != nullptr) bytes = std::max(bytes, known.parameter_bytes);
    parameters = ParametersOf(context, qmd, bytes);
  }
  running.is_priced = true;
  const MemoryOfLaunch memory(context.memory());
  const KernelLaunch launch = {&qmd, running.known.get(), parameters, running.moved_bytes, &memory};
  running.price = context.services.pricer->Kernel(launch);
  if (context.services.missing != nullptr && running.internal == nullptr) {
    running.price = context.services.missing->Of(launch, running.price, context.memory());
  }
  if (context.services.kernel_log != nullptr && running.internal == nullptr) {
    context.services.kernel_log->Add(launch, running.price);
  }
}

void QmdQueue::LogLaunch(ExecutionContext& context, uint64_t address, const Running& running) {
  if (!context.services.log->enabled()) return;
  const Qmd& qmd = running.qmd;
  context.services.log->Line(
      context.process,
      absl::StrFormat(
          "gpu%d ch%d launch %s grid %d,%d,%d block %d,%d,%d regs %d shared %d group %d "
          "program %x qmd %x",
          context.gpu, context.channel,
          running.internal != nullptr ? absl::StrCat("libcuda's ", running.internal)
          : running.known != nullptr  ? running.known->title
                                      : "kernel",
          qmd.grid.x, qmd.grid.y, qmd.grid.z, qmd.block.x, qmd.block.y, qmd.block.z, qmd.registers,
          qmd.shared_bytes, qmd.group, qmd.program, address));
}

Progress QmdQueue::StartShared(ExecutionContext& context, Running& running,
                               EngineWork::Need& need) {
  SharedWork& shared = *context.services.shared;
  const Qmd& qmd = running.qmd;
  SharedWork::Prepared prepared;
  const bool priced = running.known != nullptr && shared.IsPriced(running.known->symbol);
  if (running.known != nullptr) {
    const auto parameters = ParametersOf(context, qmd, running.known->parameter_bytes);
    if (priced) PriceKernel(context, running);
    prepared = shared.PrepareKnown(context.process, context.gpu, context.gpu_context,
                                   running.known->symbol, parameters, running.price.time,
                                   static_cast<double>(DemandOf(context.sm_limits, qmd)) /
                                       EngineShare::kWhole * context.sm_limits.sms);
    if (prepared.alone) {
      running.is_shared = false;
      return Progress::kDone;
    }
  } else {
    std::vector<uint8_t> parameters(shared.ParameterBytes(running.fingerprint));
    if (auto fault = context.memory().Read(qmd.constants[0].address + qmd.parameter_offset(),
                                           parameters.data(), parameters.size())) {
      return context.Check(fault, "kernel parameters");
    }
    prepared = shared.Prepare(context.process, context.gpu_context, parameters);
  }
  if (prepared.error != nullptr) return context.Fail(kGrClassError, qmd.program, prepared.error);
  if (prepared.id == 0) return Progress::kDone;
  running.shared.emplace(&shared, prepared.id);
  if (!priced) running.price.source = PriceSource::kModelled;
  need = NeedWithoutEnd(prepared.sms, context.sm_limits.sms, prepared.memory_share, qmd.group);
  return Progress::kDone;
}

bool QmdQueue::CarryOutSmall(ExecutionContext& context, const Running& running) {
  if (running.known->small == nullptr) return false;
  const Qmd& qmd = running.qmd;
  const auto parameters = ParametersOf(context, qmd, running.known->parameter_bytes);
  if (parameters.size() < running.known->parameter_bytes) return false;
  context.budget -= kLaunchCost;
  const LaunchShape launch = {.grid = {qmd.grid.x, qmd.grid.y, qmd.grid.z},
                              .block = {qmd.block.x, qmd.block.y, qmd.block.z},
                              .parameters = parameters};
  if (!running.known->small->CarryOut(launch, context.memory(), transfers_)) return false;
  ++context.services.counters.small_kernels;
  return true;
}

std::vector<uint8_t> QmdQueue::ParametersOf(ExecutionContext& context, const Qmd& qmd,
                                            uint64_t most) {
  const auto& bank = qmd.constants[0];
  const uint64_t offset = qmd.parameter_offset();
  if (!bank.valid || bank.bytes <= offset) return {};
  std::vector<uint8_t> parameters(std::min<uint64_t>(most, bank.bytes - offset));
  if (context.memory().Read(bank.address + offset, parameters.data(), parameters.size())) return {};
  return parameters;
}

std::shared_ptr<const KnownKernel> QmdQueue::NameOf(ExecutionContext& context, uint64_t program,
                                                    uint64_t fingerprint) {
  return context.services.namer->Of(
      context.process, program, fingerprint,
      [&](uint8_t* to, uint64_t bytes) { return !context.memory().Read(program, to, bytes); });
}

bool QmdQueue::IsEntry(ExecutionContext& context, const Running& running) {
  // A process that makes ever more code only has it looked at again.
  constexpr size_t kMostKept = 1 << 14;
  if (is_entry_.size() >= kMostKept) is_entry_.clear();
  const auto [kept, is_new] = is_entry_.try_emplace(running.fingerprint, false);
  if (is_new) kept->second = JumpsToKernel(context.memory(), running.qmd);
  return kept->second;
}

void QmdQueue::FindBehindEntry(ExecutionContext& context, Running& running, uint64_t entry_bytes) {
  const auto& bank = running.qmd.constants[0];
  const uint64_t at = KernelAddressAt(running.qmd);
  uint64_t program = 0;
  if (context.services.namer == nullptr || !bank.valid || bank.bytes < at + sizeof program ||
      context.memory().Read(bank.address + at, &program, sizeof program) ||
      program % sass::kWordBytes != 0) {
    return;
  }
  uint64_t fingerprint = 0;
  context.services.internal_kernels->Identify(context.memory(), program, fingerprint);
  if (fingerprint == 0) return;
  // Launches of one kernel are alike, whoever's code comes first.
  running.fingerprint = fingerprint;
  running.known = NameOf(context, program, fingerprint);
  // If nobody knows: less than there is before the kernel, which is not to run with it.
  constexpr uint64_t kMostBytes = 4096;
  if (entry_bytes == 0 && program > running.qmd.program) {
    entry_bytes = std::min(program - running.qmd.program, kMostBytes);
  }
  running.entry_bytes = static_cast<uint32_t>(entry_bytes);
  running.kernel_address = program;
}

Progress QmdQueue::StartInternal(ExecutionContext& context, Running& running) {
  const Qmd& qmd = running.qmd;
  GpuServices& services = context.services;
  const InternalKernels::Kernel* internal =
      services.internal_kernels->Identify(context.memory(), qmd.program, running.fingerprint);
  ++services.counters.kernels;
  if (internal == nullptr) {
    running.is_shared =
        services.shared != nullptr && services.shared->ParameterBytes(running.fingerprint) > 0;
    if (!running.is_shared && services.namer != nullptr && running.fingerprint != 0) {
      if (IsEntry(context, running)) FindBehindEntry(context, running, 0);
      if (running.known == nullptr) {
        running.known = NameOf(context, qmd.program, running.fingerprint);
      }
      running.is_shared =
          services.shared != nullptr && services.shared->Knows(running.known->symbol);
    }
    return Progress::kDone;
  }
  if (internal->name == kCooperativeEntry) {
    FindBehindEntry(context, running, internal->code_bytes);
    running.is_cooperative = running.known != nullptr;
    if (running.is_cooperative) return Progress::kDone;
  }
  ++services.counters.internal_kernels;
  running.internal = internal->name.c_str();
  uint8_t parameters[kInternalParameterBytes] = {};
  const auto& bank = qmd.constants[0];
  const uint64_t offset = qmd.parameter_offset();
  if (bank.valid && bank.bytes > offset) {
    const uint64_t size =
        std::min<uint64_t>({sizeof parameters, internal->parameter_bytes, bank.bytes - offset});
    if (auto fault = context.memory().Read(bank.address + offset, parameters, size)) {
      return context.Check(fault, "kernel parameters");
    }
  }
  if (!IsGraphFork(internal->name)) {
    const double before = transfers_.Traffic();
    if (InternalKernels::Effect(internal->name, qmd, parameters, transfers_)) {
      running.moved_bytes = transfers_.Traffic() - before;
    } else if (services.execution != nullptr) {
      return services.execution->Run(
          context, {.qmd = qmd,
                    .shared_window = context.gpu_context->windows.shared,
                    .local_window = context.gpu_context->windows.local,
                    .fingerprint = running.fingerprint,
                    .code_bytes = static_cast<uint32_t>(internal->code_bytes),
                    .together = internal->name == kCooperativeEntry,
                    .title = internal->name,
                    .parameter_bytes = static_cast<uint32_t>(internal->parameter_bytes)});
    }
    return Progress::kDone;
  }
  const Progress progress = RunGraphFork(
      context, parameters, services.internal_kernels->graph_node_bytes(), running.forks);
  if (progress == Progress::kDone && pending_forks_ + running.forks.size() > kMostReady) {
    return context.Fail(kGrClassError, qmd.program, "too many launches pending");
  }
  return progress;
}

}  // namespace phantora
