#include "profiles/work_price.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "profiles/embedded_data.h"

namespace phantora {
namespace {

constexpr double kLongest = 3600;

bool UsesTensorCores(MathPrecision precision) { return precision != MathPrecision::kFp32; }

// By which the SM with the most tiles is later than if they were spread evenly.
double Quantisation(double tiles, int sms) {
  return tiles > 0 ? std::ceil(tiles / sms) * sms / tiles : 1;
}

double ArithmeticSeconds(const KernelWork& work, WorkFamily family, const GpuRates& rates,
                         int sms) {
  const double peak = rates.peak_flops_per_s[static_cast<size_t>(work.precision)];
  switch (family) {
    case WorkFamily::kGemm: {
      const double reached = UsesTensorCores(work.precision) ? rates.tensor_gemm : rates.simt_gemm;
      return work.flops / (peak * reached) * Quantisation(work.tiles, sms);
    }
    case WorkFamily::kAttention:
      return work.flops /
             (peak * (work.backward ? rates.attention_backward : rates.attention_forward));
    default:
      return 0;  // bound by memory
  }
}

}  // namespace

absl::StatusOr<GpuRates> FindGpuRates(const std::string& gpu) {
  const std::string path = absl::StrCat("profiles/data/rates/", gpu, ".json");
  for (const EmbeddedFile& file : EmbeddedData()) {
    if (file.name != path) continue;
    try {
      const auto json = nlohmann::json::parse(file.content, nullptr, true, true);
      GpuRates rates;
      for (size_t i = 0; i < rates.peak_flops_per_s.size(); ++i) {
        const char* precision = Name(static_cast<MathPrecision>(i));
        rates.peak_flops_per_s[i] = json.at("peak_tflops").at(precision).get<double>() * 1e12;
      }
      rates.memory_bytes_per_s = json.at("memory_tb_per_s").get<double>() * 1e12;
      const auto& reached = json.at("reached");
      rates.tensor_gemm = reached.at("tensor_gemm");
      rates.simt_gemm = reached.at("simt_gemm");
      rates.attention_forward = reached.at("attention_forward");
      rates.attention_backward = reached.at("attention_backward");
      rates.memory = reached.at("memory");
      rates.smallest_kernel_s = json.at("smallest_kernel_us").get<double>() * 1e-6;
      return rates;
    } catch (const nlohmann::json::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
    }
  }
  return absl::NotFoundError(absl::StrCat("no rates are known for ", gpu));
}

double SecondsOf(const KernelWork& work, WorkFamily family, const GpuRates& rates, int sms) {
  const double arithmetic = ArithmeticSeconds(work, family, rates, sms);
  const double traffic = work.bytes / (rates.memory_bytes_per_s * rates.memory);
  const double seconds = rates.smallest_kernel_s + std::max(arithmetic, traffic);
  return std::isfinite(seconds) ? std::clamp(seconds, rates.smallest_kernel_s, kLongest) : kLongest;
}

}  // namespace phantora
