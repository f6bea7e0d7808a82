// Kernels of several GPUs that read each other's memory.
#include <charconv>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// All-reduces that engines have of their own, for small messages in one host: each GPU reads what
// the others have, all of it (1stage) or its part, whose sum the others fetch then (2stage).
// vLLM's csrc/custom_all_reduce.cuh, which SGLang has taken over:
//   cross_device_reduce_1stage<T, ngpus>(RankData*, RankSignals, Signal*, T* result, int rank,
//                                        int size)
// where `size` counts vectors of 16 bytes.
constexpr size_t kSize = 5, kParameters = 6;
constexpr double kVectorBytes = 16;
constexpr int kMostGpus = 16;

class CustomAllReduce : public WorkForm {
 public:
  CustomAllReduce(uint32_t size_at, int gpus) : size_at_(size_at), gpus_(gpus) {}

  // Of shape: GPUs, bytes of the message.
  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    const double bytes = kVectorBytes * launch.At<int32_t>(size_at_);
    work.checked = bytes > 0;
    work.bytes = 2 * bytes;
    work.shape = {static_cast<double>(gpus_), bytes};
    return work;
  }

 private:
  const uint32_t size_at_;
  const int gpus_;
};

// `ngpus` follows the type of an element in the symbol: ...I13__nv_bfloat16Li2EE...
int GpusOf(std::string_view symbol) {
  const size_t at = symbol.find("Li");
  if (at == symbol.npos) return 0;
  int gpus = 0;
  std::from_chars(symbol.data() + at + 2, symbol.data() + symbol.size(), gpus);
  return gpus;
}

}  // namespace

FoundForm FindPeers(const KernelFacts& kernel) {
  const bool known = Has(kernel.symbol, "26cross_device_reduce_1stageI") ||
                     Has(kernel.symbol, "26cross_device_reduce_2stageI");
  if (!known || kernel.parameters.size() != kParameters) return {};
  const int gpus = GpusOf(kernel.symbol);
  if (gpus < 2 || gpus > kMostGpus) return {};
  return {WorkFamily::kPeers, std::make_shared<CustomAllReduce>(kernel.Offset(kSize), gpus)};
}

}  // namespace phantora
