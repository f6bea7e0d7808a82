#include "fabric/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "fabric/cluster/cluster_fabric.h"
#include "profiles/gpu/gpu_profile.h"

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

constexpr char kGraph[] = R"(  shape: graph
  links:
    - {from: row A, to: core}
    - {from: core, to: row B, gbit_per_s: 1600, latency_ns: 3000}
    - {from: row B, to: core, latency_ns: 3000}
  attached:
    - {hosts: 0, nics: 0-7, switch: row A}
    - {hosts: 1, nics: 0-3, switch: row B}
    - {hosts: 1, nics: 4-7, switch: core}
)";

std::string WithGraph(absl::string_view graph) {
  return absl::StrReplaceAll(
      kGood, {{"  shape: leaf-spine\n  hosts_per_leaf: 2\n  spines: 2\n  uplinks: 4\n", graph}});
}

TEST(ClusterTest, AGraphIsWhatItsFileSays) {
  const auto cluster = ParseCluster("my.yaml", WithGraph(kGraph));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  FlowNetwork network;
  NetworkGraph graph(&network);
  const auto nics = BuildNetwork(*cluster, graph);
  ASSERT_TRUE(nics.ok()) << nics.status();
  EXPECT_EQ(graph.nodes(), 3 + 16);
  // Row A, core, row B: two edges of 500 ns, links of 700 and 3,000.
  const Route far = graph.RouteBetween((*nics)[0][0], (*nics)[1][0], Multipath::kEcmp);
  EXPECT_EQ(far.latency, VirtualSpan::Nanoseconds(4700));
  EXPECT_EQ(far.uses.size(), 4);
  EXPECT_EQ(graph.RouteBetween((*nics)[0][0], (*nics)[1][4], Multipath::kEcmp).latency,
            VirtualSpan::Nanoseconds(1700));
  const auto link = graph.FindLinks("core to row b");
  ASSERT_TRUE(link.ok());
  ASSERT_EQ(link->size(), 1);
  EXPECT_EQ(network.CapacityOf((*link)[0]), 250e9);
}

TEST(ClusterTest, ErrorsOfGraphs) {
  const auto error = [](absl::string_view from, absl::string_view to) {
    const auto cluster =
        ParseCluster("my.yaml", WithGraph(absl::StrReplaceAll(kGraph, {{from, to}})));
    if (!cluster.ok()) return std::string(cluster.status().message());
    FlowNetwork network;
    NetworkGraph graph(&network);
    return std::string(BuildNetwork(*cluster, graph).status().message());
  };
  EXPECT_EQ(error("", ""), "");
  EXPECT_THAT(error("4-7, switch", "5-7, switch"), HasSubstr("host 1 nic 4 is attached to no"));
  EXPECT_THAT(error("4-7, switch", "3-7, switch"),
              HasSubstr("my.yaml:21: host 1 nic 3 is attached to row B already (my.yaml:20)"));
  EXPECT_THAT(error("hosts: 0", "hosts: 7"), HasSubstr("my.yaml:19: there are 2 hosts"));
  EXPECT_THAT(error("hosts: 0", "hosts: 0-"), HasSubstr("my.yaml:19: \"0-\" is neither"));
  EXPECT_THAT(error("hosts: 0", "hosts: -1"), HasSubstr("is neither"));
  EXPECT_THAT(error("to: core, l", "to: core, latency_ns: 1, old_l"), HasSubstr("has no key"));
  EXPECT_THAT(error("from: row B, to: core, latency_ns: 3000", "from: row B, to: core"),
              HasSubstr("my.yaml:17: links from row B to core differ in latency"));
  EXPECT_THAT(error("from: row A, to: core", "from: core, to: core"),
              HasSubstr("my.yaml:15: core has a link to itself"));
  EXPECT_THAT(error("switch: row A", "switch: host 1 nic 0"), HasSubstr("needs a name"));
  EXPECT_THAT(error("  attached:", "  attached: 3\n  others:"), HasSubstr("must be a list"));
}

TEST(ClusterTest, Events) {
  const std::string text = absl::StrCat(kGood, R"(  reroute_ms: 20
events:
  - {at_ms: 12.5, down: leaf 0 to spine 1}
  - {at_ms: 20, up: leaf 0 to spine 1}
  - at_ms: 0
    capacity: {link: host 0 nic 3, share: 0.25}
  - at_ms: 1
    traffic: {from: host 0 nic 0, to: host 1 nic 0, gbit_per_s: 100, until_ms: 5}
)");
  const auto cluster = ParseCluster("my.yaml", text);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->network.reroute, VirtualSpan::Microseconds(20000));
  ASSERT_EQ(cluster->events.size(), 4u);
  using Kind = NetworkEvent::Kind;
  const NetworkEvent &down = cluster->events[0], &capacity = cluster->events[2],
                     &traffic = cluster->events[3];
  EXPECT_EQ(down.kind, Kind::kDown);
  EXPECT_EQ(down.at, VirtualSpan::Microseconds(12500));
  EXPECT_EQ(down.what, "leaf 0 to spine 1");
  EXPECT_EQ(down.where, "my.yaml:24");
  EXPECT_EQ(cluster->events[1].kind, Kind::kUp);
  EXPECT_EQ(capacity.kind, Kind::kCapacity);
  EXPECT_EQ(capacity.what, "host 0 nic 3");
  EXPECT_EQ(capacity.share, 0.25);
  EXPECT_EQ(traffic.kind, Kind::kTraffic);
  EXPECT_EQ(traffic.from, "host 0 nic 0");
  EXPECT_EQ(traffic.to, "host 1 nic 0");
  EXPECT_EQ(traffic.bytes_per_s, 12.5e9);
  EXPECT_EQ(traffic.until, VirtualSpan::Microseconds(5000));
  // Without them: nothing happens, and a usual time.
  EXPECT_TRUE(ParseCluster("my.yaml", kGood)->events.empty());
  EXPECT_EQ(ParseCluster("my.yaml", kGood)->network.reroute, VirtualSpan::Microseconds(1000000));
}

