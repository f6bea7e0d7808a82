// Kernels that no rule is for: what their code does.
#include <algorithm>
#include <cmath>

#include "profiles/work/kernel_symbol.h"
#include "profiles/work/work_form.h"

namespace phantora {
namespace {

// Rounds of a loop whose end cannot be told from the code.
constexpr double kGuessedTrips = 4;
constexpr double kMostTrips = 1e5;

class CodeWork : public WorkForm {
 public:
  explicit CodeWork(const CodeSummary& code) : code_(code) {}

  KernelWork Of(const LaunchShape& launch) const override {
    KernelWork work;
    std::array<double, 65> turns{};  // of each part
    std::array<bool, 65> guessed{};  // that are in a loop that cannot be counted
    double moved = 0, kept = 0, flops = 0, tensor_flops = 0;
    for (size_t i = 0; i < code_.parts.size() && i < turns.size(); ++i) {
      const CodeSummary::Part& part = code_.parts[i];
      if (i == 0) {
        turns[i] = 1;
      } else {
        const bool counted = part.trips.step > 0;
        guessed[i] = guessed[part.outer] || !counted;
        // Where loops contain each other, one is guessed at.
        const double trips = counted               ? TripsOf(part, launch)
                             : guessed[part.outer] ? 1
                                                   : kGuessedTrips;
        turns[i] = turns[part.outer] * trips;
        const double does = part.loaded + part.kept + part.stored + part.flops + part.tensor_flops;
        work.guessed |= !counted && does > 0;
      }
      moved += turns[i] * (part.loaded + part.stored);
      kept += turns[i] * part.kept;
      flops += turns[i] * part.flops;
      tensor_flops += turns[i] * part.tensor_flops;
      work.rounds += turns[i] * part.rounds;
    }
    const auto threads = static_cast<double>(launch.threads());
    work.bytes = threads * moved;
    // What the compiler wants kept is read more than once; the last time it does not want so.
    work.cached_bytes = threads * (moved + kept);
    work.flops = threads * flops;
    if (tensor_flops > 0) {
      // Blocks of a product read the same rows and columns: most of it comes from the cache.
      work.bytes = 0;
      work.tensor = true;
      work.flops = threads * tensor_flops;
      work.precision = MathPrecision::kBf16;
    }
    return work;
  }

 private:
  static double TripsOf(const CodeSummary::Part& part, const LaunchShape& launch) {
    double bound = part.trips.bound;
    if (part.trips.parameter_at >= 0) {
      bound += launch.At<int32_t>(static_cast<uint32_t>(part.trips.parameter_at));
    }
    return std::clamp(std::ceil(bound / part.trips.step), 1.0, kMostTrips);
  }

  const CodeSummary code_;
};

}  // namespace

FoundForm FromCode(const KernelFacts& kernel) {
  // Names that torch.compile, XLA and TensorFlow give to what they generate: kernels with few
  // branches.
  bool generated = Has(kernel.symbol, "_GPU_DT_");
  for (const std::string_view prefix :
       {"triton_", "loop_", "input_", "fusion", "wrapped_", "gemm_fusion_"}) {
    generated |= kernel.symbol.substr(0, prefix.size()) == prefix;
  }
  return {generated ? WorkFamily::kGenerated : WorkFamily::kUnknown,
          std::make_shared<CodeWork>(*kernel.code)};
}

}  // namespace phantora
