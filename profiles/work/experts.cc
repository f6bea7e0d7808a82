// Products of tokens with those experts that they are routed to, of vLLM and SGLang.
#include <algorithm>
#include <cmath>
#include <vector>

#include "profiles/work/attention_sequences.h"
#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// Triton's fused_moe_kernel (vLLM's fused_moe.py, which SGLang has taken over):
//   a, b, c, [bias], [scales of a], [scales of b], weights of experts, sorted tokens, experts of
//   blocks, rows with those that fill blocks up; N, K, EM, valid rows, strides, ...
// What is not given is no parameter, nor is a stride of one. Sizes follow the last pointer, i32.
constexpr size_t kLeastPointers = 7, kWithScales = 9, kMostPointers = 12;
constexpr int kTiles[] = {16, 32, 64, 128, 256};
constexpr int32_t kMostExperts = 1 << 12;
constexpr int kMostBlocks = 1 << 16;
// Of rows that are sorted, which are looked at one by one.
constexpr int kMostCounted = 1 << 14;
// Where nobody can tell: engines' models have 128 more often than other numbers.
constexpr double kExperts = 128;

double Ceil(double a, double b) { return std::ceil(a / b); }

class ExpertsProduct : public WorkForm {
 public:
  ExpertsProduct(uint32_t sizes_at, MathPrecision precision)
      : sizes_at_(sizes_at), precision_(precision) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    const double features = launch.At<int32_t>(sizes_at_),
                 depth = launch.At<int32_t>(sizes_at_ + 4),
                 padded = launch.At<int32_t>(sizes_at_ + 8),
                 valid = launch.At<int32_t>(sizes_at_ + 12);
    for (const double each : {features, depth, padded, valid}) {
      work.checked &= each >= 1 && each < kLargestDimension;
    }
    Tile tile;
    if (!work.checked || !FindTile(launch, features, padded, valid, tile)) {
      work.checked = false;
      return work;
    }
    Routing routing;
    if (!ReadRouting(launch, tile, padded, valid, routing)) {
      work.guessed = true;
      routing = Expected(tile, padded, valid);
    }
    work.tiles_of_64 = tile.rows == 64 && tile.features == 64;
    work.shape = {features, routing.rows, depth, routing.touched, routing.largest};
    work.flops = 2 * routing.rows * features * depth;
    // Rows have two bytes, whatever weights have.
    work.bytes = routing.touched * features * depth * Bytes(precision_) +
                 2 * routing.rows * (features + depth);
    work.written_bytes = 2 * routing.rows * features;
    work.tiles = routing.blocks * Ceil(features, tile.features);
    return work;
  }

 private:
  struct Tile {
    double rows = 0, features = 0;
  };
  struct Routing {
    double rows = 0, blocks = 0, touched = 0, largest = 0;
  };

  // The grid has a block for each tile that there may be. With T valid rows there may be
  // T + experts x (tile - 1), or T x tile if there are few.
  static bool FindTile(const LaunchShape& launch, double features, double padded, double valid,
                       Tile& tile) {
    // Some versions make a whole number of tiles of the sum.
    for (const bool whole : {false, true}) {
      for (const double rows : kTiles) {
        const double experts = (padded - valid) / (rows - 1);
        const bool is_sum = whole ? std::fmod(padded, rows) == 0 && experts >= 1
                                  : experts == std::floor(experts) && experts >= 1;
        if (padded != valid * rows && !is_sum) continue;
        for (const double wide : kTiles) {
          if (Ceil(padded, rows) * Ceil(features, wide) != launch.grid[0]) continue;
          tile = {rows, wide};
          return true;
        }
      }
    }
    return false;
  }

  // What the kernel finds in memory: whose rows each block has.
  bool ReadRouting(const LaunchShape& launch, const Tile& tile, double padded, double valid,
                   Routing& routing) const {
    const auto pointer = [&](uint32_t before) { return launch.At<uint64_t>(sizes_at_ - before); };
    const std::vector<int32_t> filled = ReadLengths(launch, pointer(8), 1);
    if (filled.empty() || filled[0] <= 0 || filled[0] > padded) return false;
    const double blocks = filled[0] / tile.rows;
    if (blocks != std::floor(blocks) || blocks > kMostBlocks) return false;
    std::vector<int32_t> experts = ReadLengths(launch, pointer(16), static_cast<size_t>(blocks));
    if (experts.empty()) return false;
    // Rows of each block, where those are few enough to be counted; else an expert's last block is
    // half full.
    std::vector<int32_t> sorted;
    if (filled[0] <= kMostCounted) {
      sorted = ReadLengths(launch, pointer(24), static_cast<size_t>(filled[0]));
    }
    const auto tile_rows = static_cast<size_t>(tile.rows);
    const auto rows_of = [&](size_t block, bool is_last) -> double {
      if (sorted.empty()) return is_last ? tile.rows / 2 : tile.rows;
      const auto begin = sorted.begin() + static_cast<ptrdiff_t>(block * tile_rows);
      return static_cast<double>(
          std::count_if(begin, begin + static_cast<ptrdiff_t>(tile_rows),
                        [&](int32_t row) { return row >= 0 && row < valid; }));
    };
    double run = 0, others = 0;
    for (size_t i = 0; i < experts.size(); ++i) {
      if (experts[i] < -1 || experts[i] >= kMostExperts) return false;
      if (experts[i] < 0) {  // another GPU's
        ++others;
        continue;
      }
      const bool goes_on = i > 0 && experts[i] == experts[i - 1];
      const bool is_last = i + 1 == experts.size() || experts[i] != experts[i + 1];
      routing.touched += !goes_on;
      run = (goes_on ? run : 0) + rows_of(i, is_last);
      routing.rows += rows_of(i, is_last);
      routing.largest = std::max(routing.largest, run);
      ++routing.blocks;
    }
    // One expert for all is what is found where nobody chose any.
    if (routing.blocks == 0 || (routing.touched == 1 && routing.blocks > 1)) return false;
    if (sorted.empty() && others == 0) routing.rows = valid;
    routing.rows = std::clamp(routing.rows, routing.touched, valid);
    routing.largest = std::clamp(routing.largest, 1.0, routing.rows);
    return true;
  }

  // If all experts were alike to the router, which chooses at random.
  static Routing Expected(const Tile& tile, double padded, double valid) {
    const double sum = (padded - valid) / (tile.rows - 1);
    const double experts = padded == valid * tile.rows ? kExperts : std::max(1.0, std::floor(sum));
    Routing routing = {.rows = valid};
    routing.touched = std::max(
        1.0, std::round(experts * (1 - std::pow(1 - 1 / std::max(experts, 1.001), valid))));
    routing.largest = Ceil(valid, routing.touched);
    routing.blocks = routing.touched * Ceil(routing.largest, tile.rows);
    return routing;
  }

  const uint32_t sizes_at_;  // in bytes from the first parameter; pointers lie before
  const MathPrecision precision_;
};

}  // namespace

FoundForm FindExperts(const KernelFacts& kernel) {
  if (kernel.symbol != "fused_moe_kernel") return {};
  size_t pointers = 0;
  while (pointers < kernel.parameters.size() && kernel.parameters[pointers].size == 8) ++pointers;
  if (pointers < kLeastPointers || pointers > kMostPointers ||
      kernel.parameters.size() < pointers + 4) {
    return {};
  }
  // Weights and rows of eight bits have scales both; weights alone of fewer are multiplied as bf16.
  const auto precision = pointers >= kWithScales ? MathPrecision::kFp8 : MathPrecision::kBf16;
  return {WorkFamily::kExperts,
          std::make_shared<ExpertsProduct>(kernel.Offset(pointers), precision)};
}

}  // namespace phantora
