// A channel: one in-order stream of GPU work.
#ifndef PHANTORA_TRAP_GPU_FRONT_CHANNEL_H_
#define PHANTORA_TRAP_GPU_FRONT_CHANNEL_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/gpu_context.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/gpu/front/host_methods.h"
#include "trap/gpu/front/pushbuffer_reader.h"
#include "trap/gpu/pricing/occupancy.h"
#include "trap/gpu/timeline/engine_share.h"
#include "uvm_model/memory_object.h"

namespace phantora {

class Channel : private MethodSink {
 public:
  struct Config {
    int gpu = 0;
    uint32_t id = 0;  // unique in the machine; also the work submit token
    pid_t process = 0;
    std::shared_ptr<GpuContext> context;
    uint64_t gpfifo = 0;  // GPU virtual address
    uint32_t gpfifo_entries = 0;
    std::shared_ptr<MemoryObject> userd;
    uint64_t userd_offset = 0;
    std::shared_ptr<MemoryObject> error_notifier;  // may be null
    uint32_t engine = 0;                           // NV2080_ENGINE_TYPE_*
    // Channels that are reset together when one of them fails.
    uint64_t group = 0;
    // The clock its work goes by; by default that of the services.
    TimeSource* time = nullptr;
    // What its work shares with that of other channels: the GPU's SMs, and the copy engine
    // that `engine` names. Without them, work waits for nothing but its own channel.
    std::shared_ptr<EngineShare> sms = nullptr;
    std::shared_ptr<EngineShare> copy_engine = nullptr;
    SmLimits sm_limits = {};
    // Submissions are fetched only after Reveal(), one by one.
    bool gated = false;
  };

  enum class State {
    kIdle,     // nothing submitted that is not done
    kActive,   // has work and could go on
    kWaiting,  // has work, but waits for a semaphore or for time to pass
    kDead,     // failed; submits nothing any more
  };

  explicit Channel(Config config);

  // Executes submitted work within a budget (see kStepBudget), of which it takes what
  // it used. Sets `worked` if it executed anything.
  State Step(GpuServices& services, bool& worked, int64_t& budget);
  State Step(GpuServices& services, bool& worked) {
    int64_t budget = kStepBudget;
    return Step(services, worked, budget);
  }

  // Submissions of a gated channel that have not been revealed.
  uint32_t UnrevealedSubmissions() const;
  // Entries that can be submitted before the next one is fetched: now, and after what has
  // been revealed.
  uint32_t FreeEntries() const;
  // `more`: submissions that are to be revealed.
  uint32_t FreeEntriesAfterRevealed(uint32_t more = 0) const {
    return FreeEntriesAfter((revealed_ + more) % config_.gpfifo_entries);
  }
  // `submitted`: when the host did.
  void Reveal(VirtualTime submitted);

  // Is there work under way that ends by itself, and when does the first of it? Infinity if
  // there is none, or while it waits for its engine.
  bool Busy() const;
  VirtualTime BusyUntil() const;
  // Is there SharedWork under way whose end is not known?
  bool HasOpenSharedWork() const;

  // Semaphores written so far.
  uint64_t releases() const { return releases_; }
  uint64_t interrupts() const { return interrupts_; }

  // NVA06F/NVA06C GPFIFO_SCHEDULE: before it, submitted work stays put.
  void Enable() { enabled_ = true; }
  bool enabled() const { return enabled_; }

  // Marks the channel failed: fills its error notifier with `code`
  // (ROBUST_CHANNEL_*), as the driver's robust-channel recovery does.
  void Fail(uint32_t code, const WarpError& warp_error, GpuServices& services);

  // Stores the work submit token where libcuda reads it (the notification that
  // `index` selects in the error notifier's memory).
  void PublishToken(uint32_t index);

  const Config& config() const { return config_; }
  // The ROBUST_CHANNEL_* code that the channel died of; 0 while it lives.
  uint32_t failure() const { return failure_; }
  // What a multiprocessor says of it (see ChannelFault), until somebody has that forgotten.
  const WarpError& warp_error() const { return warp_error_; }
  void ClearWarpError() { warp_error_ = {}; }
  // Has whoever runs it dealt with the failure?
  bool failure_told() const { return failure_told_; }
  void TellFailure() { failure_told_ = true; }

 private:
  // USERD words, shared with the tracee.
  bool ReadUserd(uint64_t offset, uint32_t* value) const;
  // One entry always stays free: GP_PUT = GP_GET says that all are.
  uint32_t FreeEntriesAfter(uint32_t put) const {
    return (gp_get_ + 2 * config_.gpfifo_entries - 1 - put) % config_.gpfifo_entries;
  }
  void WriteNotification(uint32_t index, uint32_t info32, uint16_t status, uint64_t time_ns);

  State Run(ExecutionContext& context, bool& worked);
  // Fetches the next GPFIFO entry. kDone: there is one; kBlocked: none.
  Progress Fetch(ExecutionContext& context);
  Progress Method(ExecutionContext& context, uint32_t subchannel, uint32_t method,
                  uint32_t data) override;
  size_t Bulk(ExecutionContext& context, uint32_t subchannel, uint32_t method, bool increments,
              absl::Span<const uint32_t> words) override;
  void SetObject(ExecutionContext& context, uint32_t subchannel, uint32_t data);

  const Config config_;
  bool enabled_ = false;
  bool dead_ = false;
  uint32_t failure_ = 0;
  WarpError warp_error_;
  bool failure_told_ = false;

  uint32_t gp_get_ = 0;
  uint32_t revealed_ = 0;  // of a gated channel: GP_PUT as far as it may be seen
  // A GP_PUT beyond the GPFIFO has been revealed; the channel fails when it fetches next, which it
  // does not while it waits within an entry.
  bool overrun_revealed_ = false;
  std::deque<VirtualTime> submitted_;  // when: of what is revealed and not fetched
  uint64_t releases_ = 0, interrupts_ = 0;
  bool in_segment_ = false;  // the entry at gp_get_ is under way
  PushbufferReader reader_;
  HostMethods host_;

  struct Bound {
    uint32_t class_id = 0;
    std::unique_ptr<EngineObject> object;
  };
  std::array<Bound, 8> subchannels_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_CHANNEL_H_
