// A class object bound to a subchannel: it executes methods.
#ifndef PHANTORA_TRAP_GPU_FRONT_ENGINE_OBJECT_H_
#define PHANTORA_TRAP_GPU_FRONT_ENGINE_OBJECT_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "trap/gpu/front/gpu_context.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/gpu/pricing/occupancy.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {

// What became of a method.
enum class Progress {
  kDone,     // go on with the next
  kBlocked,  // nothing can happen before something outside changes: call it again later
  kYield,    // more of it can be done at once, but others want their turn: call it again
  kFault,    // the channel dies; ExecutionContext::fault says why
};

// What a multiprocessor says a warp did: HWW_WARP_ESR and HWW_GLOBAL_ESR, with where.
struct WarpError {
  uint32_t warp = 0;    // the code; 0 for none
  uint32_t global = 0;  // bits
  uint64_t program_counter = 0, address = 0;
};
// Codes of HWW_WARP_ESR: the bits of its report mask (nvgpu, hw_gr_gv11b.h), by number.
inline constexpr uint32_t kWarpMisalignedAddress = 0xf, kWarpOutOfRangeAddress = 0xe;

// A robust-channel error (nverror.h ROBUST_CHANNEL_*).
struct ChannelFault {
  uint32_t code;
  uint64_t address;
  const char* what;
  WarpError warp_error;  // of kGrException
};

// ROBUST_CHANNEL_* codes that the front end raises.
inline constexpr uint32_t kGrClassError = 69;
inline constexpr uint32_t kGrException = 13;  // of a multiprocessor
inline constexpr uint32_t kMmuFault = 31;
inline constexpr uint32_t kPbdmaError = 32;
inline constexpr uint32_t kCopyEngineError = 39;

// What executing work costs this process, in units of about ten nanoseconds. One
// step of a channel gets a budget; whoever uses it up yields, so that no rank keeps
// the others from being served.
inline constexpr int64_t kStepBudget = 1 << 16;
inline constexpr int64_t kLaunchCost = 64;
inline constexpr int64_t kInterruptCost = 64;
inline constexpr int64_t kBytesPerUnit = 128;

struct ExecutionContext {
  const std::shared_ptr<GpuContext>& gpu_context;
  GpuServices& services;
  TimeSource& time;  // of the channel
  int gpu;
  pid_t process;
  uint32_t channel;
  // What it shares with other channels; nullptr in real time, where nobody waits.
  EngineShare* sms = nullptr;
  EngineShare* copy_engine = nullptr;
  SmLimits sm_limits = {};
  std::optional<ChannelFault> fault = std::nullopt;
  // What is left; may go below zero by one operation.
  int64_t budget = kStepBudget;
  // Semaphores written: what the host may be waiting for.
  uint64_t releases = 0;
  uint64_t interrupts = 0;

  AddressSpace& memory() { return gpu_context->memory; }

  Progress Fail(uint32_t code, uint64_t address, const char* what, WarpError warp_error = {}) {
    fault = ChannelFault{code, address, what, warp_error};
    return Progress::kFault;
  }
  // kDone, or a fault if the access touched unmapped memory.
  Progress Check(AddressSpace::Fault result, const char* what) {
    return result ? Fail(kMmuFault, *result, what) : Progress::kDone;
  }
  void Interrupt(uint32_t engine) {
    budget -= kInterruptCost;
    ++interrupts;
    if (services.log->enabled()) {
      services.log->Line(process,
                         absl::StrFormat("gpu%d ch%d interrupts, engine %u", gpu, channel, engine));
    }
    services.interrupts->NonStall(gpu, process, engine);
  }
};

class EngineObject {
 public:
  virtual ~EngineObject() = default;

  // Executes one method. After kBlocked or kYield the same call is made again.
  virtual Progress Method(ExecutionContext& context, uint32_t method, uint32_t data) = 0;
  // Is there work under way that ends by itself, by and by?
  virtual bool Busy() const { return false; }
  // When the first of it ends; Infinity if there is none, or while it waits for its engine.
  virtual VirtualTime BusyUntil() const { return VirtualTime::Infinity(); }
  // Is there SharedWork under way whose end is not known?
  virtual bool HasOpenSharedWork() const { return false; }

  // Executes a run of data words, for one method or, if `increments`, for it and those that
  // follow; returns how many were consumed (0: use Method for the next one). Must not block.
  virtual size_t Bulk(ExecutionContext& context, uint32_t method, bool increments,
                      absl::Span<const uint32_t> words) {
    return 0;
  }
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_ENGINE_OBJECT_H_
