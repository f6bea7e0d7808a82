#include "trap/gpu/front/channel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/abi/methods.h"
#include "trap/gpu/front/compute_object.h"
#include "trap/gpu/front/copy_object.h"
#include "trap/gpu/front/gpu_semaphore.h"
#include "trap/gpu/timeline/order_observer.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"

namespace phantora {
namespace {

// GPFIFO entries that one Step executes before others get their turn.
constexpr int kEntriesPerStep = 64;
// Words of a pushbuffer segment that are read at a time; a segment may be 8 MiB.
constexpr uint64_t kWordsPerRead = 16384;
// A step that finds nothing to do costs this much.
constexpr int64_t kStepCost = 16;
// Past this many lines a user learns nothing more from the log.
constexpr uint64_t kMostFailuresLogged = 50;
// nvos.h NvNotification.
constexpr uint64_t kNotificationBytes = 16;
constexpr uint16_t kNotificationDone = 0xffff;

constexpr bool IsComputeClass(uint32_t id) { return (id & 0xff) == 0xc0 && id >= 0xc000; }
constexpr bool IsCopyClass(uint32_t id) { return (id & 0xff) == 0xb5 && id >= 0xa000; }

}  // namespace

Channel::Channel(Config config) : config_(std::move(config)) {
  const std::vector<uint8_t> zeros(abi::kUserdBytes);
  config_.userd->Write(config_.userd_offset, zeros.data(), zeros.size());
}

bool Channel::ReadUserd(uint64_t offset, uint32_t* value) const {
  const uint64_t at = config_.userd_offset + offset;
  if (uint8_t* base = config_.userd->HostPointer();
      base != nullptr && at % 4 == 0 && at + 4 <= config_.userd->size()) {
    *value = std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(base + at))
                 .load(std::memory_order_acquire);
    return true;
  }
  return config_.userd->Read(at, value, 4);
}

void Channel::WriteNotification(uint32_t index, uint32_t info32, uint16_t status,
                                uint64_t time_ns) {
  if (config_.error_notifier == nullptr) return;
  uint8_t record[kNotificationBytes] = {};
  std::memcpy(record, &time_ns, 8);
  std::memcpy(record + 8, &info32, 4);
  std::memcpy(record + 14, &status, 2);
  config_.error_notifier->Write(index * kNotificationBytes, record, sizeof record);
}

void Channel::PublishToken(uint32_t index) {
  WriteNotification(index, config_.id, kNotificationDone, 0);
}

void Channel::Fail(uint32_t code, GpuServices& services) {
  if (dead_) return;
  dead_ = true;
  failure_ = code;
  ++services.failures;
  // Work under way is given up, which makes room for others.
  for (Bound& bound : subchannels_) bound.object.reset();
  TimeSource* time = config_.time != nullptr ? config_.time : services.time;
  WriteNotification(0, code, kNotificationDone, time->ShownNanoseconds());
}

Channel::State Channel::Step(GpuServices& services, bool& worked, int64_t& budget) {
  if (dead_) return State::kDead;
  if (!enabled_) return State::kIdle;
  ExecutionContext context{config_.context,
                           services,
                           config_.time != nullptr ? *config_.time : *services.time,
                           config_.gpu,
                           config_.process,
                           config_.id,
                           config_.sms.get(),
                           config_.copy_engine.get(),
                           config_.sm_limits};
  context.budget = budget - kStepCost;
  const State state = Run(context, worked);
  budget = context.budget;
  releases_ += context.releases;
  interrupts_ += context.interrupts;
  return state;
}

uint32_t Channel::Hidden() const {
  uint32_t put = 0;
  if (dead_ || !enabled_ || !ReadUserd(abi::kUserdGpPut, &put)) return 0;
  if (put >= config_.gpfifo_entries) return 1;  // fetching it fails the channel
  return (put + config_.gpfifo_entries - revealed_) % config_.gpfifo_entries;
}

uint32_t Channel::Room() const {
  uint32_t put = 0;
  if (dead_ || !ReadUserd(abi::kUserdGpPut, &put)) return config_.gpfifo_entries;
  return RoomAfter(put);
}

bool Channel::Busy() const {
  return std::any_of(subchannels_.begin(), subchannels_.end(), [](const Bound& bound) {
    return bound.object != nullptr && bound.object->Busy();
  });
}

VirtualTime Channel::BusyUntil() const {
  VirtualTime until = VirtualTime::Infinity();
  for (const Bound& bound : subchannels_) {
    if (bound.object != nullptr) until = std::min(until, bound.object->BusyUntil());
  }
  return until;
}

bool Channel::Shares() const {
  return std::any_of(subchannels_.begin(), subchannels_.end(), [](const Bound& bound) {
    return bound.object != nullptr && bound.object->Shares();
  });
}

