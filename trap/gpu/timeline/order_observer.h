// Sees in which order the work of a process's GPUs takes place, and why in that order.
#ifndef PHANTORA_TRAP_GPU_TIMELINE_ORDER_OBSERVER_H_
#define PHANTORA_TRAP_GPU_TIMELINE_ORDER_OBSERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"
#include "clock/virtual_time.h"
#include "trap/gpu/timeline/engine_share.h"

namespace phantora {

// Called in the order of simulated time for each process, with its work as it is met. A channel
// does one thing after the other, so what it does depends on what it did before, on the values of
// semaphores that it waited for, and on when the host submitted it.
class OrderObserver {
 public:
  virtual ~OrderObserver() = default;

  struct Where {
    pid_t process;
    int gpu;
    uint32_t channel;
    uint32_t engine;  // of a copy, NV2080_ENGINE_TYPE_*
  };
  // The channel goes on to what the host submitted at `submitted`.
  virtual void Fetched(pid_t process, uint32_t channel, VirtualTime submitted) = 0;
  // Work has come to its turn, and asks for its engine. `shared`: see SharedWork, else 0. `name`:
  // of the kernel, empty if it has none. Returns a number for Ended(); 0 if that need not be
  // called.
  virtual uint64_t Kernel(const Where& where, absl::string_view name, const EngineWork::Need& need,
                          uint64_t shared, VirtualTime now) = 0;
  virtual uint64_t Copy(const Where& where, const EngineWork::Need& need, VirtualTime now) = 0;
  virtual void Ended(uint64_t number, VirtualTime now) = 0;
  // A semaphore got this value.
  virtual void Released(pid_t process, uint32_t channel, uint64_t address, uint64_t value,
                        VirtualTime now) = 0;
  // The channel waited for a value of a semaphore, of 4 or 8 bytes, and goes on; `satisfies` says
  // which values it would have gone on with.
  virtual void Acquired(pid_t process, uint32_t channel, uint64_t address,
                        const std::function<bool(uint64_t value)>& satisfies) = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_GPU_TIMELINE_ORDER_OBSERVER_H_
