#ifndef PHANTORA_TRAP_GPU_FRONT_SKIPPED_H_
#define PHANTORA_TRAP_GPU_FRONT_SKIPPED_H_

namespace phantora {

// What is in memory where a kernel should have written that was not executed.
enum class Skipped {
  kZeros,  // which take no memory
  kNoise,  // of products: small numbers, the same in every run; else zeros
  kStale,  // what was there
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_SKIPPED_H_
