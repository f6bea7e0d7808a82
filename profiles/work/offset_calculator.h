// at::native's OffsetCalculator in a launch's parameters: how a kernel over elements walks
// through each of its tensors.
#ifndef PHANTORA_PROFILES_WORK_OFFSET_CALCULATOR_H_
#define PHANTORA_PROFILES_WORK_OFFSET_CALCULATOR_H_

#include <array>
#include <cstdint>

#include "profiles/work/kernel_work.h"

namespace phantora {

// OffsetCalculator<NARGS, uint32_t> of ATen/cuda/detail/OffsetCalculator.cuh: dims, sizes as
// {divisor, m1, shift}, strides in bytes.
struct OffsetCalculator {
  static constexpr uint32_t kMostDims = 25, kSizesAt = 4, kStridesAt = kSizesAt + kMostDims * 12;
  static constexpr int kMostTensors = 8;
  static constexpr uint32_t Bytes(uint32_t tensors) { return kStridesAt + kMostDims * 4 * tensors; }

  struct Tensor {
    double elements = 1;  // different ones: where a stride is 0, they are the same
    // Between neighbours along the densest dimension, at most a sector of memory: what of it
    // is not used is read all the same. 0 if there is only one element.
    double bytes_each = 0;
  };
  int tensors = 0;
  std::array<Tensor, kMostTensors> tensor;

  // Reads one at `at` that goes through `count` elements of `tensors` tensors. False: there
  // is none.
  bool Read(const LaunchShape& launch, uint64_t at, int tensors, double count);
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_WORK_OFFSET_CALCULATOR_H_
