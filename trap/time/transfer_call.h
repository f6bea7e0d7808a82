// Calls that move bytes through a descriptor, in one form.
#ifndef PHANTORA_TRAP_TIME_TRANSFER_CALL_H_
#define PHANTORA_TRAP_TIME_TRANSFER_CALL_H_

#include <cstdint>
#include <optional>

#include "trap/linux/call_arguments.h"
#include "trap/linux/remote_memory.h"

namespace phantora {

// read, write, recv*, send* and their kin, and accept.
struct TransferCall {
  enum class Kind { kReceive, kSend, kAccept };

  // nullopt if it is another call. Lengths in the caller's memory that cannot be read
  // count as none: the kernel will say so.
  static std::optional<TransferCall> Parse(const CallArguments& call, const RemoteMemory& memory);

  Kind kind;
  int descriptor;
  uint64_t bytes = 0;        // asked for
  bool error_queue = false;  // MSG_ERRQUEUE
  bool dont_wait = false;    // that, or MSG_DONTWAIT
  bool on_files = false;     // could be of any descriptor, not only a socket
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TRANSFER_CALL_H_
