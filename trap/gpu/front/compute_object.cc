#include "trap/gpu/front/compute_object.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/gpu/kernels/internal_kernels.h"
#include "trap/gpu/kernels/kernel_namer.h"
#include "trap/gpu/pricing/kernel_log.h"
#include "trap/gpu/pricing/missing_launches.h"
#include "trap/gpu/pricing/occupancy.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {
namespace {

namespace m = abi::compute;

constexpr uint32_t kEngineGraphics = 1;  // NV2080_ENGINE_TYPE_GR0
// A cycle of QMDs that schedule each other runs for ever on hardware too; here
// at least the queue must not grow for ever.
constexpr size_t kMostReady = 1 << 17;
constexpr size_t kMostKnownQmds = 1 << 20;
// QMDs that run beside each other; the others wait until one is over.
constexpr size_t kMostRunning = EngineShare::kMostAtOnce;
constexpr int kMostLaunchesAtOnce = 4096;
constexpr VirtualSpan kCircleCost = VirtualSpan::Microseconds(10);

constexpr uint32_t kInlineCompletionRelease = 2;  // LAUNCH_DMA_COMPLETION_TYPE

}  // namespace

Progress ComputeObject::Method(ExecutionContext& context, uint32_t method, uint32_t data) {
  if (method >= m::kMethodsEnd) {
    context.services.unknowns->Count("compute method", method, "beyond the class's methods");
    return Progress::kDone;
  }
  if (resuming_) {
    const Progress progress = Drain(context);
    resuming_ = progress == Progress::kBlocked || progress == Progress::kYield;
    return progress;
  }
  reg(method) = data;
  Progress progress = Progress::kDone;
  switch (method) {
    case m::kLaunchDma:
      StartInline(data);
      return Progress::kDone;
    case m::kLoadInlineData:
      return InlineData(context, absl::MakeConstSpan(reinterpret_cast<uint8_t*>(&data), 4));
    case m::kSetReportSemaphoreD:
      return ReportSemaphoreD(context, data);
    case m::kReportSemaphoreExecute:
      return ReportSemaphoreExecute(context, data);
    case m::kSendSignalingPcasB:
      // INVALIDATE bit 0, SCHEDULE bit 1
      if ((data & 2) != 0) {
        progress = ScheduleQmd(context, uint64_t{reg(m::kSendPcasA)} << 8, true);
      }
      break;
    case m::kSendSignalingPcas2B:
      progress = Pcas2(context, uint64_t{reg(m::kSendPcasA)} << 8, data & 15);
      break;
    default:
      if (method >= m::kLoadInlineQmdData && method < m::kLoadInlineQmdData + kQmdBytes) {
        progress = LoadInlineQmd(context, method, data);
      }
      break;
  }
  if (progress == Progress::kDone && !ready_.empty()) progress = Drain(context);
  resuming_ = progress == Progress::kBlocked || progress == Progress::kYield;
  return progress;
}

size_t ComputeObject::Bulk(ExecutionContext& context, uint32_t method,
                           absl::Span<const uint32_t> words) {
  if (method != m::kLoadInlineData || resuming_) return 0;
  const uint64_t left_words = (inline_total_ - inline_done_ + 3) / 4;
  // The last word completes the transfer and may fault: it goes through Method.
  if (left_words < 2) return 0;
  const size_t count = std::min<uint64_t>(words.size(), left_words - 1);
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(words.data()), count * 4);
  // On a fault nothing is consumed, and the next single word reports it.
  return InlineData(context, bytes) == Progress::kDone ? count : 0;
}

void ComputeObject::StartInline(uint32_t flags) {
  inline_flags_ = flags;
  inline_done_ = 0;
  // The registers may be written again while the data arrives.
  inline_line_ = reg(m::kLineLengthIn);
  inline_total_ = inline_line_ * reg(m::kLineCount);
}

Progress ComputeObject::InlineData(ExecutionContext& context, absl::Span<const uint8_t> bytes) {
  const uint64_t base = Address(m::kOffsetOutUpper, m::kOffsetOut) & 0x1ffffffffffffff;
  if (inline_done_ >= inline_total_) return Progress::kDone;
  uint64_t left = std::min<uint64_t>(bytes.size(), inline_total_ - inline_done_);
  const uint8_t* from = bytes.data();
  while (left > 0) {
    // Lines follow each other in the data without padding.
    const uint64_t line = inline_done_ / inline_line_, column = inline_done_ % inline_line_;
    const uint64_t piece = std::min(left, inline_line_ - column);
    --context.budget;
    const auto fault =
        context.memory().Write(base + line * reg(m::kPitchOut) + column, from, piece);
    if (fault) return context.Check(fault, "inline data");
    from += piece, left -= piece, inline_done_ += piece;
  }
  return inline_done_ == inline_total_ ? FinishInline(context) : Progress::kDone;
}

