// When the bytes in pipes and sockets were sent: who receives them cannot be earlier.
#ifndef PHANTORA_TRAP_TIME_MESSAGE_TIMES_H_
#define PHANTORA_TRAP_TIME_MESSAGE_TIMES_H_

#include <linux/seccomp.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "clock/virtual_time.h"
#include "trap/linux/unique_fd.h"

namespace phantora {

// What a descriptor of a rank leads to. `file` is a copy of it.
struct Conduit {
  enum class Kind { kOther, kPipe, kSocket };
  static Conduit Of(int file);
  // Asks no file system. False for files, and for pipes with a name.
  static bool MayBe(pid_t thread, int descriptor);

  Kind kind = Kind::kOther;
  bool stream = true;        // bytes; otherwise datagrams, or a listening socket
  bool nonblocking = false;  // O_NONBLOCK
  // What the descriptor is open for: one end of a pipe only receives, the other only sends.
  bool receives = true, sends = true;
  // Names the direction of the conduit that bytes come from (go into); empty where
  // there is none.
  std::string incoming, outgoing;
};

// Bytes of a stream are told apart by counting back from the newest: what the kernel
// still holds unread was sent last. A send that the kernel cuts short counts in full, so
// a receiver may be taken to be later than it is, never earlier. Datagrams carry the
// time of the newest one.
class MessageTimes {
 public:
  // `bytes` were sent at `now`.
  void Sent(const Conduit& conduit, uint64_t bytes, VirtualTime now, pid_t sender);
  // When the last of the bytes was sent that a receiver gets who asks for `wanted` of
  // the `unread` ones; VirtualTime() if that is not known.
  VirtualTime Received(const Conduit& conduit, uint64_t unread, uint64_t wanted);

 private:
  struct Message {
    VirtualTime time;
    uint64_t bytes;
  };
  // Oldest first.
  absl::flat_hash_map<std::string, std::deque<Message>> conduits_;
  // By sender, oldest first, at most kMostOfSender.
  absl::flat_hash_map<pid_t, std::deque<std::string>> senders_;
  // Of unix sockets whose peer the kernel does not tell.
  VirtualTime unknown_;
  bool any_unknown_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_MESSAGE_TIMES_H_
