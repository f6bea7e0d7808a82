#include "trap/time/held_calls.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace phantora {
namespace {

// One process may have this part of all copies of descriptors.
constexpr size_t kShareOfProcess = 8;

}  // namespace

HeldCalls::HeldCalls(int epoll) : epoll_(epoll) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  most_copies_ = descriptors.rlim_cur / 4;
}

void HeldCalls::Add(uint64_t id, HeldCall call) {
  threads_[call.thread] = id;
  room_waiters_ += call.for_room;
  if (call.spins) spinners_.insert(id);
  if (call.for_gpu()) gpu_waiters_[call.process].insert(id);
  if (call.deadline != VirtualTime::Infinity()) deadlines_.emplace(call.deadline, id);
  if (call.wait != nullptr) {
    if (const int descriptor = call.wait->watched(); descriptor >= 0) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = descriptor;
      epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
      watched_[descriptor] = id;
      copies_[call.process] += call.wait->copies() + 1;
      all_copies_ += call.wait->copies() + 1;
    }
  }
  const auto added = calls_.emplace(id, std::move(call)).first;
  const HeldCall& held = added->second;
  if (held.wait != nullptr && held.wait->woken_with() != 0) {
    for (const auto& [word, value] : held.wait->words()) {
      futexes_.Add(id, {held.process, static_cast<uint64_t>(word), held.wait->is_private()},
                   held.wait->woken_with());
    }
  }
  if (held.wait != nullptr && held.wait->is_polled()) {
    polled_.emplace(std::pair(held.process, id), added);
    polled_shared_ += held.wait->is_private() ? 0 : 1;
  }
}

HeldCall HeldCalls::Take(Calls::iterator it) {
  HeldCall call = std::move(it->second);
  // After an exec, another call may be held for a thread of this id.
  if (auto held = threads_.find(call.thread); held != threads_.end() && held->second == it->first) {
    threads_.erase(held);
  }
  room_waiters_ -= call.for_room;
  if (call.spins) spinners_.erase(it->first);
  if (auto waiters = gpu_waiters_.find(call.process); call.for_gpu()) {
    waiters->second.erase(it->first);
    if (waiters->second.empty()) gpu_waiters_.erase(waiters);
  }
  deadlines_.erase({call.deadline, it->first});
  futexes_.Remove(it->first);
  if (call.wait != nullptr) {
    if (polled_.erase({call.process, it->first}) > 0 && !call.wait->is_private()) --polled_shared_;
    if (call.wait->watched() >= 0) {
      watched_.erase(call.wait->watched());
      all_copies_ -= call.wait->copies() + 1;
      size_t& copies = copies_[call.process];
      copies -= call.wait->copies() + 1;
      if (copies == 0) copies_.erase(call.process);
    }
  }
  calls_.erase(it);
  return call;
}

void HeldCalls::IsMadeAgain(const HeldCall& call) {
  made_again_.insert_or_assign(call.thread,
                               MadeAgain{call.process, call.wait->arguments(), call.deadline});
}

std::optional<VirtualTime> HeldCalls::DeadlineOfSame(const CallArguments& call) {
  if (made_again_.empty()) return std::nullopt;
  const auto again = made_again_.find(call.thread());
  if (again == made_again_.end()) return std::nullopt;
  const MadeAgain before = again->second;
  made_again_.erase(again);
  bool same = before.call.number() == call.number();
  for (int i = 0; i < 6; ++i) same = same && before.call.Word(i) == call.Word(i);
  return same ? std::optional(before.deadline) : std::nullopt;
}

void HeldCalls::ProcessDied(pid_t process) {
  absl::erase_if(made_again_, [=](const auto& call) { return call.second.process == process; });
}

void HeldCalls::EndBy(Calls::iterator it, VirtualTime deadline) {
  HeldCall& call = it->second;
  if (deadline >= call.deadline) return;
  deadlines_.erase({call.deadline, it->first});
  call.deadline = deadline;
  deadlines_.emplace(deadline, it->first);
}

size_t HeldCalls::copies_left(pid_t process) const {
  auto it = copies_.find(process);
  const size_t used = it == copies_.end() ? 0 : it->second;
  const size_t most = most_copies_ / kShareOfProcess;
  return used < most && all_copies_ < most_copies_
             ? std::min(most - used, most_copies_ - all_copies_)
             : 0;
}

std::pair<HeldCalls::Polled::const_iterator, HeldCalls::Polled::const_iterator> HeldCalls::PolledOf(
    pid_t process) const {
  if (process == 0) return {polled_.begin(), polled_.end()};
  return {polled_.lower_bound({process, 0}), polled_.lower_bound({process + 1, 0})};
}

HeldCalls::Calls::iterator HeldCalls::Watching(int descriptor, bool* known) {
  auto it = watched_.find(descriptor);
  *known = it != watched_.end();
  return *known ? calls_.find(it->second) : calls_.end();
}

void HeldCalls::NoteReady(Calls::iterator call) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, call->second.wait->watched(), nullptr);
}

void HeldCalls::WatchOn(Calls::iterator call) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = call->second.wait->watched();
  epoll_ctl(epoll_, EPOLL_CTL_ADD, event.data.fd, &event);
}

HeldCalls::Calls::iterator HeldCalls::Earliest() {
  return deadlines_.empty() ? calls_.end() : calls_.find(deadlines_.begin()->second);
}

}  // namespace phantora
