#include "fabric/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "profiles/gpu_profile.h"

namespace phantora {
namespace {

using testing::HasSubstr;

constexpr char kGood[] = R"(about: two machines
hosts: 2
host:
  gpu: h100-sxm5-80gb
  gpus: 8
  nvlink: true
  cpu: amd
  cores: 64
  memory_gib: 512
  nics: 8
nic: {transport: roce, gbit_per_s: 400, messages_per_us: 300}
network:
  shape: leaf-spine
  hosts_per_leaf: 2
  spines: 2
  uplinks: 4
  core_gbit_per_s: 400
  edge_latency_ns: 500
  core_latency_ns: 700
  mtu: 4096
  multipath: ecmp
)";

TEST(ClusterTest, WhatAFileSays) {
  const auto cluster = ParseCluster("my.yaml", kGood);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->gpus(), 16);
  EXPECT_TRUE(cluster->host.amd_cpu);
  EXPECT_EQ(cluster->nic.transport, Cluster::Transport::kRoce);
  EXPECT_EQ(cluster->nic.bytes_per_s, 50e9);
  EXPECT_EQ(cluster->network.edge_latency, VirtualSpan::Nanoseconds(500));
  FlowNetwork network;
  NetworkGraph graph(&network);
  const auto nics = BuildNetwork(*cluster, graph);
  ASSERT_TRUE(nics.ok());
  EXPECT_EQ(nics->size(), 2);
}

TEST(ClusterTest, ErrorsSayWhereAndWhat) {
  const auto error = [](absl::string_view from, absl::string_view to) {
    return std::string(
        ParseCluster("my.yaml", absl::StrReplaceAll(kGood, {{from, to}})).status().message());
  };
  EXPECT_THAT(error("  gpus: 8\n", "  gpu_count: 8\n"),
              HasSubstr("my.yaml:4: host needs the key \"gpus\""));
  EXPECT_THAT(error("  gpus: 8\n", "  gpus: 8\n  gpu_count: 8\n"),
              HasSubstr("my.yaml:6: host has no key \"gpu_count\"; its keys are "));
  EXPECT_THAT(error("gpus: 8", "gpus: 17"), HasSubstr("my.yaml:5: host.gpus must be from 1 to 16"));
  EXPECT_THAT(error("gpus: 8", "gpus: many"), HasSubstr("my.yaml:5: host.gpus must be a number"));
  EXPECT_THAT(error("cpu: amd", "cpu: power"),
              HasSubstr("my.yaml:7: host.cpu is \"power\"; it may be amd, intel"));
  EXPECT_THAT(error("nvlink: true", "nvlink: perhaps"), HasSubstr("my.yaml:6"));
  EXPECT_THAT(error("gbit_per_s: 400, m", "gbit_per_s: -1, m"), HasSubstr("my.yaml:11"));
  EXPECT_THAT(error("shape: leaf-spine", "shape: ring"), HasSubstr("my.yaml:13"));
  EXPECT_THAT(error("nic: {", "nic: ["), HasSubstr("my.yaml:11"));
  EXPECT_THAT(error("hosts: 2\nhost:", "hosts: 2\nhost: 3\nguest:"),
              HasSubstr("my.yaml:3: host must be a list of keys and values"));
  EXPECT_FALSE(ParseCluster("my.yaml", "").ok());
  EXPECT_FALSE(ParseCluster("my.yaml", "\t").ok());
}

TEST(ClusterTest, WhatIsShippedCanBeBuilt) {
  EXPECT_GE(ClusterNames().size(), 7u);
  for (const std::string& name : ClusterNames()) {
    const auto cluster = FindCluster(name + ":4");
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(cluster->hosts, 4);
    EXPECT_TRUE(FindGpuProfile(cluster->host.gpu).ok()) << name;
    FlowNetwork network;
    NetworkGraph graph(&network);
    const auto nics = BuildNetwork(*cluster, graph);
    ASSERT_TRUE(nics.ok()) << name << nics.status();
    EXPECT_TRUE(
        graph.RouteBetween(nics->front()[0], nics->back().back(), cluster->network.multipath)
            .exists)
        << name;
  }
}

TEST(ClusterTest, NamesAndNumbers) {
  EXPECT_EQ(FindCluster("dgx-h100:32")->gpus(), 256);
  EXPECT_EQ(FindCluster("dgx-h100")->hosts, 4);
  EXPECT_THAT(std::string(FindCluster("dgx-h1000").status().message()), HasSubstr("dgx-h100"));
  EXPECT_THAT(std::string(FindCluster("dgx-h100:none").status().message()), HasSubstr("none"));
  EXPECT_FALSE(FindCluster("dgx-h100:0").ok());
  EXPECT_FALSE(FindCluster("/nowhere.yaml").ok());
}

}  // namespace
}  // namespace phantora
