// Runs kernels again, as another process launched them, and measures how long they take.
#ifndef PHANTORA_TOOLS_PROFILER_KERNEL_REPLAY_H_
#define PHANTORA_TOOLS_PROFILER_KERNEL_REPLAY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "profiles/kernels/launch_request.h"
#include "tools/profiler/address_mirror.h"
#include "tools/profiler/cuda_api.h"
#include "tools/profiler/loaded_kernels.h"

namespace phantora {

// What was measured where.
struct ProfiledGpu {
  std::string name, driver;    // driver: of CUDA, "12.4"
  int sms = 0, clock_mhz = 0;  // the highest clock
};

struct ReplayTime {
  double microseconds = 0;  // the median of samples, warm
  double error = 0;         // relative: half of what the middle half of the samples spreads over
  int samples = 0, launches_each = 0;
};

// On the first GPU, in a context of its own. After an error of CUDA that sticks (an illegal
// address), nothing works any more: then the process should be given up.
class KernelReplay {
 public:
  // Errors: no driver, no GPU, or no memory.
  static absl::StatusOr<std::unique_ptr<KernelReplay>> Create(uint64_t pool_bytes);

  const ProfiledGpu& gpu() const { return gpu_; }
  // The image with this number, for the launches that follow. Errors: it does not load.
  absl::Status Load(uint64_t image, const std::vector<uint8_t>& cubin) {
    return kernels_->Load(image, cubin);
  }
  // Launches `request` until its time is known: warm, one launch directly behind the other. What
  // the host takes for a launch does not show, unless that is more than the kernel takes.
  absl::StatusOr<ReplayTime> Measure(const LaunchRequest& request);
  // Whether its context is not spoilt.
  bool Works() const { return api_.CtxSynchronize() == cuda::kSuccess; }

 private:
  KernelReplay() = default;
  // Microseconds of `launches` one behind the other.
  absl::StatusOr<double> Sample(const cuda::LaunchConfig& config, cuda::Function function,
                                void** extra, int launches);

  cuda::Api api_;
  ProfiledGpu gpu_;
  cuda::Device device_ = 0;
  std::unique_ptr<AddressMirror> mirror_;
  std::unique_ptr<LoadedKernels> kernels_;
  cuda::Stream stream_ = nullptr;
  cuda::Event begin_ = nullptr, end_ = nullptr;
  // The stream waits until this says so: what was launched meanwhile then runs without gaps.
  volatile uint32_t* gate_ = nullptr;
  cuda::Pointer gate_address_ = 0;
  uint32_t passed_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_PROFILER_KERNEL_REPLAY_H_
