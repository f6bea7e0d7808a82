#include "trap/gpu/front/gpu_semaphore.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {
namespace {

uint64_t Apply(Reduction op, uint64_t old, uint64_t operand, bool is_signed, bool wide) {
  // Sign-extension makes the 32- and 64-bit signed comparisons one.
  const auto extend = [wide](uint64_t value) {
    return wide ? static_cast<int64_t>(value) : static_cast<int64_t>(static_cast<int32_t>(value));
  };
  const bool less = is_signed ? extend(old) < extend(operand) : old < operand;
  switch (op) {
    case Reduction::kMin:
      return less ? old : operand;
    case Reduction::kMax:
      return less ? operand : old;
    case Reduction::kXor:
      return old ^ operand;
    case Reduction::kAnd:
      return old & operand;
    case Reduction::kOr:
      return old | operand;
    case Reduction::kAdd:
      return old + operand;
    case Reduction::kInc:
      return old >= operand ? 0 : old + 1;
    case Reduction::kDec:
      return old == 0 || old > operand ? operand : old - 1;
  }
  return old;
}

Progress WritePayload(ExecutionContext& context, const SemaphoreWrite& write, uint64_t value) {
  ++context.releases;
  if (OrderObserver* order = context.services.order) {
    order->Released(context.process, context.channel, write.address,
                    write.payload_64bit ? value : static_cast<uint32_t>(value), context.time.Now());
  }
  if (context.services.log->enabled()) {
    context.services.log->Line(context.process,
                               absl::StrFormat("gpu%d ch%d writes semaphore %x: %x", context.gpu,
                                               context.channel, write.address, value));
  }
  return context.Check(context.memory().Write(write.address, &value, write.payload_64bit ? 8 : 4),
                       "semaphore release");
}

}  // namespace

Reduction FromComputeReduction(uint32_t op) {
  static constexpr Reduction kOrder[8] = {Reduction::kAdd, Reduction::kMin, Reduction::kMax,
                                          Reduction::kInc, Reduction::kDec, Reduction::kAnd,
                                          Reduction::kOr,  Reduction::kXor};
  return kOrder[op & 7];
}

Progress ReleaseSemaphore(ExecutionContext& context, const SemaphoreWrite& write) {
  if (write.with_timestamp) {
    const uint64_t now = context.time.ShownNanoseconds();
    const auto fault = context.memory().Write(write.address + 8, &now, sizeof now);
    if (fault) return context.Check(fault, "semaphore timestamp");
  }
  return WritePayload(context, write, write.payload);
}

Progress ReduceSemaphore(ExecutionContext& context, const SemaphoreWrite& write, Reduction op,
                         bool is_signed) {
  uint64_t old = 0;
  const auto fault = context.memory().Read(write.address, &old, write.payload_64bit ? 8 : 4);
  if (fault) return context.Check(fault, "semaphore reduction");
  return WritePayload(context, write,
                      Apply(op, old, write.payload, is_signed, write.payload_64bit));
}

}  // namespace phantora
