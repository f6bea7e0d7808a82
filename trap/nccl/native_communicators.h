// Which ranks' communicators belong together, where NCCL is the program's own.
#ifndef PHANTORA_TRAP_NCCL_NATIVE_COMMUNICATORS_H_
#define PHANTORA_TRAP_NCCL_NATIVE_COMMUNICATORS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fabric/collectives/nccl_world.h"
#include "trap/gpu/front/gpu_context.h"
#include "trap/nccl/native_launch.h"

namespace phantora {

// A rank's communicator is known by the address of its ncclDevComm. What ranks have in common are
// the connections between them: both ends of one point to the same counters (ncclConnInfo's tail
// and head), each in its own address space. Where both are the same place of the same piece of
// memory, two ranks belong to one communicator; when all of its ranks hang together so, it is made.
//
// Not told apart: communicators that share connections (ncclCommSplit with splitShare) if they
// have the same ranks. Not seen: that one has been destroyed, before another one is at its address.
class NativeCommunicators {
 public:
  explicit NativeCommunicators(NcclWorld* world) : world_(world) {}

  struct Caller {
    pid_t process = 0;
    GpuPlace place;
    std::shared_ptr<GpuContext> context;
  };
  // The caller's end of the launch's communicator, by a number of its own; 0 if its memory makes no
  // sense, as `why` says. May make communicators, also others'.
  uint64_t Of(const Caller& caller, const NativeLaunch& launch, const NativeLayout& layout,
              std::string& why);
  // Of that number; nullptr while ranks are missing.
  NcclEndpoint* Find(uint64_t number);
  // Is it one that waits for ranks?
  bool Awaits(uint64_t number) const;
  // How many calls with it were counted before this one.
  uint64_t CountCall(uint64_t number);
  // Numbers that Find() knows since the last call.
  std::vector<uint64_t> TakeMade();

  void ProcessDied(pid_t process);
  // Ranks that wait for others, in words, a line each; empty if none waits.
  std::string DescribeWaiting() const;

 private:
  // Where a counter is: which memory, at which byte.
  using Place = std::pair<const MemoryObject*, uint64_t>;
  struct End {
    Caller caller;
    uint64_t address = 0;
    int rank = 0, ranks = 0;
    std::vector<uint8_t> head;  // the first bytes of its ncclDevComm and first channel
    std::set<Place> places;
    nccl::Handle handle = 0;  // when it is made
    uint64_t calls = 0;
  };

  // What tells that there is another communicator at the address now; empty if unreadable.
  static std::vector<uint8_t> HeadOf(const Caller& caller, uint64_t address,
                                     const NativeLayout& layout);
  // Reads where the connections' counters are. False, and says why, if a peer cannot be one of this
  // host's.
  static bool ReadConnections(const NativeLaunch& launch, const NativeLayout& layout, End& end,
                              std::string& why);
  // Makes the communicator of `number` if all of its ranks are there.
  void MakeIfComplete(uint64_t number, std::string& why);
  void Forget(uint64_t number);

  NcclWorld* const world_;
  std::map<uint64_t, End> ends_;
  std::map<std::pair<pid_t, uint64_t>, uint64_t> numbers_;  // by process and address
  std::vector<uint64_t> made_;
  uint64_t next_ = 1;
  uint64_t next_id_ = 1;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_NATIVE_COMMUNICATORS_H_
