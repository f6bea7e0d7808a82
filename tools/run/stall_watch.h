// Notices that ranks wait for each other in vain, and says who for whom.
#ifndef PHANTORA_TOOLS_RUN_STALL_WATCH_H_
#define PHANTORA_TOOLS_RUN_STALL_WATCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "clock/virtual_time.h"
#include "trap/linux/real_clock.h"

namespace phantora {

// A run stalls when NCCL operations wait for ranks and nothing makes progress. Whether that is for
// ever is not always certain: the rank that is missing may wait for a download. So it is told
// first, and ends the run later.
class StallWatch {
 public:
  struct Options {
    // What waits for ranks since then or longer, in words; empty for nothing.
    std::function<std::string(VirtualTime since)> waiting;
    // Changes whenever a kernel, an operation or the like has ended.
    std::function<uint64_t()> progress;
    std::function<VirtualTime()> now;  // the latest of all clocks
    std::function<void(const std::string&)> warn;
    std::function<void(const std::string&)> end;  // the run
    const RealClock* clock = &RealClock::Host();
  };
  explicit StallWatch(Options options) : options_(std::move(options)) {}

  // To be called often; looks at nothing most of the time. `at_rest` says whether all processes
  // are blocked and nothing will happen by itself; it may cost a millisecond.
  void Look(const std::function<bool()>& at_rest);

 private:
  void Tell(const std::string& waiting, const char* since, bool for_ever);

  const Options options_;
  int64_t looked_at_ns_ = 0;    // real time
  int64_t progress_at_ns_ = 0;  // real time
  VirtualTime progress_at_;
  uint64_t progress_ = 0;
  bool rested_ = false;  // at every look since the last progress
  bool told_ = false;    // of this stall
};

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_STALL_WATCH_H_
