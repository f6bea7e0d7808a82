#include "fabric/library/group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fabric/library/device_calls.h"
#include "fabric/library/last_error.h"

namespace phantora::nccl {
namespace {

struct Work {
  std::shared_ptr<Communicator> communicator;
  Operations operations;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;  // the first
  std::vector<Task> making, ending;
  std::vector<Work> work;
};

thread_local Group group;

// Waits for the tasks of communicators that block; those of others are left to their owners. The
// first that fails gives up all, as in NCCL.
ncclResult_t Run(std::vector<Task>& tasks) {
  Backoff backoff;
  ncclResult_t result = ncclSuccess;
  for (bool first_round = true; !tasks.empty(); first_round = false) {
    if (!first_round) backoff.Sleep();
    std::vector<Task> left;
    for (size_t i = 0; i < tasks.size(); ++i) {
      Task& task = tasks[i];
      const ncclResult_t step = task.step();
      if (step == ncclSuccess) continue;
      if (step != ncclInProgress) {
        for (size_t j = i + 1; j < tasks.size(); ++j) tasks[j].abandon();
        for (Task& other : left) other.abandon();
        tasks.clear();
        return step;
      }
      if (task.owner == nullptr || task.owner->config().blocking) {
        left.push_back(std::move(task));
      } else {
        const std::shared_ptr<Communicator> owner = task.owner;
        owner->AddTask(std::move(task));
        result = ncclInProgress;
      }
    }
    tasks = std::move(left);
  }
  return result;
}

// NCCL refuses this because it would wait for itself.
ncclResult_t CheckSelf(const Work& work) {
  int sends = 0, receives = 0;
  for (const Entry& entry : work.operations.entries) {
    if (entry.peer != work.communicator->rank()) continue;
    if (entry.operation == Operation::kSend) ++sends;
    if (entry.operation == Operation::kReceive) ++receives;
  }
  if (sends > receives) {
    return Fail(ncclInvalidUsage, "Trying to send to self without a matching recv");
  }
  if (receives > sends) {
    return Fail(ncclInvalidUsage, "Trying to recv to self without a matching send");
  }
  return ncclSuccess;
}

ncclResult_t Launch(const std::vector<Work>& all) {
  for (const Work& work : all) {
    if (const ncclResult_t result = CheckSelf(work); result != ncclSuccess) return result;
  }
  for (const Work& work : all) {
    const ncclResult_t result = work.communicator->Launch(work.operations);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

// Leaves the thread without a group, and returns what was in it.
Group Take() {
  Group taken = std::move(group);
  group = Group();
  return taken;
}

void Abandon(Group& taken) {
  for (Task& task : taken.making) task.abandon();
  for (Task& task : taken.ending) task.abandon();
}

ncclResult_t NotInGroup() { return Fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call."); }

}  // namespace

void StartGroup() { ++group.depth; }

void FailGroup(ncclResult_t error) {
  if (error == ncclSuccess || error == ncclInProgress) return;
  if (group.error == ncclSuccess) group.error = error;
}

ncclResult_t EndGroup() {
  if (group.depth == 0) return NotInGroup();
  if (--group.depth > 0) return ncclSuccess;
  Group taken = Take();
  if (taken.error != ncclSuccess) {
    Abandon(taken);
    return taken.error;
  }
  const ncclResult_t made = Run(taken.making);
  ncclResult_t result = made == ncclInProgress ? ncclSuccess : made;
  if (result == ncclSuccess) result = Launch(taken.work);
  if (result != ncclSuccess) {
    Abandon(taken);
    return result;
  }
  const ncclResult_t ended = Run(taken.ending);
  return ended == ncclSuccess ? made : ended;
}

ncclResult_t DropGroup() {
  if (group.depth == 0) return NotInGroup();
  if (--group.depth > 0) return ncclSuccess;
  Group taken = Take();
  Abandon(taken);
  return taken.error;
}

void AddMaking(Task task) { group.making.push_back(std::move(task)); }

void AddEnding(Task task) { group.ending.push_back(std::move(task)); }

ncclResult_t AddOperation(const std::shared_ptr<Communicator>& communicator, const Entry& entry,
                          CudaStream stream) {
  auto work = std::find_if(group.work.begin(), group.work.end(), [&](const Work& candidate) {
    return candidate.communicator == communicator;
  });
  if (work == group.work.end()) {
    group.work.push_back({communicator, {}});
    work = group.work.end() - 1;
  }
  Operations& operations = work->operations;
  std::vector<CudaStream>& streams = operations.streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
    const uint64_t capture = CaptureOf(stream);
    if (!streams.empty() && capture != operations.capture) {
      return Fail(ncclInvalidUsage,
                  "Streams given to a communicator within a NCCL group must either be all "
                  "uncaptured or all captured by the same graph.");
    }
    operations.capture = capture;
    streams.push_back(stream);
  }
  operations.entries.push_back(entry);
  return ncclSuccess;
}

}  // namespace phantora::nccl
