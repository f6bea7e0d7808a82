#include "trap/gpu/front/copy_object.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_format.h"
#include "trap/gpu/front/gpu_semaphore.h"
#include "trap/gpu/front/kernel_execution.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {
namespace {

namespace m = abi::copy;

// LAUNCH_DMA fields (clc8b5.h NVC8B5_LAUNCH_DMA_*).
constexpr uint32_t TransferType(uint32_t flags) { return flags & 3; }
constexpr uint32_t SemaphoreType(uint32_t flags) { return flags >> 3 & 3; }
constexpr uint32_t InterruptType(uint32_t flags) { return flags >> 5 & 3; }
constexpr bool SourceIsPitch(uint32_t flags) { return (flags >> 7 & 1) != 0; }
constexpr bool DestinationIsPitch(uint32_t flags) { return (flags >> 8 & 1) != 0; }
constexpr bool MultiLine(uint32_t flags) { return (flags >> 9 & 1) != 0; }
constexpr bool Remap(uint32_t flags) { return (flags >> 10 & 1) != 0; }
constexpr bool Physical(uint32_t flags) { return (flags >> 12 & 3) != 0; }
// Elements of a component remap that are moved at a time.
constexpr uint64_t kSwizzleElements = 4096;
// And in all. They cost this machine some nanoseconds each, while simulated time stands still.
constexpr uint64_t kMostSwizzled = uint64_t{1} << 33;
constexpr uint32_t kWithTimestamp = 2, kConditionalInterrupt = 3;

// SET_REMAP_COMPONENTS: four selectors, component size, counts.
struct RemapComponents {
  explicit RemapComponents(uint32_t value)
      : component_bytes((value >> 16 & 3) + 1),
        source_components((value >> 20 & 3) + 1),
        destination_components((value >> 24 & 3) + 1) {
    for (int i = 0; i < 4; ++i) selector[i] = value >> (4 * i) & 7;
  }
  bool FromSource() const { return Any(0, 3); }
  bool LeavesHoles() const { return Any(6, 7); }
  uint32_t destination_bytes() const { return component_bytes * destination_components; }

  uint32_t component_bytes, source_components, destination_components;
  uint32_t selector[4];  // 0-3: source component, 4, 5: constants A and B, 6: no write

 private:
  bool Any(uint32_t low, uint32_t high) const {
    for (uint32_t i = 0; i < destination_components; ++i) {
      if (selector[i] >= low && selector[i] <= high) return true;
    }
    return false;
  }
};

}  // namespace

Progress CopyObject::Method(ExecutionContext& context, uint32_t method, uint32_t data) {
  if (method >= m::kMethodsEnd) {
    context.services.unknowns->Count("copy method", method, "beyond the class's methods");
    return Progress::kDone;
  }
  registers_[method / 4] = data;
  return method == m::kLaunchDma ? Launch(context, data) : Progress::kDone;
}

Progress CopyObject::Launch(ExecutionContext& context, uint32_t flags) {
  if (!resuming_ && TransferType(flags) != 0) {
    if (Progress progress = StartTransfer(context, flags); progress != Progress::kDone) {
      return progress;
    }
  }
  Progress progress = transfers_.Run(context);
  if (progress == Progress::kDone) progress = Swizzle(context);
  if (progress == Progress::kDone && context.services.execution != nullptr &&
      context.services.execution->IsLost(context.memory())) {
    return context.Fail(kCopyEngineError, Address(m::kOffsetInUpper, m::kOffsetInLower),
                        "a copy in a context that the real GPU has lost");
  }
  if (progress == Progress::kDone && work_ && context.time.Now() < work_->ends()) {
    progress = Progress::kBlocked;
  }
  resuming_ = progress == Progress::kYield || progress == Progress::kBlocked;
  if (progress != Progress::kDone) return progress;
  if (work_) ReportCopy(context);
  work_.reset();
  return Finish(context, flags);
}