Progress ComputeObject::FinishInline(ExecutionContext& context) {
  inline_total_ = inline_done_ = 0;
  if ((inline_flags_ >> 4 & 3) != kInlineCompletionRelease) return Progress::kDone;
  const SemaphoreWrite write = {
      .address = Address(m::kI2mSemaphoreA, m::kI2mSemaphoreB) & 0x1ffffffffffffff,
      .payload = reg(m::kI2mSemaphoreC),
      .payload_64bit = false,
      .with_timestamp = (inline_flags_ >> 12 & 1) == 0};
  if ((inline_flags_ >> 1 & 1) != 0) {
    return ReduceSemaphore(context, write, FromComputeReduction(inline_flags_ >> 13 & 7),
                           (inline_flags_ >> 2 & 3) == 1);
  }
  return ReleaseSemaphore(context, write);
}

Progress ComputeObject::LoadInlineQmd(ExecutionContext& context, uint32_t method, uint32_t data) {
  const uint64_t address =
      (uint64_t{reg(m::kInlineQmdAddressA) & 0x1ffff} << 32 | reg(m::kInlineQmdAddressB)) << 8;
  const uint32_t index = (method - m::kLoadInlineQmdData) / 4;
  const auto fault = context.memory().Write(address + index * 4, &data, 4);
  if (fault) return context.Check(fault, "inline QMD");
  const uint32_t last = (class_id_ >= 0xcb00 ? kQmdBytes : kQmdBytesBeforeHopper) / 4 - 1;
  return index == last ? ScheduleQmd(context, address, true) : Progress::kDone;
}

Progress ComputeObject::Pcas2(ExecutionContext& context, uint64_t address, uint32_t action) {
  switch (action) {
    case m::kSchedule:
    case m::kPrefetchSchedule:
      return ScheduleQmd(context, address, false);
    case m::kInvalidateCopySchedule:
    case m::kInvalidatePrefetchCopySchedule:
    case m::kInvalidatePrefetchCopyForceRequireScheduling:
      return ScheduleQmd(context, address, true);
    case m::kDecrementDependence:
      return DecrementDependence(context, address);
    case m::kNop:
    case m::kInvalidate:
    case m::kPrefetch:
      return Progress::kDone;
    default:
      context.services.unknowns->Count("PCAS action", action, "launch request ignored");
      return Progress::kDone;
  }
}

std::optional<Qmd> ComputeObject::FetchQmd(ExecutionContext& context, uint64_t address,
                                           Progress& failure) {
  uint8_t bytes[kQmdBytes];
  const uint64_t size = class_id_ >= 0xcb00 ? kQmdBytes : kQmdBytesBeforeHopper;
  if (auto fault = context.memory().Read(address, bytes, size)) {
    failure = context.Check(fault, "QMD");
    return std::nullopt;
  }
  auto qmd = DecodeQmd(absl::MakeConstSpan(bytes, size));
  if (!qmd) {
    const uint32_t version = bytes[72];
    context.services.unknowns->Count("QMD version", version, "launch refused");
    failure = context.Fail(kGrClassError, address, "QMD of an unknown version");
  }
  return qmd;
}

Progress ComputeObject::ScheduleQmd(ExecutionContext& context, uint64_t address, bool handed_over) {
  Progress failure = Progress::kDone;
  auto qmd = FetchQmd(context, address, failure);
  if (!qmd) return failure;
  auto& scheduler = context.gpu_context->qmds;
  if (scheduler.size() >= kMostKnownQmds) {
    return context.Fail(kGrClassError, address, "too many launches pending");
  }
  const bool ready = handed_over
                         ? scheduler.Load(address, qmd->requires_pcas, qmd->dependence_counter)
                         : scheduler.Schedule(address, qmd->requires_pcas, qmd->dependence_counter);
  if (context.services.log->enabled()) {
    context.services.log->Line(
        context.process,
        absl::StrFormat("gpu%d ch%d schedule qmd %x%s: requires PCAS %d, dependences %d: %s",
                        context.gpu, context.channel, address, handed_over ? " (handed over)" : "",
                        qmd->requires_pcas, qmd->dependence_counter, ready ? "runs" : "waits"));
  }
  if (ready) {
    if (ready_.size() >= kMostReady) {
      return context.Fail(kGrClassError, address, "too many launches pending");
    }
    ready_.push_back(address);
  }
  return Progress::kDone;
}

