// What a descriptor could do at once.
#ifndef PHANTORA_TRAP_TIME_DESCRIPTOR_STATE_H_
#define PHANTORA_TRAP_TIME_DESCRIPTOR_STATE_H_

#include <poll.h>

namespace phantora {

// Is one of `events` (of poll) there, or an error?
inline bool IsReady(int file, short events) {
  pollfd descriptor{file, events, 0};
  return poll(&descriptor, 1, 0) > 0;
}

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_DESCRIPTOR_STATE_H_
