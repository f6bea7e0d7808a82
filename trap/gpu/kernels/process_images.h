// What a process has mapped: libraries that may hold kernels, and cubins in its memory.
#ifndef PHANTORA_TRAP_GPU_KERNELS_PROCESS_IMAGES_H_
#define PHANTORA_TRAP_GPU_KERNELS_PROCESS_IMAGES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "profiles/kernels/cubin.h"

namespace phantora {

// The files of its executable mappings, each once, by names that work from here
// (/proc/PID/root/...).
std::vector<std::string> MappedLibraries(pid_t process);

// Finds cubins in the anonymous writable memory of a process: libcuda keeps a copy of every
// image that it has loaded, also of those that were compiled at run time (NVRTC, Triton, XLA,
// PTX).
class ProcessImages {
 public:
  explicit ProcessImages(pid_t process) : process_(process) {}

  // Hands the kernels of each cubin to `found`, and the cubin, none of which outlives the call,
  // until that says that it has what it wants. Looks first into memory that was not there before
  // and behind what was found last: there is what has been loaded since. 0.3 ms per MiB that the
  // process has touched; gives up after 8 GiB or ten seconds, whatever is in it.
  using Found = std::function<bool(std::vector<CubinKernel>, absl::Span<const uint8_t> cubin)>;
  void Search(const Found& found);

 private:
  const pid_t process_;
  std::set<std::pair<uint64_t, uint64_t>> known_;  // mappings, begin and end
  uint64_t last_found_ = 0;                        // address
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNELS_PROCESS_IMAGES_H_
