// Where "now" comes from: the one seam between models and a clock. Today the
// GPU front end runs on real time; the simulated engine will be a second source.
#ifndef PHANTORA_CLOCK_TIME_SOURCE_H_
#define PHANTORA_CLOCK_TIME_SOURCE_H_

#include <time.h>

#include "clock/virtual_time.h"

namespace phantora {

class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual VirtualTime Now() = 0;
};

// The host's CLOCK_MONOTONIC.
class MonotonicTimeSource : public TimeSource {
 public:
  VirtualTime Now() override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return VirtualTime::FromNanoseconds(now.tv_sec * int64_t{1000000000} + now.tv_nsec);
  }
};

// Stands still until told otherwise: a simulated device's clock, and unit tests.
class ManualTimeSource : public TimeSource {
 public:
  VirtualTime Now() override { return now_; }
  VirtualTime Now() const { return now_; }
  void Advance(VirtualSpan span) { now_ = now_ + span; }
  // Never goes back.
  void AdvanceTo(VirtualTime time) {
    if (time > now_) now_ = time;
  }

 private:
  VirtualTime now_;
};

}  // namespace phantora

#endif  // PHANTORA_CLOCK_TIME_SOURCE_H_
