// Launches of kernels that are to be measured on a real GPU, with all that this takes, as text:
// what phantora-run --missing writes, and phantora-profile reads. JSON objects, one per line:
//   {"phantora_missing": 1, "gpu": ..., "product": ...}             the first
//   {"image": N, "bytes": ..., "zstd": "..."}                       a cubin, compressed, in base 64
//   {"launch": N, "image": N, "kernel": ..., "grid": [x, y, z], ...}  see LaunchRequest
// An image comes before the first launch of a kernel in it.
#ifndef PHANTORA_PROFILES_KERNELS_LAUNCH_REQUEST_H_
#define PHANTORA_PROFILES_KERNELS_LAUNCH_REQUEST_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace phantora {

struct LaunchRequest {
  uint64_t id = 0;
  std::optional<uint64_t> image;  // none: nobody knows where the code came from
  std::string kernel;             // as KernelTitle()
  std::string symbol;
  uint64_t fingerprint = 0;                 // PrefixFingerprint of its code
  std::array<uint32_t, 3> grid{}, block{};  // thread blocks, threads
  std::array<uint32_t, 3> cluster{};        // thread blocks; zeros: none
  uint32_t shared_bytes = 0;                // of a block, static and dynamic
  std::vector<uint8_t> parameters;
  // What parameters point to, in bytes of the GPU's address space: begin and length.
  std::vector<std::pair<uint64_t, uint64_t>> memory;
  // What its memory should hold: zeros, or else random numbers, with which products take more
  // power.
  bool zeros = true;
  std::string row;         // the first eight columns of kernels.tsv
  double modelled_us = 0;  // its price, and where that came from
  std::string source;
  uint64_t launches = 1;
};

struct RequestHeader {
  std::string gpu, product;
};

// One line, without its end.
std::string ToLine(const RequestHeader& header);
std::string ToLine(const LaunchRequest& request);
std::string ImageToLine(uint64_t id, absl::Span<const uint8_t> cubin);

// What a line says.
struct RequestLine {
  std::optional<RequestHeader> header;
  std::optional<LaunchRequest> request;
  struct Image {
    uint64_t id = 0;
    std::vector<uint8_t> cubin;
  };
  std::optional<Image> image;
};
// Exactly one of them. Errors: the line is none of these, or damaged.
absl::StatusOr<RequestLine> ParseRequestLine(std::string_view line);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNELS_LAUNCH_REQUEST_H_
