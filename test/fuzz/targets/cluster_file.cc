// Cluster files, and the networks that they describe.
#include <string>

#include "fabric/cluster/cluster.h"
#include "fabric/cluster/cluster_fabric.h"
#include "test/fuzz/choices.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace phantora;
  const auto cluster = ParseCluster("fuzzed.yaml", std::string(data, data + size));
  if (!cluster.ok()) {
    Require(!cluster.status().message().empty());
    return 0;
  }
  // (What takes seconds to build is the user's own wish.)
  if (cluster->hosts > 64) return 0;
  ClusterFabric::Create(*cluster).IgnoreError();
  return 0;
}
