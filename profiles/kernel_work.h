// What a kernel does, from its name and the parameters of a launch.
#ifndef PHANTORA_PROFILES_KERNEL_WORK_H_
#define PHANTORA_PROFILES_KERNEL_WORK_H_

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "profiles/cubin.h"

namespace phantora {

enum class WorkFamily {
  kUnknown,  // no rule: loads and stores in the code times threads, at low confidence
  kGemm,
  kAttention,
  kElementwise,
  kReduction,
  kRows,  // norms and softmax: passes over rows
  kOptimizer,
  kOther,  // a rule of its own, bound by memory
};
const char* Name(WorkFamily family);

enum class MathPrecision { kFp64, kFp32, kTf32, kFp16, kBf16, kFp8 };

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};  // blocks, threads
  absl::Span<const uint8_t> parameters;

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
  double bytes = 0;  // read and written, each once
  // Of a matrix product: thread blocks' worth of output tiles, so that waves can be counted;
  // 0 if that is not known.
  double tiles = 0;
  bool backward = false;
  bool checked = true;  // false: the launch contradicts the rule, and nothing is known
};

// Bytes that the global loads and stores of one pass over the code move.
struct CodeTraffic {
  uint32_t loaded = 0, stored = 0;
};
// LDG and STG of Volta's instruction encoding and later: the opcode is in the low nine bits,
// the width in bits 73..75 (nvdisasm of public cubins shows both).
CodeTraffic TrafficOf(absl::Span<const uint8_t> code);

// Made once per kernel; a launch is then a few loads and multiplications.
class WorkRule {
 public:
  // `symbol` is the name in the symbol table; all of this is untrusted.
  WorkRule(std::string_view symbol, absl::Span<const CubinKernel::Parameter> parameters,
           CodeTraffic traffic);
  WorkRule() = default;

  WorkFamily family() const { return family_; }
  // How many bytes of parameters it needs.
  uint32_t parameter_bytes() const { return parameter_bytes_; }
  KernelWork Of(const LaunchShape& launch) const;

 private:
  enum class Form {
    kStatic,         // traffic per thread
    kGemm,           // see GemmLayout
    kSplitK,         // sum of partial products
    kAttention,      // see AttentionLayout; `scale_` FLOPs per query, key and element of a head
    kAttentionPass,  // over its queries, `scale_` bytes per element
    kCount,          // i32 or i64 count x bytes per element
    kReduce,         // at::native::ReduceConfig in the parameters
    kRowsByGrid,     // a row per block: columns in the parameters
    kMatrix,         // two i64, one behind the other: rows and columns
    kMultiTensor,    // chunk tables of at::native::multi_tensor_apply
  };
  struct GemmLayout;
  static const GemmLayout kGemmLayouts[];
  struct AttentionLayout;
  static const AttentionLayout kFlash, kEfficientForward, kEfficientBackward;

  void Choose(std::string_view symbol, absl::Span<const CubinKernel::Parameter> parameters,
              CodeTraffic traffic);
  void ChooseGemm(std::string_view symbol, const GemmLayout& layout);
  void ChooseAttention(const AttentionLayout& layout, bool backward);
  void ChooseMultiTensor(std::string_view symbol);
  KernelWork Gemm(const LaunchShape& launch) const;
  KernelWork Attention(const LaunchShape& launch) const;
  KernelWork Reduce(const LaunchShape& launch) const;
  KernelWork MultiTensor(const LaunchShape& launch) const;

  WorkFamily family_ = WorkFamily::kUnknown;
  Form form_ = Form::kStatic;
  MathPrecision precision_ = MathPrecision::kFp32;
  const GemmLayout* gemm_ = nullptr;
  const AttentionLayout* attention_ = nullptr;
  bool backward_ = false;
  uint32_t tile_m_ = 0, tile_n_ = 0;                  // of a matrix product
  double scale_ = 0;                                  // bytes per element, or FLOPs per product
  uint32_t at_ = 0;                                   // offset of a count
  bool wide_ = false;                                 // it is an i64
  uint32_t tensors_ = 0, lists_ = 0, blocks_at_ = 0;  // of chunk tables
  uint32_t parameter_bytes_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_PROFILES_KERNEL_WORK_H_
