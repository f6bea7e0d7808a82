#include "trap/gpu/front/channel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "trap/abi/methods.h"
#include "trap/gpu/front/compute_object.h"
#include "trap/gpu/front/copy_object.h"
#include "trap/gpu/timeline/order_observer.h"
#include "trap/linux/process_tree.h"
#include "trap/log.h"

namespace phantora {
namespace {

// GPFIFO entries that one Step executes before others get their turn.
constexpr int kEntriesPerStep = 64;
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

Channel::Channel(Config config) : config_(std::move(config)), host_(config_.engine) {
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

void Channel::Fail(uint32_t code, const WarpError& warp_error, GpuServices& services) {
  if (dead_) return;
  dead_ = true;
  failure_ = code;
  warp_error_ = warp_error;
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
  services.working_for = config_.process;
  const State state = Run(context, worked);
  budget = context.budget;
  releases_ += context.releases;
  interrupts_ += context.interrupts;
  return state;
}

uint32_t Channel::UnrevealedSubmissions() const {
  uint32_t put = 0;
  if (dead_ || !enabled_ || !ReadUserd(abi::kUserdGpPut, &put)) return 0;
  if (put >= config_.gpfifo_entries) return overrun_revealed_ ? 0 : 1;
  return (put + config_.gpfifo_entries - revealed_) % config_.gpfifo_entries;
}

void Channel::Reveal(VirtualTime submitted) {
  uint32_t put = 0;
  overrun_revealed_ = ReadUserd(abi::kUserdGpPut, &put) && put >= config_.gpfifo_entries;
  if (overrun_revealed_) return;
  revealed_ = (revealed_ + 1) % config_.gpfifo_entries;
  submitted_.push_back(submitted);
}

uint32_t Channel::FreeEntries() const {
  uint32_t put = 0;
  if (dead_ || !ReadUserd(abi::kUserdGpPut, &put)) return config_.gpfifo_entries;
  return FreeEntriesAfter(put);
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

bool Channel::HasOpenSharedWork() const {
  return std::any_of(subchannels_.begin(), subchannels_.end(), [](const Bound& bound) {
    return bound.object != nullptr && bound.object->HasOpenSharedWork();
  });
}

Channel::State Channel::Run(ExecutionContext& context, bool& worked) {
  GpuServices& services = context.services;
  for (int entries = 0; entries < kEntriesPerStep; ++entries) {
    Progress progress = in_segment_ ? Progress::kDone : Fetch(context);
    if (progress == Progress::kBlocked) return State::kIdle;
    if (progress == Progress::kDone) progress = reader_.Run(context, *this);
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
        const ChannelFault fault =
            context.fault.value_or(ChannelFault{kPbdmaError, 0, "fault", {}});
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
        Fail(fault.code, fault.warp_error, services);
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
  in_segment_ = true;
  reader_.Begin(entry & abi::kGpEntryAddressMask,
                entry >> abi::kGpEntryLengthShift & abi::kGpEntryLengthMask);
  return Progress::kDone;
}

Progress Channel::Method(ExecutionContext& context, uint32_t subchannel, uint32_t method,
                         uint32_t data) {
  if (method == abi::host::kSetObject) {
    SetObject(context, subchannel, data);
    return Progress::kDone;
  }
  if (method < abi::host::kMethodsEnd) return host_.Method(context, method, data);
  Bound& bound = subchannels_[subchannel];
  if (bound.object != nullptr) return bound.object->Method(context, method, data);
  context.services.unknowns->Count(
      "method of class", uint64_t{bound.class_id} << 16 | method,
      bound.class_id == 0 ? "no class is bound" : "the class is not emulated");
  return Progress::kDone;
}

size_t Channel::Bulk(ExecutionContext& context, uint32_t subchannel, uint32_t method,
                     bool increments, absl::Span<const uint32_t> words) {
  const Bound& bound = subchannels_[subchannel];
  if (method < abi::host::kMethodsEnd || bound.object == nullptr) return 0;
  return bound.object->Bulk(context, method, increments, words);
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

}  // namespace phantora
