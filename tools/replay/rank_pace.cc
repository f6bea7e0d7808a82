#include "tools/replay/rank_pace.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace phantora {
namespace {

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): the
// numbers of its sequence can be had in any order.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Above 0, up to 1.
double Uniform(uint64_t bits) { return (static_cast<double>(bits >> 11) + 1) * 0x1p-53; }

// A draw from the normal distribution (Box and Muller).
double Normal(uint64_t bits) {
  return std::sqrt(-2 * std::log(Uniform(Mix(bits)))) *
         std::cos(2 * std::numbers::pi * Uniform(Mix(bits ^ 0x5bd1e995)));
}

}  // namespace

VirtualSpan RankPaces::Of(int rank, uint32_t node, VirtualSpan alone) const {
  if (even()) return alone;
  double factor = 1;
  if (const auto it = slower.find(rank); it != slower.end()) factor = it->second;
  if (jitter > 0) {
    const uint64_t of_rank = Mix(seed ^ Mix(static_cast<uint64_t>(rank)));
    factor *= std::exp(jitter * Normal(of_rank + node) - jitter * jitter / 2);
  }
  constexpr auto kMost = static_cast<double>(int64_t{1} << 60);
  return VirtualSpan::Picoseconds(
      std::llround(std::min(static_cast<double>(alone.picoseconds()) * factor, kMost)));
}

}  // namespace phantora
