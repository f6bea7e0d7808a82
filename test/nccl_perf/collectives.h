// The operations that nccl_perf measures: how they are called, what they move, what must come out.
#ifndef PHANTORA_TEST_NCCL_PERF_COLLECTIVES_H_
#define PHANTORA_TEST_NCCL_PERF_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "test/nccl_perf/libraries.h"

namespace phantora::nccl_perf {

// One rank's part of a call.
struct Call {
  uint64_t send, receive;  // GPU addresses
  size_t count;            // elements, as nccl-tests counts them: see Collective
  int type, reduction, root;
  int rank, ranks;
  void* communicator;
  void* stream;
};

struct Collective {
  const char* name;  // "all_reduce"
  bool reduces, has_root;
  // Elements that a rank sends and receives, of a call for `count` elements (the number in the
  // output's second column).
  size_t (*sent)(size_t count, int ranks);
  size_t (*received)(size_t count, int ranks);
  // By how much the bandwidth of the bus is larger than that of the algorithm.
  double (*bus_factor)(int ranks);
  NcclResult (*run)(const Nccl& nccl, const Call& call);
};

// Bytes of an element, by the type's number in NCCL.
inline constexpr size_t kTypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

// nullptr if there is none of this name.
const Collective* FindCollective(const std::string& name);
std::vector<std::string> CollectiveNames();

// What rank `rank` sends as element `index`, a small whole number, and what must be element `index`
// of its result.
int Sent(int rank, size_t index);
double Expected(const Collective& collective, int reduction, int rank, int ranks, size_t count,
                int root, size_t index);

}  // namespace phantora::nccl_perf

#endif  // PHANTORA_TEST_NCCL_PERF_COLLECTIVES_H_
