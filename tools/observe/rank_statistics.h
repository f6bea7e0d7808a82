// What one rank's GPUs did in simulated time, in bounded memory.
#ifndef PHANTORA_TOOLS_OBSERVE_RANK_STATISTICS_H_
#define PHANTORA_TOOLS_OBSERVE_RANK_STATISTICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "clock/virtual_time.h"
#include "tools/observe/interval_union.h"
#include "tools/observe/time_bins.h"
#include "trap/gpu/front/gpu_services.h"

namespace phantora {

// How much time comes from prices of each source.
using TimeBySource = std::array<VirtualSpan, kPriceSources>;

struct KernelSums {
  std::string name;
  uint64_t count = 0;
  VirtualSpan time;
  TimeBySource by_source{};
};

// Work and waits may come in any order.
class RankStatistics {
 public:
  struct Copies {
    uint64_t count = 0, bytes = 0;
    VirtualSpan time;
  };

  // Plots begin with the run's `start`.
  explicit RankStatistics(VirtualTime start) : start_(start) {}

  void Kernel(const WorkObserver::Work& work, const std::string& name, bool internal);
  void Copy(const WorkObserver::Work& work, uint64_t bytes, CopyKind kind);
  void Memory(VirtualTime at, int64_t bytes);
  // No more follows, but that the rank's clock said `elapsed` since the start.
  void End(VirtualSpan elapsed, VirtualSpan waited);

  VirtualSpan elapsed() const { return elapsed_; }
  VirtualSpan waited() const { return waited_; }
  // At least one kernel or copy was under way.
  VirtualSpan busy() const { return busy_.total(); }
  uint64_t kernels() const { return kernels_; }
  uint64_t internal_kernels() const { return internal_kernels_; }
  VirtualSpan kernel_time() const { return kernel_time_; }
  const std::array<Copies, kCopyKinds>& copies() const { return copies_; }
  Copies all_copies() const;
  const TimeBySource& by_source() const { return by_source_; }
  // How far off the sum of all prices may be, as a part of it, if all are off the same way.
  double error() const;
  int64_t memory() const { return memory_; }
  int64_t peak_memory() const { return peak_memory_; }
  const std::set<int>& gpus() const { return gpus_; }
  const BusyBins& busy_bins() const { return busy_bins_; }
  const LevelBins& memory_bins() const { return memory_bins_; }
  const std::map<std::string, KernelSums>& kernel_sums() const { return kernel_sums_; }

 private:
  void Work(const WorkObserver::Work& work);

  const VirtualTime start_;
  VirtualSpan elapsed_, waited_, kernel_time_;
  uint64_t kernels_ = 0, internal_kernels_ = 0;
  std::array<Copies, kCopyKinds> copies_{};
  TimeBySource by_source_{};
  double error_s_ = 0;
  int64_t memory_ = 0, peak_memory_ = 0;
  std::set<int> gpus_;
  IntervalUnion busy_;
  BusyBins busy_bins_;
  LevelBins memory_bins_;
  std::map<std::string, KernelSums> kernel_sums_;
};

// The kernels that took the longest, at most `most`, longest first.
std::vector<KernelSums> Largest(const std::map<std::string, KernelSums>& sums, size_t most);
// Adds `more` to `sums`.
void AddSums(const std::map<std::string, KernelSums>& more,
             std::map<std::string, KernelSums>& sums);
VirtualSpan Total(const TimeBySource& times);

// "host_to_device", ...
const char* Name(CopyKind kind);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_OBSERVE_RANK_STATISTICS_H_
