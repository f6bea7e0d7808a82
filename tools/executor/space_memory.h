// Memory of a GPU at addresses that somebody else chooses.
#ifndef PHANTORA_TOOLS_EXECUTOR_SPACE_MEMORY_H_
#define PHANTORA_TOOLS_EXECUTOR_SPACE_MEMORY_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "tools/profiler/cuda_api.h"

namespace phantora {

// Lives as long as its context.
class SpaceMemory {
 public:
  SpaceMemory(const cuda::Api* api, cuda::Device device, cuda::Stream stream)
      : api_(*api), stream_(stream) {
    access_.location.id = device;
  }
  // Whether a piece of 2 MiB may be there. Errors: OUT_OF_RANGE: the driver library has its own
  // there; ALREADY_EXISTS: something else of this process lies there.
  absl::Status Reserve(uint64_t address);
  // Zeros, in the order of the stream. Errors: there is no more memory.
  absl::Status Map(uint64_t address);
  // When all that was begun is over.
  absl::Status Unmap(uint64_t address);
  // Of a file, which the GPU reads and writes. Errors: as Reserve; FAILED_PRECONDITION: the driver
  // refuses.
  absl::Status MapHost(uint64_t address, uint64_t bytes, int file, uint64_t offset);
  absl::Status UnmapHost(uint64_t address, uint64_t bytes);

 private:
  bool TryReserve(uint64_t address);

  const cuda::Api& api_;
  const cuda::Stream stream_;
  cuda::Access access_;
  std::map<uint64_t, uint64_t> reserved_;    // begin to end
  std::map<uint64_t, cuda::Handle> pieces_;  // by address
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_EXECUTOR_SPACE_MEMORY_H_