Channel::State Channel::Run(ExecutionContext& context, bool& worked) {
  GpuServices& services = context.services;
  for (int entries = 0; entries < kEntriesPerStep; ++entries) {
    Progress progress = in_segment_ ? Progress::kDone : Fetch(context);
    if (progress == Progress::kBlocked) return State::kIdle;
    if (progress == Progress::kDone) progress = RunSegment(context);
    switch (progress) {
      case Progress::kDone: {
        worked = true;
        in_segment_ = false;
        gp_get_ = (gp_get_ + 1) % config_.gpfifo_entries;
        config_.userd->Write(config_.userd_offset + abi::kUserdGpGet, &gp_get_, 4);
        break;
      }
      case Progress::kBlocked:
        return State::kWaiting;
      case Progress::kYield:
        worked = true;
        return State::kActive;
      case Progress::kFault: {
        worked = true;
        const ChannelFault fault = context.fault.value_or(ChannelFault{kPbdmaError, 0, "fault"});
        // Work that a killed process left behind loses its memory: no news.
        if (IsRunning(config_.process)) {
          if (++services.counters.faults <= kMostFailuresLogged) {
            LogWarning(absl::StrFormat(
                "process %d: GPU %d channel %d failed: %s at address 0x%x (Xid %d)",
                config_.process, config_.gpu, config_.id, fault.what, fault.address, fault.code));
          } else if (services.counters.faults == kMostFailuresLogged + 1) {
            LogWarning("more channels fail; they are counted, not logged");
          }
        }
        Fail(fault.code, services);
        return State::kDead;
      }
    }
  }
  return State::kActive;
}

Progress Channel::Fetch(ExecutionContext& context) {
  uint32_t put = 0;
  if (!ReadUserd(abi::kUserdGpPut, &put)) return context.Fail(kPbdmaError, 0, "USERD");
  if (put != gp_get_ && put >= config_.gpfifo_entries) {
    return context.Fail(kPbdmaError, put, "GP_PUT beyond the GPFIFO");
  }
  if ((config_.gated ? revealed_ : put) == gp_get_) return Progress::kBlocked;
  uint64_t entry = 0;
  if (auto fault = context.memory().Read(config_.gpfifo + gp_get_ * abi::kGpEntryBytes, &entry,
                                         sizeof entry)) {
    return context.Check(fault, "GPFIFO");
  }
  if (!submitted_.empty()) {
    if (OrderObserver* order = context.services.order) {
      order->Fetched(config_.process, config_.id, submitted_.front());
    }
    submitted_.pop_front();
  }
  unread_ = entry & abi::kGpEntryAddressMask;
  unread_words_ = entry >> abi::kGpEntryLengthShift & abi::kGpEntryLengthMask;
  segment_.clear();
  in_segment_ = true;
  position_ = 0;
  left_ = 0;
  return Progress::kDone;
}

Progress Channel::Refill(ExecutionContext& context) {
  const uint64_t words = std::min(unread_words_, kWordsPerRead);
  segment_.resize(words);
  position_ = 0;
  if (auto fault = context.memory().Read(unread_, segment_.data(), words * 4)) {
    return context.Check(fault, "pushbuffer");
  }
  unread_ += words * 4;
  unread_words_ -= words;
  return Progress::kDone;
}

