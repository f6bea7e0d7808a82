// Matrix products of CUTLASS 3, for Hopper and later: vLLM's and PyTorch's products of scaled 8-bit
// numbers, and what programs bring themselves.
#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// The only parameter is GemmUniversal's Params
// (cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized*.hpp): the mode, then the shape of the
// problem, i32 each. Groups of products have pointers there instead.
constexpr uint32_t kM = 4, kN = 8, kK = 12, kBatch = 16;

class Cutlass3 : public WorkForm {
 public:
  Cutlass3(std::string_view symbol, uint32_t offset, bool batched)
      : offset_(offset), batched_(batched), precision_(PrecisionOf(symbol)) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    work.precision = precision_;
    const auto number = [&](uint32_t at) -> double { return launch.At<int32_t>(offset_ + at); };
    const double m = number(kM), n = number(kN), k = number(kK),
                 batch = batched_ ? number(kBatch) : 1;
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
  const bool batched_;
  const MathPrecision precision_;
};

}  // namespace

FoundForm FindCutlass3(const KernelFacts& kernel) {
  // The shape is a tuple of three or of four numbers. vLLM hides it behind a type of its own.
  const bool three = Has(kernel.symbol, "GemmUniversalIN4cute5tupleIJiiiEE");
  const bool four = Has(kernel.symbol, "GemmUniversalIN4cute5tupleIJiiiiEE") ||
                    Has(kernel.symbol, "4vllm15cutlass_3x_gemmI");
  if (!Has(kernel.symbol, "device_kernel") || kernel.parameters.size() != 1 || (!three && !four)) {
    return {};
  }
  return {WorkFamily::kGemm, std::make_shared<Cutlass3>(kernel.symbol, kernel.Offset(0), four)};
}

}  // namespace phantora
