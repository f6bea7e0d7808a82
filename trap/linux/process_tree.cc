#include "trap/linux/process_tree.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <map>

#include "trap/linux/real_clock.h"

namespace phantora {

pid_t ParentOf(pid_t process, const Proc& proc) {
  char line[512];
  if (!proc.Read(process, "stat", line)) return 0;
  // The command's name may hold spaces and parentheses; fields follow the last.
  const char* fields = strrchr(line, ')');
  char state = 'Z';
  int parent = 0, threads = 0;
  if (fields == nullptr ||
      sscanf(fields + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d",
             &state, &parent, &threads) != 3) {
    return 0;
  }
  // A process whose first thread has ended looks like a zombie while others run.
  return (state == 'Z' || state == 'X') && threads <= 1 ? 0 : parent;
}

pid_t ParentOf(pid_t process) { return ParentOf(process, Proc::Host()); }

std::vector<pid_t> Descendants() { return Descendants(Proc::Host()); }

std::vector<pid_t> Descendants(const Proc& proc) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t process : proc.Processes()) children.emplace(ParentOf(process, proc), process);
  std::vector<pid_t> found;
  std::vector<pid_t> open = {getpid()};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    auto [first, last] = children.equal_range(parent);
    for (auto it = first; it != last; ++it) {
      if (it->second == getpid()) continue;
      found.push_back(it->second);
      open.push_back(it->second);
    }
    // What is read bit by bit need not be a tree: numbers are used anew meanwhile.
    children.erase(first, last);
  }
  return found;
}

bool IsRunning(pid_t process, const Proc& proc) { return ParentOf(process, proc) != 0; }

void MakeNice(pid_t process, int niceness) {
  // Linux keeps the value by thread, and new threads inherit it; the first thread tells
  // whether this was done before.
  if (getpriority(PRIO_PROCESS, process) >= niceness) return;
  bool changed = true;
  while (changed) {  // threads may have started meanwhile
    changed = false;
    for (const pid_t thread : Proc::Host().Threads(process).value_or(std::vector<pid_t>())) {
      if (getpriority(PRIO_PROCESS, thread) < niceness) {
        changed |= setpriority(PRIO_PROCESS, thread, niceness) == 0;
      }
    }
  }
}

void AskForShortSlices() {
  // struct sched_attr of linux/sched/types.h, first version; Debian 12's C library has none.
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime = 100'000;  // ns, the shortest
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int SignalDescendants(int signal) {
  const auto processes = Descendants();
  for (pid_t process : processes) kill(process, signal);
  return static_cast<int>(processes.size());
}

bool EndDescendants() {
  constexpr int64_t kPause = 5'000'000, kPatience = 10'000'000'000;  // ns
  const RealClock& clock = RealClock::Host();
  for (const int64_t end = clock.Monotonic() + kPatience; clock.Monotonic() < end;) {
    if (SignalDescendants(SIGKILL) == 0) return true;
    clock.Sleep(kPause);
  }
  return false;
}

}  // namespace phantora
