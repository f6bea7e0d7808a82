// Lets a thread sleep in a system call that cannot wait for anything else.
#ifndef PHANTORA_TRAP_LINUX_EVENT_INTERRUPTER_H_
#define PHANTORA_TRAP_LINUX_EVENT_INTERRUPTER_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "trap/linux/unique_fd.h"

namespace phantora {

// Why not epoll alone: a thread that waits for seccomp notifications in epoll_wait is
// woken on whichever processor is idle, which costs 20 us per trapped call; one that
// blocks in SECCOMP_IOCTL_NOTIF_RECV itself is woken on the caller's processor (Linux 6.6)
// for 8 us. So the thread that serves blocks there, and a second thread waits on
// everything else and interrupts it. All state stays with the thread that serves.
class EventInterrupter {
 public:
  // Starts waiting on `epoll`. Must be made by the thread that is to be interrupted.
  explicit EventInterrupter(int epoll);
  ~EventInterrupter();
  EventInterrupter(const EventInterrupter&) = delete;
  EventInterrupter& operator=(const EventInterrupter&) = delete;

  // Is anything on the epoll set ready?
  bool raised() const { return raised_.load(std::memory_order_acquire); }

  // Lets one system call of the thread that serves be interrupted: in its scope, calls
  // return EINTR while raised(). Nowhere else, because others (NOTIF_SEND, ADDFD,
  // fallocate) can be interrupted too, and are not made twice.
  class Interruptible {
   public:
    Interruptible();
    ~Interruptible();
  };

  // The events have been taken from the epoll set: wait for the next.
  void Handled();

 private:
  void Run(pid_t process, pid_t thread);
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  const int epoll_;
  const UniqueFd stop_;  // an eventfd
  std::atomic<bool> stopping_{false};
  std::atomic<bool> raised_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_LINUX_EVENT_INTERRUPTER_H_
