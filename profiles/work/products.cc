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
// Or an i32 or i64 so many bytes from the first parameter, inside a structure.
constexpr int kAt = 1000, kWideAt = 10000;
constexpr int16_t At(int offset) { return static_cast<int16_t>(kAt + offset); }
constexpr int16_t Wide(int offset) { return static_cast<int16_t>(kWideAt + offset); }

struct Term {
  double elements = 0, bytes = 0;  // per item: so many elements, and so many bytes
  // How many items: a product of parameters, i32 or i64 by their size, over others.
  std::array<int16_t, 5> times = {};
  std::array<int16_t, 2> over = {};
};

struct Row {
  std::string_view pattern;  // see Matches()
  WorkFamily family;
  std::string_view element;  // the type of an element follows it in the symbol
  std::array<Term, 2> terms;
};

// Numbers of parameters are from PyTorch 2.6's and CUB's public sources, tried on
// launches of known sizes (test/programs/ops.py). The first that fits counts, and gives a possible
// size: versions have sizes in other places.
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
    {"GammaBetaBackwardCUDAKernelTemplate",
     WorkFamily::kRows,
     "KernelTemplateI",
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
    {"vectorized_gather_kernel", WorkFamily::kIndex, "", {{{0, 2, {4, 5}}, {0, 8, {4}}}}},
    {"embedding_backward_feature_kernel",
     WorkFamily::kIndex,
     "feature_kernelI",
     {{{3, 0, {4, 5}}}}},
    {"sum_and_scatter", WorkFamily::kIndex, "", {{{0, 8, {kThreads}}}}},
    {"compute_num_of_partial_segments", WorkFamily::kIndex, "", {{{0, 16, {kThreads}}}}},
    {"krn_partial", WorkFamily::kIndex, "", {{{0, 16, {kThreads}}}}},
    // Flat places become one of each dimension.
    {"write_indices", WorkFamily::kIndex, "", {{{0, 8, {4}}, {0, 8, {3, 4}}}}},
    // The gradient of an embedding: every row is read once.
    {"19compute_grad_weightI", WorkFamily::kIndex, "compute_grad_weightI", {{{1, 0, {4, 5}}}}},
    // Scans.
    {"tensor_kernel_scan_innermost_dim", WorkFamily::kScan, "innermost_dimI", {{{2, 0, {3, 4}}}}},
    {"tensor_kernel_scan_outer_dim", WorkFamily::kScan, "outer_dimI", {{{2, 0, {3, 4, 5}}}}},
    {"DeviceScanByKeyKernel", WorkFamily::kScan, "", {{{0, 12, {10}}}}},
    {"DeviceScanKernel", WorkFamily::kScan, "ScanPolicyI", {{{2, 0, {7}}}}},
    {"DeviceReduceKernel", WorkFamily::kReduction, "InputIteratorI", {{{1, 0, {3}}}}},
    {"DeviceReduceSingleTileKernel", WorkFamily::kReduction, "ReducePolicyI", {{{1, 0, {3}}}}},
    {"DeviceUniqueByKeySweepKernel", WorkFamily::kScan, "", {{{0, 24, {8}}}}},
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
    // Images: pooling has its index of 8 bytes per output.
    {"max_pool_forward_nchw",
     WorkFamily::kImage,
     "forward_nchwI",
     {{{1, 8, {1}}, {1, 0, {1, 4, 5}, {6, 7}}}}},
    {"max_pool_forward_nhwc",
     WorkFamily::kImage,
     "forward_nhwcI",
     {{{1, 8, {At(0x8), Wide(0x10), At(0x28), At(0x2c)}},
       {1, 0, {At(0x8), Wide(0x10), Wide(0x18), Wide(0x20)}}}}},
    // PyTorch 2.9 and later, with sizes of 32 bits.
    {"max_pool_forward_nhwc",
     WorkFamily::kImage,
     "forward_nhwcI",
     {{{1, 8, {At(0x8), At(0xc), At(0x18), At(0x1c)}},
       {1, 0, {At(0x8), At(0xc), At(0x10), At(0x14)}}}}},
    {"max_pool_backward_nchw",
     WorkFamily::kImage,
     "backward_nchwI",
     {{{1, 8, {At(0x10), Wide(0x18), At(0x30), At(0x34)}},
       {1, 0, {At(0x10), Wide(0x18), Wide(0x20), Wide(0x28)}}}}},
    {"max_pool_backward_nhwc",
     WorkFamily::kImage,
     "backward_nhwcI",
     {{{1, 8, {At(0x10), Wide(0x18), At(0x30), At(0x34)}},
       {1, 0, {At(0x10), Wide(0x18), Wide(0x20), Wide(0x28)}}}}},
    {"max_pool_backward_nchw",
     WorkFamily::kImage,
     "backward_nchwI",
     {{{1, 8, {At(0x10), At(0x14), At(0x20), At(0x24)}},
       {1, 0, {At(0x10), At(0x14), At(0x18), At(0x1c)}}}}},
    {"max_pool_backward_nhwc",
     WorkFamily::kImage,
     "backward_nhwcI",
     {{{1, 8, {At(0x10), At(0x14), At(0x20), At(0x24)}},
       {1, 0, {At(0x10), At(0x14), At(0x18), At(0x1c)}}}}},
    {"avg_pool2d_out_cuda_frame_nhwc",
     WorkFamily::kImage,
     "frame_nhwcI",
     {{{1, 0, {At(0)}}, {1, 0, {At(0), Wide(0x18), Wide(0x20)}, {At(0x28), At(0x2c)}}}}},
    {"avg_pool2d_out_cuda_frame",
     WorkFamily::kImage,
     "cuda_frameI",
     {{{1, 0, {At(0)}}, {1, 0, {At(0), Wide(0x18), Wide(0x20)}, {At(0x28), At(0x30)}}}}},
    {"upsample_nearest2d_out_frame",
     WorkFamily::kImage,
     "",
     {{{0, 4, {3, 4, 5}}, {0, 4, {3, 6, 7}}}}},
    {"upsample_nearest2d_backward_out_frame",
     WorkFamily::kImage,
     "out_frameI",
     {{{1, 0, {2, 3, 4, 5}}, {1, 0, {2, 3, 6, 7}}}}},
    {"avg_pool2d_backward_out_cuda_frame",
     WorkFamily::kImage,
     "cuda_frameI",
     {{{1, 0, {1}}, {1, 0, {1, 6, 7}, {4, 5}}}}},
    // Batch norm of cuDNN (fp32, fp16), then PyTorch's: passes over the images.
    {"bn_fw_tr_1C11_kernel_NCHW", WorkFamily::kImage, "kernel_NCHWI", {{{3, 0, {Wide(0x18)}}}}},
    {"bn_fw_tr_1C11_singleread_spec",
     WorkFamily::kImage,
     "singleread_specI",
     {{{2, 0, {Wide(0x18)}}}}},
    {"bn_fw_tr_1C11_singleread", WorkFamily::kImage, "singlereadI", {{{2, 0, {Wide(0x18)}}}}},
    {"bn_bw_1C11_singleread_spec",
     WorkFamily::kImage,
     "singleread_specI",
     {{{3, 0, {Wide(0x28)}}}}},
    {"bn_bw_1C11_singleread", WorkFamily::kImage, "singlereadI", {{{3, 0, {Wide(0x28)}}}}},
    {"bn_bw_1C11_kernel_new", WorkFamily::kImage, "kernel_newI", {{{5, 0, {Wide(0x28)}}}}},
    {"bn_fw_inf_1C11_kernel_NCHW", WorkFamily::kImage, "kernel_NCHWI", {{{2, 0, {Wide(0x20)}}}}},
    {"bn_fw_inf_1C11_kernel_NHWC", WorkFamily::kImage, "kernel_NHWCI", {{{2, 0, {Wide(0x20)}}}}},
    {"batchnorm_fwtr_nhwc_semiPersist",
     WorkFamily::kImage,
     "semiPersistI",
     {{{2.5, 0, {At(0x50), At(0x54)}}}}},
    {"batchnorm_bwtr_nhwc_semiPersist",
     WorkFamily::kImage,
     "semiPersistI",
     {{{4, 0, {At(0x58), At(0x5c)}}}}},
    {"batch_norm_collect_statistics_channels_last",
     WorkFamily::kImage,
     "channels_last_kernelI",
     {{{1, 0, {At(0x28), At(0x2c)}}}}},
    {"batch_norm_collect_statistics",
     WorkFamily::kImage,
     "statistics_kernelI",
     {{{1, 0, {At(0x8), At(0xc), At(0x10)}}}}},
    {"batch_norm_transform_input_channels_last",
     WorkFamily::kImage,
     "channels_last_kernelI",
     {{{2, 0, {At(0x38), At(0x3c)}}}}},
    {"batch_norm_transform_input",
     WorkFamily::kImage,
     "input_kernelI",
     {{{2, 0, {At(0x8), At(0xc), At(0x10)}}}}},
    {"batch_norm_backward_reduce_channels_last",
     WorkFamily::kImage,
     "channels_last_kernelI",
     {{{2, 0, {At(0x50), At(0x54)}}}}},
    {"batch_norm_backward_elemt_channels_last",
     WorkFamily::kImage,
     "channels_last_kernel_implI",
     {{{3, 0, {At(0x44), At(0x48)}}}}},
    {"batch_norm_backward_kernel",
     WorkFamily::kImage,
     "backward_kernelI",
     {{{5, 0, {At(0x8), At(0xc), At(0x10)}}}}},
    // cuDNN's changes of format, and what goes with its convolutions.
    {"nchwToNhwcKernel",
     WorkFamily::kLayout,
     "NhwcKernelI",
     {{{1, 0, {At(0), At(4), At(0x10)}}, {1, 0, {At(0), At(0x18), At(0x10)}}}}},
    {"nhwcToNchwKernel",
     WorkFamily::kLayout,
     "NchwKernelI",
     {{{1, 0, {At(0), At(4), At(0x1c)}}, {1, 0, {At(0), At(8), At(0x1c)}}}}},
    {"nhwcAddPadding",
     WorkFamily::kLayout,
     "PaddingKernelI",
     {{{1, 0, {At(0), At(4), At(8), At(0xc)}}, {1, 0, {At(0x10), At(0x14), At(0x18), At(0x1c)}}}}},
    {"nchwAddPadding",
     WorkFamily::kLayout,
     "PaddingKernelI",
     {{{1, 0, {At(0), At(4), At(8), At(0xc)}}, {1, 0, {At(0x10), At(0x14), At(0x18), At(0x1c)}}}}},
    {"tensorTransformGeneric", WorkFamily::kLayout, "GenericI", {{{2, 0, {Wide(0x108)}}}}},
    {"convertTensor_kernel", WorkFamily::kLayout, "tensor_kernelI", {{{2, 0, {Wide(0x20)}}}}},
    {"scalePackedTensor", WorkFamily::kElementwise, "TensorI", {{{1, 0, {Wide(0)}}}}},
    {"nchwToFoldedNhwc",
     WorkFamily::kLayout,
     "NhwcKernelI",
     {{{2, 0, {At(0), At(4), At(8), At(0xc)}}}}},
    {"nhwcToFoldedNhwc",
     WorkFamily::kLayout,
     "NhwcKernelI",
     {{{2, 0, {At(0), At(4), At(8), At(0xc)}}}}},
    {"foldedNhwcToN",
     WorkFamily::kLayout,
     "KernelI",
     {{{2, 0, {At(0xc), At(0x10), At(0x14), At(0x18)}}}}},
    {"reduce_wgrad_nchw_helper",
     WorkFamily::kOther,
     "",
     {{{0, 4, {At(0x18), At(0x14)}}, {0, 4, {At(0x18)}}}}},
    {"8epilogue4impl12globalKernel",
     WorkFamily::kElementwise,
     "globalKernelI",
     {{{2, 0, {At(0), At(4)}}}}},
    {"dot_kernel*cublasDotParams", WorkFamily::kReduction, "dot_kernelI", {{{2, 0, {At(0x20)}}}}},
    {"reduce_1Block_kernel*cublas", WorkFamily::kReduction, "", {{{0, 4, {kThreads}}}}},
    {"scal_kernel*cublas", WorkFamily::kElementwise, "", {{{0, 8, {kThreads}}}}},
    // Winograd's transforms: an image, a filter or a result, and tiles of 6 x 6.
    {"winograd*Data4x4",
     WorkFamily::kLayout,
     "Data4x4I",
     {{{1, 0, {At(0), At(4), At(8), At(0xc)}}, {36, 0, {At(0x24)}}}}},
    {"winogradWgradDelta4x4",
     WorkFamily::kLayout,
     "Delta4x4I",
     {{{1, 0, {At(0), At(4), At(8), At(0xc)}}, {36, 0, {At(0x24)}}}}},
    {"winogradForwardFilter4x4",
     WorkFamily::kLayout,
     "Filter4x4I",
     {{{9, 0, {At(0), At(4)}}, {36, 0, {At(8)}}}}},
    {"winogradForwardOutput4x4",
     WorkFamily::kLayout,
     "Output4x4I",
     {{{36, 0, {At(0x10)}}, {1, 0, {At(0), At(0x18)}}}}},
    {"winogradWgradOutput4x4",
     WorkFamily::kLayout,
     "Output4x4I",
     {{{36, 0, {At(0xc)}}, {9, 0, {At(0), At(4)}}}}},
    // vLLM: keys and values of new tokens go into the cache (0.12.0).
    {"reshape_and_cache_flash_kernel",
     WorkFamily::kIndex,
     "flash_kernelI",
     {{{4, 0, {kBlocksX, 11, 12}}, {0, 8, {kBlocksX}}}}},
    // Its norms, activations and rotations: rows of so many columns.
    {"4vllm25fused_add_rms_norm_kernel", WorkFamily::kRows, "rms_norm_kernelI", {{{4, 0, {6, 7}}}}},
    {"4vllm15rms_norm_kernel", WorkFamily::kRows, "rms_norm_kernelI", {{{2, 0, {10, 11}}}}},
    {"4vllm18act_and_mul_kernel",
     WorkFamily::kElementwise,
     "act_and_mul_kernelI",
     {{{3, 0, {kBlocksX, 3}}}}},
    {"4vllm23rotary_embedding_kernel",
     WorkFamily::kElementwise,
     "rotary_embedding_kernelI",
     {{{2, 0, {kBlocksX, 5, 9}}, {2, 0, {kBlocksX, 5, 10}}}}},
    {"4vllm31scaled_fp8_quant_kernel_strided",
     WorkFamily::kElementwise,
     "quant_kernel_stridedI",
     {{{1, 1, {kBlocksX, 4}}}}},
    {"4vllm31segmented_max_reduction_strided",
     WorkFamily::kReduction,
     "reduction_stridedI",
     {{{1, 0, {3, 5}}}}},
    // Before a sort by segments.
    {"fill_reverse_indices_kernel", WorkFamily::kIndex, "", {{{0, 8, {kThreads}}}}},
    // They add parts of products. How many is not known; four.
    {"xmma_gemm*split_k_kernel", WorkFamily::kOther, "", {{{0, 20, {At(0x9c), At(0xa0)}}}}},
    {"sm80_xmma_*split_k_kernel",
     WorkFamily::kOther,
     "",
     {{{0, 4, {At(0x58), At(0x48), At(0x60), At(0x64), At(0x130)}},
       {0, 4, {At(0x58), At(0x48), At(0x60), At(0x64)}}}}},
    {"sm90_xmma_*split_k_kernel", WorkFamily::kOther, "", {{{0, 4, {kBlocksX, At(0x170)}}}}},
    // XLA's autotuning.
    {"redzone_checker", WorkFamily::kOther, "", {{{0, 1, {3}}}}},
    {"RedzoneAllocatorKernelImpl", WorkFamily::kOther, "", {{{0, 1, {3}}}}},
    {"DelayKernel", WorkFamily::kOther, "", {{{0, 8, {kThreads}}}}},
    {"kernel_helper_stage_", WorkFamily::kOther, "", {{{0, 8, {kThreads}}}}},
    {"init_device_workspace_kernel", WorkFamily::kOther, "", {{{0, 8, {kThreads}}}}},
    {"ReduceSplitK",
     WorkFamily::kOther,
     "",
     {{{0, 4, {At(0), At(4), At(8)}}, {0, 4, {At(0), At(4)}}}}},
};

