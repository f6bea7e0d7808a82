// What the front end needs from its surroundings.
#ifndef PHANTORA_TRAP_GPU_FRONT_GPU_SERVICES_H_
#define PHANTORA_TRAP_GPU_FRONT_GPU_SERVICES_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "clock/time_source.h"
#include "clock/virtual_time.h"
#include "profiles/work/kernel_work.h"
#include "trap/call_log.h"
#include "trap/unknowns.h"

namespace phantora {

class InternalKernels;
class KernelExecution;
class KernelLog;
class KernelNamer;
class MemoryCheck;
class MissingLaunches;
class OrderObserver;
class SharedWork;
struct KnownKernel;
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

// How well the price of a piece of work is known.
enum class PriceSource {
  kMeasured,      // on a real GPU
  kInterpolated,  // between what was
  kModelled,      // by a model that knows what the work does
  kEstimated,     // by one that reads it off the code, or has to assume part of it
  kPlaceholder,   // none of these: a number that lets time pass
};
inline constexpr int kPriceSources = 5;
// "measured", "interpolated", "modelled", "estimated", "placeholder".
const char* Name(PriceSource source);

struct Price {
  VirtualSpan time;
  PriceSource source = PriceSource::kPlaceholder;
  // What it is made from; 0 if that is not known.
  double flops = 0, bytes = 0;
  double error = 0;         // how far off the time may be, as a part of it
  double memory_share = 0;  // of the memory's bandwidth that it takes meanwhile, 0 to 1
};

// A launch as far as it matters for its price.
struct KernelLaunch {
  const Qmd* qmd;
  const KnownKernel* kernel = nullptr;   // if kernels are given names
  absl::Span<const uint8_t> parameters;  // as many as its rule needs
  std::optional<double> moved_bytes;     // of libcuda's own copies and fills
  const LaunchMemory* memory = nullptr;  // for rules whose work depends on data
};

// Between which memories a copy goes. A fill reads none.
enum class CopyKind { kHostToDevice, kDeviceToHost, kInDevice, kHostToHost, kFill, kPeer };
inline constexpr int kCopyKinds = 6;

// The seam to simulated time: how long a piece of GPU work takes.
class WorkPricer {
 public:
  virtual ~WorkPricer() = default;
  virtual Price Kernel(const KernelLaunch& launch) = 0;
  // Where its prices of kernels come from, in words, for reports.
  virtual const char* Source() const = 0;
  virtual Price Copy(uint64_t bytes, CopyKind kind) = 0;
};

// Every kernel takes the same time, zero by default, and copies none.
class FixedPricer : public WorkPricer {
 public:
  explicit FixedPricer(VirtualSpan each) : each_(each) {}
  Price Kernel(const KernelLaunch&) override { return {each_}; }
  Price Copy(uint64_t, CopyKind) override { return {}; }
  const char* Source() const override { return "--kernel-time"; }

 private:
  const VirtualSpan each_;
};

// Is told of every kernel and copy when it is over: how long it takes depends on what else
// runs meanwhile. Work that is never over, because its channel fails or its process dies
// first, is not told. Work of one channel may overlap, as branches of a graph do.
class WorkObserver {
 public:
  virtual ~WorkObserver() = default;
  struct Work {
    pid_t process;
    int gpu;
    uint32_t channel;
    VirtualTime start;                               // when it first got a part of its engine
    VirtualSpan duration;                            // from there to its end
    PriceSource source = PriceSource::kPlaceholder;  // of the duration
    double flops = 0, bytes = 0, error = 0;          // of a kernel, see Price
  };
  // Who a kernel is.
  struct Code {
    uint64_t fingerprint = 0;             // PrefixFingerprint of its code; 0 if that cannot be read
    const char* internal = nullptr;       // the name, if it is one of libcuda's own
    const KnownKernel* kernel = nullptr;  // otherwise, if kernels are given names
  };
  virtual void Kernel(const Work& work, const Qmd& launch, const Code& code) = 0;
  virtual void Copy(const Work& work, uint64_t bytes, CopyKind kind) = 0;
};

struct GpuCounters {
  uint64_t kernels = 0;
  uint64_t internal_kernels = 0;
  uint64_t small_kernels = 0;  // carried out by rule, see SmallKernel
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
  WorkObserver* observer = nullptr;
  KernelNamer* namer = nullptr;
  KernelExecution* execution = nullptr;  // if kernels are executed
  KernelLog* kernel_log = nullptr;
  MissingLaunches* missing = nullptr;
  SharedWork* shared = nullptr;
  OrderObserver* order = nullptr;
  MemoryCheck* check = nullptr;  // if what programs do with memory is looked at
  uint64_t failures = 0;         // of channels, whose work is given up then
  pid_t working_for = 0;         // whose channel has worked last
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_FRONT_GPU_SERVICES_H_
