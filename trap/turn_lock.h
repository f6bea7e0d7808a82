// A mutex that is handed out in the order in which it was asked for.
#ifndef PHANTORA_TRAP_TURN_LOCK_H_
#define PHANTORA_TRAP_TURN_LOCK_H_

#include <atomic>
#include <cstdint>

namespace phantora {

// std::mutex lets a thread that releases it and asks for it again at once win nearly
// every time: while one rank keeps the GPU's thread busy, no call of any rank would
// be served.
class TurnLock {
 public:
  TurnLock() = default;
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

  void lock() {
    const uint32_t mine = next_.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
      const uint32_t now = serving_.load(std::memory_order_acquire);
      if (now == mine) return;
      serving_.wait(now, std::memory_order_acquire);
    }
  }
  void unlock() {
    serving_.fetch_add(1, std::memory_order_release);
    serving_.notify_all();
  }

 private:
  std::atomic<uint32_t> next_{0}, serving_{0};
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_TURN_LOCK_H_
