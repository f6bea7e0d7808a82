#include "trap/linux/process_tree.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <map>

namespace phantora {

pid_t ParentOf(pid_t process) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE* file = fopen(path, "re");
  if (file == nullptr) return 0;
  const size_t length = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[length] = '\0';
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

std::vector<pid_t> Descendants() {
  std::multimap<pid_t, pid_t> children;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return {};
  while (const dirent* entry = readdir(proc)) {
    const pid_t process = atoi(entry->d_name);
    if (process > 0) children.emplace(ParentOf(process), process);
  }
  closedir(proc);
  std::vector<pid_t> found;
  std::vector<pid_t> open = {getpid()};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    auto [first, last] = children.equal_range(parent);
    for (auto it = first; it != last; ++it) {
      found.push_back(it->second);
      open.push_back(it->second);
    }
  }
  return found;
}

bool IsRunning(pid_t process) { return ParentOf(process) != 0; }

void MakeNice(pid_t process, int niceness) {
  // Linux keeps the value by thread, and new threads inherit it; the first thread tells
  // whether this was done before.
  if (getpriority(PRIO_PROCESS, process) >= niceness) return;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", process);
  bool changed = true;
  while (changed) {  // threads may have started meanwhile
    changed = false;
    DIR* threads = opendir(path);
    if (threads == nullptr) return;
    while (const dirent* entry = readdir(threads)) {
      const pid_t thread = atoi(entry->d_name);
      if (thread > 0 && getpriority(PRIO_PROCESS, thread) < niceness) {
        changed |= setpriority(PRIO_PROCESS, thread, niceness) == 0;
      }
    }
    closedir(threads);
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
  constexpr useconds_t kPause = 5000;  // microseconds
  for (int attempt = 0; attempt < 2000; ++attempt) {
    if (SignalDescendants(SIGKILL) == 0) return true;
    usleep(kPause);
  }
  return false;
}

}  // namespace phantora
