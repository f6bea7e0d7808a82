// The kernel log: every distinct launch of a run, with what was made of it.
#ifndef PHANTORA_TRAP_GPU_PRICING_KERNEL_LOG_H_
#define PHANTORA_TRAP_GPU_PRICING_KERNEL_LOG_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trap/gpu/front/gpu_services.h"

namespace phantora {

// For those who write rules, and to see what a price was made from. Not thread-safe.
class KernelLog {
 public:
  // `gpu` is the personality's name. Errors: the file cannot be created.
  static absl::StatusOr<std::unique_ptr<KernelLog>> Open(const std::string& path, std::string gpu);
  ~KernelLog();

  // `price` is what the launch was priced with. Launches of a kernel that differ in nothing
  // but their pointers count as one.
  void Add(const KernelLaunch& launch, const Price& price);

  // Writes the file: a JSON object per line, in the order of first launches. Past a bound,
  // launches are only counted, in the last line. Errors: it could not be written.
  absl::Status Close();

 private:
  struct Entry {
    uint64_t order = 0, launches = 0;
    std::string json;  // without its end
  };
  KernelLog() = default;

  std::string path_, gpu_;
  std::FILE* file_ = nullptr;
  absl::flat_hash_map<std::string, Entry> entries_;
  uint64_t bytes_ = 0, left_out_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRICING_KERNEL_LOG_H_