Progress ComputeObject::DecrementDependence(ExecutionContext& context, uint64_t address) {
  auto& scheduler = context.gpu_context->qmds;
  if (scheduler.size() >= kMostKnownQmds || ready_.size() >= kMostReady) {
    return context.Fail(kGrClassError, address, "too many launches pending");
  }
  bool ready;
  if (scheduler.Knows(address)) {
    ready = scheduler.DecrementDependence(address);
  } else {
    Progress failure = Progress::kDone;
    auto qmd = FetchQmd(context, address, failure);
    if (!qmd) return failure;
    ready = scheduler.DecrementUnknown(address, qmd->requires_pcas, qmd->dependence_counter);
  }
  if (ready) ready_.push_back(address);
  return Progress::kDone;
}

Progress ComputeObject::Drain(ExecutionContext& context) {
  for (;;) {
    if (Progress progress = transfers_.Run(context); progress != Progress::kDone) return progress;
    // With a full GPU, one of each channel waits for it, the others behind that.
    const bool full = context.sms != nullptr && context.sms->size() >= kMostRunning;
    if (!ready_.empty() && running_.size() < (full ? 1 : kMostRunning)) {
      if (context.budget <= 0) return Progress::kYield;
      context.budget -= kLaunchCost;
      const uint64_t address = ready_.front();
      ready_.pop_front();
      if (Progress progress = StartQmd(context, address); progress != Progress::kDone) {
        return progress;
      }
      continue;
    }
    if (running_.empty()) return Progress::kDone;
    context.budget -= static_cast<int64_t>(running_.size()) / 2;
    const VirtualTime now = context.time.Now();
    for (const auto& running : running_) {
      if (running->shared && !running->shared->started() && running->work->began() <= now) {
        running->shared->Start(now);
      }
    }
    const auto over = std::find_if(running_.begin(), running_.end(),
                                   [now](const auto& running) { return running->Ends() <= now; });
    if (over == running_.end()) return Progress::kBlocked;
    if (context.budget <= 0) return Progress::kYield;
    const std::unique_ptr<Running> running = std::move(*over);
    running_.erase(over);
    if (Progress progress = CompleteQmd(context, *running); progress != Progress::kDone) {
      return progress;
    }
  }
}

