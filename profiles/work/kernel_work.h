// What a launch of a kernel does: its arithmetic, its traffic with memory, its shape.
#ifndef PHANTORA_PROFILES_WORK_KERNEL_WORK_H_
#define PHANTORA_PROFILES_WORK_KERNEL_WORK_H_

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"

namespace phantora {

enum class WorkFamily {
  kUnknown,  // no rule: what its code does, times threads, at low confidence
  kGemm,
  kAttention,
  kConvolution,
  kElementwise,
  kReduction,
  kRows,       // norms, softmax and losses: passes over rows
  kOptimizer,  // and whatever else takes lists of tensors
  kIndex,      // gather, scatter, embeddings
  kScan,       // sort, scan, top-k, selection
  kLayout,     // concatenation, changes of format
  kImage,      // pooling, batch norm, interpolation
  kGenerated,  // by Triton for torch.compile: what its code does, loops included
  kExperts,    // products of tokens with those experts that they are routed to
  kPeers,      // of several GPUs, which read each other's memory; shape: GPUs, bytes
  kOther,      // a rule of its own, bound by memory
};
inline constexpr int kWorkFamilies = 16;
const char* Name(WorkFamily family);

enum class MathPrecision { kFp64, kFp32, kTf32, kFp16, kBf16, kFp8, kInt8 };
inline constexpr int kMathPrecisions = 7;
const char* Name(MathPrecision precision);

// The memory that a launch sees.
class LaunchMemory {
 public:
  virtual ~LaunchMemory() = default;
  // false: not all of it is mapped; what was read until there is in `out`.
  virtual bool Read(uint64_t address, void* out, uint64_t bytes) const = 0;
};

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};  // blocks, threads
  absl::Span<const uint8_t> parameters;
  const LaunchMemory* memory = nullptr;  // if it can be looked at

  // 0 beyond the end.
  template <typename T>
  T At(uint64_t offset) const {
    T value{};
    if (offset <= parameters.size() && sizeof(T) <= parameters.size() - offset) {
      std::memcpy(&value, parameters.data() + offset, sizeof value);
    }
    return value;
  }
  uint64_t blocks() const { return uint64_t{grid[0]} * grid[1] * grid[2]; }
  uint64_t threads() const { return blocks() * block[0] * block[1] * block[2]; }
};

struct KernelWork {
  double flops = 0;  // multiply and add count as two
  MathPrecision precision = MathPrecision::kFp32;
  double bytes = 0;          // read and written, each once
  double cached_bytes = 0;   // by the second-level cache, as often as blocks ask for them
  double written_bytes = 0;  // of `bytes`, by a product when it has its results
  // Of a product, convolution or attention: thread blocks' worth of output tiles, so that
  // waves can be counted; 0 if that is not known.
  double tiles = 0;
  double blocks = 0, threads = 0;  // of the launch
  // Latencies of memory that a thread waits for one after the other; 0 if that is not known.
  double rounds = 0;
  // What other launches move that are measured together with this one: that adds up the parts of a
  // product, that makes fp8 of its input, that writes keys and values into the cache.
  double beside_bytes = 0;
  double clocks = 0;    // of a kernel that does nothing but wait: of its multiprocessor's clock
  bool tensor = false;  // the FLOPs of a kernel without a rule are tensor cores'
  bool backward = false;
  bool cutlass = false;  // a product by CUTLASS's own kernels, not by cuBLAS
  bool guessed = false;  // part of it is assumed, e.g. how often a loop is run
  bool checked = true;   // false: the launch contradicts the rule, and nothing is known
  // What tells it from other work of its family, in the family's own order: m, n, k, batch of
  // a product, as cuBLAS calls them (m features of n tokens); batch, heads, queries, keys, width of
  // attention; features, rows (tokens times experts of each), depth, experts that have any rows,
  // and the most rows that one has. 0 where there is nothing.
  std::array<double, 5> shape{};
  // Of causal attention: heads of keys and values (0: not known, or not causal), and the keys
  // that a query sees at most (0: all). Beside the sequences of `shape`, which have several
  // queries, there may be others with one query each, over so many keys on average.
  double kv_heads = 0, window = 0;
  // Experts' products in tiles of 64 x 64, as engines' older versions choose, which are slow for
  // many rows.
  bool tiles_of_64 = false;
  bool flash2 = false;  // by FlashAttention 2, not 3
  double single_queries = 0, single_keys = 0;
};

// Sizes beyond it, and more bytes than a launch moves, are taken for a misunderstanding.
inline constexpr double kLargestDimension = 1 << 28;
inline constexpr double kMostTraffic = 1e14;

}  // namespace phantora

#endif  // PHANTORA_PROFILES_WORK_KERNEL_WORK_H_
