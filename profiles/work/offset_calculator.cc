#include "profiles/work/offset_calculator.h"

#include <algorithm>
#include <cmath>

namespace phantora {
namespace {

constexpr double kSector = 32;  // bytes: the least that is read from memory

}  // namespace

bool OffsetCalculator::Read(const LaunchShape& launch, uint64_t at, int count_tensors,
                            double count) {
  const auto dims = launch.At<uint32_t>(at);
  if (dims < 1 || dims > kMostDims || count_tensors < 1 || count_tensors > kMostTensors) {
    return false;
  }
  tensors = count_tensors;
  tensor.fill({});
  double product = 1;
  for (uint32_t dim = 0; dim < dims; ++dim) {
    const double size = launch.At<uint32_t>(at + kSizesAt + uint64_t{dim} * 12);
    product *= size;
    if (size <= 1) continue;
    for (int i = 0; i < tensors; ++i) {
      const uint64_t stride_at =
          at + kStridesAt +
          4 * (uint64_t{dim} * static_cast<uint32_t>(tensors) + static_cast<uint32_t>(i));
      const double stride = std::abs(static_cast<double>(launch.At<int32_t>(stride_at)));
      if (stride == 0) continue;
      Tensor& each = tensor[static_cast<size_t>(i)];
      each.elements *= size;
      each.bytes_each =
          std::min(each.bytes_each == 0 ? kSector : each.bytes_each, std::min(stride, kSector));
    }
  }
  return product == count;
}

}  // namespace phantora
