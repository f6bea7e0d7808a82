// Leaves something where skipped kernels should have written.
#ifndef PHANTORA_TRAP_GPU_FRONT_SKIPPED_OUTPUTS_H_
#define PHANTORA_TRAP_GPU_FRONT_SKIPPED_OUTPUTS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "profiles/work/kernel_work.h"
#include "trap/gpu/front/launch_outputs.h"
#include "trap/gpu/front/skipped.h"
#include "uvm_model/address_space.h"
#include "uvm_model/page_store.h"

namespace phantora {

// Equally long pieces of memory, one every `stride` bytes.
struct Lines {
  uint64_t address = 0, bytes = 0, count = 1, stride = 0;
};

class SkippedOutputs {
 public:
  // `store`: of the GPUs' memory.
  SkippedOutputs(Skipped skipped, std::shared_ptr<PageStore> store)
      : skipped_(skipped), store_(std::move(store)) {}

  // Fills the regions that are exact, if the kernel's family says that extents do not depend on
  // data, and taints all.
  struct Left {
    uint64_t seen = 0;  // bytes that the host may see
    uint64_t made = 0;  // bytes of noise, which this machine had to write
  };
  Left Leave(AddressSpace& memory, absl::Span<const uint8_t> parameters,
             const LaunchOutputs& outputs, WorkFamily family);

 private:
  static void MakeZeros(AddressSpace& memory, const Lines& lines);
  // Numbers of fp16, or else of bf16.
  void MakeNoise(AddressSpace& memory, const Lines& lines, bool fp16);
  void FillNoise(uint64_t at, uint32_t least, uint32_t kinds);

  const Skipped skipped_;
  const std::shared_ptr<PageStore> store_;
  AddressSpace noise_;
  uint64_t filled_ = 0;  // regions with noise, so that not all are alike
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_SKIPPED_OUTPUTS_H_
