// What moving GPUs' memory takes of real time, beside the same between plain files.
//
//   bazel run //uvm_model:device_memory_bench

#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <vector>

#include "uvm_model/address_space.h"
#include "uvm_model/device_memory.h"

namespace phantora {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30, kBase = uint64_t{1} << 40;

const std::vector<uint8_t>& Random() {
  static const std::vector<uint8_t>* bytes = [] {
    auto* made = new std::vector<uint8_t>(kGiB);
    std::mt19937_64 random(1);
    for (size_t i = 0; i < made->size(); i += 8) {
      const uint64_t value = random();
      for (int k = 0; k < 8; ++k) (*made)[i + k] = static_cast<uint8_t>(value >> 8 * k);
    }
    return made;
  }();
  return *bytes;
}

std::shared_ptr<MemoryObject> Paged(uint64_t bytes) {
  static const auto* store = new std::shared_ptr<PageStore>(new PageStore(16 * kGiB));
  return std::make_shared<DeviceMemory>(*store, bytes);
}
std::shared_ptr<MemoryObject> Plain(uint64_t bytes) {
  return std::make_shared<OwnedMemory>(MemoryKind::kVidmem, bytes);
}

template <auto kMake>
void WriteFreshGiB(benchmark::State& state) {
  Random();
  for (auto _ : state) {
    auto memory = kMake(kGiB);
    memory->Write(0, Random().data(), kGiB);
    state.PauseTiming();
    memory.reset();
    state.ResumeTiming();
  }
}
template <auto kMake>
void WriteGiBAgain(benchmark::State& state) {
  auto memory = kMake(kGiB);
  memory->Write(0, Random().data(), kGiB);
  for (auto _ : state) memory->Write(0, Random().data(), kGiB);
}
// The argument: how far apart source and destination are within a page.
template <auto kMake>
void CopyGiB(benchmark::State& state) {
  auto from = kMake(kGiB), to = kMake(kGiB + 4096);
  from->Write(0, Random().data(), kGiB);
  const auto apart = static_cast<uint64_t>(state.range(0));
  for (auto _ : state) CopyMemory(*to, apart, *from, 0, kGiB);
}
// As NCCL's payload does it: each rank gets every rank's part.
template <auto kMake>
void AllGatherEightUnwrittenGiB(benchmark::State& state) {
  constexpr int kRanks = 8;
  std::vector<std::unique_ptr<AddressSpace>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<AddressSpace>());
    ranks.back()->Map(kBase, kGiB, kMake(kGiB), 0);
    ranks.back()->Map(2 * kBase, kRanks * kGiB, kMake(kRanks * kGiB), 0);
  }
  for (auto _ : state) {
    for (auto& to : ranks) {
      for (int from = 0; from < kRanks; ++from) {
        to->Copy(2 * kBase + static_cast<uint64_t>(from) * kGiB, *ranks[static_cast<size_t>(from)],
                 kBase, kGiB);
      }
    }
  }
}
template <auto kMake>
void WriteParameters(benchmark::State& state) {
  AddressSpace space;
  space.Map(kBase, 1 << 20, kMake(1 << 20), 0);
  uint64_t at = 0;
  for (auto _ : state) {
    space.Write(kBase + at, Random().data(), 256);
    at = (at + 512) % (1 << 20);
  }
}

BENCHMARK(WriteFreshGiB<Paged>)->Unit(benchmark::kMillisecond);
BENCHMARK(WriteFreshGiB<Plain>)->Unit(benchmark::kMillisecond);
BENCHMARK(WriteGiBAgain<Paged>)->Unit(benchmark::kMillisecond);
BENCHMARK(WriteGiBAgain<Plain>)->Unit(benchmark::kMillisecond);
BENCHMARK(CopyGiB<Paged>)->Arg(0)->Arg(512)->Unit(benchmark::kMillisecond);
BENCHMARK(CopyGiB<Plain>)->Arg(0)->Unit(benchmark::kMillisecond);
BENCHMARK(AllGatherEightUnwrittenGiB<Paged>)->Unit(benchmark::kMillisecond);
BENCHMARK(AllGatherEightUnwrittenGiB<Plain>)->Unit(benchmark::kMillisecond);
BENCHMARK(WriteParameters<Paged>);
BENCHMARK(WriteParameters<Plain>);

}  // namespace
}  // namespace phantora

BENCHMARK_MAIN();
