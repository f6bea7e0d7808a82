// How long a kernel takes on a GPU, from the work that it does.
#ifndef PHANTORA_PROFILES_WORK_PRICE_H_
#define PHANTORA_PROFILES_WORK_PRICE_H_

#include <array>
#include <string>

#include "absl/status/statusor.h"
#include "profiles/work/kernel_work.h"

namespace phantora {

// What a GPU reaches: profiles/data/rates/*.json, each number with its source.
struct GpuRates {
  std::array<double, kMathPrecisions> peak_flops_per_s{};  // by MathPrecision
  double memory_bytes_per_s = 0;
  // Parts of these peaks.
  double tensor_gemm = 0, simt_gemm = 0, attention_forward = 0, attention_backward = 0, memory = 0;
  double smallest_kernel_s = 0;
};

// Errors: there is no file for this GPU, or it is malformed.
absl::StatusOr<GpuRates> FindGpuRates(const std::string& gpu);

// Seconds of `work` alone on a GPU of `sms` SMs: the smallest kernel, and on top the longer of
// its arithmetic and its traffic with memory. Arithmetic of a matrix product takes as long as
// the SM with the most tiles (wave quantisation). A cache is not modelled: what fits into it
// comes out too slow. Finite for every work, at most an hour.
double SecondsOf(const KernelWork& work, WorkFamily family, const GpuRates& rates, int sms);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_WORK_PRICE_H_
