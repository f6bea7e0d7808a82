#include "trap/gpu/pricing/launch_key.h"

#include <cstring>

#include "absl/hash/hash.h"
#include "absl/strings/str_format.h"
#include "trap/gpu/front/qmd.h"
#include "trap/gpu/kernels/known_kernel.h"

namespace phantora {

bool LooksLikePointer(absl::Span<const uint8_t> parameters, size_t at) {
  if (at % 8 != 0 || at + 8 > parameters.size()) return false;
  uint32_t upper;
  std::memcpy(&upper, parameters.data() + at + 4, 4);
  return upper >= 0x100 && upper < 0x10000;
}

std::string LaunchKey(const KernelLaunch& launch, const Price& price) {
  uint64_t hash = launch.parameters.size();
  for (size_t at = 0; at + 4 <= launch.parameters.size(); at += 4) {
    uint32_t word;
    std::memcpy(&word, launch.parameters.data() + at, 4);
    const bool pointer = LooksLikePointer(launch.parameters, at);
    if (pointer) at += 4;
    hash = absl::HashOf(hash, pointer ? 0 : word);
  }
  const Qmd& qmd = *launch.qmd;
  return absl::StrFormat("%s %x %d,%d,%d %d,%d,%d %d %.0f %.0f %d",
                         launch.kernel == nullptr ? "" : launch.kernel->symbol, hash, qmd.grid.x,
                         qmd.grid.y, qmd.grid.z, qmd.block.x, qmd.block.y, qmd.block.z,
                         qmd.shared_bytes, price.flops, price.bytes, price.time.picoseconds());
}

}  // namespace phantora
