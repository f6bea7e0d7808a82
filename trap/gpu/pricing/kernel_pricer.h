// What GPU work costs in simulated time.
#ifndef PHANTORA_TRAP_GPU_PRICING_KERNEL_PRICER_H_
#define PHANTORA_TRAP_GPU_PRICING_KERNEL_PRICER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "profiles/gpu/gpu_profile.h"
#include "profiles/gpu/work_price.h"
#include "profiles/kernels/kernel_rows.h"
#include "profiles/surfaces/surface_library.h"
#include "trap/gpu/front/gpu_services.h"
#include "trap/unknowns.h"

namespace phantora {

// In this order: the user's own measured rows of this very or of similar work; surfaces of measured
// work (profiles/surfaces); shipped rows; a model of what the kernel's rule (profiles/work) says
// that it does; the same of what can be read off its code. A kernel that nobody knows moves 16
// bytes times the number of threads.
class KernelPricer : public WorkPricer {
 public:
  struct Options {
    bool rows = true;           // use what was measured
    std::string own_rows = {};  // the text of the user's, which go before those that ship
  };
  // For a GPU without rates of its own, or another than the one whose name it has, they are
  // transferred from the nearest that has some (profiles/gpu/rate_transfer.h); where that cannot
  // be, everything is a placeholder. Errors: its data is malformed.
  static absl::StatusOr<std::unique_ptr<KernelPricer>> Create(const GpuProfile& profile,
                                                              Options options, Unknowns* unknowns);

  Price Kernel(const KernelLaunch& launch) override;
  Price Copy(uint64_t bytes, CopyKind kind) override;
  const char* Source() const override { return source_.c_str(); }
  // The peak bandwidth of the GPU's own memory.
  double memory_bytes_per_s() const { return memory_bytes_per_s_; }

 private:
  // Everything that the price of a known kernel depends on.
  struct Key {
    uint64_t fingerprint;
    std::array<uint32_t, 6> dims;
    std::array<double, 15> work;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), key.fingerprint, key.dims, key.work);
    }
  };

  KernelPricer(const GpuProfile& profile, Unknowns* unknowns);
  Price Placeholder(const KernelLaunch& launch) const;
  double MemoryShare(double bytes, double seconds) const;
  Price Known(const KernelWork& work, const KernelLaunch& launch);
  // By the surfaces of measured work; `estimate` is EstimateOf it, and `has_rows` that this GPU's
  // own rows know its price, which tell more than another GPU's surface. nullopt: none has it.
  std::optional<TimeEstimate> Surface(const KernelWork& work, WorkFamily family,
                                      const TimeEstimate& estimate, bool has_rows);
  std::optional<KernelRows::Found> Near(const KernelWork& work, WorkFamily family,
                                        const std::string& title,
                                        const TimeEstimate& estimate) const;

  const int sms_;
  const double memory_bytes_per_s_, pcie_bytes_per_s_, peer_bytes_per_s_, sm_clock_hz_;
  std::optional<GpuRates> rates_;
  KernelRows rows_, own_rows_;
  // Of the GPU of which most kernels were measured, where that is another: what the model misses
  // there is taken to be what it misses here. Of families that the memory's rate decides; of all if
  // both are of one generation.
  KernelRows near_rows_;
  bool near_is_like_ = false;
  std::optional<SurfaceLibrary> surfaces_;
  // The GPU that rows and surfaces are of, where it is another.
  struct Measured {
    GpuRates rates;
    int sms = 0;
    std::array<double, kWorkFamilies> error{};
  };
  std::optional<Measured> measured_;
  // FlashAttention 2 runs on GPUs that it was not measured on: the surfaces of the one that it was.
  std::optional<SurfaceLibrary> flash2_surfaces_;
  std::optional<Measured> flash2_measured_;
  std::string source_ = "launch dims, a placeholder";
  absl::flat_hash_map<Key, Price> prices_;
  Unknowns* const unknowns_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_PRICING_KERNEL_PRICER_H_
