#include "profiles/gpu/work_price.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "profiles/data/embedded_data.h"

namespace phantora {
namespace {

constexpr double kLongest = 3600;
constexpr double kThreadsPerSm = 2048;  // resident, compute capabilities 8.0 and 9.0
// What a thread has under way at a time: four loads of a word, as unrolled loops have.
constexpr double kBytesUnderWay = 16;

bool UsesTensorCores(MathPrecision precision) { return precision != MathPrecision::kFp32; }

bool IsProduct(WorkFamily family) {
  return family == WorkFamily::kGemm || family == WorkFamily::kConvolution ||
         family == WorkFamily::kExperts;
}

double ArithmeticSeconds(const KernelWork& work, WorkFamily family, const GpuRates& rates,
                         int sms) {
  if (work.flops <= 0) return 0;
  const auto precision = static_cast<size_t>(work.precision);
  double rate = rates.peak_flops_per_s[precision];
  if (UsesTensorCores(work.precision)) rate *= rates.clock_under_load;
  const double waves = std::ceil(work.tiles / sms);
  switch (family) {
    case WorkFamily::kGemm:
    case WorkFamily::kExperts:
    case WorkFamily::kConvolution: {
      rate *= rates.gemm[precision] * (family == WorkFamily::kConvolution ? rates.convolution : 1);
      const double uneven = work.tiles > 0 ? waves * sms / work.tiles : 1;
      // The results of a wave are written when it is over, and nothing is computed meanwhile.
      const double written = work.written_bytes / (rates.memory_bytes_per_s * rates.memory);
      return work.flops / rate * uneven + std::max(1.0, waves) * rates.wave_s + written;
    }
    case WorkFamily::kAttention:
      rate *= work.backward ? rates.attention_backward : rates.attention_forward;
      return work.flops / rate + std::max(1.0, waves) * rates.wave_s;
    default:
      // What is known of other kernels' arithmetic is too little to be bound by it, unless it
      // is that of tensor cores.
      return work.tensor ? work.flops / (rate * rates.gemm[precision]) + rates.wave_s : 0;
  }
}

double TrafficSeconds(const KernelWork& work, WorkFamily family, const GpuRates& rates, int sms) {
  if (work.bytes <= 0) return 0;
  const double memory = rates.memory_bytes_per_s * rates.memory;
  // Products have large blocks that load ahead; of others it is known how many threads ask.
  double most = rates.cache_bytes_per_s;
  if (work.blocks > 0 && !IsProduct(family) && family != WorkFamily::kAttention &&
      family != WorkFamily::kPeers) {
    most = std::min(most, std::min<double>(work.blocks, sms) * rates.sm_bytes_per_s);
    if (work.rounds <= 0) {
      most = std::min(most, std::min(work.threads, sms * kThreadsPerSm) * kBytesUnderWay /
                                rates.memory_latency_s);
    }
  }
  const double in_cache =
      rates.cache_bytes > 0 ? std::max(0.0, 1 - work.bytes / rates.cache_bytes) : 0;
  // One round of those threads that there is room for after the other.
  const double latency = in_cache * rates.cache_latency_s + (1 - in_cache) * rates.memory_latency_s;
  const double waiting =
      work.rounds * latency * std::max(1.0, work.threads / (sms * kThreadsPerSm));
  return std::max(waiting,
                  work.bytes * (in_cache / most + (1 - in_cache) / std::min(memory, most)));
}

}  // namespace

absl::StatusOr<GpuRates> FindGpuRates(const std::string& gpu) {
  const std::string path = absl::StrCat("profiles/data/", gpu, "/rates.json");
  for (const EmbeddedFile& file : EmbeddedData()) {
    if (file.name != path) continue;
    try {
      const auto json = nlohmann::json::parse(file.content, nullptr, true, true);
      GpuRates rates;
      const auto& reached = json.at("reached");
      for (size_t i = 0; i < rates.peak_flops_per_s.size(); ++i) {
        const char* precision = Name(static_cast<MathPrecision>(i));
        rates.peak_flops_per_s[i] = json.at("peak_tflops").at(precision).get<double>() * 1e12;
        rates.gemm[i] = reached.at("gemm").at(precision);
      }
      rates.memory_bytes_per_s = json.at("memory_tb_per_s").get<double>() * 1e12;
      rates.cache_bytes = json.at("cache_mb").get<double>() * 1e6;
      rates.cache_bytes_per_s = json.at("cache_tb_per_s").get<double>() * 1e12;
      rates.sm_bytes_per_s = json.at("sm_gb_per_s").get<double>() * 1e9;
      rates.attention_forward = reached.at("attention_forward");
      rates.attention_backward = reached.at("attention_backward");
      rates.convolution = reached.at("convolution");
      rates.memory = reached.at("memory");
      rates.clock_under_load = json.at("clock_under_load");
      rates.smallest_kernel_s = json.at("smallest_kernel_us").get<double>() * 1e-6;
      rates.wave_s = json.at("wave_us").get<double>() * 1e-6;
      rates.cache_latency_s = json.at("cache_latency_us").get<double>() * 1e-6;
      rates.memory_latency_s = json.at("memory_latency_us").get<double>() * 1e-6;
      for (size_t i = 0; i < rates.error.size(); ++i) {
        rates.error[i] = json.at("error").at(Name(static_cast<WorkFamily>(i)));
      }
      return rates;
    } catch (const nlohmann::json::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
    }
  }
  return absl::NotFoundError(absl::StrCat("no rates are known for ", gpu));
}

TimeEstimate EstimateOf(const KernelWork& work, WorkFamily family, const GpuRates& rates, int sms) {
  const double seconds =
      rates.smallest_kernel_s + std::max({ArithmeticSeconds(work, family, rates, sms),
                                          TrafficSeconds(work, family, rates, sms),
                                          work.cached_bytes / rates.cache_bytes_per_s});
  const double error =
      rates.error[static_cast<size_t>(work.guessed ? WorkFamily::kUnknown : family)];
  return {
      std::isfinite(seconds) ? std::clamp(seconds, rates.smallest_kernel_s, kLongest) : kLongest,
      error};
}

}  // namespace phantora
