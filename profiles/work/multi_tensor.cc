// at::native::multi_tensor_apply: fused optimizers and torch._foreach_*.
#include <algorithm>
#include <array>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// How much one launch takes (depth_to_max_tensors and so on of MultiTensorApply.cuh). From CUDA 13
// on kernels are compiled for 32 KiB of parameters.
struct Limits {
  std::array<uint32_t, 5> tensors, with_scalars;  // of so many lists
  uint32_t blocks;
  uint32_t index_bytes;  // of a tensor's number in the chunk table
};
constexpr Limits kSmallLimits = {{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320, 1};
constexpr Limits kLargeLimits = {{770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}, 2240, 2};
constexpr uint32_t kMostSmallParameters = 4096;  // bytes
constexpr int64_t kChunk = 65536;                // elements

// TensorListMetadata<depth>, its relatives, and the chunk table behind them
// (ATen/native/cuda/MultiTensorApply.cuh).
struct Lists {
  uint32_t depth = 0, tensors = 0;  // lists, tensors of each that fit
  uint32_t chunks_at = 0;           // bytes before the chunk table
  uint32_t blocks = 0, index_bytes = 0;
};

class MultiTensor : public WorkForm {
 public:
  MultiTensor(const Lists& lists, double bytes_each) : lists_(lists), bytes_each_(bytes_each) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    const uint32_t sizes_at = lists_.depth * lists_.tensors * 8;
    double elements = 0;
    for (uint32_t block = 0; block < std::min(launch.grid[0], lists_.blocks); ++block) {
      const uint32_t at = lists_.chunks_at + lists_.index_bytes * block;
      const uint32_t tensor =
          lists_.index_bytes == 1 ? launch.At<uint8_t>(at) : launch.At<uint16_t>(at);
      const int64_t chunk =
          launch.At<int32_t>(lists_.chunks_at + lists_.index_bytes * lists_.blocks + 4 * block);
      const auto size = static_cast<double>(launch.At<int64_t>(sizes_at + 8 * tensor));
      elements += std::clamp(size - static_cast<double>(chunk) * kChunk, 0.0, double{kChunk});
    }
    work.bytes = elements * bytes_each_;
    work.flops = elements * lists_.depth;
    work.checked = elements > 0;
    return work;
  }

 private:
  const Lists lists_;
  const double bytes_each_;
};

// Passes over an element of the lists, reads and writes together.
double PassesOf(std::string_view symbol, int depth) {
  // Reads parameter, gradient and its state, and writes all but the gradient.
  if (Has(symbol, "FusedOptimizerTensorListMetadata") || Has(symbol, "FusedSgdMathFunctor")) {
    return 2.0 * depth - 1;
  }
  if (Has(symbol, "LpNorm") || Has(symbol, "LpMax") || Has(symbol, "ZeroFunctor")) return 1;
  // <T, depth, r_args_depth, res_arg_index>: reads so many lists, and writes one. A type may
  // stand for T, so the last such run counts.
  const size_t functor = symbol.find("FunctorI");
  if (functor != symbol.npos) {
    std::string_view rest = symbol.substr(functor);
    for (size_t at = rest.find("Li"); at != rest.npos; at = rest.find("Li", at + 2)) {
      if (at + 11 < rest.size() && rest.substr(at + 3, 3) == "ELi" &&
          rest.substr(at + 7, 3) == "ELi" && rest[at + 6] >= '1' && rest[at + 6] <= '5') {
        return rest[at + 6] - '0' + 1;
      }
    }
  }
  return depth + 1;
}

}  // namespace

FoundForm FindMultiTensor(const KernelFacts& kernel) {
  if (!Has(kernel.symbol, "multi_tensor_apply_kernel")) return {};
  const Limits& limits =
      kernel.parameter_bytes > kMostSmallParameters ? kLargeLimits : kSmallLimits;
  const size_t at = kernel.symbol.find("MetadataI");
  const size_t digit = at == kernel.symbol.npos ? at : kernel.symbol.find("Li", at);
  if (digit == kernel.symbol.npos || digit + 2 >= kernel.symbol.size()) return {};
  const int depth = kernel.symbol[digit + 2] - '0';
  if (depth < 1 || depth > 5) return {};
  const bool scalars = Has(kernel.symbol, "ScalarListMetadata"),
             optimizer = Has(kernel.symbol, "FusedOptimizerTensorListMetadata");
  Lists lists = {.depth = static_cast<uint32_t>(depth)};
  lists.tensors = (scalars ? limits.with_scalars : limits.tensors)[lists.depth - 1];
  lists.blocks = limits.blocks;
  lists.index_bytes = limits.index_bytes;
  lists.chunks_at = lists.depth * lists.tensors * 8 + lists.tensors * 8 +
                    (scalars ? lists.tensors * 4 : 0) + (optimizer ? lists.tensors * 8 : 0);
  return {WorkFamily::kOptimizer,
          std::make_shared<MultiTensor>(
              lists, PassesOf(kernel.symbol, depth) * ElementBytes(kernel.symbol, "FunctorI"))};
}

}  // namespace phantora
