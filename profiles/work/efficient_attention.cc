// PyTorch's memory-efficient attention.
#include <algorithm>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// i32 each, in bytes from the first parameter.
struct AttentionLayout {
  uint32_t heads, batch, queries, keys, width;
};
// AttentionKernel::Params, AttentionBackwardKernel::Params (PyTorch's mem_eff_attention).
// By their size in bytes: of PyTorch 2.3; 2.6 to 2.8; backwards 2.3, 2.6 to 2.7, 2.8.
struct EfficientLayout {
  uint32_t bytes;
  bool backward;
  AttentionLayout layout;
};
constexpr EfficientLayout kEfficient[] = {
    {272, false, {0xcc, 0xc8, 0x6c, 0x70, 0x64}}, {264, false, {0xc4, 0xc0, 0x68, 0x6c, 0x60}},
    {424, true, {0x9c, 0x150, 0x94, 0x98, 0x8c}}, {432, true, {0xa0, 0x158, 0x98, 0x9c, 0x90}},
    {456, true, {0xa0, 0x170, 0x98, 0x9c, 0x90}},
};

class Attention : public WorkForm {
 public:
  Attention(const AttentionLayout& layout, MathPrecision precision, bool backward, bool causal)
      : layout_(layout), precision_(precision), backward_(backward), causal_(causal) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    work.backward = backward_;
    const double heads = launch.At<int32_t>(layout_.heads),
                 batch = launch.At<int32_t>(layout_.batch),
                 queries = launch.At<int32_t>(layout_.queries),
                 keys = launch.At<int32_t>(layout_.keys), width = launch.At<int32_t>(layout_.width);
    work.shape = {batch, heads, queries, keys, width};
    for (const double size : work.shape) work.checked &= size >= 1 && size < kLargestDimension;
    work.tiles = static_cast<double>(launch.blocks());
    // Two products forwards, five backwards; under a causal mask half of each is left out.
    work.flops = (backward_ ? 10 : 4) * batch * heads * queries * keys * width / (causal_ ? 2 : 1);
    // Queries, keys, values and the result; backwards their gradients too.
    work.bytes =
        (backward_ ? 8 : 4) * Bytes(precision_) * batch * heads * std::max(queries, keys) * width;
    return work;
  }

 private:
  const AttentionLayout& layout_;
  const MathPrecision precision_;
  const bool backward_, causal_;
};

}  // namespace

FoundForm FindEfficientAttention(const KernelFacts& kernel) {
  const std::string_view symbol = kernel.symbol;
  if (Has(symbol, "fmha_cutlassF") || Has(symbol, "fmha_cutlassB")) {
    const bool backward = Has(symbol, "fmha_cutlassB");
    const MathPrecision precision = Has(symbol, "_bf16")  ? MathPrecision::kBf16
                                    : Has(symbol, "_f16") ? MathPrecision::kFp16
                                                          : MathPrecision::kFp32;
    for (const EfficientLayout& known : kEfficient) {
      if (known.backward != backward || known.bytes != kernel.parameter_bytes) continue;
      return {WorkFamily::kAttention,
              std::make_shared<Attention>(known.layout, precision, backward, false)};
    }
  }
  return {};
}

}  // namespace phantora
