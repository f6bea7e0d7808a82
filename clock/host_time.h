// What the time of a rank's own code is taken to be.
#ifndef PHANTORA_CLOCK_HOST_TIME_H_
#define PHANTORA_CLOCK_HOST_TIME_H_

#include <cstdint>
#include <limits>

#include "clock/virtual_time.h"

namespace phantora {

enum class HostTimeMode {
  kReal,      // nothing is simulated: every clock is the host's
  kMeasured,  // the processor time that the code takes here, times a scale
  kLearned,   // the same by segments, whose costs are kept; repeatable with those of another run
  kFixed,     // a charge per driver call, submission, look at a file and clock read; repeatable
  kZero,      // nothing but looks at files and clock reads, so that loops over them end
};

// As the command line calls it.
constexpr const char* HostTimeModeName(HostTimeMode mode) {
  switch (mode) {
    case HostTimeMode::kReal:
      return "real";
    case HostTimeMode::kMeasured:
      return "measured";
    case HostTimeMode::kLearned:
      return "learned";
    case HostTimeMode::kFixed:
      return "fixed";
    case HostTimeMode::kZero:
      return "zero";
  }
  return "";
}

struct HostTime {
  HostTimeMode mode = HostTimeMode::kReal;
  // Do things happen in an order that is the same in every run? Then simulated time is a function
  // of simulated things alone, but for what `kLearned` has not learned yet.
  bool repeats() const {
    return mode == HostTimeMode::kFixed || mode == HostTimeMode::kZero ||
           mode == HostTimeMode::kLearned;
  }
  double scale = 1.0;  // of measured time: the target's time for one second of this host

  // A clock_gettime through the vDSO takes about this long on a server processor
  // (27 ns measured).
  VirtualSpan clock_read = VirtualSpan::Nanoseconds(25);
  // To look up a name in the file system (open, stat, access). Programs that make up names of
  // temporary files from the clock expect it to have moved meanwhile (XLA: by a microsecond).
  VirtualSpan path_call = VirtualSpan::Microseconds(1);
  // An ioctl of the real driver takes from one to some tens of microseconds.
  VirtualSpan driver_call = VirtualSpan::Microseconds(5);
  // One kernel launch or copy through libcuda (2.2 us measured).
  VirtualSpan submission = VirtualSpan::Nanoseconds(2200);
};

// Time that code took on this host, as the target's. Saturates.
inline VirtualSpan ScaledHostTime(int64_t nanoseconds, double scale) {
  const double picoseconds = static_cast<double>(nanoseconds) * scale * 1000.0;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return VirtualSpan::Picoseconds(
      picoseconds < static_cast<double>(kMost) ? static_cast<int64_t>(picoseconds) : kMost);
}

}  // namespace phantora

#endif  // PHANTORA_CLOCK_HOST_TIME_H_
