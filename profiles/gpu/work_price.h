// How long a kernel takes on a GPU, from the work that it does.
#ifndef PHANTORA_PROFILES_GPU_WORK_PRICE_H_
#define PHANTORA_PROFILES_GPU_WORK_PRICE_H_

#include <array>
#include <string>

#include "absl/status/statusor.h"
#include "profiles/work/kernel_work.h"

namespace phantora {

// What a GPU reaches: profiles/data/<gpu>/rates.json, each number with its source.
struct GpuRates {
  std::array<double, kMathPrecisions> peak_flops_per_s{};  // dense, at the highest clock
  double memory_bytes_per_s = 0;                           // peak
  double cache_bytes = 0, cache_bytes_per_s = 0;           // second level
  double sm_bytes_per_s = 0;                               // what one SM can read
  // Parts of these peaks that are reached.
  std::array<double, kMathPrecisions> gemm{};
  double attention_forward = 0, attention_backward = 0, convolution = 0, memory = 0;
  // The share of the highest clock that lasts under the load of tensor cores, within the power
  // limit.
  double clock_under_load = 1;
  double smallest_kernel_s = 0;
  double wave_s = 0;            // until a wave of thread blocks computes at full speed
  double memory_latency_s = 0;  // of a load, beside many others
  double cache_latency_s = 0;   // of one that the second-level cache has
  std::array<double, kWorkFamilies> error{};  // relative, of a price made from these
};

// Errors: there is no file for this GPU, or it is malformed.
absl::StatusOr<GpuRates> FindGpuRates(const std::string& gpu);

// Seconds, and how far off they may be, as a part of them.
struct TimeEstimate {
  double seconds = 0, error = 0;
};

// Of `work` alone on a GPU of `sms` SMs: the smallest kernel, and on top the longest of
//  - arithmetic: as long as the SM with the most tiles takes (wave quantisation), each wave a
//    while to fill its pipeline, and the last results to be written;
//  - traffic with memory: as much as the threads that there are can have under way, what fits
//    into the second-level cache at its speed (whoever made it has just left it there);
//  - what blocks read from that cache, where that is more.
// Finite for every work, at most an hour.
TimeEstimate EstimateOf(const KernelWork& work, WorkFamily family, const GpuRates& rates, int sms);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_GPU_WORK_PRICE_H_
