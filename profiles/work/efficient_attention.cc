// PyTorch's memory-efficient attention.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// i32 each, in bytes from the first parameter; `mask` is a byte (custom_mask_type: 0 none, else
// causal), 0 where it is not known.
struct AttentionLayout {
  uint32_t heads, batch, queries, keys, width, mask;
};
// AttentionKernel::Params, AttentionBackwardKernel::Params (PyTorch's mem_eff_attention), by their
// size in bytes. Of PyTorch 2.3; 2.6 to 2.9; 2.10; backwards 2.3, 2.6 to 2.7, 2.8 to 2.9, 2.10.
// Where two have one size, the grid tells.
struct EfficientLayout {
  uint32_t bytes;
  bool backward;
  AttentionLayout layout;
};
constexpr EfficientLayout kEfficient[] = {
    {272, false, {0xcc, 0xc8, 0x6c, 0x70, 0x64, 0}},
    {264, false, {0xc4, 0xc0, 0x68, 0x6c, 0x60, 0x74}},
    {272, false, {0xc4, 0xc0, 0x68, 0x6c, 0x60, 0x74}},
    {424, true, {0x9c, 0x150, 0x94, 0x98, 0x8c, 0}},
    {432, true, {0xa0, 0x158, 0x98, 0x9c, 0x90, 0xa4}},
    {456, true, {0xa0, 0x170, 0x98, 0x9c, 0x90, 0xa4}},
    {464, true, {0xa0, 0x178, 0x98, 0x9c, 0x90, 0xa4}},
};

class Attention : public WorkForm {
 public:
  Attention(std::vector<AttentionLayout> layouts, MathPrecision precision, bool backward)
      : layouts_(std::move(layouts)), precision_(precision), backward_(backward) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    work.backward = backward_;
    // A block for each head and sequence, and some queries or keys.
    const auto fits = [&launch](const AttentionLayout& layout) {
      return launch.At<uint32_t>(layout.heads) == launch.grid[1] &&
             launch.At<uint32_t>(layout.batch) == launch.grid[2];
    };
    const auto found = std::find_if(layouts_.begin(), layouts_.end(), fits);
    work.checked &= found != layouts_.end();
    const AttentionLayout& layout = work.checked ? *found : layouts_.front();
    const double heads = launch.At<int32_t>(layout.heads), batch = launch.At<int32_t>(layout.batch),
                 queries = launch.At<int32_t>(layout.queries),
                 keys = launch.At<int32_t>(layout.keys), width = launch.At<int32_t>(layout.width);
    const bool causal = layout.mask != 0 && launch.At<uint8_t>(layout.mask) != 0;
    work.shape = {batch, heads, queries, keys, width};
    for (const double size : work.shape) work.checked &= size >= 1 && size < kLargestDimension;
    work.tiles = static_cast<double>(launch.blocks());
    // Two products forwards, five backwards; under a causal mask half of each is left out.
    work.flops = (backward_ ? 10 : 4) * batch * heads * queries * keys * width / (causal ? 2 : 1);
    // Queries, keys, values and the result; backwards their gradients too.
    work.bytes =
        (backward_ ? 8 : 4) * Bytes(precision_) * batch * heads * std::max(queries, keys) * width;
    return work;
  }

 private:
  const std::vector<AttentionLayout> layouts_;  // one at least
  const MathPrecision precision_;
  const bool backward_;
};

}  // namespace

FoundForm FindEfficientAttention(const KernelFacts& kernel) {
  const std::string_view symbol = kernel.symbol;
  if (Has(symbol, "fmha_cutlassF") || Has(symbol, "fmha_cutlassB")) {
    const bool backward = Has(symbol, "fmha_cutlassB");
    const MathPrecision precision = Has(symbol, "_bf16")  ? MathPrecision::kBf16
                                    : Has(symbol, "_f16") ? MathPrecision::kFp16
                                                          : MathPrecision::kFp32;
    std::vector<AttentionLayout> layouts;
    for (const EfficientLayout& known : kEfficient) {
      if (known.backward == backward && known.bytes == kernel.parameter_bytes) {
        layouts.push_back(known.layout);
      }
    }
    if (layouts.empty()) return {};
    return {WorkFamily::kAttention,
            std::make_shared<Attention>(std::move(layouts), precision, backward)};
  }
  return {};
}

}  // namespace phantora
