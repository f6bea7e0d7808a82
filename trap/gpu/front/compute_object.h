// The compute class (AMPERE_COMPUTE_A, HOPPER_COMPUTE_A): launches, inline data
// and report semaphores.
#ifndef PHANTORA_TRAP_GPU_FRONT_COMPUTE_OBJECT_H_
#define PHANTORA_TRAP_GPU_FRONT_COMPUTE_OBJECT_H_

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "trap/abi/methods.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/gpu_semaphore.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/front/transfer.h"
#include "trap/gpu/kernels/graph_fork.h"
#include "trap/gpu/timeline/engine_share.h"
#include "trap/gpu/timeline/shared_work.h"

namespace phantora {

class ComputeObject : public EngineObject {
 public:
  explicit ComputeObject(uint32_t class_id) : class_id_(class_id) {}

  Progress Method(ExecutionContext& context, uint32_t method, uint32_t data) override;
  bool Busy() const override { return !running_.empty(); }
  VirtualTime BusyUntil() const override {
    VirtualTime until = VirtualTime::Infinity();
    for (const auto& running : running_) until = std::min(until, running->Ends());
    return until;
  }
  bool Shares() const override {
    return std::any_of(running_.begin(), running_.end(), [](const auto& running) {
      return running->shared && running->shared->started() &&
             running->shared->End() == VirtualTime::Infinity();
    });
  }
  size_t Bulk(ExecutionContext& context, uint32_t method,
              absl::Span<const uint32_t> words) override;

 private:
  uint32_t& reg(uint32_t method) { return registers_[method / 4]; }
  uint64_t Address(uint32_t upper, uint32_t lower) {
    return uint64_t{reg(upper)} << 32 | reg(lower);
  }

  // Inline-to-memory.
  void StartInline(uint32_t flags);
  Progress InlineData(ExecutionContext& context, absl::Span<const uint8_t> bytes);
  Progress FinishInline(ExecutionContext& context);

  // Launches.
  Progress LoadInlineQmd(ExecutionContext& context, uint32_t method, uint32_t data);
  Progress Pcas2(ExecutionContext& context, uint64_t address, uint32_t action);
  Progress ScheduleQmd(ExecutionContext& context, uint64_t address, bool handed_over);
  Progress DecrementDependence(ExecutionContext& context, uint64_t address);
  // A QMD whose time is not over.
  struct Running {
    Qmd qmd;
    uint64_t fingerprint = 0;        // of its code
    const char* internal = nullptr;  // name of libcuda's own kernel
    std::shared_ptr<const KnownKernel> known;
    std::optional<double> moved_bytes;  // by libcuda's own kernel
    Price price;
    std::vector<ForkAction> forks;  // due when it completes
    std::optional<EngineWork> work;
    uint64_t order = 0;      // see OrderObserver
    bool is_shared = false;  // see SharedWork
    // Then `work` only takes SMs, until the shared work is over.
    std::optional<SharedWorkHandle> shared;

    VirtualTime Ends() const { return shared ? shared->End() : work->ends(); }
  };
  // Runs what is ready, and what becomes ready by that, within a budget; the QMDs that are
  // ready run beside each other. kDone when all are over.
  Progress Drain(ExecutionContext& context);
  Progress StartQmd(ExecutionContext& context, uint64_t address);
  // If it is SharedWork, prepares it and says what it needs.
  Progress StartShared(ExecutionContext& context, Running& running, EngineWork::Need& need);
  // Of the launch, as many bytes as `most`; none if they cannot be read.
  static std::vector<uint8_t> ParametersOf(ExecutionContext& context, const Qmd& qmd,
                                           uint64_t most);
  // Does what a small kernel does, if there is a rule for it.
  void CarryOutSmall(ExecutionContext& context, const Running& running);
  // Carries out what is known of the kernel of libcuda's own, if it is one.
  Progress StartInternal(ExecutionContext& context, Running& running);
  Progress CompleteQmd(ExecutionContext& context, const Running& running);
  std::optional<Qmd> FetchQmd(ExecutionContext& context, uint64_t address, Progress& failure);

  Progress ReportSemaphoreD(ExecutionContext& context, uint32_t data);
  Progress ReportSemaphoreExecute(ExecutionContext& context, uint32_t data);
  void Interrupt(ExecutionContext& context);

  const uint32_t class_id_;
  std::array<uint32_t, abi::compute::kMethodsEnd / 4> registers_{};

  uint64_t inline_line_ = 0;   // bytes of each line
  uint64_t inline_total_ = 0;  // bytes of the transfer under way; 0 for none
  uint64_t inline_done_ = 0;
  uint32_t inline_flags_ = 0;

  // The method at hand was started and returned kBlocked or kYield.
  bool resuming_ = false;
  std::deque<uint64_t> ready_;  // addresses of QMDs to run
  // In the order in which they were started.
  std::vector<std::unique_ptr<Running>> running_;
  size_t pending_forks_ = 0;  // of all running_
  VirtualTime last_launch_;
  int launches_at_once_ = 0;
  // Of the QMD started last: the next is not started before they are done.
  TransferQueue transfers_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_COMPUTE_OBJECT_H_
