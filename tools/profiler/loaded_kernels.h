// Kernels of cubins in a CUDA context, ready to be launched.
#ifndef PHANTORA_TOOLS_PROFILER_LOADED_KERNELS_H_
#define PHANTORA_TOOLS_PROFILER_LOADED_KERNELS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/profiler/cuda_api.h"

namespace phantora {

// A launch as a launch descriptor has it.
struct LaunchForm {
  std::array<uint32_t, 3> grid{}, block{};  // thread blocks, threads
  std::array<uint32_t, 3> cluster{};        // thread blocks; zeros: none
  uint32_t shared_bytes = 0;                // of a block, static, dynamic and the system's
  bool cooperative = false;
};

class LoadedKernels {
 public:
  // Of `most` images, the first is given up for another; 0: of any number. Both must outlive this.
  LoadedKernels(const cuda::Api* api, cuda::Device device, size_t most)
      : api_(*api), device_(device), most_(most) {}

  // The image with this number. Errors: it does not load.
  absl::Status Load(uint64_t image, const std::vector<uint8_t>& cubin);
  // Errors: the image is not there, or has no such kernel.
  absl::StatusOr<cuda::Function> Find(uint64_t image, const std::string& symbol) const;
  // Fills in all of `config` but its stream; it refers to `attributes`, of which there must be two.
  // Errors: the kernel cannot be launched so.
  absl::Status Configure(cuda::Function function, const LaunchForm& form,
                         cuda::LaunchConfig* config, cuda::LaunchAttribute* attributes) const;

 private:
  const cuda::Api& api_;
  const cuda::Device device_;
  const size_t most_;
  std::map<uint64_t, cuda::Module> modules_;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_PROFILER_LOADED_KERNELS_H_
