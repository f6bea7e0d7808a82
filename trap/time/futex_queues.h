// Who waits for which futex.
#ifndef PHANTORA_TRAP_TIME_FUTEX_QUEUES_H_
#define PHANTORA_TRAP_TIME_FUTEX_QUEUES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trap/linux/proc.h"

namespace phantora {

// A futex as a call names it: a private one is its process's own, others are one if the same memory
// is mapped there (SharedWord).
struct FutexName {
  pid_t process = 0;
  uint64_t address = 0;
  bool is_private = false;
};

// The queues of the kernel's futexes (kernel/futex/waitwake.c), for calls that are kept here: who
// has come first is woken first. Not thread-safe.
class FutexQueues {
 public:
  static constexpr uint32_t kAnyBit = 0xffffffff;

  explicit FutexQueues(const Proc* files = &Proc::Host()) : files_(*files) {}

  // The call waits for the futex, to be woken with one of these bits. It may wait for several.
  void Add(uint64_t call, const FutexName& futex, uint32_t bits = kAnyBit);
  // It waits for none any more.
  void Remove(uint64_t call);

  // At most `count` calls that are to be woken, the first ones. They stay until they are removed.
  std::vector<uint64_t> Waiters(const FutexName& futex, uint64_t count,
                                uint32_t bits = kAnyBit) const;
  // Those wait for another one from now on (FUTEX_REQUEUE), behind those that do so already.
  void Move(const std::vector<uint64_t>& calls, const FutexName& to);
  // All calls that wait for futexes of the process, or for some that others may share, in order.
  std::vector<uint64_t> WaitersIn(pid_t process) const;
  // Where the call waits; none if it does not.
  std::vector<FutexName> FutexesOf(uint64_t call) const;
  bool empty() const { return calls_.empty(); }

 private:
  struct Waiter {
    uint64_t call = 0;
    FutexName futex;
    uint32_t bits = kAnyBit;
  };
  // Words of shared memory may have different addresses, but lie at the same place in their pages.
  using Place = uint64_t;
  static Place PlaceOf(const FutexName& futex);
  bool IsSame(const FutexName& one, const FutexName& other) const;

  const Proc& files_;
  uint64_t next_ = 0;
  // By place, in the order in which they have come.
  std::map<Place, std::map<uint64_t, Waiter>> places_;
  absl::flat_hash_map<uint64_t, std::vector<std::pair<Place, uint64_t>>> calls_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_FUTEX_QUEUES_H_
