// futex, and futex_waitv.
#ifndef PHANTORA_TRAP_TIME_WAITS_FUTEX_WAIT_H_
#define PHANTORA_TRAP_TIME_WAITS_FUTEX_WAIT_H_

#include <cstdint>
#include <optional>

#include "trap/time/waits/timed_wait.h"

namespace phantora {

// Where not all wakes are seen, the words are looked at: the waiters of the kernel's futexes cannot
// be joined from outside.
class FutexWait : public TimedWait {
 public:
  FutexWait(const CallArguments& call, const Present& present, Memory memory);

  const char* name() const override { return "futex"; }
  bool is_polled() const override { return bits_ == 0; }
  bool Changed() const override { return ChangedWord().has_value(); }
  const Words& words() const override { return words_; }
  bool is_private() const override { return private_; }
  uint32_t woken_with() const override { return bits_; }
  void TimeOut(NotifyListener& listener, VirtualTime now) const override;
  void Ready(NotifyListener& listener, VirtualTime now) const override;

 private:
  void ParseOne(const Present& present);
  void ParseMany(const Present& present);
  // The index of the first that has.
  std::optional<uint64_t> ChangedWord() const;

  Words words_;
  bool private_ = false;
  uint32_t bits_ = 0;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TIME_WAITS_FUTEX_WAIT_H_
