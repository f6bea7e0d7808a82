// What a call on a futex asks for that wakes others.
#ifndef PHANTORA_TRAP_TIME_FUTEX_CALL_H_
#define PHANTORA_TRAP_TIME_FUTEX_CALL_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "trap/linux/call_arguments.h"
#include "trap/linux/remote_memory.h"
#include "trap/time/futex_queues.h"

namespace phantora {

// FUTEX_WAKE, FUTEX_WAKE_BITSET, FUTEX_WAKE_OP, FUTEX_REQUEUE and FUTEX_CMP_REQUEUE of futex(2).
struct FutexWake {
  enum class Kind : uint8_t { kWake, kOperation, kRequeue };

  static FutexWake Parse(const CallArguments& call, pid_t process);

  Kind kind = Kind::kWake;
  FutexName first, second;
  uint64_t wakes = 0;   // of those that wait for `first`
  uint64_t others = 0;  // of kOperation: of those for `second`; of kRequeue: that are moved there
  uint32_t bits = FutexQueues::kAnyBit;
  bool compares = false, counts_moved = false;  // FUTEX_CMP_REQUEUE
  uint32_t value = 0;  // that `first` is compared with, or the operation on `second`

  // Of kRequeue: who is to wait for `second`, when `woken` are.
  std::vector<uint64_t> ToMove(const FutexQueues& queues, const std::vector<uint64_t>& woken) const;

  struct Verdict {
    int error = 0;              // errno: nobody is woken
    bool wakes_others = false;  // of kOperation
  };
  // Compares, or operates, in the caller's memory. While no other thread that uses the word runs,
  // that is as atomic as the kernel's.
  Verdict Do(const RemoteMemory& memory) const;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_FUTEX_CALL_H_
