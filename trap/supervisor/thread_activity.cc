#include "trap/supervisor/thread_activity.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "trap/supervisor/unique_fd.h"

namespace phantora {
namespace {

// Reads a small file of /proc; false if it is gone.
template <size_t kSize>
bool ReadFile(const char* format, pid_t thread, char (&text)[kSize]) {
  char path[64];
  snprintf(path, sizeof path, format, thread);
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return false;
  const ssize_t length = read(file.get(), text, kSize - 1);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

// The time slices that the thread has had; -1 if it is gone.
int64_t Slices(pid_t thread) {
  char text[128];
  int64_t slices = -1;
  if (!ReadFile("/proc/%d/schedstat", thread, text)) return -1;
  sscanf(text, "%*d %*d %" SCNd64, &slices);
  return slices;
}

// Does it wait for a child of vfork to exec or end? Only that can end it.
bool WaitsForVfork(pid_t thread) {
  char text[256];
  if (!ReadFile("/proc/%d/syscall", thread, text)) return false;
  const int call = atoi(text);
  return call == SYS_vfork || call == SYS_clone || call == SYS_clone3;
}

// Linux can preempt a thread that has said that it is about to sleep, and may yet find
// that it need not: /proc/PID/stat shows it asleep while it waits for a processor
// (do_wait in kernel/exit.c reaps a child in that state). The call that a thread is in can
// only be read when it has left the processor: Linux waits a moment for one that has not,
// and calls it running then (task_current_syscall in lib/syscall.c).
bool IsOnlyPreempted(pid_t thread) {
  char text[256];
  return ReadFile("/proc/%d/syscall", thread, text) && strncmp(text, "running", 7) == 0;
}

bool Runs(pid_t thread, ThreadActivity::Look look, bool& dying) {
  char text[512];
  if (!ReadFile("/proc/%d/stat", thread, text)) return false;
  const char* fields = strrchr(text, ')');
  char state = 'S';
  if (fields != nullptr) sscanf(fields + 1, " %c", &state);
  switch (state) {
    case 'R':
      return true;
    case 'D':
      return !WaitsForVfork(thread);
    case 'Z':
    case 'X':
      // On its way out: whoever waits for that goes on now.
      dying = true;
      return true;
    default:
      return look == ThreadActivity::Look::kClose && IsOnlyPreempted(thread);
  }
}

uint64_t Mask(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at == nullptr ? 0 : strtoull(at + strlen(name), nullptr, 16);
}

}  // namespace

ThreadSignals SignalsOf(pid_t thread) {
  char text[4096];
  if (!ReadFile("/proc/%d/status", thread, text)) return {};
  return {.own = Mask(text, "SigPnd:"),
          .shared = Mask(text, "ShdPnd:"),
          .blocked = Mask(text, "SigBlk:"),
          .caught = Mask(text, "SigCgt:"),
          .ignored = Mask(text, "SigIgn:")};
}

std::string ThreadName(pid_t thread) {
  char text[64];
  return ReadFile("/proc/%d/comm", thread, text) ? text : "";
}

int64_t RunTime(pid_t thread) {
  char text[128];
  return ReadFile("/proc/%d/schedstat", thread, text) ? atoll(text) : 0;
}

std::optional<ThreadActivity::Threads> ThreadActivity::Blocked(
    const std::vector<pid_t>& processes, const std::function<bool(pid_t)>& held, Look look) {
  Threads threads;
  for (const pid_t process : processes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR* tasks = opendir(path);
    if (tasks == nullptr) continue;
    while (const dirent* entry = readdir(tasks)) {
      const pid_t thread = atoi(entry->d_name);
      if (thread <= 0 || held(thread)) continue;
      threads.emplace_back(thread, Slices(thread));
      if (!Runs(thread, look, saw_dying_)) continue;
      running_ = thread;
      running_process_ = process;
      closedir(tasks);
      return std::nullopt;
    }
    closedir(tasks);
  }
  return threads;
}

bool ThreadActivity::AllBlocked(const std::vector<pid_t>& processes,
                                const std::function<bool(pid_t)>& held) {
  saw_dying_ = false;
  // Who ran last time probably still does.
  if (running_ != 0 && !held(running_) &&
      std::find(processes.begin(), processes.end(), running_process_) != processes.end() &&
      Runs(running_, Look::kFleeting, saw_dying_)) {
    return false;
  }
  // One look is not enough: a thread may wake one that was looked at before, and block
  // before it is looked at itself. Then the one that was woken is found running the
  // second time, or has run.
  const auto first = Blocked(processes, held, Look::kClose);
  return first && Blocked(processes, held, Look::kFleeting) == first;
}

}  // namespace phantora