Progress ComputeObject::StartQmd(ExecutionContext& context, uint64_t address) {
  Progress failure = Progress::kDone;
  auto fetched = FetchQmd(context, address, failure);
  if (!fetched) return failure;
  auto running = std::make_unique<Running>();
  running->qmd = *std::move(fetched);
  const Qmd& qmd = running->qmd;
  const VirtualTime now = context.time.Now();
  EngineWork::Need need = {.span = {}, .demand = 1, .level = qmd.group};
  // A grid of no blocks only orders others, and is no kernel.
  if (qmd.type == Qmd::Type::kGrid && qmd.grid.count() > 0) {
    if (Progress progress = StartInternal(context, *running); progress != Progress::kDone) {
      return progress;
    }
    if (running->is_shared) {
      const Progress progress = StartShared(context, *running, need);
      if (progress != Progress::kDone) return progress;
    }
  }
  if (qmd.type == Qmd::Type::kGrid && qmd.grid.count() > 0 && !running->is_shared) {
    std::vector<uint8_t> parameters;
    if (running->known != nullptr) {
      const KnownKernel& known = *running->known;
      uint32_t bytes = known.rule.parameter_bytes();
      if (context.services.missing != nullptr) bytes = std::max(bytes, known.parameter_bytes);
      parameters = ParametersOf(context, qmd, bytes);
      if (running->known->small != nullptr) CarryOutSmall(context, *running);
    }
    const KernelLaunch launch = {&qmd, running->known.get(), parameters, running->moved_bytes};
    running->price = context.services.pricer->Kernel(launch);
    if (context.services.missing != nullptr && running->internal == nullptr) {
      running->price = context.services.missing->Of(launch, running->price, context.memory());
    }
    if (context.services.kernel_log != nullptr && running->internal == nullptr) {
      context.services.kernel_log->Add(launch, running->price);
    }
    need = {.span = running->price.time,
            .demand = DemandOf(context.sm_limits, qmd),
            .level = qmd.group,
            .memory = static_cast<uint32_t>(running->price.memory_share * EngineShare::kWhole)};
    if (context.services.log->enabled()) {
      context.services.log->Line(
          context.process,
          absl::StrFormat(
              "gpu%d ch%d launch %s grid %d,%d,%d block %d,%d,%d regs %d shared %d group %d "
              "program %x qmd %x",
              context.gpu, context.channel,
              running->internal != nullptr ? absl::StrCat("libcuda's ", running->internal)
              : running->known != nullptr  ? running->known->title
                                           : "kernel",
              qmd.grid.x, qmd.grid.y, qmd.grid.z, qmd.block.x, qmd.block.y, qmd.block.z,
              qmd.registers, qmd.shared_bytes, qmd.group, qmd.program, address));
    }
  }
  // QMDs that take no time and schedule each other in a circle must not keep simulated
  // time from passing.
  if (now != last_launch_) launches_at_once_ = 0;
  last_launch_ = now;
  if (++launches_at_once_ > kMostLaunchesAtOnce) need.span = std::max(need.span, kCircleCost);
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

Progress ComputeObject::StartShared(ExecutionContext& context, Running& running,
                                    EngineWork::Need& need) {
  SharedWork& shared = *context.services.shared;
  const Qmd& qmd = running.qmd;
  SharedWork::Prepared prepared;
  if (running.known != nullptr) {
    const auto parameters = ParametersOf(context, qmd, running.known->parameter_bytes);
    prepared = shared.PrepareKnown(context.process, context.gpu, context.gpu_context,
                                   running.known->symbol, parameters);
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
  running.price.source = PriceSource::kModelled;
  need = NeedWithoutEnd(prepared.sms, context.sm_limits.sms, prepared.memory_share, qmd.group);
  return Progress::kDone;
}

void ComputeObject::CarryOutSmall(ExecutionContext& context, const Running& running) {
  const Qmd& qmd = running.qmd;
  const auto parameters = ParametersOf(context, qmd, running.known->parameter_bytes);
  if (parameters.size() < running.known->parameter_bytes) return;
  context.budget -= kLaunchCost;
  const LaunchShape launch = {.grid = {qmd.grid.x, qmd.grid.y, qmd.grid.z},
                              .block = {qmd.block.x, qmd.block.y, qmd.block.z},
                              .parameters = parameters};
  if (running.known->small->CarryOut(launch, context.memory(), transfers_)) {
    ++context.services.counters.small_kernels;
  }
}

std::vector<uint8_t> ComputeObject::ParametersOf(ExecutionContext& context, const Qmd& qmd,
                                                 uint64_t most) {
  const auto& bank = qmd.constants[0];
  const uint64_t offset = qmd.parameter_offset();
  if (!bank.valid || bank.bytes <= offset) return {};
  std::vector<uint8_t> parameters(std::min<uint64_t>(most, bank.bytes - offset));
  if (context.memory().Read(bank.address + offset, parameters.data(), parameters.size())) return {};
  return parameters;
}

Progress ComputeObject::StartInternal(ExecutionContext& context, Running& running) {
  const Qmd& qmd = running.qmd;
  GpuServices& services = context.services;
  const InternalKernels::Kernel* internal =
      services.internal_kernels->Identify(context.memory(), qmd.program, running.fingerprint);
  ++services.counters.kernels;
  if (internal == nullptr) {
    running.is_shared =
        services.shared != nullptr && services.shared->ParameterBytes(running.fingerprint) > 0;
    if (!running.is_shared && services.namer != nullptr && running.fingerprint != 0) {
      running.known = services.namer->Of(context.process, qmd.program, running.fingerprint,
                                         [&](uint8_t* to, uint64_t bytes) {
                                           return !context.memory().Read(qmd.program, to, bytes);
                                         });
      running.is_shared =
          services.shared != nullptr && services.shared->Knows(running.known->symbol);
    }
    return Progress::kDone;
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

Progress ComputeObject::CompleteQmd(ExecutionContext& context, const Running& running) {
  const Qmd& qmd = running.qmd;
  pending_forks_ -= running.forks.size();
  if (running.order != 0) context.services.order->Ended(running.order, context.time.Now());
  // Of shared work, a launch that is over at once is a part of another.
  const bool is_part = running.is_shared && !running.shared;
  if (context.services.observer != nullptr && qmd.type == Qmd::Type::kGrid &&
      qmd.grid.count() > 0 && !is_part) {
    const VirtualTime began = running.work->began();
    // Shared work that is given up may end before its time.
    const VirtualSpan duration = std::max(running.Ends() - began, VirtualSpan());
    const char* name = running.shared ? running.shared->Name() : running.internal;
    context.services.observer->Kernel(
        {context.process, context.gpu, context.channel, began, duration, running.price.source,
         running.price.flops, running.price.bytes, running.price.error},
        qmd, {running.fingerprint, name, running.known.get()});
  }
  for (const Qmd::Release& release : qmd.releases) {
    if (!release.enabled) continue;
    const SemaphoreWrite write = {.address = release.address,
                                  .payload = release.payload,
                                  .payload_64bit = release.payload_64bit,
                                  .with_timestamp = release.with_timestamp};
    const Progress progress =
        release.reduce ? ReduceSemaphore(context, write, FromComputeReduction(release.reduction),
                                         release.reduction_signed)
                       : ReleaseSemaphore(context, write);
    if (progress != Progress::kDone) return progress;
    if (release.interrupt) Interrupt(context);
  }
  for (const Qmd::Dependent& dependent : qmd.dependents) {
    if (!dependent.enabled) continue;
    Progress progress = Progress::kDone;
    switch (dependent.action) {
      case Qmd::kSchedule:
      case Qmd::kInvalidateCopySchedule:
        progress = ScheduleQmd(context, dependent.address, false);
        break;
      case Qmd::kDecrementDependence:
        progress = DecrementDependence(context, dependent.address);
        break;
      default:
        context.services.unknowns->Count("dependent QMD action", dependent.action,
                                         "successor not scheduled");
        break;
    }
    if (progress != Progress::kDone) return progress;
  }
  for (const ForkAction& fork : running.forks) {
    context.budget -= kLaunchCost / 2;
    const Progress progress = Pcas2(context, fork.qmd, fork.action);
    if (progress != Progress::kDone) return progress;
  }
  return Progress::kDone;
}

Progress ComputeObject::ReportSemaphoreD(ExecutionContext& context, uint32_t data) {
  const uint32_t operation = data & 3;  // OPERATION: 0 release, 3 trap
  if (operation == 3) {
    Interrupt(context);
    return Progress::kDone;
  }
  if (operation != 0) {
    context.services.unknowns->Count("report semaphore operation", operation, "ignored");
    return Progress::kDone;
  }
  const SemaphoreWrite write = {
      .address = Address(m::kSetReportSemaphoreA, m::kSetReportSemaphoreB) & 0x1ffffffffffffff,
      .payload = reg(m::kSetReportSemaphoreC),
      .payload_64bit = false,
      .with_timestamp = (data >> 28 & 1) == 0};
  const Progress progress =
      (data >> 3 & 1) != 0 ? ReduceSemaphore(context, write, FromComputeReduction(data >> 9 & 7),
                                             (data >> 17 & 3) == 1)
                           : ReleaseSemaphore(context, write);
  if (progress == Progress::kDone && (data >> 20 & 1) != 0) Interrupt(context);  // AWAKEN_ENABLE
  return progress;
}

Progress ComputeObject::ReportSemaphoreExecute(ExecutionContext& context, uint32_t data) {
  if (class_id_ < 0xcb00) return Progress::kDone;  // a Hopper method
  const uint32_t operation = data & 3;
  if (operation == 3) {
    Interrupt(context);
    return Progress::kDone;
  }
  const bool wide = (data >> 12 & 1) != 0;
  const SemaphoreWrite write = {
      .address = Address(m::kReportAddressUpper, m::kReportAddressLower) & 0x1ffffffffffffff,
      .payload =
          reg(m::kReportPayloadLower) | (wide ? uint64_t{reg(m::kReportPayloadUpper)} << 32 : 0),
      .payload_64bit = wide,
      .with_timestamp = (data >> 3 & 3) == 0};
  const Progress progress =
      (data >> 6 & 1) != 0 ? ReduceSemaphore(context, write, FromComputeReduction(data >> 7 & 7),
                                             (data >> 10 & 3) == 1)
                           : ReleaseSemaphore(context, write);
  if (progress == Progress::kDone && ((data >> 2 & 1) != 0 || (data >> 13 & 3) != 0)) {
    Interrupt(context);
  }
  return progress;
}

void ComputeObject::Interrupt(ExecutionContext& context) { context.Interrupt(kEngineGraphics); }

}  // namespace phantora
