// An engine that several pieces of work share: the SMs of a GPU, or one copy engine.
#ifndef PHANTORA_TRAP_GPU_TIMELINE_ENGINE_SHARE_H_
#define PHANTORA_TRAP_GPU_TIMELINE_ENGINE_SHARE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "clock/time_source.h"
#include "clock/virtual_time.h"

namespace phantora {

class EngineWork;

// Divides the engine among the work under way as the hardware's work distributor does with
// SMs ("leftover"): who is of a lower level, then who came first, takes what it can use, the
// next what is left. Work that gets a part of what it asked for is slower by that factor;
// work that gets nothing waits. Whatever runs shares the memory's bandwidth: where all together
// want more than there is, each is slower by that excess, as far as it depends on memory. The
// model is a fluid: when work of a lower level arrives,
// others give way at once. (Real blocks are not interrupted, so there it gets an SM when a
// block ends.)
//
// Times are exact: work that always gets what it asked for lasts its span to the
// picosecond; a change of speed costs less than a picosecond. Nothing here depends on
// anything but the order of calls and the clock.
class EngineShare {
 public:
  // The whole engine, in the units of demands.
  static constexpr uint32_t kWhole = 1 << 30;
  // Kernels that run at a time; the next wait. "Maximum number of resident grids per
  // device" of compute capabilities 8.0 and 9.0 (CUDA C++ Programming Guide, technical
  // specifications).
  static constexpr size_t kMostAtOnce = 128;

  explicit EngineShare(std::shared_ptr<TimeSource> clock) : clock_(std::move(clock)) {}
  EngineShare(const EngineShare&) = delete;
  EngineShare& operator=(const EngineShare&) = delete;

  // Pieces of work that are not over.
  size_t size() const { return all_.size(); }

 private:
  friend class EngineWork;

  void Add(EngineWork* work);
  void Remove(EngineWork* work);
  // Books what was done since the last change and divides the engine anew.
  void Divide();
  // Slows those that run down where they want too much of the memory together.
  void ShareMemory();

  const std::shared_ptr<TimeSource> clock_;
  VirtualTime divided_;  // when it was last
  uint64_t next_ = 0;
  // By level and order of arrival: all that is not over.
  std::map<std::pair<uint32_t, uint64_t>, EngineWork*> all_;
  // Those that got something in the last division.
  std::vector<EngineWork*> active_;
};

// A piece of work: under way from its construction to its destruction, when it gives back
// its part of the engine. Destroy it before the share.
class EngineWork {
 public:
  struct Need {
    VirtualSpan span;                       // alone on the engine
    uint32_t demand = EngineShare::kWhole;  // the part that it can use: 1 to kWhole
    uint32_t level = 0;                     // lower goes first
    uint32_t memory = 0;  // the part of the memory's bandwidth that it takes alone, to kWhole
  };
  // `now` is that of the share's clock. Without a share, the engine is its own alone: it
  // lasts its span from now.
  EngineWork(EngineShare* share, VirtualTime now, const Need& need);
  ~EngineWork();
  EngineWork(const EngineWork&) = delete;
  EngineWork& operator=(const EngineWork&) = delete;

  // When it first got a part of the engine; Infinity while it waits for it.
  VirtualTime began() const { return began_; }
  // When it will be over if nothing comes or goes; Infinity while it gets nothing.
  VirtualTime ends() const { return ends_; }

 private:
  friend class EngineShare;

  EngineShare* const share_;  // nullptr: it has the engine to itself, or takes no time
  const uint32_t demand_, level_, memory_;
  uint64_t order_ = 0;
  int64_t left_ = 0;  // of its span, picoseconds
  uint32_t given_ = 0;
  VirtualTime began_ = VirtualTime::Infinity();
  VirtualTime ends_ = VirtualTime::Infinity();
};

// Of work whose end is decided elsewhere, while it takes `sms` of `all_sms` SMs and a share of the
// memory's bandwidth (0 to 1): it lasts longer than any run.
EngineWork::Need NeedWithoutEnd(double sms, uint32_t all_sms, double memory_share, uint32_t level);

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_TIMELINE_ENGINE_SHARE_H_
