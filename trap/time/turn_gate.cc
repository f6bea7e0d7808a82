#include "trap/time/turn_gate.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace phantora {
namespace {

// ns of real time.
constexpr int64_t kTick = 1'000'000;

}  // namespace

TurnGate::TurnGate(Options options)
    : options_(std::move(options)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = timer_.get();
  ticks_ = timer_.valid() && epoll_ctl(options_.epoll, EPOLL_CTL_ADD, timer_.get(), &event) == 0;
}

bool TurnGate::Holds(pid_t process, const seccomp_notif& call) {
  // Without ticks nobody might be let go.
  if (HasTurn(process) || IsFree(process) || !ticks_) return false;
  if (turns_.size() < options_.at_once && held_.empty()) {
    GiveTurn(process);
    return false;
  }
  held_.emplace_back(process, call);
  Arm(true);
  return true;
}

std::optional<seccomp_notif> TurnGate::Next(const std::function<bool(pid_t)>& rests) {
  if (held_.empty()) return std::nullopt;
  const int64_t now = options_.clock->Monotonic();
  if (turns_.size() >= options_.at_once && now - looked_ns_ >= kLookEvery) {
    looked_ns_ = now;
    std::erase_if(turns_, [&](const auto& turn) {
      return now - turn.second > kLongestTurn || rests(turn.first);
    });
  }
  const bool is_turn = turns_.size() < options_.at_once;
  const auto next = std::find_if(held_.begin(), held_.end(), [&](const auto& each) {
    return is_turn || HasTurn(each.first) || IsFree(each.first);
  });
  if (next == held_.end()) return std::nullopt;
  const auto [process, call] = *next;
  held_.erase(next);
  if (!HasTurn(process) && !IsFree(process)) GiveTurn(process);
  if (held_.empty()) Arm(false);
  return call;
}

void TurnGate::ProcessDied(pid_t process) {
  started_.erase(process);
  turns_.erase(process);
  std::erase_if(held_, [&](const auto& each) { return each.first == process; });
}

bool TurnGate::HoldsThread(pid_t thread) const {
  return std::any_of(held_.begin(), held_.end(), [=](const auto& each) {
    return each.second.pid == static_cast<uint32_t>(thread);
  });
}

void TurnGate::GiveTurn(pid_t process) {
  started_.insert(process);
  turns_[process] = options_.clock->Monotonic();
}

void TurnGate::TakeTick() const {
  uint64_t expirations;
  // That it has none is as good.
  [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof expirations);
}

void TurnGate::Arm(bool on) {
  if (armed_ == on) return;
  armed_ = on;
  const timespec every = {.tv_sec = 0, .tv_nsec = on ? kTick : 0};
  const itimerspec timer = {.it_interval = every, .it_value = every};
  timerfd_settime(timer_.get(), 0, &timer, nullptr);
}

}  // namespace phantora
