// The cubin that a kernel was loaded from.
#ifndef PHANTORA_TRAP_GPU_KERNELS_KERNEL_IMAGE_H_
#define PHANTORA_TRAP_GPU_KERNELS_KERNEL_IMAGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profiles/kernels/fat_binary.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

class KernelImage {
 public:
  // In a library, which stays open.
  KernelImage(std::shared_ptr<const UniqueFd> library, CubinPlace place, std::string kernel)
      : library_(std::move(library)), place_(place), kernel_(std::move(kernel)) {}
  // In the memory of a process.
  explicit KernelImage(std::shared_ptr<const std::vector<uint8_t>> cubin)
      : cubin_(std::move(cubin)) {}

  // Equal for kernels that are in the same place of a library, or the same cubin in memory.
  std::pair<const void*, uint64_t> place() const {
    return cubin_ != nullptr ? std::pair<const void*, uint64_t>(cubin_.get(), 0)
                             : std::pair<const void*, uint64_t>(library_.get(), place_.offset);
  }
  // The whole cubin. nullopt: the library has changed since, or cannot be read.
  std::optional<std::vector<uint8_t>> Read() const;

 private:
  std::shared_ptr<const UniqueFd> library_;
  CubinPlace place_;
  std::string kernel_;
  std::shared_ptr<const std::vector<uint8_t>> cubin_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_KERNELS_KERNEL_IMAGE_H_
