// Attention of cuDNN 9 for Hopper, which PyTorch chooses before FlashAttention since 2.8.
#include <algorithm>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// The first parameter: batch, heads of queries, keys and values, queries, keys, width; i32 each.
// Seen in launches of cuDNN 9.1 for attention of known size, with 16 parameters forwards and 24
// backwards.
enum Size : size_t { kBatch, kHeads, kKeyHeads, kValueHeads, kQueries, kKeys, kWidth, kSizes };
constexpr uint16_t kSizesBytes = 4 * kSizes;
constexpr size_t kLeastBackwards = 20;
// A causal mask is one select for each score that a thread has at a time, of which there are 32
// backwards and 64 forwards; without a mask the code has ten at most.
constexpr uint32_t kLeastSelects = 32;
// Keys that do not fill a tile of scores are masked too.
constexpr int32_t kTile = 128;

// cuDNN 9.19 says the width of values and two numbers more behind the sizes, and which way a kernel
// goes in its name; a causal mask has a parameter of 4 bytes of its own, besides the two that all
// have (seen in launches of known attention, forwards and backwards, with and without a mask).
constexpr uint16_t kLongSizesBytes = 40;
constexpr auto kPlainNumbers = 2;

class CudnnAttention : public WorkForm {
 public:
  // `causal`: that the mask is causal is known, not only that there is one.
  CudnnAttention(uint32_t offset, bool backward, bool masked, bool causal)
      : offset_(offset), backward_(backward), masked_(masked), causal_(causal) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = MathPrecision::kBf16;  // or fp16, as fast
    work.backward = backward_;
    double sizes[kSizes];
    for (size_t i = 0; i < kSizes; ++i) {
      sizes[i] = launch.At<int32_t>(offset_ + 4 * i);
      work.checked &= sizes[i] >= 1 && sizes[i] < kLargestDimension;
    }
    work.checked &= sizes[kKeyHeads] <= sizes[kHeads] && sizes[kValueHeads] <= sizes[kHeads];
    if (!work.checked) return work;
    const double batch = sizes[kBatch], heads = sizes[kHeads], queries = sizes[kQueries],
                 keys = sizes[kKeys], width = sizes[kWidth];
    work.shape = {batch, heads, queries, keys, width};
    const bool whole = causal_ || launch.At<int32_t>(offset_ + 4 * kKeys) % kTile == 0;
    const bool causal = masked_ && whole;
    work.guessed = masked_ && !whole;  // the mask may be one of its ends only
    work.flops = (backward_ ? 10 : 4) * batch * heads * queries * keys * width / (causal ? 2 : 1);
    // Queries, keys, values and the result; backwards their gradients too.
    work.bytes = (backward_ ? 2 : 1) * Bytes(work.precision) * batch * width *
                 (2 * heads * queries + (sizes[kKeyHeads] + sizes[kValueHeads]) * keys);
    return work;
  }

 private:
  const uint32_t offset_;
  const bool backward_, masked_, causal_;
};

// Before and after: over elements of batch, heads, queries and width, which the first four i32 say;
// fmha_reduce_head has the heads of keys as the third.
class CudnnPass : public WorkForm {
 public:
  CudnnPass(uint32_t offset, double bytes_each, bool adds_heads)
      : offset_(offset), bytes_each_(bytes_each), adds_heads_(adds_heads) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.backward = true;
    double sizes[5];
    const size_t count = adds_heads_ ? 5 : 4;
    for (size_t i = 0; i < count; ++i) {
      sizes[i] = launch.At<int32_t>(offset_ + 4 * i);
      work.checked &= sizes[i] >= 1 && sizes[i] < kLargestDimension;
    }
    if (!work.checked) return work;
    if (adds_heads_) {
      work.bytes = bytes_each_ * sizes[0] * (sizes[1] + sizes[2]) * sizes[3] * sizes[4];
    } else {
      work.bytes = bytes_each_ * sizes[0] * sizes[1] * sizes[2] * sizes[3];
    }
    return work;
  }

 private:
  const uint32_t offset_;
  const double bytes_each_;
  const bool adds_heads_;
};

FoundForm Pass(const KernelFacts& kernel, double bytes_each, bool adds_heads) {
  for (const auto& parameter : kernel.parameters) {
    if (parameter.size != 4) continue;
    return {WorkFamily::kAttention,
            std::make_shared<CudnnPass>(parameter.offset, bytes_each, adds_heads)};
  }
  return {};
}

}  // namespace

FoundForm FindCudnnAttention(const KernelFacts& kernel) {
  const std::string_view symbol = kernel.symbol;
  if (Has(symbol, "cudnn_generated_fort_native_sdpa")) {
    if (kernel.parameters.empty()) return {};
    if (kernel.parameters[0].size == kLongSizesBytes) {
      const auto numbers = std::count_if(kernel.parameters.begin(), kernel.parameters.end(),
                                         [](const auto& each) { return each.size == 4; });
      const bool causal = numbers > kPlainNumbers;
      return {WorkFamily::kAttention, std::make_shared<CudnnAttention>(
                                          kernel.Offset(0), Has(symbol, "bprop"), causal, causal)};
    }
    if (kernel.parameters[0].size != kSizesBytes) return {};
    const bool backward = kernel.parameters.size() >= kLeastBackwards;
    return {WorkFamily::kAttention,
            std::make_shared<CudnnAttention>(kernel.Offset(0), backward,
                                             kernel.code->selects >= kLeastSelects, false)};
  }
  if (!Has(symbol, "cudnn6fusion")) return {};
  if (Has(symbol, "compute_dot_do_o")) return Pass(kernel, 4, false);      // two times 16 bits
  if (Has(symbol, "convert_dq_to_16bits")) return Pass(kernel, 6, false);  // fp32 to 16 bits
  if (Has(symbol, "fmha_reduce_head")) return Pass(kernel, 2, true);       // 16 bits to 16 bits
  return {};
}

}  // namespace phantora