TEST(ClusterTest, Multipath) {
  const auto parse = [](absl::string_view with) {
    return ParseCluster("my.yaml", absl::StrReplaceAll(kGood, {{"multipath: ecmp", with}}));
  };
  EXPECT_EQ(parse("multipath: adaptive")->network.multipath, Multipath::kAdaptive);
  EXPECT_EQ(parse("multipath: adaptive")->network.reroute, VirtualSpan::Microseconds(1000));
  const auto split = parse("multipath: split\n  paths: 4");
  EXPECT_EQ(split->network.multipath, Multipath::kSplit);
  EXPECT_EQ(split->network.paths, 4);
  EXPECT_EQ(split->network.reroute, VirtualSpan::Microseconds(1000000));
  EXPECT_THAT(std::string(parse("multipath: split").status().message()),
              HasSubstr("network needs the key \"paths\""));
  EXPECT_THAT(std::string(parse("multipath: ecmp\n  paths: 4").status().message()),
              HasSubstr("network has no key \"paths\""));
}

TEST(ClusterTest, CongestionControl) {
  const auto parse = [](absl::string_view transport, absl::string_view value) {
    return ParseCluster(
        "my.yaml", absl::StrReplaceAll(
                       kGood, {{"transport: roce", absl::StrCat("transport: ", transport)},
                               {"multipath: ecmp",
                                absl::StrCat("multipath: ecmp\n  congestion_control: ", value)}}));
  };
  EXPECT_FALSE(ParseCluster("my.yaml", kGood)->network.dcqcn);
  EXPECT_FALSE(parse("infiniband", "none")->network.dcqcn);
  EXPECT_TRUE(parse("roce", "dcqcn")->network.dcqcn);
  EXPECT_THAT(std::string(parse("infiniband", "dcqcn").status().message()),
              HasSubstr("nic.transport is not roce"));
  EXPECT_THAT(std::string(parse("roce", "timely").status().message()), HasSubstr("dcqcn"));
}

TEST(ClusterTest, ErrorsOfEvents) {
  const auto error = [](absl::string_view events) {
    return std::string(
        ParseCluster("my.yaml", absl::StrCat(kGood, "events:", events)).status().message());
  };
  EXPECT_THAT(error(" 3"), HasSubstr("my.yaml:22: events must be a list"));
  EXPECT_THAT(error("\n- down: spine 1"),
              HasSubstr("my.yaml:23: an event needs the key \"at_ms\""));
  EXPECT_THAT(error("\n- {at_ms: 1}"),
              HasSubstr("my.yaml:23: an event needs one of the keys down, up, capacity, traffic"));
  EXPECT_THAT(error("\n- {at_ms: 1, down: spine 1, up: spine 1}"),
              HasSubstr("my.yaml:23: an event is either down or up"));
  EXPECT_THAT(error("\n- at_ms: 1\n  down: spine 1\n  until: 3"),
              HasSubstr("my.yaml:25: an event has no key \"until\"; its keys are at_ms, capacity, "
                        "down, traffic, up"));
  EXPECT_THAT(error("\n- {at_ms: -1, down: spine 1}"), HasSubstr("an event.at_ms must be from 0"));
  EXPECT_THAT(error("\n- {at_ms: 1, down: [1]}"), HasSubstr("an event.down must be a word"));
  EXPECT_THAT(error("\n- {at_ms: 1, capacity: {link: spine 1}}"),
              HasSubstr("an event's capacity needs the key \"share\""));
  EXPECT_THAT(error("\n- {at_ms: 1, capacity: {link: spine 1, share: 2}}"),
              HasSubstr("an event's capacity.share must be from"));
  EXPECT_THAT(error("\n- at_ms: 4\n  traffic: {from: a, to: b, gbit_per_s: 1,\n    until_ms: 4}"),
              HasSubstr("my.yaml:25: until_ms must be after at_ms"));
}

// Names are looked up when the network is built.
TEST(ClusterTest, EventsOfWhatThereIsNot) {
  const auto error = [](absl::string_view event) {
    const auto cluster =
        ParseCluster("my.yaml", absl::StrCat(kGood, "events:\n- {at_ms: 1, ", event, "}"));
    return std::string(ClusterFabric::Create(*cluster).status().message());
  };
  EXPECT_EQ(error("down: HOST 1 nic 7"), "");
  EXPECT_THAT(
      error("down: host 2 nic 7"),
      HasSubstr("my.yaml:23: the network has nothing called \"host 2 nic 7\"; near are \"host "
                "0 NIC 7\", \"host 1 NIC 7\""));
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
