// One rank's end of a communicator: what ncclComm_t stands for.
#ifndef PHANTORA_FABRIC_LIBRARY_COMMUNICATOR_H_
#define PHANTORA_FABRIC_LIBRARY_COMMUNICATOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/library/gpu.h"
#include "fabric/library/nccl_api.h"
#include "fabric/library/settings.h"
#include "fabric/library/stream_order.h"
#include "fabric/library/wire.h"

namespace phantora::nccl {

class Communicator;

// Something that ends later. Whoever is responsible for it calls `step` until it no longer returns
// ncclInProgress, or `abandon` once.
struct Task {
  // Whose ncclCommGetAsyncError tells how it is going, if that does not block. Null: it is waited
  // for.
  std::shared_ptr<Communicator> owner;
  std::function<ncclResult_t()> step;
  std::function<void()> abandon;
};

// The operations of one group on one communicator.
struct Operations {
  std::vector<Entry> entries;
  std::vector<CudaStream> streams;  // without repetitions, in the order of their first use
  uint64_t capture = 0;             // in which all streams are; see CaptureOf
};

// Any thread may abort a communicator at any time; all else is one thread at a time, as in NCCL.
class Communicator {
 public:
  // `handle` is of a join, split or shrink that the supervisor has accepted.
  Communicator(const Gpu& gpu, const Config& config, Handle handle);
  ~Communicator();

  ncclComm_t id() { return reinterpret_cast<ncclComm_t>(this); }
  const Gpu& gpu() const { return gpu_; }
  const Config& config() const { return config_; }
  Handle handle() const { return handle_; }
  // Once it has joined.
  int ranks() const { return ranks_; }
  int rank() const { return rank_; }

  // Asks once whether all other ranks are there. Not to be called again once it has said so.
  ncclResult_t StepJoin();
  // Whether joining has failed, or was given up.
  bool failed() const { return failed_; }

  // Success if it can be used now.
  ncclResult_t EnsureReady();
  // How tasks, or operations under way, are going.
  ncclResult_t AsyncError();
  void AddTask(Task task);

  // Enqueues one call's or group's operations.
  ncclResult_t Launch(const Operations& operations);
  // Whether all that was launched is over, or will never be.
  bool Flushed();

  // Tells the supervisor, the first time.
  void Leave(Leaving how);
  void Abort();
  bool aborted() const { return aborted_; }

  // False the second time.
  bool StartFinalizing() { return !finalizing_.exchange(true); }

  // Reductions that the program has made.
  struct Reduction {
    bool in_use = false;
    bool on_device = false;
    ncclDataType_t type = ncclInt8;
    uint64_t scalar = 0;
  };
  ncclRedOp_t AddReduction(const Reduction& reduction);
  const Reduction* FindReduction(ncclRedOp_t op) const;
  bool RemoveReduction(ncclRedOp_t op);

 private:
  // The first error, which stays.
  ncclResult_t Remember(ncclResult_t error);
  ncclResult_t StepTasks();

  const Gpu gpu_;
  const Config config_;
  const Handle handle_;
  std::atomic<int> ranks_{0}, rank_{-1};  // set while other threads may ask
  std::vector<Reduction> reductions_;

  std::atomic<bool> failed_{false}, aborted_{false}, left_{false}, finalizing_{false};
  std::atomic<ncclResult_t> error_{ncclSuccess};

  std::mutex tasks_mutex_;
  std::vector<Task> tasks_;
  std::atomic<bool> has_tasks_{false};

  // A launch waits where the stream is full, so aborting must not need this.
  std::mutex launch_mutex_;
  StreamOrder order_;
  uint64_t sequence_ = 0;
};

// The communicators of this process that programs hold. A child process starts with none.
void Register(std::shared_ptr<Communicator> communicator);
void Unregister(Communicator& communicator);
// Null if it is none (any more). Then LastError() says so; `function` is who was given it.
std::shared_ptr<Communicator> Find(ncclComm_t id, const char* function);

}  // namespace phantora::nccl

#endif  // PHANTORA_FABRIC_LIBRARY_COMMUNICATOR_H_
