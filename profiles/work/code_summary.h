// What a thread of a kernel does, read off its machine code.
#ifndef PHANTORA_PROFILES_WORK_CODE_SUMMARY_H_
#define PHANTORA_PROFILES_WORK_CODE_SUMMARY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace phantora {

// Global loads and stores, floating-point arithmetic, and the loops around them, on the way through
// the code that moves most: of two sides of a branch the other does not count (kernels that
// torch.compile fuses have one for each part of their grid). What is predicated off counts.
struct CodeSummary {
  // How often a loop is run: up to `bound`, to which a parameter of the launch may be added,
  // in steps.
  struct Trips {
    double step = 0;  // 0: not known
    double bound = 0;
    int32_t parameter_at = -1;  // i32, in bytes from the first parameter; -1: none
  };
  // The code of a loop that is in no smaller one, for one thread and one turn. The first is
  // what is outside all loops.
  struct Part {
    double loaded = 0, stored = 0;       // bytes
    double kept = 0;                     // bytes loaded that are asked to be kept in the cache
    double flops = 0, tensor_flops = 0;  // by ordinary units, by tensor cores
    // Latencies of memory that the thread waits for one after the other: a load that is asked for
    // before the last one is used costs none of its own.
    double rounds = 0;
    uint32_t outer = 0;  // the part around it, which comes before
    Trips trips;
  };

  uint32_t loaded = 0, stored = 0;  // bytes of all code, once
  uint32_t selects = 0;             // instructions that choose between two values
  std::vector<Part> parts = {Part()};
};

// Of Volta's instruction encoding and later (nvdisasm of public cubins shows it). The code is
// untrusted. `parameters_at` is where the first parameter is in constant bank 0. Linear in the
// length of the code, times loops in each other, of which there are at most 64.
CodeSummary Summarise(absl::Span<const uint8_t> code, uint32_t parameters_at);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_WORK_CODE_SUMMARY_H_
