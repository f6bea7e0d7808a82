// Ranks that are slower than was recorded, always or now and then.
#ifndef PHANTORA_TOOLS_REPLAY_RANK_PACE_H_
#define PHANTORA_TOOLS_REPLAY_RANK_PACE_H_

#include <cstdint>
#include <map>

#include "clock/virtual_time.h"

namespace phantora {

struct RankPaces {
  std::map<int, double> slower;  // by rank: how many times as long its kernels take
  // Each kernel of each rank takes as long as a draw from a log-normal distribution whose mean is
  // the recorded time and whose logarithm has this standard deviation.
  double jitter = 0;
  uint64_t seed = 1;  // of the draws; the same gives the same

  // Is every rank as it was recorded?
  bool even() const { return slower.empty() && jitter == 0; }
  // Of a kernel, the node of a rank, that takes `alone` as recorded.
  VirtualSpan Of(int rank, uint32_t node, VirtualSpan alone) const;
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_REPLAY_RANK_PACE_H_
