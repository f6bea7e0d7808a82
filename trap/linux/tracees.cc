#include "trap/linux/tracees.h"

#include <sys/epoll.h>

#include <utility>

namespace phantora {
namespace {

// Threads come and go; past this many, forget them all and learn anew.
constexpr size_t kMostThreads = 1 << 16;
// Of a chain of parents, so that it ends even if it changes meanwhile.
constexpr int kMostAncestors = 1 << 12;

}  // namespace

Tracee* Tracees::Known(pid_t thread) {
  const auto known = process_of_thread_.find(thread);
  // Thread numbers are used anew: ask the kernel whether the pairing still holds.
  if (known == process_of_thread_.end() || !processes_->HasThread(known->second, thread)) {
    return nullptr;
  }
  return Find(known->second);
}

absl::StatusOr<Tracee*> Tracees::CallerOf(const seccomp_notif& call, NotifyListener& listener) {
  const auto thread = static_cast<pid_t>(call.pid);
  if (Tracee* known = Known(thread); known != nullptr) {
    if (!known->pidfd.valid()) Watch(*known);
    return known;
  }
  const absl::StatusOr<pid_t> process = processes_->ProcessOf(thread);
  // If the caller is dead by now, that was perhaps somebody else, who is none of ours.
  if (!listener.StillPending(call.id)) return absl::NotFoundError("the caller has died");
  if (!process.ok()) return process.status();
  if (process_of_thread_.size() > kMostThreads) process_of_thread_.clear();
  process_of_thread_[thread] = *process;
  auto& tracee = tracees_[*process];
  if (tracee != nullptr) return tracee.get();
  tracee = std::make_unique<Tracee>(*process);
  tracee->host = HostOf(*process);
  Watch(*tracee);
  return tracee.get();
}

int Tracees::HostOf(pid_t process) {
  // That of the nearest ancestor that has made a call.
  pid_t ancestor = process;
  for (int i = 0; i < kMostAncestors; ++i) {
    ancestor = processes_->ParentOf(ancestor);
    if (ancestor <= 0) break;
    if (const Tracee* known = Find(ancestor); known != nullptr) return known->host;
  }
  return 0;
}

bool Tracees::Watch(Tracee& tracee) {
  auto pidfd = processes_->Open(tracee.process);
  if (!pidfd.ok()) return false;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = pidfd->get();
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, pidfd->get(), &event) != 0) return false;
  tracee.pidfd = *std::move(pidfd);
  process_of_pidfd_[tracee.pidfd.get()] = tracee.process;
  return true;
}

Tracee* Tracees::Find(pid_t process) {
  auto it = tracees_.find(process);
  return it == tracees_.end() ? nullptr : it->second.get();
}

std::optional<pid_t> Tracees::Died(int pidfd) {
  auto it = process_of_pidfd_.find(pidfd);
  if (it == process_of_pidfd_.end()) return std::nullopt;
  const pid_t process = it->second;
  process_of_pidfd_.erase(it);
  tracees_.erase(process);
  return process;
}

}  // namespace phantora
