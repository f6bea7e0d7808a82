// Convolutions: cuDNN's implicit GEMM, its direct and Winograd kernels, and PyTorch's own for
// depthwise ones; forwards, and the gradients of data and of weights.
#include <algorithm>
#include <cmath>
#include <vector>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

using Offsets = std::array<int16_t, 11>;  // in bytes from the first parameter; -1 ends it

constexpr Offsets List(std::initializer_list<int16_t> offsets) {
  Offsets list{};
  list.fill(-1);
  size_t i = 0;
  for (const int16_t offset : offsets) list[i++] = offset;
  return list;
}

// Where a family keeps its sizes, i32 each. Seen in the launches of cuDNN 9.1 and PyTorch 2.6
// for convolutions of known size. They are those of the convolution forwards, whichever of the
// three a kernel does.
struct ConvolutionLayout {
  std::string_view pattern;  // see Matches()
  uint32_t least, most;      // bytes of parameters
  double flops;              // times the product of
  Offsets product;           // these is the number of FLOPs
};

// images, depth, height, width, channels, out depth, height, width, filters, filter depth,
// height, width, groups: this far apart, where implicit GEMM has them.
enum Size { kN, kD, kH, kW, kC, kO, kP, kQ, kK, kT, kR, kS, kG, kSizes };
struct ImplicitGemmLayout {
  std::string_view pattern;
  uint32_t least, most;  // bytes of parameters
  std::array<int16_t, kSizes> at;
};
constexpr ImplicitGemmLayout kImplicitGemm[] = {
    {"sm80_xmma_",
     700,
     1600,
     {0x38, 0x3c, 0x40, 0x44, 0x48, 0x4c, 0x50, 0x54, 0x58, 0x5c, 0x60, 0x64, 0x68}},
    {"sm90_xmma_",
     2300,
     3800,
     {0x68, 0x6c, 0x70, 0x74, 0x78, 0x7c, 0x80, 0x84, 0x88, 0x8c, 0x90, 0x94, 0x98}},
    // CUTLASS: two dimensions, no groups.
    {"cutlass", 360, 640, {0, -1, 4, 8, 0xc, -1, 0x10, 0x14, 0x18, -1, 0x1c, 0x20, -1}},
};

constexpr ConvolutionLayout kLayouts[] = {
    {"implicit_convolve_sgemm", 252, 256, 2, List({0, 4, 8})},
    {"precomputed_convolve_sgemm", 252, 256, 2, List({0, 4, 8})},
    {"implicit_convolveNd_sgemm", 754, 754, 2, List({0, 4, 8})},
    {"convolve_common_engine_float_NHWC", 290, 290, 2, List({0, 4, 8})},
    {"dgrad_alg1_nd_float_engine", 732, 732, 2,
     List({0x50, 0xdc, 0xbc, 0x54, 0x114, 0x118, 0x11c})},
    {"convolution_sm5x", 224, 224, 2, List({0, 4, 0x1c, 0x24, 0x28, 0x38, 0x3c})},
    {"wgrad2d_shmem_tiling", 400, 400, 2, List({0x90, 0x94, 0x98, 0x9c, 0x150, 0x154, 0x158})},
    {"dgrad_engine", 312, 316, 2, List({0, 4, 8, 0x38})},
    {"dgrad2d_alg1_1", 312, 316, 2, List({0, 4, 8, 0x38})},
    {"dgrad_alg1_engine", 292, 292, 2, List({0x38, 0x3c, 0x40, 0x44, 0x58, 0x5c, 0x60})},
    {"convolveNd_dgrad_float_engine", 756, 756, 2, List({0, 4, 8, 0x58})},
    {"wgrad_alg0_engine", 296, 296, 2, List({0, 4, 8, 0x30})},
    {"convolveNd_wgrad_engine", 732, 732, 2, List({0, 4, 8, 0x50})},
    {"wgrad_alg1_nd_float_engine", 760, 760, 2, List({0, 4, 8})},
    {"wgrad_alg1_engine", 320, 320, 2, List({0, 4, 8})},
    {"s16816cudnn*_relu_", 900, 2440, 2, List({0x50, 0x60, 0x54})},
    {"scudnn*_relu_", 900, 2440, 2, List({0x50, 0x60, 0x64})},
    {"scudnn*_stridedB_", 900, 2440, 2, List({0x50, 0x60, 0x64})},
    // Winograd: the multiplications that it saves are counted all the same, as everywhere.
    {"scudnn_winograd*tile442t", 276, 276, 72, List({0x94, 0x64, 0xb4, 0xb8, 0xbc})},
    {"scudnn_winograd*tile148t", 276, 276, 18, List({0x94, 0x64, 0xb4, 0xb8, 0xbc})},
    {"_grouped_direct_kernel", 320, 352, 2,
     List({4, 8, 0xc, 0x10, 0x28, 0x2c, 0x30, 0x34, 0x38, 0x3c})},
    {"conv2d_c1_k1_nhwc_kernel", 448, 488, 2, List({0x1bc, 0x8c, 0x90})},
    {"2d_c1_k1_nchw_shmem", 396, 396, 2, List({0x118, 0x84, 0x88})},
    {"wgrad2d_c1_k1_nhwc_kernel", 376, 376, 2, List({0x80, 0x154, 0x158})},
    {"dgrad2d_c1_k1_nhwc_kernel", 156, 156, 2, List({0x5c, 0x8c, 0x6c, 0x70})},
    {"conv_depthwise2d_forward", 200, 200, 2, List({8, 0x40, 0x68})},
    {"conv_depthwise2d_backward", 184, 184, 2, List({8, 0x18, 0x68})},
    {"conv_depthwise2d_grad_weight", 184, 184, 2, List({8, 0x18, 0x68})},
    {"xmma_depthwise_convolution_", 352, 352, 2, List({0x38, 0x3c, 0x5c, 0x60, 0x50, 0x54})},
    {"fprop_image_first_layer", 256, 256, 2, List({0xc, 0x3c, 0x44, 0x48, 0x80})},
    {"wgrad_image_first_layer", 288, 288, 2, List({0xc, 0x3c, 0x44, 0x48, 0x78})},
    {"conv1D_NCHW_wgrad", 64, 64, 2, List({0x18, 0x1c, 0x20, 0x34})},
};

