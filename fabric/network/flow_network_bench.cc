// What the model of the network itself costs. bazel run //fabric/network:flow_network_bench
#include <benchmark/benchmark.h>

#include <limits>
#include <random>
#include <vector>

#include "fabric/network/flow_network.h"

namespace phantora {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();

void RunToTheEnd(FlowNetwork& network) {
  while (network.NextEnd() != VirtualTime::Infinity()) network.Ended(network.NextEnd());
}

// A ring through all GPUs of a three-tier Clos, eight channels: every GPU's NIC, and for each
// pair of leaves a link up and down at both tiers.
void OneRing(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0));
  for (auto _ : state) {
    FlowNetwork network;
    std::vector<LinkUse> uses;
    for (int gpu = 0; gpu < gpus; ++gpu) {
      uses.push_back({network.AddLink(50e9), 1});
      uses.push_back({network.AddLink(50e9), 1});
      if (gpu % 32 == 0) {
        for (int tier = 0; tier < 4; ++tier) uses.push_back({network.AddLink(400e9), 1});
      }
    }
    for (int channel = 0; channel < 8; ++channel) {
      network.Start(VirtualTime(), uses, 1e9 / 8, kFree);
    }
    RunToTheEnd(network);
  }
  state.SetItemsProcessed(state.iterations() * 16);  // starts and ends
}
BENCHMARK(OneRing)->RangeMultiplier(4)->Range(512, 8192)->Unit(benchmark::kMillisecond);

// All-reduces of eight GPUs each, of different sizes, which share a spine.
void ManyRings(benchmark::State& state) {
  const int rings = static_cast<int>(state.range(0));
  for (auto _ : state) {
    FlowNetwork network;
    std::vector<LinkId> spine;
    for (int i = 0; i < rings / 8 + 1; ++i) spine.push_back(network.AddLink(400e9));
    std::mt19937 random(1);
    for (int ring = 0; ring < rings; ++ring) {
      std::vector<LinkUse> uses;
      for (int gpu = 0; gpu < 8; ++gpu) uses.push_back({network.AddLink(50e9), 1});
      uses.push_back({spine[random() % spine.size()], 1});
      network.Start(VirtualTime(), uses, 1e6 * (1 + random() % 1000), kFree);
    }
    RunToTheEnd(network);
  }
  state.SetItemsProcessed(state.iterations() * rings * 2);
}
BENCHMARK(ManyRings)->RangeMultiplier(4)->Range(64, 4096)->Unit(benchmark::kMillisecond);

// Messages between random hosts of a leaf-spine: everything is connected with everything.
void RandomMessages(benchmark::State& state) {
  const int hosts = static_cast<int>(state.range(0)), leaves = hosts / 16, spines = 16;
  for (auto _ : state) {
    FlowNetwork network;
    std::vector<LinkId> up, down, leaf_up, leaf_down;
    for (int i = 0; i < hosts; ++i) up.push_back(network.AddLink(50e9));
    for (int i = 0; i < hosts; ++i) down.push_back(network.AddLink(50e9));
    for (int i = 0; i < leaves * spines; ++i) leaf_up.push_back(network.AddLink(50e9));
    for (int i = 0; i < leaves * spines; ++i) leaf_down.push_back(network.AddLink(50e9));
    std::mt19937 random(1);
    for (int from = 0; from < hosts; ++from) {
      const int to = static_cast<int>(random() % hosts),
                spine = static_cast<int>(random() % spines);
      const std::vector<LinkUse> uses = {{up[from], 1},
                                         {leaf_up[from / 16 * spines + spine], 1},
                                         {leaf_down[to / 16 * spines + spine], 1},
                                         {down[to], 1}};
      network.Start(VirtualTime(), uses, 1e5 * (1 + random() % 100), kFree);
    }
    RunToTheEnd(network);
  }
  state.SetItemsProcessed(state.iterations() * hosts * 2);
}
BENCHMARK(RandomMessages)->RangeMultiplier(4)->Range(64, 1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace phantora

BENCHMARK_MAIN();
