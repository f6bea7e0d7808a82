// What the front end needs from its surroundings.
#ifndef PHANTORA_TRAP_GPU_GPU_SERVICES_H_
#define PHANTORA_TRAP_GPU_GPU_SERVICES_H_

#include <sys/types.h>

#include <cstdint>

#include "clock/time_source.h"
#include "clock/virtual_time.h"
#include "trap/call_log.h"
#include "trap/unknowns.h"

namespace phantora {

class InternalKernels;
struct Qmd;

// Receives the interrupts that programs wait for.
class InterruptSink {
 public:
  virtual ~InterruptSink() = default;
  // A non-stalling interrupt of an engine (NV2080_ENGINE_TYPE_*) on behalf of
  // `process`.
  virtual void NonStall(int gpu, pid_t process, uint32_t engine) = 0;
  // A channel of `process` died with a robust-channel error.
  virtual void ChannelError(int gpu, pid_t process) = 0;
};

// The seam to simulated time: how long a piece of GPU work takes.
class WorkPricer {
 public:
  virtual ~WorkPricer() = default;
  virtual VirtualSpan Kernel(const Qmd& launch) = 0;
};

// Every kernel takes the same time; zero by default.
class FixedPricer : public WorkPricer {
 public:
  explicit FixedPricer(VirtualSpan each) : each_(each) {}
  VirtualSpan Kernel(const Qmd&) override { return each_; }

 private:
  const VirtualSpan each_;
};

struct GpuCounters {
  uint64_t kernels = 0;
  uint64_t internal_kernels = 0;
  uint64_t copies = 0;
  uint64_t copied_bytes = 0;
  uint64_t faults = 0;
};

struct GpuServices {
  TimeSource* time;
  InterruptSink* interrupts;
  WorkPricer* pricer;
  const InternalKernels* internal_kernels;
  CallLog* log;
  Unknowns* unknowns;
  GpuCounters counters;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_GPU_SERVICES_H_