bool Sane(double size) { return size >= 1 && size < kLargestDimension; }

class ImplicitGemm : public WorkForm {
 public:
  ImplicitGemm(std::string_view symbol, const ImplicitGemmLayout& layout)
      : layout_(layout),
        precision_(PrecisionOf(symbol)),
        backward_(!Has(symbol, "fprop")),
        persistent_(layout.least >= 2000) {
    if (!FindTile(symbol, "tilesize", &tile_m_, &tile_n_)) tile_m_ = tile_n_ = 0;
  }

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    work.backward = backward_;
    std::array<double, kSizes> size{};
    for (size_t i = 0; i < kSizes; ++i) {
      const int16_t at = layout_.at[i];
      size[i] = at < 0 ? 1 : launch.At<int32_t>(static_cast<uint32_t>(at));
      if (i == kG) size[i] = std::max(size[i], 1.0);
      work.checked &= Sane(size[i]);
    }
    if (!work.checked) return work;
    const double pixels = size[kN] * size[kO] * size[kP] * size[kQ];
    const double filter = size[kC] * size[kT] * size[kR] * size[kS];  // of an output
    work.shape = {size[kN], size[kC] * size[kG], size[kK] * size[kG], size[kP] * size[kQ],
                  size[kR] * size[kS]};
    work.flops = 2 * pixels * size[kK] * filter * size[kG];
    const double images = size[kN] * size[kC] * size[kD] * size[kH] * size[kW] * size[kG],
                 results = pixels * size[kK] * size[kG], filters = size[kK] * filter * size[kG];
    work.bytes = Bytes(precision_) * (images + results + filters);
    // A third of it, as a rule the smallest or the largest, is what is made.
    work.written_bytes = Bytes(precision_) * (backward_ ? std::min(images, results) : results);
    work.tiles = persistent_ && tile_m_ > 0
                     ? std::ceil(pixels / tile_m_) * std::ceil(size[kK] / tile_n_) * size[kG]
                     : static_cast<double>(launch.blocks());
    return work;
  }

 private:
  const ImplicitGemmLayout& layout_;
  const MathPrecision precision_;
  const bool backward_;
  const bool persistent_;  // its grid says nothing about its size
  uint32_t tile_m_ = 0, tile_n_ = 0;
};

class Convolution : public WorkForm {
 public:
  Convolution(std::string_view symbol, const ConvolutionLayout& layout)
      : layout_(layout),
        precision_(Has(symbol, "s16816") ? MathPrecision::kFp16 : MathPrecision::kFp32) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    work.flops = layout_.flops;
    for (const int16_t offset : layout_.product) {
      if (offset < 0) break;
      const double size = launch.At<int32_t>(static_cast<uint32_t>(offset));
      work.checked &= Sane(size);
      work.flops *= size;
    }
    work.tiles = static_cast<double>(launch.blocks());
    return work;
  }

 private:
  const ConvolutionLayout& layout_;
  const MathPrecision precision_;
};

}  // namespace

FoundForm FindConvolution(const KernelFacts& kernel) {
  const auto fits = [&kernel](const auto& layout) {
    return Matches(kernel.symbol, layout.pattern) && kernel.parameter_bytes >= layout.least &&
           kernel.parameter_bytes <= layout.most;
  };
  // These are given the convolution's parameters, and do something else.
  for (const char* helper : {"split_k_kernel", "strided_dgrad_indexed", "init_device_workspace",
                             "depthwise_convolution_helper", "depthwise_convolution_post"}) {
    if (Has(kernel.symbol, helper) && !Has(kernel.symbol, "implicit_gemm_strided_dgrad")) return {};
  }
  const bool product = Has(kernel.symbol, "fprop") || Has(kernel.symbol, "dgrad") ||
                       Has(kernel.symbol, "wgrad") || Has(kernel.symbol, "ImplicitGemmConvolution");
  const bool implicit = Has(kernel.symbol, "implicit_gemm") || Has(kernel.symbol, "cutlass");
  for (const ImplicitGemmLayout& layout : kImplicitGemm) {
    if (product && implicit && fits(layout)) {
      return {WorkFamily::kConvolution, std::make_shared<ImplicitGemm>(kernel.symbol, layout)};
    }
  }
  for (const ConvolutionLayout& layout : kLayouts) {
    if (fits(layout)) {
      return {WorkFamily::kConvolution, std::make_shared<Convolution>(kernel.symbol, layout)};
    }
  }
  return {};
}

}  // namespace phantora
