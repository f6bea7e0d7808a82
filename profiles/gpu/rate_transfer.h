// Rates of a GPU that nobody has measured, from those of one that somebody has.
#ifndef PHANTORA_PROFILES_GPU_RATE_TRANSFER_H_
#define PHANTORA_PROFILES_GPU_RATE_TRANSFER_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/gpu/gpu_profile.h"
#include "profiles/gpu/work_price.h"

namespace phantora {

struct TransferredRates {
  GpuRates rates;    // with errors that have grown by `error`
  std::string from;  // the measured GPU
  // What the transfer adds to the error of a price, relative, by family: what it was found to miss
  // published measurements by (profiles/data/transfer.json).
  std::array<double, kWorkFamilies> error{};
};

// Each rate is the measured GPU's times the ratio of what it depends on:
//  - peaks of arithmetic: SMs, clock, and operations per clock and SM of the compute capability;
//    the shares of them that are reached stay;
//  - the clock under load: the third root of the power per SM and clock, up to 1;
//  - memory: its clock and width; the second-level cache: its size, and the clock;
//  - what one SM reads, and the time until a wave is at full speed: the clock.
// The time of the smallest kernel and the latency of memory stay. What `wanted.rated` gives goes
// before all that. Errors: the operations per clock of a compute capability are not known, and
// `wanted.rated` does not have all peaks.
absl::StatusOr<TransferredRates> TransferRates(const GpuProfile& wanted, const GpuProfile& measured,
                                               const GpuRates& rates);

// From the GPU that `wanted.rated` names, else from the nearest of MeasuredGpus(), of the same
// compute capability if there is one. Errors: as above; there is no such GPU.
absl::StatusOr<TransferredRates> TransferRates(const GpuProfile& wanted);

// Whether prices depend on the same numbers in both.
bool SameHardware(const GpuProfile& a, const GpuProfile& b);

// The peak bandwidth of the GPU's memory.
double MemoryBytesPerSecond(const GpuProfile& gpu);

// The GPUs of which kernels were measured.
std::vector<std::string> MeasuredGpus();

}  // namespace phantora

#endif  // PHANTORA_PROFILES_GPU_RATE_TRANSFER_H_
