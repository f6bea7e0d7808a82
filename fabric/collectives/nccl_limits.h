// What a program asks of NCCL by its environment: which algorithms, protocols, channels.
#ifndef PHANTORA_FABRIC_COLLECTIVES_NCCL_LIMITS_H_
#define PHANTORA_FABRIC_COLLECTIVES_NCCL_LIMITS_H_

#include <array>
#include <string>

#include "absl/status/statusor.h"
#include "fabric/collectives/nccl_cost.h"

namespace phantora {

inline constexpr int kNcclCollectives = 5;

struct NcclLimits {
  std::array<NcclAllowed, kNcclCollectives> allowed;  // by collective
  int min_channels = 0, max_channels = 0;             // of a communicator; 0: no limit
  bool nvls = true;                                   // NCCL_NVLS_ENABLE; see ForbidNvls()
  bool coll_net = false;                              // NCCL_COLLNET_ENABLE, and a network that can
  int queue_pairs = 1;                                // of a connection; NCCL_IB_QPS_PER_CONNECTION
};

// For elements that switches cannot combine: NVLS and NVLSTree do not exist.
void ForbidNvls(NcclLimits& limits);

// From NCCL_ALGO and NCCL_PROTO, "" for those not set: "ring,tree", "^nvls" for all but that,
// "allreduce:tree;allgather:ring", case ignored. "collnet" stands for both of its algorithms.
// Errors quote the word that is not known, as NCCL refuses it too.
absl::StatusOr<NcclLimits> ParseNcclLimits(const std::string& algorithms,
                                           const std::string& protocols);

}  // namespace phantora

#endif  // PHANTORA_FABRIC_COLLECTIVES_NCCL_LIMITS_H_
