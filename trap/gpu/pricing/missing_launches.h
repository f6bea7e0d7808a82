// What was launched that has not been measured: for a list of it, and to have it measured at once.
#ifndef PHANTORA_TRAP_GPU_PRICING_MISSING_LAUNCHES_H_
#define PHANTORA_TRAP_GPU_PRICING_MISSING_LAUNCHES_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "profiles/kernels/launch_request.h"
#include "trap/gpu/front/gpu_services.h"
#include "uvm_model/address_space.h"

namespace phantora {

class KernelImage;

// Measures launches on a real GPU.
class LaunchMeasurer {
 public:
  virtual ~LaunchMeasurer() = default;
  struct Measured {
    double microseconds = 0, error = 0;  // relative
  };
  // `image` has the kernel's code; nullptr if the request names none. nullopt: it could not be
  // measured.
  virtual std::optional<Measured> Measure(const LaunchRequest& request,
                                          const KernelImage* image) = 0;
};

// Launches that differ in nothing but their pointers count as one. Not thread-safe.
class MissingLaunches {
 public:
  struct Options {
    RequestHeader header;
    std::string file;                    // to be written; empty for none
    LaunchMeasurer* measurer = nullptr;  // nullptr for none
  };
  // Errors: the file cannot be created.
  static absl::StatusOr<std::unique_ptr<MissingLaunches>> Open(Options options);
  ~MissingLaunches();

  // `price` is what the launch, with all of its parameters, was priced with and `memory` the
  // address space that they point into. Returns the price that it has instead: the same if it was
  // measured before, or cannot be.
  Price Of(const KernelLaunch& launch, const Price& price, AddressSpace& memory);

  // Writes the file: what takes most time first. Errors: it could not be written.
  absl::Status Close();

  uint64_t measured() const { return measured_; }
  uint64_t failed() const { return failed_; }  // to be measured

 private:
  struct Entry {
    LaunchRequest request;
    std::shared_ptr<const KernelImage> image;
    std::optional<LaunchMeasurer::Measured> measured;
  };
  explicit MissingLaunches(Options options) : options_(std::move(options)) {}
  // What the parameters point to.
  static std::vector<std::pair<uint64_t, uint64_t>> MemoryOf(absl::Span<const uint8_t> parameters,
                                                             AddressSpace& memory);
  bool Write(const std::string& line);
  // The number of its image, and whether that is new.
  std::pair<uint64_t, bool> NumberOf(const KernelImage& image);

  const Options options_;
  std::FILE* file_ = nullptr;
  absl::flat_hash_map<std::string, Entry> entries_;
  std::map<std::pair<const void*, uint64_t>, uint64_t> images_;  // numbers, by place
  uint64_t bytes_ = 0, left_out_ = 0, measured_ = 0, failed_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRICING_MISSING_LAUNCHES_H_
