// What links carried over time, in a bounded number of bins.
#ifndef PHANTORA_FABRIC_NETWORK_LINK_USAGE_H_
#define PHANTORA_FABRIC_NETWORK_LINK_USAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "clock/virtual_time.h"

namespace phantora {

// All links have the same bins; their width doubles when they become too many. At most kMostSeries
// links have bins, those that carried something first; 8 MiB in all.
class LinkUsage {
 public:
  static constexpr size_t kMostBins = 128, kMostSeries = size_t{1} << 14;

  // Nothing moves before; only the first call counts. Bins start here.
  void Begin(VirtualTime start);
  // So many bytes, at one rate. Not before the start.
  void Add(uint32_t link, VirtualTime from, VirtualTime to, double bytes);

  // From the first byte until the last.
  VirtualTime start() const { return start_; }
  VirtualTime end() const { return end_; }
  VirtualSpan width() const { return VirtualSpan::Picoseconds(width_); }
  // Bytes by bin; what is missing at the end is 0.
  absl::Span<const float> Of(uint32_t link) const;

 private:
  void Coarsen();

  bool begun_ = false;
  VirtualTime start_, end_;
  int64_t width_ = 1'000'000;       // ps
  std::vector<int32_t> series_of_;  // by link; 0: none, else one more than its index
  std::vector<std::vector<float>> series_;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_NETWORK_LINK_USAGE_H_
