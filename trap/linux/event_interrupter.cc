#include "trap/linux/event_interrupter.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace phantora {
namespace {

// A signal that is delivered just before its thread enters the system call interrupts
// nothing, so it is sent again; and again, more rarely, while the thread is busy with something
// else.
constexpr std::chrono::microseconds kRepeat(200), kLongestRepeat(5000);

// Standard signals do not queue up while they are blocked.
constexpr int kSignal = SIGURG;

void Mask(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, kSignal);
  pthread_sigmask(how, &set, nullptr);
}

}  // namespace

EventInterrupter::Interruptible::Interruptible() { Mask(SIG_UNBLOCK); }
EventInterrupter::Interruptible::~Interruptible() { Mask(SIG_BLOCK); }

EventInterrupter::EventInterrupter(int epoll) : epoll_(epoll), stop_(eventfd(0, EFD_CLOEXEC)) {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  sigaction(kSignal, &action, nullptr);
  Mask(SIG_BLOCK);
  thread_ =
      std::thread(&EventInterrupter::Run, this, getpid(), static_cast<pid_t>(syscall(SYS_gettid)));
}

EventInterrupter::~EventInterrupter() {
  stopping_.store(true, std::memory_order_release);
  eventfd_write(stop_.get(), 1);
  Handled();
  thread_.join();
}

void EventInterrupter::Handled() {
  {
    std::lock_guard lock(mutex_);
    raised_.store(false, std::memory_order_release);
  }
  changed_.notify_all();
}

void EventInterrupter::Run(pid_t process, pid_t thread) {
  // An epoll descriptor is itself readable while it has events; so they stay for the
  // thread that serves.
  pollfd ready[] = {{stop_.get(), POLLIN, 0}, {epoll_, POLLIN, 0}};
  for (;;) {
    if (poll(ready, 2, -1) <= 0) continue;
    if (stopping()) return;
    std::unique_lock lock(mutex_);
    raised_.store(true, std::memory_order_release);
    for (auto repeat = kRepeat; raised() && !stopping();
         repeat = std::min(2 * repeat, kLongestRepeat)) {
      syscall(SYS_tgkill, process, thread, kSignal);
      changed_.wait_for(lock, repeat);
    }
  }
}

}  // namespace phantora
