#include "profiles/gpu/rate_transfer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "profiles/data/embedded_data.h"

namespace phantora {
namespace {

// Dense operations per clock and SM, in the order of MathPrecision: fp64, fp32, tf32, fp16, bf16,
// fp8, int8; multiply and add count as two. What a GPU does not have is done with the next wider.
struct Throughput {
  int compute_capability;
  std::array<double, kMathPrecisions> per_clock_and_sm;
};
constexpr std::array kThroughputs = {
    Throughput{80, {128, 128, 1024, 2048, 2048, 2048, 4096}},  // A100 whitepaper, table 1
    Throughput{86, {4, 256, 512, 1024, 1024, 1024, 2048}},     // GA102 whitepaper, A40
    Throughput{89, {4, 256, 512, 1024, 1024, 2048, 2048}},     // Ada whitepaper, L40S
    Throughput{90, {256, 256, 2048, 4096, 4096, 8192, 8192}},  // H100 whitepaper, table 2
};

double Clock(const GpuProfile& gpu) { return gpu.sm_clock_mhz; }
double SmClocks(const GpuProfile& gpu) { return gpu.sms() * Clock(gpu); }

const Throughput* ThroughputOf(const GpuProfile& gpu) {
  for (const Throughput& each : kThroughputs) {
    if (each.compute_capability == gpu.sm_architecture()) return &each;
  }
  return nullptr;
}

absl::Status TransferPeaks(const GpuProfile& wanted, const GpuProfile& measured, GpuRates& rates) {
  const Throughput *to = ThroughputOf(wanted), *from = ThroughputOf(measured);
  for (size_t i = 0; i < rates.peak_flops_per_s.size(); ++i) {
    double& peak = rates.peak_flops_per_s[i];
    if (wanted.rated.peak_flops_per_s[i] > 0) {
      peak = wanted.rated.peak_flops_per_s[i];
    } else if (to != nullptr && from != nullptr) {
      peak *= SmClocks(wanted) / SmClocks(measured) * to->per_clock_and_sm[i] /
              from->per_clock_and_sm[i];
    } else {
      return absl::NotFoundError(absl::StrCat(
          "operations per clock of compute capability ", wanted.compute_major, ".",
          wanted.compute_minor, " are not known: give rates.peak_tflops.",
          Name(static_cast<MathPrecision>(i)), " in the personality of ", wanted.name));
    }
  }
  return absl::OkStatus();
}

// How unlike two GPUs are; those of another compute capability are further than any other.
double Distance(const GpuProfile& a, const GpuProfile& b) {
  const auto apart = [](double x, double y) { return std::abs(std::log2(x / y)); };
  return (a.sm_architecture() == b.sm_architecture() ? 0 : 100) + apart(SmClocks(a), SmClocks(b)) +
         apart(MemoryBytesPerSecond(a), MemoryBytesPerSecond(b)) +
         apart(a.power_limit_watts, b.power_limit_watts);
}

// What transfers miss, by family, for GPUs of the same compute capability or of different ones.
absl::StatusOr<std::array<double, kWorkFamilies>> TransferErrors(bool same) {
  for (const EmbeddedFile& file : EmbeddedData()) {
    if (file.name != "profiles/data/transfer.json") continue;
    try {
      const auto json = nlohmann::json::parse(file.content, nullptr, true, true);
      const auto& errors = json.at(same ? "same_compute_capability" : "other_compute_capability");
      std::array<double, kWorkFamilies> found{};
      for (size_t i = 0; i < found.size(); ++i) {
        found[i] = errors.at(Name(static_cast<WorkFamily>(i)));
      }
      return found;
    } catch (const nlohmann::json::exception& error) {
      return absl::InvalidArgumentError(
          absl::StrCat("profiles/data/transfer.json: ", error.what()));
    }
  }
  return absl::InternalError("profiles/data/transfer.json is missing");
}

}  // namespace

double MemoryBytesPerSecond(const GpuProfile& gpu) {
  if (gpu.rated.memory_bytes_per_s > 0) return gpu.rated.memory_bytes_per_s;
  // Double data rate; MHz and bits to bytes per second.
  return 2e6 * gpu.memory.clock_mhz * gpu.memory.bus_width_bits / 8.0;
}

bool SameHardware(const GpuProfile& a, const GpuProfile& b) {
  return a.sm_architecture() == b.sm_architecture() && a.sms() == b.sms() &&
         a.sm_clock_mhz == b.sm_clock_mhz && a.power_limit_watts == b.power_limit_watts &&
         a.memory.clock_mhz == b.memory.clock_mhz &&
         a.memory.bus_width_bits == b.memory.bus_width_bits &&
         a.memory.l2_bytes == b.memory.l2_bytes;
}

std::vector<std::string> MeasuredGpus() {
  std::vector<std::string> names;
  for (const std::string& name : GpuProfileNames()) {
    const std::string rows = absl::StrCat("profiles/data/", name, "/kernels.tsv");
    const auto& files = EmbeddedData();
    const bool measured = std::any_of(files.begin(), files.end(),
                                      [&rows](const auto& file) { return file.name == rows; });
    if (measured && FindGpuRates(name).ok()) names.push_back(name);
  }
  return names;
}

absl::StatusOr<TransferredRates> TransferRates(const GpuProfile& wanted, const GpuProfile& measured,
                                               const GpuRates& rates) {
  TransferredRates to{.rates = rates, .from = measured.name};
  if (auto status = TransferPeaks(wanted, measured, to.rates); !status.ok()) return status;
  const double clock = Clock(wanted) / Clock(measured);
  const double power = (wanted.power_limit_watts / SmClocks(wanted)) /
                       (measured.power_limit_watts / SmClocks(measured));
  const bool same = wanted.sm_architecture() == measured.sm_architecture();
  // Chips of another kind need another power for the same.
  if (same) {
    to.rates.clock_under_load = std::min(1.0, to.rates.clock_under_load * std::cbrt(power));
  }
  to.rates.memory_bytes_per_s =
      rates.memory_bytes_per_s * MemoryBytesPerSecond(wanted) / MemoryBytesPerSecond(measured);
  if (wanted.rated.memory_bytes_per_s > 0) {
    to.rates.memory_bytes_per_s = wanted.rated.memory_bytes_per_s;
  }
  if (measured.memory.l2_bytes > 0) {
    to.rates.cache_bytes *=
        static_cast<double>(wanted.memory.l2_bytes) / static_cast<double>(measured.memory.l2_bytes);
  }
  to.rates.cache_bytes_per_s *= clock;
  to.rates.sm_bytes_per_s *= clock;
  to.rates.wave_s /= clock;
  to.rates.cache_latency_s /= clock;
  auto errors = TransferErrors(same);
  if (!errors.ok()) return errors.status();
  to.error = *errors;
  for (size_t i = 0; i < to.error.size(); ++i) {
    to.rates.error[i] = std::hypot(rates.error[i], to.error[i]);
  }
  return to;
}

absl::StatusOr<TransferredRates> TransferRates(const GpuProfile& wanted) {
  const std::vector<std::string> names = MeasuredGpus();
  std::optional<GpuProfile> nearest;
  for (const std::string& name : names) {
    if (!wanted.rated.from.empty() && name != wanted.rated.from) continue;
    auto measured = FindGpuProfile(name);
    if (!measured.ok()) return measured.status();
    if (!nearest || Distance(wanted, *measured) < Distance(wanted, *nearest)) {
      nearest = *std::move(measured);
    }
  }
  if (!nearest) {
    return absl::InvalidArgumentError(absl::StrCat("rates.from: no rates are known for ",
                                                   wanted.rated.from, "; they are for ",
                                                   absl::StrJoin(names, ", ")));
  }
  const auto rates = FindGpuRates(nearest->name);
  if (!rates.ok()) return rates.status();
  return TransferRates(wanted, *nearest, *rates);
}

}  // namespace phantora
