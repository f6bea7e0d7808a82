// The arithmetic of NCCL's reductions.
#ifndef PHANTORA_TRAP_NCCL_REDUCTION_H_
#define PHANTORA_TRAP_NCCL_REDUCTION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace phantora {

// Reduces contributions in the order of ranks. Floating-point types of 16 and 8 bits are summed in
// 32 bits and rounded once, to nearest even; NCCL rounds at each step, in the order of its
// algorithm, so that last bits may differ.
class Reduction {
 public:
  // `type`: an ncclDataType_t there is; `operation`: nccl::kSum to kPreMulSum; `bytes` of each
  // contribution, a multiple of the type's.
  Reduction(uint8_t type, uint8_t operation, uint64_t bytes);

  // `scalar`: what kPreMulSum multiplies the contribution with, in the type's bits.
  void Add(absl::Span<const uint8_t> contribution, uint64_t scalar);
  // The result; `ranks` contributions have been added, which the average divides by.
  std::vector<uint8_t> Result(int ranks) const;

 private:
  const uint8_t type_, operation_;
  const uint64_t elements_;
  bool first_ = true;
  // One of these, by the type.
  std::vector<float> floats_;
  std::vector<double> doubles_;
  std::vector<int64_t> integers_;  // of unsigned types, the same bits
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_NCCL_REDUCTION_H_
