#include "fabric/library/communicator.h"

#include <pthread.h>

#include <unordered_map>
#include <utility>

#include "fabric/library/device_calls.h"
#include "fabric/library/last_error.h"
#include "fabric/library/markers.h"

namespace phantora::nccl {
namespace {

// What the supervisor says has gone wrong.
ncclResult_t FailAs(const Ask& ask) {
  const bool known =
      ask.error > ncclSuccess && ask.error < kNcclResults && ask.error != ncclInProgress;
  const ncclResult_t result = known ? static_cast<ncclResult_t>(ask.error) : ncclInternalError;
  if (ask.message[0] == 0) return FailLoudly(result, "%s", pncclGetErrorString(result));
  return FailLoudly(result, "%.*s", static_cast<int>(sizeof(ask.message)), ask.message);
}

ncclResult_t Launch1x1(CudaFunction kernel, CudaStream stream, const LongMarker& marker) {
  void* parameters[] = {const_cast<LongMarker*>(&marker)};
  return CheckCuda(Cuda()->LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr),
                   "launching an NCCL operation");
}

}  // namespace

Communicator::Communicator(const Gpu& gpu, const Config& config, Handle handle)
    : gpu_(gpu), config_(config), handle_(handle) {
  const ScopedContext context(gpu_.context);
  const ScopedRelaxedCapture relaxed;
  if (order_.Create() != ncclSuccess) Remember(ncclUnhandledCudaError);
}

Communicator::~Communicator() {
  const ScopedContext context(gpu_.context);
  const ScopedRelaxedCapture relaxed;
  order_.Destroy();
}

ncclResult_t Communicator::StepJoin() {
  if (aborted_) {
    failed_ = true;
    return Remember(Fail(ncclInternalError, "aborted while waiting for the other ranks"));
  }
  Ask ask = {};
  ask.handle = handle_;
  if (const int error = CallDevice(kAsk, &ask); error != 0) {
    failed_ = true;
    return Remember(CheckCall(error, "making a communicator"));
  }
  if (ask.state == State::kPending) return ncclInProgress;
  if (ask.state == State::kReady) {
    ranks_ = ask.ranks;
    rank_ = ask.rank;
    return ncclSuccess;
  }
  failed_ = true;
  return Remember(FailAs(ask));
}

ncclResult_t Communicator::Remember(ncclResult_t error) {
  ncclResult_t none = ncclSuccess;
  error_.compare_exchange_strong(none, error);
  return error;
}

ncclResult_t Communicator::StepTasks() {
  const std::lock_guard lock(tasks_mutex_);
  std::vector<Task> left;
  for (Task& task : tasks_) {
    const ncclResult_t result = task.step();
    if (result == ncclInProgress) {
      left.push_back(std::move(task));
    } else if (result != ncclSuccess) {
      Remember(result);
    }
  }
  tasks_ = std::move(left);
  has_tasks_ = !tasks_.empty();
  return has_tasks_ ? ncclInProgress : ncclSuccess;
}

ncclResult_t Communicator::EnsureReady() {
  if (has_tasks_ && StepTasks() == ncclInProgress) {
    return Fail(ncclInvalidArgument,
                "Attempt to use communicator before the previous operation returned ncclSuccess");
  }
  if (error_ != ncclSuccess) return error_;
  if (rank_ < 0) {  // its ncclGroupEnd has not come yet
    return Fail(ncclInvalidArgument, "Attempt to use communicator before it was made");
  }
  return ncclSuccess;
}

ncclResult_t Communicator::AsyncError() {
  if (has_tasks_ && StepTasks() == ncclInProgress) return ncclInProgress;
  if (error_ != ncclSuccess || left_) return error_;
  if (rank_ < 0) return ncclInProgress;  // another thread waits for it
  Ask ask = {};
  ask.handle = handle_;
  if (const int error = CallDevice(kAsk, &ask); error != 0) {
    return Remember(CheckCall(error, "asking how a communicator is"));
  }
  if (ask.state != State::kFailed && ask.error == 0) return ncclSuccess;
  return Remember(FailAs(ask));
}

void Communicator::AddTask(Task task) {
  const std::lock_guard lock(tasks_mutex_);
  tasks_.push_back(std::move(task));
  has_tasks_ = true;
}

