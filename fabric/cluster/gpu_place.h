// Where a GPU is in a cluster.
#ifndef PHANTORA_FABRIC_CLUSTER_GPU_PLACE_H_
#define PHANTORA_FABRIC_CLUSTER_GPU_PLACE_H_

#include <compare>

namespace phantora {

struct GpuPlace {
  int host = 0, gpu = 0;
  auto operator<=>(const GpuPlace&) const = default;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_CLUSTER_GPU_PLACE_H_
