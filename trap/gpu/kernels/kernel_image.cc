#include "trap/gpu/kernels/kernel_image.h"

#include <unistd.h>

namespace phantora {

std::optional<std::vector<uint8_t>> KernelImage::Read() const {
  if (cubin_ != nullptr) return *cubin_;
  if (place_.bytes > kLargestCubin) return std::nullopt;
  std::vector<uint8_t> bytes(place_.bytes);
  for (uint64_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(library_->get(), bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(place_.offset + done));
    if (got <= 0) return std::nullopt;
    done += static_cast<uint64_t>(got);
  }
  return CubinAt(place_, bytes, kernel_);
}

}  // namespace phantora
