// The launches of one compute object: QMDs that wait for others, that are ready, and that run.
#ifndef PHANTORA_TRAP_GPU_FRONT_QMD_QUEUE_H_
#define PHANTORA_TRAP_GPU_FRONT_QMD_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trap/abi/methods.h"
#include "trap/gpu/front/engine_object.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/front/transfer.h"
#include "trap/gpu/kernels/graph_fork.h"
#include "trap/gpu/timeline/engine_share.h"
#include "trap/gpu/timeline/shared_work.h"

namespace phantora {

class QmdQueue {
 public:
  // NV2080_ENGINE_TYPE_GR0: the engine whose interrupt launches raise.
  static constexpr uint32_t kEngineGraphics = 1;

  explicit QmdQueue(uint32_t class_id) : class_id_(class_id) {}

  // The QMD at `address` may run once what it depends on is over. `handed_over`: it was written
  // anew, and what was known of it is void.
  Progress Schedule(ExecutionContext& context, uint64_t address, bool handed_over);
  // SEND_SIGNALING_PCAS2_B of the QMD at `address`.
  Progress SendPcas(ExecutionContext& context, uint64_t address, uint32_t action);
  // Runs what is ready, and what becomes ready by that, within a budget; the QMDs that are
  // ready run beside each other. kDone when all are over.
  Progress Drain(ExecutionContext& context);

  bool HasReady() const { return !ready_.empty(); }
  // See EngineObject.
  bool Busy() const { return !running_.empty(); }
  VirtualTime BusyUntil() const {
    VirtualTime until = VirtualTime::Infinity();
    for (const auto& running : running_) until = std::min(until, running->Ends());
    return until;
  }
  bool HasOpenSharedWork() const {
    return std::any_of(running_.begin(), running_.end(), [](const auto& running) {
      return running->shared && running->shared->started() &&
             running->shared->End() == VirtualTime::Infinity();
    });
  }

 private:
  // A QMD whose time is not over.
  struct Running {
    Qmd qmd;
    uint64_t fingerprint = 0;        // of the kernel's code
    const char* internal = nullptr;  // name of libcuda's own kernel
    std::shared_ptr<const KnownKernel> known;
    // Of code that comes before the kernel's own, if there is some; 0: nobody knows how long it is.
    std::optional<uint32_t> entry_bytes;
    uint64_t kernel_address = 0;  // behind it
    bool is_cooperative = false;
    std::optional<double> moved_bytes;  // by libcuda's own kernel
    Price price;
    bool is_priced = false;
    std::vector<ForkAction> forks;  // due when it completes
    std::optional<EngineWork> work;
    uint64_t order = 0;      // see OrderObserver
    bool is_shared = false;  // see SharedWork
    // Then `work` only takes SMs, until the shared work is over.
    std::optional<SharedWorkHandle> shared;

    VirtualTime Ends() const { return shared ? shared->End() : work->ends(); }
  };
  // Launches that are pending at most: ready, or due when one that runs is over. A cycle of QMDs
  // that schedule each other runs for ever on hardware too; here at least the queue must not grow
  // for ever.
  static constexpr size_t kMostReady = 1 << 17;

  // A grid of no blocks only orders others, and is no kernel.
  static bool IsKernel(const Qmd& qmd) {
    return qmd.type == Qmd::Type::kGrid && qmd.grid.count() > 0;
  }

  Progress DecrementDependence(ExecutionContext& context, uint64_t address);
  std::optional<Qmd> Fetch(ExecutionContext& context, uint64_t address, Progress& failure);

  // --- launch.cc ---
  Progress Start(ExecutionContext& context, uint64_t address);
  // Finds out which kernel it is, carries out what is known of it, and says what it needs.
  Progress StartKernel(ExecutionContext& context, uint64_t address, Running& running,
                       EngineWork::Need& need);
  // Carries out what is known of the kernel of libcuda's own, if it is one.
  Progress StartInternal(ExecutionContext& context, Running& running);
  // Does the launch's code only lead to the kernel?
  bool IsEntry(ExecutionContext& context, const Running& running);
  // Which kernel follows such code.
  void FindBehindEntry(ExecutionContext& context, Running& running, uint64_t entry_bytes);
  std::shared_ptr<const KnownKernel> NameOf(ExecutionContext& context, uint64_t program,
                                            uint64_t fingerprint);
  // If it is SharedWork, prepares it and says what it needs.
  Progress StartShared(ExecutionContext& context, Running& running, EngineWork::Need& need);
  // Asks the pricer, and tells those who collect launches.
  void PriceKernel(ExecutionContext& context, Running& running);
  void LogLaunch(ExecutionContext& context, uint64_t address, const Running& running);
  // Gives the kernel its results, if that can be.
  Progress Execute(ExecutionContext& context, const Running& running);
  // Does what a small kernel does, if there is a rule for it.
  bool CarryOutSmall(ExecutionContext& context, const Running& running);
  // The launch's parameters, `most` bytes of them; none if they cannot be read.
  static std::vector<uint8_t> ParametersOf(ExecutionContext& context, const Qmd& qmd,
                                           uint64_t most);

  // Writes semaphores, and schedules what depends on it.
  Progress Complete(ExecutionContext& context, const Running& running);
  // QMDs that take no time and schedule each other in a circle must not keep simulated time from
  // passing, nor everybody waiting: is a launch of no time now one that has to take some?
  bool IsOneTooMany(VirtualTime now);
  static void Observe(ExecutionContext& context, const Running& running);
  static Progress Release(ExecutionContext& context, const Qmd& qmd);

  const uint32_t class_id_;
  absl::flat_hash_map<uint64_t, bool> is_entry_;  // see IsEntry(); by fingerprint
  std::deque<uint64_t> ready_;                    // addresses of QMDs to run
  // In the order in which they were started.
  std::vector<std::unique_ptr<Running>> running_;
  size_t pending_forks_ = 0;  // of all running_
  // Launches that took no time, less what the time since then has paid for.
  int64_t free_launches_ = 0;
  VirtualTime last_free_launch_;
  // What the QMD started last moves: the next is not started before that is done.
  TransferQueue transfers_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_QMD_QUEUE_H_
