// Kernels whose traffic is a sum of products of a few of their parameters.
#include <algorithm>
#include <array>
#include <vector>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// Instead of the number of a parameter, of which the first is 1: blocks of the grid in x,
// threads of the launch.
constexpr int kNothing = 0, kBlocksX = 100, kThreads = 101;

struct Term {
  double elements = 0, bytes = 0;  // per item: so many elements, and so many bytes
  // How many items: a product of parameters, i32 or i64 by their size, over others.
  std::array<int8_t, 4> times = {};
  std::array<int8_t, 2> over = {};
};

struct Row {
  std::string_view pattern;  // in the symbol
  WorkFamily family;
  std::string_view element;  // the type of an element follows it in the symbol
  std::array<Term, 2> terms;
};

// Numbers of parameters are from PyTorch 2.6's and CUB's public sources, tried on
// launches of known sizes (test/programs/ops.py). The first that fits counts.
constexpr Row kRows[] = {
    // Norms: rows of so many columns, a row per block.
    {"vectorized_layer_norm_kernel",
     WorkFamily::kRows,
     "layer_norm_kernelI",
     {{{2, 0, {1, kBlocksX}}}}},
    {"layer_norm_grad_input_kernel",
     WorkFamily::kRows,
     "kernel_vectorizedI",
     {{{3, 0, {7, kBlocksX}}}}},
    {"RowwiseMomentsCUDAKernel",
     WorkFamily::kRows,
     "MomentsCUDAKernelI",
     {{{1, 0, {1, kBlocksX}}}}},
    {"GammaBetaBackwardCUDAKernel_32x32",
     WorkFamily::kRows,
     "CUDAKernel_32x32I",
     {{{2, 0, {1, 2}}}}},
    {"GammaBetaBackwardCUDAKernel", WorkFamily::kRows, "BackwardCUDAKernelI", {{{2, 0, {1, 2}}}}},
    {"GammaBetaBackwardSimple", WorkFamily::kRows, "SimpleCUDAKernelI", {{{2, 0, {1, 2}}}}},
    // Softmax: rows and columns, or columns and a row per block.
    {"softmax_warp_forward", WorkFamily::kRows, "warp_forwardI", {{{2, 0, {3, 5}}}}},
    {"softmax_warp_backward", WorkFamily::kRows, "warp_backwardI", {{{3, 0, {4, 6}}}}},
    {"cunn_SoftMaxForwardSmem",
     WorkFamily::kRows,
     "SoftMaxForwardSmemI",
     {{{2, 0, {3, kBlocksX}}}}},
    {"cunn_SoftMaxForward", WorkFamily::kRows, "SoftMaxForwardI", {{{2, 0, {3, kBlocksX}}}}},
    {"cunn_SoftMaxBackwardSmem",
     WorkFamily::kRows,
     "SoftMaxBackwardSmemI",
     {{{3, 0, {4, kBlocksX}}}}},
    {"cunn_SoftMaxBackward", WorkFamily::kRows, "SoftMaxBackwardI", {{{3, 0, {4, kBlocksX}}}}},
    // Losses: a label, and a sector of memory of its row.
    {"nll_loss_forward_reduce", WorkFamily::kRows, "", {{{0, 40, {7}}}}},
    {"nll_loss_backward_reduce", WorkFamily::kRows, "", {{{0, 40, {7}}}}},
    // Random masks.
    {"fused_dropout_kernel", WorkFamily::kElementwise, "dropout_kernel_vecI", {{{2, 1, {4}}}}},
    {"triu_tril_kernel", WorkFamily::kElementwise, "tril_kernelI", {{{2, 0, {4}}}}},
    // Rows by index: the index, and the row twice.
    {"indexSelectLargeIndex", WorkFamily::kIndex, "LargeIndexI", {{{2, 0, {6}}, {0, 8, {6}, {7}}}}},
    {"indexSelectSmallIndex", WorkFamily::kIndex, "SmallIndexI", {{{2, 0, {kThreads}}}}},
    {"indexFuncLargeIndex", WorkFamily::kIndex, "LargeIndexI", {{{3, 0, {6}}, {0, 8, {6}, {7}}}}},
    {"indexFuncSmallIndex", WorkFamily::kIndex, "SmallIndexI", {{{3, 0, {kThreads}}}}},
    {"roll_cuda_kernel", WorkFamily::kLayout, "roll_cuda_kernelI", {{{2, 0, {3}}}}},
    // The gradient of an embedding: every row is read once.
    {"19compute_grad_weightI", WorkFamily::kIndex, "compute_grad_weightI", {{{1, 0, {4, 5}}}}},
    // Scans.
    {"tensor_kernel_scan_innermost_dim", WorkFamily::kScan, "innermost_dimI", {{{2, 0, {3, 4}}}}},
    {"tensor_kernel_scan_outer_dim", WorkFamily::kScan, "outer_dimI", {{{2, 0, {3, 4, 5}}}}},
    {"DeviceScanByKeyKernel", WorkFamily::kScan, "", {{{0, 12, {10}}}}},
    {"DeviceScanKernel", WorkFamily::kScan, "ScanPolicyI", {{{2, 0, {7}}}}},
    {"DeviceReduceKernel", WorkFamily::kReduction, "InputIteratorI", {{{1, 0, {3}}}}},
    {"DeviceReduceSingleTileKernel", WorkFamily::kReduction, "ReducePolicyI", {{{1, 0, {3}}}}},
    {"DeviceSelectSweepKernel", WorkFamily::kScan, "", {{{0, 1, {8}}}}},
    {"DeviceRadixSortHistogramKernel", WorkFamily::kScan, "", {{{0, 8, {3}}}}},
    {"DeviceRadixSortOnesweepKernel", WorkFamily::kScan, "", {{{0, 32, {9}}}}},
    {"DeviceRadixSortExclusiveSumKernel", WorkFamily::kScan, "", {{{0, 8, {kThreads}}}}},
    // Top-k: each of its passes reads the rows.
    {"radixFindKthValues", WorkFamily::kScan, "KthValuesI", {{{1, 0, {2, 4}}}}},
    {"gatherTopK", WorkFamily::kScan, "gatherTopKI", {{{1, 0, {2, 5}}}}},
    {"bitonicSortKVInPlace", WorkFamily::kScan, "", {{{0, 24, {2, 3}}}}},
    // Bookkeeping of the above, a few words per thread.
    {"DeviceScanInitKernel", WorkFamily::kScan, "", {{{0, 8, {kThreads}}}}},
    {"DeviceScanByKeyInitKernel", WorkFamily::kScan, "", {{{0, 8, {kThreads}}}}},
    {"DeviceCompactInitKernel", WorkFamily::kScan, "", {{{0, 8, {kThreads}}}}},
    {"computeBlockwiseWithinKCounts", WorkFamily::kScan, "", {{{0, 2, {kThreads}}}}},
    {"computeBlockwiseKthCounts", WorkFamily::kScan, "", {{{0, 8, {kThreads}}}}},
    {"mbtopk4fill", WorkFamily::kScan, "", {{{0, 4, {3}}}}},
    {"lpnorm_cleanup", WorkFamily::kOptimizer, "", {{{0, 4, {kThreads}}}}},
    // Images.
    {"max_pool_forward_nchw",
     WorkFamily::kImage,
     "forward_nchwI",
     {{{1, 8, {1}}, {1, 0, {1, 4, 5}, {6, 7}}}}},
    {"upsample_nearest2d_out_frame",
     WorkFamily::kImage,
     "",
     {{{0, 4, {3, 4, 5}}, {0, 4, {3, 6, 7}}}}},
};

