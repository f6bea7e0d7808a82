#include "trap/linux/tracees.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "trap/linux/process_tree.h"

namespace phantora {
namespace {

// Threads come and go; past this many, forget them all and learn anew.
constexpr size_t kMostThreads = 1 << 16;

std::optional<pid_t> ReadThreadGroup(pid_t tid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", tid);
  FILE* file = fopen(path, "re");
  if (file == nullptr) return std::nullopt;
  std::optional<pid_t> result;
  char line[256];
  int value;
  while (fgets(line, sizeof line, file) != nullptr) {
    if (sscanf(line, "Tgid: %d", &value) == 1) {
      result = value;
      break;
    }
  }
  fclose(file);
  return result;
}

}  // namespace

Tracee* Tracees::OfThread(pid_t tid) {
  auto known = process_of_thread_.find(tid);
  // Thread ids are reused: ask the kernel whether the pairing still holds.
  if (known != process_of_thread_.end() && syscall(SYS_tgkill, known->second, tid, 0) == 0) {
    auto it = tracees_.find(known->second);
    if (it != tracees_.end()) return it->second.get();
  }
  auto process = ReadThreadGroup(tid);
  if (!process) return nullptr;
  if (process_of_thread_.size() > kMostThreads) process_of_thread_.clear();
  process_of_thread_[tid] = *process;
  auto& tracee = tracees_[*process];
  if (tracee == nullptr) {
    tracee = std::make_unique<Tracee>(*process);
    // The nearest ancestor that has made a call.
    for (pid_t ancestor = ParentOf(*process); ancestor > 0; ancestor = ParentOf(ancestor)) {
      const Tracee* known_ancestor = Find(ancestor);
      if (known_ancestor == nullptr) continue;
      tracee->host = known_ancestor->host;
      break;
    }
    tracee->pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, *process, 0)));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = tracee->pidfd.get();
    if (!tracee->pidfd.valid() && errno == ESRCH) {
      tracees_.erase(*process);
      process_of_thread_.erase(tid);
      return nullptr;
    }
    if (!tracee->pidfd.valid() ||
        epoll_ctl(epoll_, EPOLL_CTL_ADD, tracee->pidfd.get(), &event) != 0) {
      // Descriptors have run out: then its death goes unseen, but its files still hang
      // up.
      tracee->pidfd.reset();
    } else {
      process_of_pidfd_[tracee->pidfd.get()] = *process;
    }
  }
  return tracee.get();
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
