#include "trap/gpu/front/host_methods.h"

#include "absl/strings/str_format.h"
#include "trap/gpu/timeline/order_observer.h"

namespace phantora {

namespace m = abi::host;

Progress HostMethods::Method(ExecutionContext& context, uint32_t method, uint32_t data) {
  registers_[method / 4] = data;
  switch (method) {
    case m::kSemExecute:
      return SemExecute(context, data);
    case m::kSemaphoreD:
      return SemaphoreD(context, data);
    case m::kNonStallInterrupt:
      context.Interrupt(engine_);
      return Progress::kDone;
    case m::kIllegal:
      return context.Fail(kPbdmaError, data, "ILLEGAL method");
    // State for the above; ordering and cache maintenance, which in-order
    // execution over coherent memory gives for free.
    case m::kNop:
    case m::kSemaphoreA:
    case m::kSemaphoreB:
    case m::kSemaphoreC:
    case m::kFbFlush:
    case m::kMemOpA:
    case m::kMemOpB:
    case m::kMemOpC:
    case m::kMemOpD:
    case m::kSetReference:
    case m::kSemAddrLo:
    case m::kSemAddrHi:
    case m::kSemPayloadLo:
    case m::kSemPayloadHi:
    case m::kWfi:
    case m::kYield:
      return Progress::kDone;
    default:
      context.services.unknowns->Count("host method", method, "ignored");
      return Progress::kDone;
  }
}

Progress HostMethods::SemExecute(ExecutionContext& context, uint32_t data) {
  const bool wide = (data >> 24 & 1) != 0;  // PAYLOAD_SIZE
  const uint64_t payload = registers_[m::kSemPayloadLo / 4] |
                           (wide ? uint64_t{registers_[m::kSemPayloadHi / 4]} << 32 : 0);
  const SemaphoreWrite write = {
      .address = uint64_t{registers_[m::kSemAddrHi / 4] & 0x1ffffff} << 32 |
                 (registers_[m::kSemAddrLo / 4] & ~3u),
      .payload = payload,
      .payload_64bit = wide,
      .with_timestamp = (data >> 25 & 1) != 0};
  const uint32_t operation = data & 7;
  if (operation == m::kRelease) return ReleaseSemaphore(context, write);
  if (operation == m::kReduction) return Reduce(context, write, data);
  uint64_t value = 0;
  if (auto fault = context.memory().Read(write.address, &value, wide ? 8 : 4)) {
    return context.Check(fault, "semaphore acquire");
  }
  const Condition satisfies = SemCondition(operation, payload, wide);
  if (satisfies == nullptr) return context.Fail(kPbdmaError, operation, "semaphore operation");
  if (!satisfies(value)) {
    LogWait(context, write, operation, value);
    return Progress::kBlocked;
  }
  waiting_logged_ = false;
  TellAcquired(context, write.address, satisfies);
  return Progress::kDone;
}

HostMethods::Condition HostMethods::SemCondition(uint32_t operation, uint64_t payload, bool wide) {
  switch (operation) {
    case m::kAcquire:
      return [payload](uint64_t value) { return value == payload; };
    case m::kAcquireStrictGeq:
      return [payload](uint64_t value) { return value >= payload; };
    case m::kAcquireCircularGeq:
      return [payload, wide](uint64_t value) {
        return wide ? static_cast<int64_t>(value - payload) >= 0
                    : static_cast<int32_t>(static_cast<uint32_t>(value - payload)) >= 0;
      };
    case m::kAcquireAnd:
      return [payload](uint64_t value) { return (value & payload) != 0; };
    case m::kAcquireNor:
      return [payload, mask = wide ? ~uint64_t{0} : 0xffffffff](uint64_t value) {
        return (~(value | payload) & mask) != 0;
      };
    default:
      return nullptr;
  }
}

Progress HostMethods::SemaphoreD(ExecutionContext& context, uint32_t data) {
  const SemaphoreWrite write = {.address = uint64_t{registers_[m::kSemaphoreA / 4] & 0xff} << 32 |
                                           (registers_[m::kSemaphoreB / 4] & ~3u),
                                .payload = registers_[m::kSemaphoreC / 4],
                                .payload_64bit = false,
                                .with_timestamp = (data >> 24 & 1) == 0};
  const uint32_t operation = data & 31;
  if (operation == m::kDRelease) return ReleaseSemaphore(context, write);
  if (operation == m::kDReduction) return Reduce(context, write, data);
  uint32_t value = 0;
  if (auto fault = context.memory().Read(write.address, &value, 4)) {
    return context.Check(fault, "semaphore acquire");
  }
  const Condition satisfies = ConditionD(operation, static_cast<uint32_t>(write.payload));
  if (satisfies == nullptr) return context.Fail(kPbdmaError, operation, "semaphore operation");
  if (!satisfies(value)) return Progress::kBlocked;
  TellAcquired(context, write.address, satisfies);
  return Progress::kDone;
}

HostMethods::Condition HostMethods::ConditionD(uint32_t operation, uint32_t payload) {
  switch (operation) {
    case m::kDAcquire:
      return [payload](uint64_t value) { return value == payload; };
    case m::kDAcquireGeq:
      return [payload](uint64_t value) {
        return static_cast<int32_t>(static_cast<uint32_t>(value) - payload) >= 0;
      };
    case m::kDAcquireAnd:
      return [payload](uint64_t value) { return (value & payload) != 0; };
    default:
      return nullptr;
  }
}

Progress HostMethods::Reduce(ExecutionContext& context, const SemaphoreWrite& write,
                             uint32_t data) {
  const uint32_t reduction = data >> 27 & 15;
  if (reduction > static_cast<uint32_t>(Reduction::kDec)) {
    return context.Fail(kPbdmaError, reduction, "semaphore reduction");
  }
  return ReduceSemaphore(context, write, static_cast<Reduction>(reduction), (data >> 31) == 0);
}

void HostMethods::LogWait(ExecutionContext& context, const SemaphoreWrite& write,
                          uint32_t operation, uint64_t value) {
  if (waiting_logged_ || !context.services.log->enabled()) return;
  waiting_logged_ = true;
  context.services.log->Line(
      context.process,
      absl::StrFormat("gpu%d ch%d waits for semaphore %x: operation %d, %x, is %x", context.gpu,
                      context.channel, write.address, operation, write.payload, value));
}

void HostMethods::TellAcquired(ExecutionContext& context, uint64_t address,
                               const Condition& satisfies) {
  if (OrderObserver* order = context.services.order) {
    order->Acquired(context.process, context.channel, address, satisfies);
  }
}

}  // namespace phantora
