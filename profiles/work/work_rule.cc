#include "profiles/work/work_rule.h"

#include <algorithm>
#include <cmath>

namespace phantora {
namespace {

// Of a kernel, since CUDA 12.1.
constexpr uint32_t kMostParameterBytes = 32764;

}  // namespace

WorkRule::WorkRule(std::string_view symbol, absl::Span<const CubinKernel::Parameter> parameters,
                   const CodeSummary& code) {
  for (const auto& parameter : parameters) {
    parameter_bytes_ =
        std::max(parameter_bytes_, uint32_t{parameter.offset} + uint32_t{parameter.size});
  }
  parameter_bytes_ = std::min<uint32_t>(parameter_bytes_, kMostParameterBytes);
  const KernelFacts facts = {symbol, parameters, &code, parameter_bytes_};
  // In this order: names of some contain those of others.
  for (const auto find :
       {FindSpin, FindPeers, FindExperts, FindProducts, FindEfficientAttention, FindCudnnAttention,
        FindFlash2, FindFlash3, FindCutlass3, FindConvolution, FindMultiTensor, FindElementwise,
        FindReduction, FindConcatenation, FindGemm, FromCode}) {
    const FoundForm found = find(facts);
    if (found.form == nullptr) continue;
    family_ = found.family;
    form_ = found.form;
    only_waits_ = found.only_waits;
    return;
  }
}

KernelWork WorkRule::Of(const LaunchShape& launch) const {
  if (form_ == nullptr) return {.guessed = true};
  KernelWork work = form_->Of(launch);
  work.blocks = static_cast<double>(launch.blocks());
  work.threads = static_cast<double>(launch.threads());
  work.checked = work.checked && work.bytes >= 0 && work.bytes < kMostTraffic && work.flops >= 0 &&
                 std::isfinite(work.bytes) && std::isfinite(work.flops);
  return work;
}

}  // namespace phantora
