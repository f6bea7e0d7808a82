#include "trap/time/calls_under_way.h"

namespace phantora {

void CallsUnderWay::Stopped(pid_t thread) {
  const auto it = begun_.find(thread);
  if (it == begun_.end()) return;
  arrived_.insert(it->second.receiver);
  begun_.erase(it);
}

void CallsUnderWay::Blocked(const std::function<bool(pid_t process)>& blocked) {
  absl::erase_if(begun_, [&](const auto& entry) {
    if (!blocked(entry.second.process)) return false;
    arrived_.insert(entry.second.receiver);
    return true;
  });
}

std::set<pid_t> CallsUnderWay::TakeArrived() {
  std::set<pid_t> arrived = std::exchange(arrived_, {});
  if (arrived.contains(kAnybody)) return {kAnybody};
  return arrived;
}

}  // namespace phantora