ncclResult_t Communicator::Launch(const Operations& operations) {
  if (aborted_) return Fail(ncclInvalidUsage, "the communicator was aborted");
  const std::lock_guard lock(launch_mutex_);
  const ScopedContext context(gpu_.context);
  const uint64_t sequence = sequence_++;
  ncclResult_t result = order_.Before(operations.streams, operations.capture);
  if (result != ncclSuccess) return result;
  result = ForEachMarker(handle_, sequence, operations.entries,
                         [&](const LongMarker& marker, bool is_long) {
                           return Launch1x1(is_long ? gpu_.long_marker : gpu_.marker,
                                            operations.streams.front(), marker);
                         });
  if (result != ncclSuccess) return result;
  return order_.After(operations.streams, operations.capture);
}

bool Communicator::Flushed() {
  if (aborted_ || left_) return true;
  {
    const ScopedContext context(gpu_.context);
    const ScopedRelaxedCapture relaxed;
    // The supervisor knows only of what the GPU has come to.
    if (!order_.Finished()) return false;
  }
  Ask ask = {};
  ask.handle = handle_;
  if (CallDevice(kAsk, &ask) != 0) return true;
  return ask.unfinished == 0 || ask.state == State::kFailed || ask.error != 0;
}

void Communicator::Leave(Leaving how) {
  if (left_.exchange(true)) return;
  nccl::Leave leave = {handle_, how};
  CallDevice(kLeave, &leave);
}

void Communicator::Abort() {
  aborted_ = true;
  Leave(Leaving::kAbort);
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(tasks_mutex_);
    tasks.swap(tasks_);
    has_tasks_ = false;
  }
  for (Task& task : tasks) task.abandon();
}

ncclRedOp_t Communicator::AddReduction(const Reduction& reduction) {
  size_t index = 0;
  while (index < reductions_.size() && reductions_[index].in_use) ++index;
  if (index == reductions_.size()) reductions_.emplace_back();
  reductions_[index] = reduction;
  reductions_[index].in_use = true;
  return static_cast<ncclRedOp_t>(kNcclBuiltInReductions + index);
}

const Communicator::Reduction* Communicator::FindReduction(ncclRedOp_t op) const {
  const size_t index = static_cast<size_t>(op) - kNcclBuiltInReductions;
  if (op < kNcclBuiltInReductions || index >= reductions_.size()) return nullptr;
  return reductions_[index].in_use ? &reductions_[index] : nullptr;
}

bool Communicator::RemoveReduction(ncclRedOp_t op) {
  if (FindReduction(op) == nullptr) return false;
  reductions_[op - kNcclBuiltInReductions].in_use = false;
  return true;
}

namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, std::shared_ptr<Communicator>> communicators;
};

// Never destroyed: at the end of a process, threads may still be here, and what is left to do would
// wait for them. A child cannot use its parent's communicators, nor a lock that another thread held
// during the fork.
std::atomic<Registry*> registry{nullptr};

Registry& TheRegistry() {
  static const bool once = [] {
    registry = new Registry;
    pthread_atfork(nullptr, nullptr, [] { registry = new Registry; });
    return true;
  }();
  (void)once;
  return *registry;
}

}  // namespace

void Register(std::shared_ptr<Communicator> communicator) {
  Registry& all = TheRegistry();
  const std::lock_guard lock(all.mutex);
  const ncclComm_t id = communicator->id();
  all.communicators[id] = std::move(communicator);
}

void Unregister(Communicator& communicator) {
  Registry& all = TheRegistry();
  std::shared_ptr<Communicator> last;  // dies after the lock
  const std::lock_guard lock(all.mutex);
  const auto found = all.communicators.find(communicator.id());
  if (found == all.communicators.end()) return;
  last = std::move(found->second);
  all.communicators.erase(found);
}

std::shared_ptr<Communicator> Find(ncclComm_t id, const char* function) {
  if (id == nullptr) {
    Fail(ncclInvalidArgument, "%s : comm argument is NULL", function);
    return nullptr;
  }
  Registry& all = TheRegistry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.communicators.find(id);
  if (found != all.communicators.end()) return found->second;
  Fail(ncclInvalidArgument, "%s : comm is no communicator, or was destroyed", function);
  return nullptr;
}

}  // namespace phantora::nccl
