// struct sigevent.
#ifndef PHANTORA_TRAP_TIME_TIMERS_SIGNAL_EVENT_H_
#define PHANTORA_TRAP_TIME_TIMERS_SIGNAL_EVENT_H_

#include <cstdint>

namespace phantora {

// What the kernel's starts with (asm-generic/siginfo.h).
struct SignalEvent {
  uint64_t value;
  int32_t signal, notify;
  int32_t thread;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_TIMERS_SIGNAL_EVENT_H_
