// When are two launches the same work?
#ifndef PHANTORA_TRAP_GPU_PRICING_LAUNCH_KEY_H_
#define PHANTORA_TRAP_GPU_PRICING_LAUNCH_KEY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "trap/gpu/front/gpu_services.h"

namespace phantora {

// Whether the eight bytes at `at` of some parameters look like an address on a GPU.
bool LooksLikePointer(absl::Span<const uint8_t> parameters, size_t at);

// Launches of a kernel that differ in nothing but their pointers have the same.
std::string LaunchKey(const KernelLaunch& launch, const Price& price);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRICING_LAUNCH_KEY_H_
