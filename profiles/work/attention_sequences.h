// What attention of sequences of different lengths does, as FlashAttention is told of them.
#ifndef PHANTORA_PROFILES_WORK_ATTENTION_SEQUENCES_H_
#define PHANTORA_PROFILES_WORK_ATTENTION_SEQUENCES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "profiles/work/kernel_work.h"

namespace phantora {

// Sequences that are looked at, at most.
inline constexpr double kMostSequences = 1 << 16;

// `count` i32 from GPU memory; empty: they cannot be read.
std::vector<int32_t> ReadLengths(const LaunchShape& launch, uint64_t address, size_t count);

// From where each sequence begins (one more than there are), how long it is; false: that cannot be,
// or they end past `all`, and `lengths`, of which there are as many as sequences, stay.
bool LengthsFromStarts(const std::vector<int32_t>& starts, double all,
                       std::vector<int32_t>& lengths);

struct AttentionHeads {
  double heads = 1, kv_heads = 1, width = 1;
  bool causal = false;
  double window = 0;  // keys that a query sees at most; 0: all
};

// Adds to `work`, of known precision, what sequences of so many queries and keys do, and says its
// shape: as many equal sequences, with as many pairs of queries and keys. `kv_heads` of `work` is
// set if each query sees only what comes before it.
void AddSequences(const std::vector<int32_t>& queries, const std::vector<int32_t>& keys,
                  const AttentionHeads& of, KernelWork& work);

}  // namespace phantora

#endif  // PHANTORA_PROFILES_WORK_ATTENTION_SEQUENCES_H_