class Products : public WorkForm {
 public:
  Products(const Row& row, const KernelFacts& kernel)
      : element_bytes_(row.element.empty() ? 4 : ElementBytes(kernel.symbol, row.element)) {
    for (const Term& term : row.terms) {
      if (term.elements == 0 && term.bytes == 0) continue;
      auto& made = terms_.emplace_back();
      made.bytes = term.elements * element_bytes_ + term.bytes;
      for (const int16_t number : term.times) Add(kernel, number, made.times);
      for (const int16_t number : term.over) Add(kernel, number, made.over);
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

  void Add(const KernelFacts& kernel, int16_t number, std::vector<Factor>& factors) {
    if (number == kNothing) return;
    if (number >= kWideAt) {
      factors.push_back({.offset = static_cast<uint32_t>(number - kWideAt), .wide = true});
      return;
    }
    if (number >= kAt) {
      factors.push_back({.offset = static_cast<uint32_t>(number - kAt)});
      return;
    }
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

// Rows for versions of one kernel.
class Versions : public WorkForm {
 public:
  explicit Versions(std::vector<std::shared_ptr<const Products>> versions)
      : versions_(std::move(versions)) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    for (const auto& version : versions_) {
      work = version->Of(launch);
      if (work.checked && work.bytes > 0 && work.bytes < kMostTraffic) return work;
    }
    work.checked = false;
    return work;
  }

 private:
  const std::vector<std::shared_ptr<const Products>> versions_;
};

}  // namespace

FoundForm FindProducts(const KernelFacts& kernel) {
  std::vector<std::shared_ptr<const Products>> found;
  WorkFamily family = WorkFamily::kUnknown;
  std::string_view pattern;
  for (const Row& row : kRows) {
    if (!Matches(kernel.symbol, row.pattern) || (!found.empty() && row.pattern != pattern))
      continue;
    auto form = std::make_shared<Products>(row, kernel);
    if (!form->complete()) continue;
    if (found.empty()) family = row.family, pattern = row.pattern;
    found.push_back(std::move(form));
  }
  if (found.empty()) return {};
  if (found.size() == 1) return {family, found[0]};
  return {family, std::make_shared<Versions>(std::move(found))};
}

}  // namespace phantora