Progress CopyObject::StartTransfer(ExecutionContext& context, uint32_t flags) {
  ++context.services.counters.copies;
  const uint64_t lines = MultiLine(flags) ? reg(m::kLineCount) : 1;
  const uint64_t length = reg(m::kLineLengthIn);
  Transfer transfer = {.destination = Address(m::kOffsetOutUpper, m::kOffsetOutLower),
                       .source = Address(m::kOffsetInUpper, m::kOffsetInLower),
                       .line_bytes = length,
                       .lines = lines,
                       .destination_stride = reg(m::kPitchOut),
                       .source_stride = reg(m::kPitchIn),
                       .pattern = {}};
  if (context.services.log->enabled()) {
    context.services.log->Line(context.process,
                               absl::StrFormat("gpu%d ch%d copy %x -> %x %d x %d bytes flags %x",
                                               context.gpu, context.channel, transfer.source,
                                               transfer.destination, lines, length, flags));
  }
  if (Physical(flags)) {
    return context.Fail(kMmuFault, transfer.destination, "copy with physical addresses");
  }
  const RemapComponents remap(reg(m::kRemapComponents));
  const bool reads_source = !Remap(flags) || remap.FromSource();
  if (!DestinationIsPitch(flags) || (reads_source && !SourceIsPitch(flags))) {
    // Textures and arrays. Nothing is known to be right, so nothing is written.
    context.services.unknowns->Count("copy layout", flags & 0x180,
                                     "block-linear copies are not carried out");
    return Progress::kDone;
  }
  if (Remap(flags)) {
    if (remap.FromSource() || remap.LeavesHoles()) {
      if (length > 0 && lines > std::min(TransferQueue::kMostLines, kMostSwizzled / length)) {
        return context.Fail(kCopyEngineError, transfer.source,
                            "a remapped copy of too many elements");
      }
      swizzle_lines_ = length == 0 ? 0 : lines;
      swizzle_line_ = swizzle_element_ = 0;
      Start(context, length * remap.destination_bytes(), lines, remap.FromSource());
      return Progress::kDone;
    }
    const uint32_t constants[2] = {reg(m::kRemapConstA), reg(m::kRemapConstB)};
    for (uint32_t i = 0; i < remap.destination_components; ++i) {
      uint8_t bytes[4];
      std::memcpy(bytes, &constants[remap.selector[i] - 4], 4);
      transfer.pattern.insert(transfer.pattern.end(), bytes, bytes + remap.component_bytes);
    }
    transfer.line_bytes = length * remap.destination_bytes();
  }
  Start(context, transfer.line_bytes, transfer.lines, reads_source);
  transfers_.Add(std::move(transfer));
  return Progress::kDone;
}

CopyKind CopyObject::KindOf(ExecutionContext& context, bool reads_source, bool* fills_host) {
  struct Place {
    bool host = false;
    int gpu;
  };
  const auto place = [&context](uint64_t address) {
    const auto piece = context.memory().Find(address);
    if (!piece) return Place{false, context.gpu};
    const int gpu = piece->memory->gpu();
    return Place{piece->memory->kind() != MemoryKind::kVidmem, gpu < 0 ? context.gpu : gpu};
  };
  // The source's registers of a fill are left over from another copy.
  const Place to = place(Address(m::kOffsetOutUpper, m::kOffsetOutLower));
  *fills_host = !reads_source && to.host;
  if (!reads_source) return CopyKind::kFill;
  const Place from = place(Address(m::kOffsetInUpper, m::kOffsetInLower));
  if (from.host) return to.host ? CopyKind::kHostToHost : CopyKind::kHostToDevice;
  if (to.host) return CopyKind::kDeviceToHost;
  return from.gpu == to.gpu ? CopyKind::kInDevice : CopyKind::kPeer;
}

void CopyObject::Start(ExecutionContext& context, uint64_t line_bytes, uint64_t lines,
                       bool reads_source) {
  const uint64_t bytes = bytes_ = line_bytes * lines;
  bool fills_host = false;
  kind_ = KindOf(context, reads_source, &fills_host);
  if (kind_ == CopyKind::kDeviceToHost && context.services.execution != nullptr) {
    context.services.execution->ReadByHost(context, {Address(m::kOffsetInUpper, m::kOffsetInLower),
                                                     line_bytes, lines, reg(m::kPitchIn)});
  }
  const Price price =
      context.services.pricer->Copy(bytes, fills_host ? CopyKind::kDeviceToHost : kind_);
  source_ = price.source;
  const EngineWork::Need need = {.span = price.time};
  order_ = 0;
  if (context.services.order != nullptr) {
    order_ = context.services.order->Copy({context.process, context.gpu, context.channel, engine_},
                                          need, context.time.Now());
  }
  work_.emplace(context.copy_engine, context.time.Now(), need);
}

