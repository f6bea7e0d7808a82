// Who belongs to which NCCL communicator.
#ifndef PHANTORA_FABRIC_COLLECTIVES_COMMUNICATORS_H_
#define PHANTORA_FABRIC_COLLECTIVES_COMMUNICATORS_H_

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "fabric/cluster/gpu_place.h"
#include "fabric/library/wire.h"

namespace phantora {

// Who calls: a process, with a GPU.
struct NcclCaller {
  uint64_t process = 0;
  GpuPlace place;
};

struct Communicator;

// A rank's end of a communicator.
struct NcclEndpoint {
  nccl::Handle handle = 0;
  NcclCaller caller;
  nccl::Settings settings;
  Communicator* communicator = nullptr;  // when it is ready, and has this endpoint
  int rank = 0;
  nccl::State state = nccl::State::kPending;
  std::string message;      // why it has failed
  int error = 0;            // ncclResult_t
  uint32_t unfinished = 0;  // operations under way
};

struct Communicator {
  int number = 0;                     // in the order in which they became ready, from 1
  std::vector<nccl::Handle> members;  // by rank; 0 for one that has left
  std::vector<GpuPlace> places;       // by rank
  std::vector<uint64_t> processes;    // by rank
  nccl::Settings settings;            // of rank 0
  int left = 0;                       // ranks that have left it

  int ranks() const { return static_cast<int>(places.size()); }
  std::string Name() const;  // "communicator 3 of 8 ranks"
};

// What callers say is not trusted. Not thread-safe.
class Communicators {
 public:
  static constexpr int kMostRanks = 1 << 16;

  // 0: the process has too many, or a number makes no sense.
  nccl::Handle Join(const NcclCaller& caller, const nccl::Join& join);
  // By the endpoint of the parent, which is ready. 0 as above.
  nccl::Handle Split(const NcclEndpoint& parent, const nccl::Split& split);
  // `excluded` are ranks of the parent.
  nccl::Handle Shrink(const NcclEndpoint& parent, absl::Span<const int32_t> excluded,
                      const nccl::Settings& settings);

  // nullptr if the process has no such endpoint.
  NcclEndpoint* Find(uint64_t process, nccl::Handle handle);
  NcclEndpoint* Find(nccl::Handle handle);
  void Leave(NcclEndpoint& endpoint);
  std::vector<nccl::Handle> EndpointsOf(uint64_t process) const;

  // Ranks that have called and wait for others, in words, a line each; empty if none waits.
  std::string DescribeWaiting() const;

 private:
  // Ranks that wait for each other to make a communicator.
  struct Gathering {
    // By rank; in a split, by rank of the parent.
    std::map<int, nccl::Handle> present;
    int expected = 0;
    std::string what;  // for messages
    // What each rank of the parent brought to a split.
    std::map<int, std::pair<int32_t, int32_t>> color_and_key;
    // Ranks of the parent that a shrink keeps.
    std::vector<int> staying;
  };
  // More than one under a key if some ranks have called again before others have once.
  using Gatherings = std::multimap<std::string, Gathering>;

  NcclEndpoint* Make(const NcclCaller& caller, const nccl::Settings& settings);
  // The first that `rank` has not come to, or a new one.
  Gatherings::iterator GatheringOf(const std::string& key, int rank);
  // Makes what it is to become of it if all are there.
  void Gather(Gatherings::iterator gathering);
  // Does anybody wait in it who is still there?
  bool IsAwaited(const Gathering& gathering) const;
  // Endpoints by new rank. Are two on one GPU? NCCL refuses that, and then they have failed.
  bool ShareGpus(const std::vector<nccl::Handle>& members);
  void MakeReady(const std::vector<nccl::Handle>& members);
  void Fail(NcclEndpoint& endpoint, int error, std::string message);

  Gatherings gatherings_;
  size_t forget_at_ = 4096;  // so many: those that nobody waits in are forgotten
  std::map<nccl::Handle, std::unique_ptr<NcclEndpoint>> endpoints_;
  absl::flat_hash_map<uint64_t, int> of_process_;
  std::map<int, std::unique_ptr<Communicator>> communicators_;
  nccl::Handle next_ = 1;
  int next_number_ = 1;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_COMMUNICATORS_H_