Progress Channel::RunSegment(ExecutionContext& context) {
  for (;;) {
    if (position_ == segment_.size()) {
      if (unread_words_ == 0) return Progress::kDone;
      if (Progress progress = Refill(context); progress != Progress::kDone) return progress;
    }
    if (context.budget <= 0) return Progress::kYield;
    --context.budget;
    if (left_ == 0) {
      const uint32_t header = segment_[position_++];
      const uint32_t operation = header >> 29;
      const uint32_t count = header >> 16 & 0x1fff;
      subchannel_ = header >> 13 & 7;
      method_ = (header & 0xfff) << 2;
      switch (operation) {
        case abi::kSecOpIncMethod:
          increment_ = Increment::kAlways;
          left_ = count;
          break;
        case abi::kSecOpNonIncMethod:
          increment_ = Increment::kNever;
          left_ = count;
          break;
        case abi::kSecOpOneInc:
          increment_ = Increment::kOnce;
          left_ = count;
          break;
        case abi::kSecOpImmdDataMethod: {
          const Progress progress = Method(context, subchannel_, method_, count);
          if (progress == Progress::kBlocked || progress == Progress::kYield) --position_;
          if (progress != Progress::kDone) return progress;
          break;
        }
        case abi::kSecOpEndPbSegment:
          position_ = segment_.size();
          unread_words_ = 0;
          break;
        case abi::kSecOpGrp0UseTert:
        case abi::kSecOpGrp2UseTert:
          // The old formats, and SET_SUB_DEVICE_MASK and its kin (tertiary
          // opcodes 1 to 3), which name GPUs of an SLI group and carry no data.
          if ((header >> 16 & 3) == 0 && header != 0) {
            increment_ =
                operation == abi::kSecOpGrp0UseTert ? Increment::kAlways : Increment::kNever;
            method_ = header & 0x1ffc;
            left_ = header >> 18 & 0x7ff;
          }
          break;
        default:
          return context.Fail(kPbdmaError, header, "malformed pushbuffer header");
      }
      continue;
    }
    if (increment_ != Increment::kAlways && left_ > 1 && method_ >= abi::host::kMethodsEnd &&
        subchannels_[subchannel_].object != nullptr) {
      const size_t available =
          std::min({size_t{left_}, segment_.size() - position_,
                    static_cast<size_t>(std::max<int64_t>(context.budget, 1))});
      const size_t used = subchannels_[subchannel_].object->Bulk(
          context, method_, absl::MakeConstSpan(segment_).subspan(position_, available));
      if (used > 0) {
        position_ += used;
        left_ -= used;
        context.budget -= static_cast<int64_t>(used) / 16;
        if (increment_ == Increment::kOnce) {
          method_ += 4;
          increment_ = Increment::kNever;
        }
        continue;
      }
    }
    const Progress progress = Method(context, subchannel_, method_, segment_[position_]);
    if (progress != Progress::kDone) return progress;
    ++position_;
    --left_;
    if (increment_ != Increment::kNever) method_ += 4;
    if (increment_ == Increment::kOnce) increment_ = Increment::kNever;
  }
}

Progress Channel::Method(ExecutionContext& context, uint32_t subchannel, uint32_t method,
                         uint32_t data) {
  if (method < abi::host::kMethodsEnd) return HostMethod(context, subchannel, method, data);
  Bound& bound = subchannels_[subchannel];
  if (bound.object != nullptr) return bound.object->Method(context, method, data);
  context.services.unknowns->Count(
      "method of class", uint64_t{bound.class_id} << 16 | method,
      bound.class_id == 0 ? "no class is bound" : "the class is not emulated");
  return Progress::kDone;
}

void Channel::SetObject(ExecutionContext& context, uint32_t subchannel, uint32_t data) {
  Bound& bound = subchannels_[subchannel];
  const uint32_t class_id = data & 0xffff;
  if (bound.class_id == class_id) return;
  bound.class_id = class_id;
  bound.object.reset();
  if (IsComputeClass(class_id)) {
    bound.object = std::make_unique<ComputeObject>(class_id);
  } else if (IsCopyClass(class_id)) {
    bound.object = std::make_unique<CopyObject>(config_.engine);
  }
}

Progress Channel::HostMethod(ExecutionContext& context, uint32_t subchannel, uint32_t method,
                             uint32_t data) {
  host_[method / 4] = data;
  switch (method) {
    case abi::host::kSetObject:
      SetObject(context, subchannel, data);
      return Progress::kDone;
    case abi::host::kSemExecute:
      return SemExecute(context, data);
    case abi::host::kSemaphoreD:
      return SemaphoreD(context, data);
    case abi::host::kNonStallInterrupt:
      context.Interrupt(config_.engine);
      return Progress::kDone;
    case abi::host::kIllegal:
      return context.Fail(kPbdmaError, data, "ILLEGAL method");
    // State for the above; ordering and cache maintenance, which in-order
    // execution over coherent memory gives for free.
    case abi::host::kNop:
    case abi::host::kSemaphoreA:
    case abi::host::kSemaphoreB:
    case abi::host::kSemaphoreC:
    case abi::host::kFbFlush:
    case abi::host::kMemOpA:
    case abi::host::kMemOpB:
    case abi::host::kMemOpC:
    case abi::host::kMemOpD:
    case abi::host::kSetReference:
    case abi::host::kSemAddrLo:
    case abi::host::kSemAddrHi:
    case abi::host::kSemPayloadLo:
    case abi::host::kSemPayloadHi:
    case abi::host::kWfi:
    case abi::host::kYield:
      return Progress::kDone;
    default:
      context.services.unknowns->Count("host method", method, "ignored");
      return Progress::kDone;
  }
}

