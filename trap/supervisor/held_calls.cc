#include "trap/supervisor/held_calls.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <utility>

namespace phantora {

HeldCalls::HeldCalls(int epoll) : epoll_(epoll) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  most_copies_ = descriptors.rlim_cur / 4;
}

void HeldCalls::Add(uint64_t id, HeldCall call) {
  threads_[call.thread] = id;
  if (call.for_gpu()) {
    ++gpu_waiters_[call.process];
  } else {
    if (call.wait->is_polled()) ++polled_;
    if (const int descriptor = call.wait->watched(); descriptor >= 0) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = descriptor;
      epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
      watched_[descriptor] = id;
      copies_ += call.wait->copies();
    }
  }
  calls_.emplace(id, std::move(call));
}

HeldCall HeldCalls::Take(Calls::iterator it) {
  HeldCall call = std::move(it->second);
  threads_.erase(call.thread);
  if (call.for_gpu()) {
    if (--gpu_waiters_[call.process] == 0) gpu_waiters_.erase(call.process);
  } else {
    if (call.wait->is_polled()) --polled_;
    if (call.wait->watched() >= 0) {
      watched_.erase(call.wait->watched());
      copies_ -= call.wait->copies();
    }
  }
  calls_.erase(it);
  return call;
}

int HeldCalls::gpu_waiters(pid_t process) const {
  auto it = gpu_waiters_.find(process);
  return it == gpu_waiters_.end() ? 0 : it->second;
}

HeldCalls::Calls::iterator HeldCalls::Watching(int descriptor, bool* known) {
  auto it = watched_.find(descriptor);
  *known = it != watched_.end();
  return *known ? calls_.find(it->second) : calls_.end();
}

HeldCalls::Calls::iterator HeldCalls::Earliest() {
  auto earliest = calls_.end();
  for (auto it = calls_.begin(); it != calls_.end(); ++it) {
    if (it->second.deadline == VirtualTime::Infinity()) continue;
    if (earliest == calls_.end() || it->second.deadline < earliest->second.deadline) {
      earliest = it;
    }
  }
  return earliest;
}

}  // namespace phantora
