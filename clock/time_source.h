// Where "now" comes from: the one seam between models and a clock.
#ifndef PHANTORA_CLOCK_TIME_SOURCE_H_
#define PHANTORA_CLOCK_TIME_SOURCE_H_

#include <time.h>

#include <cstdint>

#include "clock/virtual_time.h"

namespace phantora {

class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual VirtualTime Now() = 0;
  // Now() as programs are told it: nanoseconds of the CLOCK_MONOTONIC that they read.
  virtual int64_t ShownNanoseconds() { return Now().nanoseconds(); }
};

// The host's CLOCK_MONOTONIC. As instants, all of them count from one moment, when the first was
// asked for: a host may have been up for years, which picoseconds could not say.
class RealTimeSource : public TimeSource {
 public:
  // Reads a clock, in nanoseconds that do not fall.
  using Clock = int64_t (*)();

  RealTimeSource() : RealTimeSource(Host, ProcessEpoch()) {}
  // Instants count from `epoch`, ns of `clock`.
  RealTimeSource(Clock clock, int64_t epoch) : clock_(clock), epoch_(epoch) {}

  VirtualTime Now() override { return VirtualTime::FromNanoseconds(clock_() - epoch_); }
  int64_t ShownNanoseconds() override { return clock_(); }

 private:
  static int64_t Host() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
  }
  static int64_t ProcessEpoch() {
    static const int64_t epoch = Host();
    return epoch;
  }

  const Clock clock_;
  const int64_t epoch_;
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