class Products : public WorkForm {
 public:
  Products(const Row& row, const KernelFacts& kernel)
      : element_bytes_(row.element.empty() ? 4 : ElementBytes(kernel.symbol, row.element)) {
    for (const Term& term : row.terms) {
      if (term.elements == 0 && term.bytes == 0) continue;
      auto& made = terms_.emplace_back();
      made.bytes = term.elements * element_bytes_ + term.bytes;
      for (const int8_t number : term.times) Add(kernel, number, made.times);
      for (const int8_t number : term.over) Add(kernel, number, made.over);
    }
  }

  // Whether the kernel has all parameters that the row speaks of.
  bool complete() const { return complete_; }

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    for (const auto& term : terms_) {
      double items = 1;
      for (const Factor& factor : term.times) items *= Value(launch, factor);
      for (const Factor& factor : term.over) {
        const double value = Value(launch, factor);
        work.checked &= value > 0;
        items /= std::max(1.0, value);
      }
      work.checked &= items >= 0;
      work.bytes += term.bytes * items;
    }
    work.flops = work.bytes / element_bytes_;
    return work;
  }

 private:
  struct Factor {
    int special = kNothing;
    uint32_t offset = 0;
    bool wide = false;
  };
  struct MadeTerm {
    double bytes = 0;
    std::vector<Factor> times, over;
  };

  void Add(const KernelFacts& kernel, int8_t number, std::vector<Factor>& factors) {
    if (number == kNothing) return;
    if (number >= kBlocksX) {
      factors.push_back({.special = number});
      return;
    }
    const auto index = static_cast<size_t>(number - 1);
    const uint32_t size = index < kernel.parameters.size() ? kernel.parameters[index].size : 0;
    // Two numbers in a row may be told as one, of 16 bytes.
    complete_ &= size == 4 || size == 8;
    factors.push_back({.offset = kernel.Offset(index), .wide = size == 8});
  }

  static double Value(const LaunchShape& launch, const Factor& factor) {
    if (factor.special == kBlocksX) return launch.grid[0];
    if (factor.special == kThreads) return static_cast<double>(launch.threads());
    return factor.wide ? static_cast<double>(launch.At<int64_t>(factor.offset))
                       : launch.At<int32_t>(factor.offset);
  }

  const double element_bytes_;
  std::vector<MadeTerm> terms_;
  bool complete_ = true;
};

}  // namespace

FoundForm FindProducts(const KernelFacts& kernel) {
  for (const Row& row : kRows) {
    if (!Has(kernel.symbol, row.pattern)) continue;
    auto form = std::make_shared<Products>(row, kernel);
    if (form->complete()) return {row.family, std::move(form)};
  }
  return {};
}

}  // namespace phantora
