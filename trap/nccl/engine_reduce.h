// All-reduces that engines for language models have of their own, whose kernels read each other's
// memory and wait for each other by flags there.
#ifndef PHANTORA_TRAP_NCCL_ENGINE_REDUCE_H_
#define PHANTORA_TRAP_NCCL_ENGINE_REDUCE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "fabric/collectives/nccl_world.h"
#include "trap/nccl/native_communicators.h"
#include "trap/nccl/native_launch.h"

namespace phantora {

// vLLM's csrc/custom_all_reduce.cuh, which SGLang has taken over:
//   cross_device_reduce_1stage<T, ngpus>(RankData*, RankSignals, Signal*, T* result, int rank,
//                                        int size)
// (or 2stage). RankData has a pointer to each rank's input, RankSignals one to each rank's flags.
struct EngineReduce {
  int rank = 0, ranks = 0;
  uint64_t signals = 0;  // rank 0's flags, at the caller's address for them
  nccl::Entry entry;
};

// By its mangled name.
bool IsEngineReduce(const std::string& symbol);

// Everything is untrusted. Errors say what does not fit.
absl::StatusOr<EngineReduce> DecodeEngineReduce(const std::string& symbol,
                                                absl::Span<const uint8_t> parameters,
                                                const GpuReader& read);

// Which ranks belong together: those for whom rank 0's flags are the same bytes of the same memory.
class EngineGroups {
 public:
  explicit EngineGroups(NcclWorld* world) : world_(world) {}

  using Caller = NativeCommunicators::Caller;
  // The caller's end of the group, by a number of its own, which has kBit; 0 if its memory makes no
  // sense, as `why` says. May make the group's communicator.
  uint64_t Of(const Caller& caller, const EngineReduce& reduce, std::string& why);
  static constexpr uint64_t kBit = uint64_t{1} << 63;

  // As NativeCommunicators'.
  NcclEndpoint* Find(uint64_t number);
  bool Awaits(uint64_t number) const;
  uint64_t CountCall(uint64_t number);
  std::vector<uint64_t> TakeMade() { return std::exchange(made_, {}); }
  void ProcessDied(pid_t process);
  std::string DescribeWaiting() const;

 private:
  // Rank 0's flags: which memory, at which byte; and how many ranks.
  using Key = std::tuple<const MemoryObject*, uint64_t, int>;
  struct End {
    Key key;
    Caller caller;
    int rank = 0;
    nccl::Handle handle = 0;  // when it is made
    uint64_t calls = 0;
  };
  void Forget(const Key& key);
  bool Make(const std::map<int, uint64_t>& group, int ranks, std::string& why);

  NcclWorld* const world_;
  std::map<uint64_t, End> ends_;
  std::map<Key, std::map<int, uint64_t>> groups_;  // numbers, by rank
  std::vector<uint64_t> made_;
  uint64_t next_ = 1, next_id_ = 1;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_ENGINE_REDUCE_H_