void CopyObject::ReportCopy(ExecutionContext& context) {
  if (order_ != 0) context.services.order->Ended(order_, context.time.Now());
  if (context.services.observer == nullptr) return;
  context.services.observer->Copy({context.process, context.gpu, context.channel, work_->began(),
                                   work_->ends() - work_->began(), source_},
                                  bytes_, kind_);
}

Progress CopyObject::Swizzle(ExecutionContext& context) {
  const RemapComponents remap(reg(m::kRemapComponents));
  const uint64_t length = reg(m::kLineLengthIn);
  const uint64_t source_unit = remap.component_bytes * remap.source_components;
  const uint64_t destination_unit = remap.destination_bytes();
  const uint32_t constants[2] = {reg(m::kRemapConstA), reg(m::kRemapConstB)};
  std::vector<uint8_t> from, to;
  while (swizzle_line_ < swizzle_lines_) {
    if (swizzle_element_ == length) {
      swizzle_element_ = 0, ++swizzle_line_;
      continue;
    }
    if (context.budget <= 0) return Progress::kYield;
    const uint64_t elements = std::min(length - swizzle_element_, kSwizzleElements);
    context.budget -= 1 + static_cast<int64_t>(elements);
    from.resize(remap.FromSource() ? elements * source_unit : 0);
    to.resize(elements * destination_unit);
    const uint64_t source = Address(m::kOffsetInUpper, m::kOffsetInLower) +
                            swizzle_line_ * reg(m::kPitchIn) + swizzle_element_ * source_unit;
    const uint64_t destination = Address(m::kOffsetOutUpper, m::kOffsetOutLower) +
                                 swizzle_line_ * reg(m::kPitchOut) +
                                 swizzle_element_ * destination_unit;
    if (auto fault = context.memory().Read(source, from.data(), from.size())) {
      return context.Check(fault, "remapped copy");
    }
    if (remap.LeavesHoles()) {
      if (auto fault = context.memory().Read(destination, to.data(), to.size())) {
        return context.Check(fault, "remapped copy");
      }
    }
    for (uint64_t element = 0; element < elements; ++element) {
      for (uint32_t i = 0; i < remap.destination_components; ++i) {
        uint8_t* out = &to[element * destination_unit + i * remap.component_bytes];
        const uint32_t selector = remap.selector[i];
        if (selector < 4) {
          // A selector beyond the source's components reads its last one.
          const uint32_t component =
              selector < remap.source_components ? selector : remap.source_components - 1;
          std::memcpy(out, &from[element * source_unit + component * remap.component_bytes],
                      remap.component_bytes);
        } else if (selector < 6) {
          std::memcpy(out, &constants[selector - 4], remap.component_bytes);
        }
      }
    }
    const bool tainted =
        context.memory().IsTainted(source, from.size()) ||
        (remap.LeavesHoles() && context.memory().IsTainted(destination, to.size()));
    if (auto fault = context.memory().Write(destination, to.data(), to.size())) {
      return context.Check(fault, "remapped copy");
    }
    if (tainted) context.memory().SetTaint(destination, to.size(), true);
    swizzle_element_ += elements;
  }
  return Progress::kDone;
}

Progress CopyObject::Finish(ExecutionContext& context, uint32_t flags) {
  const uint32_t type = SemaphoreType(flags);
  Progress progress = Progress::kDone;
  if (type != 0) {
    const bool wide = (flags >> 27 & 1) != 0;  // SEMAPHORE_PAYLOAD_SIZE, Hopper
    const SemaphoreWrite write = {
        .address = Address(m::kSemaphoreA, m::kSemaphoreB),
        .payload =
            reg(m::kSemaphorePayload) | (wide ? uint64_t{reg(m::kSemaphorePayloadUpper)} << 32 : 0),
        .payload_64bit = wide,
        .with_timestamp = type == kWithTimestamp};
    const uint32_t reduction = flags >> 14 & 15;
    if ((flags >> 19 & 1) == 0) {
      progress = ReleaseSemaphore(context, write);
    } else if (reduction <= static_cast<uint32_t>(Reduction::kDec)) {
      progress = ReduceSemaphore(context, write, static_cast<Reduction>(reduction),
                                 (flags >> 18 & 1) == 0);
    } else {
      context.services.unknowns->Count("copy semaphore reduction", reduction, "not carried out");
    }
  }
  if (progress == Progress::kDone && (InterruptType(flags) != 0 || type == kConditionalInterrupt)) {
    context.Interrupt(engine_);
  }
  return progress;
}

}  // namespace phantora
