#include "trap/gpu/front/qmd_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/gpu/front/gpu_semaphore.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {
namespace {

namespace m = abi::compute;

// The context knows so many QMDs at most; see kMostReady.
constexpr size_t kMostKnownQmds = 1 << 20;
// QMDs that run beside each other; the others wait until one is over.
constexpr size_t kMostRunning = EngineShare::kMostAtOnce;

}  // namespace

Progress QmdQueue::SendPcas(ExecutionContext& context, uint64_t address, uint32_t action) {
  switch (action) {
    case m::kSchedule:
    case m::kPrefetchSchedule:
      return Schedule(context, address, false);
    case m::kInvalidateCopySchedule:
    case m::kInvalidatePrefetchCopySchedule:
    case m::kInvalidatePrefetchCopyForceRequireScheduling:
      return Schedule(context, address, true);
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

std::optional<Qmd> QmdQueue::Fetch(ExecutionContext& context, uint64_t address, Progress& failure) {
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

Progress QmdQueue::Schedule(ExecutionContext& context, uint64_t address, bool handed_over) {
  Progress failure = Progress::kDone;
  auto qmd = Fetch(context, address, failure);
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

Progress QmdQueue::DecrementDependence(ExecutionContext& context, uint64_t address) {
  auto& scheduler = context.gpu_context->qmds;
  if (scheduler.size() >= kMostKnownQmds || ready_.size() >= kMostReady) {
    return context.Fail(kGrClassError, address, "too many launches pending");
  }
  bool ready;
  if (scheduler.Knows(address)) {
    ready = scheduler.DecrementDependence(address);
  } else {
    Progress failure = Progress::kDone;
    auto qmd = Fetch(context, address, failure);
    if (!qmd) return failure;
    ready = scheduler.DecrementUnknown(address, qmd->requires_pcas, qmd->dependence_counter);
  }
  if (ready) ready_.push_back(address);
  return Progress::kDone;
}

Progress QmdQueue::Drain(ExecutionContext& context) {
  for (;;) {
    if (Progress progress = transfers_.Run(context); progress != Progress::kDone) return progress;
    // With a full GPU, one of each channel waits for it, the others behind that.
    const bool full = context.sms != nullptr && context.sms->size() >= kMostRunning;
    if (!ready_.empty() && running_.size() < (full ? 1 : kMostRunning)) {
      if (context.budget <= 0) return Progress::kYield;
      context.budget -= kLaunchCost;
      const uint64_t address = ready_.front();
      ready_.pop_front();
      if (Progress progress = Start(context, address); progress != Progress::kDone) {
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
    if (Progress progress = Complete(context, *running); progress != Progress::kDone) {
      return progress;
    }
  }
}

Progress QmdQueue::Complete(ExecutionContext& context, const Running& running) {
  const Qmd& qmd = running.qmd;
  pending_forks_ -= running.forks.size();
  if (running.order != 0) context.services.order->Ended(running.order, context.time.Now());
  Observe(context, running);
  if (Progress progress = Release(context, qmd); progress != Progress::kDone) return progress;
  for (const Qmd::Dependent& dependent : qmd.dependents) {
    if (!dependent.enabled) continue;
    Progress progress = Progress::kDone;
    switch (dependent.action) {
      case Qmd::kSchedule:
      case Qmd::kInvalidateCopySchedule:
        progress = Schedule(context, dependent.address, false);
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
    const Progress progress = SendPcas(context, fork.qmd, fork.action);
    if (progress != Progress::kDone) return progress;
  }
  return Progress::kDone;
}

void QmdQueue::Observe(ExecutionContext& context, const Running& running) {
  const Qmd& qmd = running.qmd;
  // A launch of shared work that is over at once is a part of another.
  const bool is_part = running.is_shared && !running.shared;
  if (context.services.observer == nullptr || !IsKernel(qmd) || is_part) return;
  const VirtualTime began = running.work->began();
  // Shared work that is given up may end before its time.
  const VirtualSpan duration = std::max(running.Ends() - began, VirtualSpan());
  const char* name = running.shared ? running.shared->Name() : running.internal;
  context.services.observer->Kernel(
      {context.process, context.gpu, context.channel, began, duration, running.price.source,
       running.price.flops, running.price.bytes, running.price.error},
      qmd, {running.fingerprint, name, running.known.get()});
}

Progress QmdQueue::Release(ExecutionContext& context, const Qmd& qmd) {
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
    if (release.interrupt) context.Interrupt(kEngineGraphics);
  }
  return Progress::kDone;
}

}  // namespace phantora