Progress Channel::SemExecute(ExecutionContext& context, uint32_t data) {
  using abi::host::kSemAddrHi, abi::host::kSemAddrLo;
  using abi::host::kSemPayloadHi, abi::host::kSemPayloadLo;
  const bool wide = (data >> 24 & 1) != 0;  // PAYLOAD_SIZE
  const uint64_t payload =
      host_[kSemPayloadLo / 4] | (wide ? uint64_t{host_[kSemPayloadHi / 4]} << 32 : 0);
  const SemaphoreWrite write = {
      .address = uint64_t{host_[kSemAddrHi / 4] & 0x1ffffff} << 32 | (host_[kSemAddrLo / 4] & ~3u),
      .payload = payload,
      .payload_64bit = wide,
      .with_timestamp = (data >> 25 & 1) != 0};
  const uint32_t operation = data & 7;
  if (operation == abi::host::kRelease) return ReleaseSemaphore(context, write);
  if (operation == abi::host::kReduction) {
    const uint32_t reduction = data >> 27 & 15;
    if (reduction > static_cast<uint32_t>(Reduction::kDec)) {
      return context.Fail(kPbdmaError, reduction, "semaphore reduction");
    }
    return ReduceSemaphore(context, write, static_cast<Reduction>(reduction), (data >> 31) == 0);
  }
  uint64_t value = 0;
  if (auto fault = context.memory().Read(write.address, &value, wide ? 8 : 4)) {
    return context.Check(fault, "semaphore acquire");
  }
  std::function<bool(uint64_t)> satisfies;
  switch (operation) {
    case abi::host::kAcquire:
      satisfies = [payload](uint64_t value) { return value == payload; };
      break;
    case abi::host::kAcquireStrictGeq:
      satisfies = [payload](uint64_t value) { return value >= payload; };
      break;
    case abi::host::kAcquireCircularGeq:
      satisfies = [payload, wide](uint64_t value) {
        return wide ? static_cast<int64_t>(value - payload) >= 0
                    : static_cast<int32_t>(static_cast<uint32_t>(value - payload)) >= 0;
      };
      break;
    case abi::host::kAcquireAnd:
      satisfies = [payload](uint64_t value) { return (value & payload) != 0; };
      break;
    case abi::host::kAcquireNor:
      satisfies = [payload, mask = wide ? ~uint64_t{0} : 0xffffffff](uint64_t value) {
        return (~(value | payload) & mask) != 0;
      };
      break;
    default:
      return context.Fail(kPbdmaError, operation, "semaphore operation");
  }
  const bool acquired = satisfies(value);
  if (!acquired && context.services.log->enabled() && !waiting_logged_) {
    waiting_logged_ = true;
    context.services.log->Line(
        config_.process,
        absl::StrFormat("gpu%d ch%d waits for semaphore %x: operation %d, %x, is %x", config_.gpu,
                        config_.id, write.address, operation, payload, value));
  }
  if (acquired) {
    waiting_logged_ = false;
    Acquired(context, write.address, satisfies);
  }
  return acquired ? Progress::kDone : Progress::kBlocked;
}

Progress Channel::SemaphoreD(ExecutionContext& context, uint32_t data) {
  using abi::host::kSemaphoreA, abi::host::kSemaphoreB, abi::host::kSemaphoreC;
  const SemaphoreWrite write = {
      .address = uint64_t{host_[kSemaphoreA / 4] & 0xff} << 32 | (host_[kSemaphoreB / 4] & ~3u),
      .payload = host_[kSemaphoreC / 4],
      .payload_64bit = false,
      .with_timestamp = (data >> 24 & 1) == 0};
  const uint32_t operation = data & 31;
  if (operation == abi::host::kDRelease) return ReleaseSemaphore(context, write);
  if (operation == abi::host::kDReduction) {
    const uint32_t reduction = data >> 27 & 15;
    if (reduction > static_cast<uint32_t>(Reduction::kDec)) {
      return context.Fail(kPbdmaError, reduction, "semaphore reduction");
    }
    return ReduceSemaphore(context, write, static_cast<Reduction>(reduction), (data >> 31) == 0);
  }
  uint32_t value = 0;
  if (auto fault = context.memory().Read(write.address, &value, 4)) {
    return context.Check(fault, "semaphore acquire");
  }
  const uint32_t payload = static_cast<uint32_t>(write.payload);
  std::function<bool(uint64_t)> satisfies;
  switch (operation) {
    case abi::host::kDAcquire:
      satisfies = [payload](uint64_t value) { return value == payload; };
      break;
    case abi::host::kDAcquireGeq:
      satisfies = [payload](uint64_t value) {
        return static_cast<int32_t>(static_cast<uint32_t>(value) - payload) >= 0;
      };
      break;
    case abi::host::kDAcquireAnd:
      satisfies = [payload](uint64_t value) { return (value & payload) != 0; };
      break;
    default:
      return context.Fail(kPbdmaError, operation, "semaphore operation");
  }
  if (!satisfies(value)) return Progress::kBlocked;
  Acquired(context, write.address, satisfies);
  return Progress::kDone;
}

void Channel::Acquired(ExecutionContext& context, uint64_t address,
                       const std::function<bool(uint64_t)>& satisfies) const {
  if (OrderObserver* order = context.services.order) {
    order->Acquired(config_.process, config_.id, address, satisfies);
  }
}

}  // namespace phantora
