#include "fabric/collectives/nccl_topology.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fabric/cluster/cluster.h"

namespace phantora {
namespace {

struct Expected {
  std::string cluster;
  int per_node;
  NcclGraph ring, tree, nvls;
  int channels;
};

std::unique_ptr<ClusterFabric> Fabric(const std::string& name) {
  auto cluster = FindCluster(name);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  auto fabric = ClusterFabric::Create(*cluster);
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  return *std::move(fabric);
}

std::vector<GpuPlace> Ranks(const ClusterFabric& fabric, int per_node) {
  std::vector<GpuPlace> ranks;
  for (int host = 0; host < fabric.cluster().hosts; ++host) {
    for (int gpu = 0; gpu < per_node; ++gpu) ranks.push_back({host, gpu});
  }
  return ranks;
}

void Same(const NcclGraph& found, const NcclGraph& expected, const char* what) {
  EXPECT_EQ(found.channels, expected.channels) << what;
  EXPECT_DOUBLE_EQ(found.intra_gb_per_s, expected.intra_gb_per_s) << what;
  EXPECT_DOUBLE_EQ(found.inter_gb_per_s, expected.inter_gb_per_s) << what;
}

TEST(NcclTopologyTest, WhatTheSearchFinds) {
  const std::vector<Expected> rows = {
      // As NCCL's own search gives them for eight GPUs per machine.
      {"dgx-h100:1", 8, {12, 30, 30}, {12, 30, 30}, {8, 40, 60}, 24},
      {"dgx-h200:1", 8, {12, 30, 30}, {12, 30, 30}, {8, 40, 60}, 24},
      {"dgx-h100:2", 8, {8, 48, 48}, {8, 48, 48}, {8, 40, 48}, 16},
      {"dgx-h100:32", 8, {8, 48, 48}, {8, 48, 48}, {8, 40, 48}, 16},
      {"dgx-a100:1", 8, {12, 20, 20}, {12, 20, 20}, {}, 24},
      // The second pass makes the tree's chain faster within the machine.
      {"dgx-a100:2", 8, {8, 24, 24}, {8, 30, 24}, {}, 16},
      // Two interfaces of 100G for each GPU: as many channels.
      {"oci-a100:2", 8, {16, 12, 12}, {16, 15, 12}, {}, 32},
      // Fewer GPUs, by the same rules.
      {"dgx-h100:1", 4, {12, 30, 30}, {12, 30, 30}, {4, 60, 60}, 24},
      {"dgx-h100:1", 2, {12, 30, 30}, {12, 30, 30}, {2, 60, 60}, 24},
      {"dgx-a100:1", 4, {12, 20, 20}, {12, 20, 20}, {}, 24},
      {"dgx-h100:2", 4, {8, 24, 24}, {8, 48, 24}, {4, 48, 48}, 16},
      {"dgx-h100:4", 1, {2, 24, 24}, {2, 24, 24}, {}, 4},
      // 25G Ethernet, and PCIe through AMD's processors.
      {"ethernet-2gpu:2", 2, {1, 3, 3}, {1, 6, 3}, {}, 2},
      {"ethernet-2gpu:1", 2, {1, 15, 15}, {1, 15, 15}, {}, 2},
  };
  for (const Expected& row : rows) {
    SCOPED_TRACE(row.cluster + " x " + std::to_string(row.per_node));
    const auto fabric = Fabric(row.cluster);
    const NcclTopology topology = TopologyOf(*fabric, Ranks(*fabric, row.per_node));
    Same(topology.graphs[static_cast<size_t>(NcclAlgorithm::kRing)], row.ring, "ring");
    Same(topology.graphs[static_cast<size_t>(NcclAlgorithm::kTree)], row.tree, "tree");
    Same(topology.graphs[static_cast<size_t>(NcclAlgorithm::kNvls)], row.nvls, "NVLS");
    EXPECT_EQ(topology.channels, row.channels);
    EXPECT_EQ(topology.nodes, fabric->cluster().hosts);
    EXPECT_EQ(topology.ranks, fabric->cluster().hosts * row.per_node);
    EXPECT_EQ(topology.nvlink, fabric->cluster().host.nvlink);
    EXPECT_EQ(topology.ll128, fabric->cluster().host.nvlink);
  }
}

TEST(NcclTopologyTest, Limits) {
  const auto fabric = Fabric("dgx-h100:1");
  const auto ranks = Ranks(*fabric, 8);
  EXPECT_EQ(TopologyOf(*fabric, ranks, {.allowed = {}, .min_channels = 32}).channels, 32);
  EXPECT_EQ(TopologyOf(*fabric, ranks, {.allowed = {}, .max_channels = 4}).channels, 4);
  const NcclTopology without = TopologyOf(*fabric, ranks, {.allowed = {}, .nvls = false});
  EXPECT_EQ(without.graphs[static_cast<size_t>(NcclAlgorithm::kNvls)].channels, 0);
  EXPECT_FALSE(TopologyOf(*fabric, ranks, {.allowed = {}, .coll_net = true}).coll_net);
}

}  // namespace
}  // namespace phantora
