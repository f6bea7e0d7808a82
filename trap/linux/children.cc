#include "trap/linux/children.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace phantora {

absl::StatusOr<std::optional<WaitEvent>> KernelWaitCalls::Wait(pid_t id, bool block) {
  int status = 0;
  pid_t found;
  do {
    found = waitpid(id, &status, __WALL | (block ? 0 : WNOHANG));
  } while (found < 0 && errno == EINTR);
  if (found < 0) return absl::NotFoundError(std::strerror(errno));
  if (found == 0) return std::optional<WaitEvent>();
  return std::optional<WaitEvent>({found, status});
}

void Children::Keep(const WaitEvent& event) {
  if (WIFSTOPPED(event.status)) {
    stops_[event.id] = event.status;
    return;
  }
  stops_.erase(event.id);
  if (WIFEXITED(event.status) || WIFSIGNALED(event.status)) ends_.push_back(event);
}

std::vector<WaitEvent> Children::TakeEnds() {
  for (;;) {
    const auto event = calls_->Wait(-1, false);
    if (!event.ok() || !*event) break;
    Keep(**event);
  }
  return std::exchange(ends_, {});
}

std::optional<int> Children::AwaitEnd(pid_t child) {
  for (;;) {
    const auto kept = std::find_if(ends_.begin(), ends_.end(),
                                   [child](const WaitEvent& end) { return end.id == child; });
    if (kept != ends_.end()) {
      const int status = kept->status;
      ends_.erase(kept);
      return status;
    }
    const auto event = calls_->Wait(child, true);
    if (!event.ok()) return std::nullopt;
    if (*event) Keep(**event);
  }
}

Children::Stop Children::TakeStop(pid_t thread, int& status) {
  if (stops_.find(thread) == stops_.end()) {
    const auto event = calls_->Wait(thread, false);
    if (!event.ok()) return Stop::kGone;
    if (!*event || WIFCONTINUED((**event).status)) return Stop::kRuns;
    Keep(**event);
  }
  const auto stop = stops_.find(thread);
  if (stop == stops_.end()) return Stop::kGone;
  status = stop->second;
  stops_.erase(stop);
  return Stop::kStopped;
}

}  // namespace phantora
