// Memory of a GPU at the addresses at which another process has it.
#ifndef PHANTORA_TOOLS_PROFILER_ADDRESS_MIRROR_H_
#define PHANTORA_TOOLS_PROFILER_ADDRESS_MIRROR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/profiler/cuda_api.h"

namespace phantora {

// All of it is backed by one small pool of physical memory, a piece of which lies at many
// addresses at once: so a GPU stands in for any number of others that are full. What is written
// in one place shows in others. The pool should be several times as large as the GPU's
// second-level cache, or everything would seem to lie in that. Lives as long as its context.
class AddressMirror {
 public:
  // `pool_bytes` are rounded up to 32 MiB. Errors: so much memory is not free.
  static absl::StatusOr<std::unique_ptr<AddressMirror>> Create(const cuda::Api& api,
                                                               cuda::Device device,
                                                               uint64_t pool_bytes);

  // From now on there is memory at these addresses (begin and length, in bytes, widened to pages
  // of 2 MiB), but where the driver library has its own in every process. Errors: something else
  // of this process lies there.
  absl::Status Map(const std::vector<std::pair<uint64_t, uint64_t>>& ranges);

  // Makes the whole pool zeros, or random numbers that are between -1 and 1 as bfloat16 and as
  // float, and small as float16; in the order of the stream.
  absl::Status Fill(bool zeros, cuda::Stream stream);

 private:
  struct Piece {
    cuda::Handle handle = 0;
    uint64_t bytes = 0;
  };
  AddressMirror(const cuda::Api& api, cuda::Device device) : api_(api) {
    access_.location.id = device;
  }
  // Widened to multiples of `unit`. ALREADY_EXISTS: some of it cannot be had.
  absl::Status MapRange(uint64_t first, uint64_t length, uint64_t unit);
  absl::Status MapGap(uint64_t begin, uint64_t bytes);
  const cuda::Api& api_;
  cuda::Access access_;
  std::vector<Piece> large_, small_;  // taken in turn
  size_t next_large_ = 0, next_small_ = 0;
  cuda::Pointer window_ = 0;  // the whole pool, once
  uint64_t window_bytes_ = 0;
  cuda::Pointer pattern_ = 0;
  std::map<uint64_t, uint64_t> mapped_;  // begin to end
};

// Why memory cannot be had at these addresses of this process, in words; empty where everything
// there is the driver library's, which has it in every process.
std::string WhatLiesAt(uint64_t begin, uint64_t end);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_PROFILER_ADDRESS_MIRROR_H_
