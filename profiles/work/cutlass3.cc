// Matrix products of CUTLASS 3, for Hopper and later: vLLM's and PyTorch's products of scaled 8-bit
// numbers, and what programs bring themselves.
#include <utility>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// The only parameter is GemmUniversal's Params
// (cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized*.hpp): the mode, then the shape of the
// problem, i32 each. Groups of products have pointers there instead. A kernel that neither shares
// tiles among warps nor takes turns (sm90_gemm_tma_warpspecialized.hpp) has no mode.
constexpr uint32_t kM = 0, kN = 4, kK = 8, kBatch = 12, kMode = 4;
constexpr int32_t kOneProduct = 0;  // GemmUniversalMode::kGemm

// vLLM's products of fp8 for Hopper, since 0.12.0 at the latest.
constexpr std::string_view kSm90Fp8 = "4vllm24cutlass_3x_gemm_sm90_fp8I";

class Cutlass3 : public WorkForm {
 public:
  Cutlass3(std::string_view symbol, uint32_t offset, bool batched)
      : offset_(offset),
        batched_(batched),
        may_lack_mode_(Has(symbol, kSm90Fp8)),
        swapped_(may_lack_mode_ && Has(symbol, "Lb1EE10GemmKernel")),
        precision_(PrecisionOf(symbol)) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    const bool has_mode = !may_lack_mode_ || launch.At<int32_t>(offset_) == kOneProduct;
    const auto number = [&](uint32_t at) -> double {
      return launch.At<int32_t>(offset_ + (has_mode ? kMode : 0) + at);
    };
    double m = number(kM), n = number(kN);
    const double k = number(kK), batch = batched_ ? number(kBatch) : 1;
    if (swapped_) std::swap(m, n);  // few tokens are columns
    for (const double size : {m, n, k, batch}) {
      work.checked &= size >= 1 && size < kLargestDimension;
    }
    if (!work.checked) return work;
    work.cutlass = true;
    // Results lie row by row: its m is cuBLAS's n.
    work.shape = {n, m, k, batch};
    work.flops = 2 * m * n * k * batch;
    work.written_bytes = 2 * batch * m * n;
    work.bytes = Bytes(precision_) * batch * k * (m + n) + work.written_bytes;
    // What makes fp8 of its input: bf16 is read, fp8 written.
    if (precision_ == MathPrecision::kFp8) work.beside_bytes = 3 * batch * m * k;
    return work;
  }

 private:
  const uint32_t offset_;
  const bool batched_, may_lack_mode_, swapped_;
  const MathPrecision precision_;
};

}  // namespace

FoundForm FindCutlass3(const KernelFacts& kernel) {
  // The shape is a tuple of three or of four numbers. vLLM hides it behind a type of its own.
  const bool three = Has(kernel.symbol, "GemmUniversalIN4cute5tupleIJiiiEE");
  const bool four = Has(kernel.symbol, "GemmUniversalIN4cute5tupleIJiiiiEE") ||
                    Has(kernel.symbol, "4vllm15cutlass_3x_gemmI") || Has(kernel.symbol, kSm90Fp8);
  if (!Has(kernel.symbol, "device_kernel") || kernel.parameters.size() != 1 || (!three && !four)) {
    return {};
  }
  return {WorkFamily::kGemm, std::make_shared<Cutlass3>(kernel.symbol, kernel.Offset(0), four)};
}

}  // namespace phantora
